"""Dialects of standard MLIR that lowered programs use: xDSL's own, and what it lacks of `arith`, `tensor`, `shape`.

They are loaded when a text or a pass first uses them, because importing them takes time.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Dialect


def _arith() -> Dialect:
    from zeropoint.ir.standard.arith import Arith

    return Arith


def _linalg() -> Dialect:
    from xdsl.dialects.linalg import Linalg

    return Linalg


def _math() -> Dialect:
    from xdsl.dialects.math import Math

    return Math


def _shape() -> Dialect:
    from zeropoint.ir.standard.shape import Shape

    return Shape


def _tensor() -> Dialect:
    from zeropoint.ir.standard.tensor import Tensor

    return Tensor


STANDARD_DIALECTS: dict[str, Callable[[], Dialect]] = {
    "arith": _arith,
    "linalg": _linalg,
    "math": _math,
    "shape": _shape,
    "tensor": _tensor,
}
"""Name to dialect, for `Context.register_dialect`."""
