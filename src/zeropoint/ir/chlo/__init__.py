"""The chlo dialect: ops that framework exporters leave beside StableHLO."""

from xdsl.ir import Dialect

from zeropoint.ir.chlo.elementwise import ErfOp

__all__ = ["Chlo", "ErfOp"]

Chlo = Dialect("chlo", [ErfOp], [])
