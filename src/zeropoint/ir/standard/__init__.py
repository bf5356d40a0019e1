"""Upstream MLIR dialects that lowered programs use: the ops of xDSL, and those that it lacks.

They are loaded at their first use in a text or a pass, because importing them is slow.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Dialect


def _affine() -> Dialect:
    from xdsl.dialects.affine import Affine

    return Affine


def _arith() -> Dialect:
    from zeropoint.ir.standard.arith import Arith

    return Arith


def _bufferization() -> Dialect:
    from xdsl.dialects.bufferization import Bufferization

    return Bufferization


def _linalg() -> Dialect:
    from zeropoint.ir.standard.linalg import Linalg

    return Linalg


def _math() -> Dialect:
    from xdsl.dialects.math import Math

    return Math


def _memref() -> Dialect:
    from xdsl.dialects.memref import MemRef

    return MemRef


def _scf() -> Dialect:
    from xdsl.dialects.scf import Scf

    return Scf


def _shape() -> Dialect:
    from zeropoint.ir.standard.shape import Shape

    return Shape


def _tensor() -> Dialect:
    from zeropoint.ir.standard.tensor import Tensor

    return Tensor


STANDARD_DIALECTS: dict[str, Callable[[], Dialect]] = {
    "affine": _affine,
    "arith": _arith,
    "bufferization": _bufferization,
    "linalg": _linalg,
    "math": _math,
    "memref": _memref,
    "scf": _scf,
    "shape": _shape,
    "tensor": _tensor,
}
"""Maps names to functions that load a dialect, for `Context.register_dialect`."""
