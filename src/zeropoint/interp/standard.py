"""The ops of upstream MLIR dialects that `lower-quant-ops` and `lower-to-standard` emit, and casts of tensors.

A scalar is a rank-0 array, an index one of int64; the extents of a tensor of unknown rank are a 1-D array. Rules are
looked up by the op's name, so that only programs with such ops load their dialects.

The ops of linalg are in `structured.py`, those of tensor that move elements in `tensor_ops.py`, loops in `loops.py`.

Source: MLIR's pages of the dialects arith, math, shape and tensor. Conversion of a float that is out of range
of the integer type is poison there, and an unspecified number here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.interp import loops, structured, tensor_ops
from zeropoint.interp.binding import Binary, Kernel, Rule, Scope, Unary
from zeropoint.interp.errors import InputError
from zeropoint.interp.structured import check_shape
from zeropoint.ir.quant.containers import element_or_self, ranked_shape
from zeropoint.ir.tensors import Array, element_dtype
from zeropoint.ir.weights import Weights
from zeropoint.numerics import functions
from zeropoint.numerics.rounding import round_half_away

CONSTANT = "arith.constant"
_INDEX = np.dtype(np.int64)


def _dtype(value: SSAValue) -> np.dtype[Any]:
    element = element_or_self(value.type)
    return _INDEX if isinstance(element, IndexType) else element_dtype(element)


def constant(op: Any, weights: Weights) -> Array:
    """`arith.constant`: a number, or the elements of a tensor."""
    found = cast("Attribute", op.value)
    if isinstance(found, IntegerAttr | FloatAttr):
        return np.asarray(cast("Any", found).value.data).astype(_dtype(op.results[0]))
    return weights.array(cast("DenseIntOrFPElementsAttr[Any]", found))


def _function(function: Callable[..., Array]) -> Rule:
    """The rule for a function of arrays; the result has the op's result dtype."""

    def rule(op: Operation, scope: Scope) -> Kernel:
        del scope
        dtype = _dtype(op.results[0])

        def run(*operands: Array) -> Array:
            return np.asarray(function(*operands)).astype(dtype, copy=False)

        return run

    return rule


def _unary(function: Unary) -> Rule:
    return _function(function)


def _binary(function: Binary) -> Rule:
    return _function(function)


def _same(array: Array) -> Array:
    return array


def _width(value: SSAValue) -> int:
    return cast("IntegerType", element_or_self(value.type)).width.data


def _unsigned(array: Array, width: int) -> Array:
    """Signless integers as unsigned ones. Integers below 8 bits are sign-extended in their containers."""
    return array.view(f"u{array.dtype.itemsize}") & np.asarray((1 << width) - 1, f"u{array.dtype.itemsize}")


def _from_unsigned(op: Operation, scope: Scope) -> Kernel:
    del scope
    width, dtype = _width(op.operands[0]), _dtype(op.results[0])

    def run(array: Array) -> Array:
        return _unsigned(array, width).astype(dtype)

    return run


def _to_unsigned(op: Operation, scope: Scope) -> Kernel:
    del scope
    width, dtype = _width(op.results[0]), _dtype(op.results[0])
    high = 1 << (width - 1)

    def run(array: Array) -> Array:
        whole = np.trunc(array.astype(np.float64)).astype(np.int64)
        return np.asarray(np.where(whole >= high, whole - 2 * high, whole)).astype(dtype)

    return run


def _to_signed(op: Operation, scope: Scope) -> Kernel:
    del scope
    dtype = _dtype(op.results[0])

    def run(array: Array) -> Array:
        return np.trunc(array.astype(np.float64)).astype(np.int64).astype(dtype)

    return run


def _unsigned_extreme(function: Callable[[Array, Array], Array]) -> Rule:
    def rule(op: Operation, scope: Scope) -> Kernel:
        del scope
        width, dtype = _width(op.results[0]), _dtype(op.results[0])
        high = 1 << (width - 1)

        def run(lhs: Array, rhs: Array) -> Array:
            found = function(_unsigned(lhs, width), _unsigned(rhs, width)).astype(np.int64)
            return np.asarray(np.where(found >= high, found - 2 * high, found)).astype(dtype)

        return run

    return rule


_ORDERED: tuple[Callable[[Array, Array], Array], ...] = (
    lambda a, b: np.zeros(np.broadcast_shapes(a.shape, b.shape), np.bool_),
    np.equal,
    np.greater,
    np.greater_equal,
    np.less,
    np.less_equal,
    lambda a, b: np.not_equal(a, b) & (a == a) & (b == b),
    lambda a, b: (a == a) & (b == b),
)
"""The predicates of `arith.cmpf` from 0 on: false, oeq, ogt, oge, olt, ole, one, ord; the others also hold for NaN."""
_UNORDERED = {8: 1, 9: 2, 10: 3, 11: 4, 12: 5, 13: 6, 14: 0, 15: 7}
"""ueq, ugt, uge, ult, ule, une, uno, true: the ordered predicate that each extends to NaN."""


def _compare(op: Any, scope: Scope) -> Kernel:
    del scope
    predicate = int(op.predicate.value.data)
    function = _ORDERED[_UNORDERED.get(predicate, predicate)]

    def run(lhs: Array, rhs: Array) -> Array:
        found = np.asarray(function(lhs, rhs))
        return found if predicate < len(_ORDERED) else np.asarray(found | (lhs != lhs) | (rhs != rhs))

    return run


def _sizes(op: Operation, dynamic: tuple[Array, ...]) -> list[int]:
    given = iter(dynamic)
    return [int(next(given)) if size == DYNAMIC_INDEX else size for size in ranked_shape(op.results[0].type) or ()]


def _empty(op: Operation, scope: Scope) -> Kernel:
    del scope
    dtype = _dtype(op.results[0])
    return lambda *dynamic: np.zeros(_sizes(op, dynamic), dtype)


def _splat(op: Operation, scope: Scope) -> Kernel:
    del scope

    def run(scalar: Array, *dynamic: Array) -> Array:
        return np.broadcast_to(scalar, _sizes(op, dynamic))

    return run


def _from_elements(op: Operation, scope: Scope) -> Kernel:
    del scope
    shape = ranked_shape(op.results[0].type)
    return lambda *elements: np.array([element.item() for element in elements], _dtype(op.results[0])).reshape(shape)


def _split_at(op: Operation, scope: Scope) -> Kernel:
    del op, scope

    def run(extents: Array, index: Array) -> tuple[Array, ...]:
        if not 0 <= index <= extents.size:
            raise InputError(f"found a tensor of {extents.size} dimensions, expected at least {index}")
        return extents[: int(index)], extents[int(index) :]

    return run


def _reshape(x: Array, extents: Array) -> Array:
    if x.size != math.prod(extents.tolist()):
        raise InputError(
            f"found a tensor of shape {list(x.shape)} to be reshaped to {extents.tolist()}, expected as many elements"
        )
    return x.reshape(extents.tolist())


def _extract(x: Array, *indices: Array) -> Array:
    """An element, or one for each element of the indices."""
    for index, size in zip(indices, x.shape, strict=True):
        if not ((index >= 0) & (index < size)).all():
            position = [int(np.reshape(each, -1)[0]) for each in indices]
            raise InputError(f"found index {position} of a tensor of shape {list(x.shape)}, expected one inside")
    return np.asarray(x[indices])


def _shift(function: Binary) -> Rule:
    """A shift; amounts of the width or more are poison in MLIR, and 0 here."""

    def rule(op: Operation, scope: Scope) -> Kernel:
        del scope
        width, dtype = _width(op.results[0]), _dtype(op.results[0])

        def run(x: Array, amount: Array) -> Array:
            fits = (amount >= 0) & (amount < width)
            return np.asarray(np.where(fits, function(x, np.where(fits, amount, 0)), 0)).astype(dtype)

        return run

    return rule


def _shift_unsigned(op: Operation, scope: Scope) -> Kernel:
    width, dtype = _width(op.results[0]), _dtype(op.results[0])
    del scope

    def run(x: Array, amount: Array) -> Array:
        fits = (amount >= 0) & (amount < width)
        shifted = _unsigned(x, width) >> np.where(fits, amount, 0).astype(f"u{x.dtype.itemsize}")
        return np.asarray(np.where(fits, shifted, 0)).astype(dtype)

    return run


_INTEGER_PREDICATES: tuple[tuple[Binary, bool], ...] = (
    (np.equal, False),
    (np.not_equal, False),
    (np.less, False),
    (np.less_equal, False),
    (np.greater, False),
    (np.greater_equal, False),
    (np.less, True),
    (np.less_equal, True),
    (np.greater, True),
    (np.greater_equal, True),
)
"""The predicates of `arith.cmpi` from 0 on: eq, ne, slt, sle, sgt, sge, ult, ule, ugt, uge; whether unsigned."""


def _compare_integers(op: Any, scope: Scope) -> Kernel:
    del scope
    function, unsigned = _INTEGER_PREDICATES[int(op.predicate.value.data)]
    if not unsigned or isinstance(element_or_self(op.operands[0].type), IndexType):
        return function
    width = _width(op.operands[0])

    def run(lhs: Array, rhs: Array) -> Array:
        return function(_unsigned(lhs, width), _unsigned(rhs, width))

    return run


def _truncate_integer(op: Operation, scope: Scope) -> Kernel:
    del scope
    width, dtype = _width(op.results[0]), _dtype(op.results[0])
    spare = 8 * dtype.itemsize - width

    def run(x: Array) -> Array:
        if dtype == np.bool_:
            return (x & 1).astype(np.bool_)
        # Integers below 8 bits are sign-extended in their containers.
        return (x.astype(dtype) << spare) >> spare if spare else x.astype(dtype)

    return run


def _cast(op: Operation, scope: Scope) -> Kernel:
    del scope
    wanted = ranked_shape(op.results[0].type)

    def run(x: Array) -> Array:
        if wanted is not None:
            check_shape(x.shape, wanted)
        return x

    return run


NAMED = (
    "linalg.batch_matmul",
    "linalg.conv_2d_nchw_fchw",
    "linalg.conv_2d_ngchw_gfchw",
    "linalg.depthwise_conv_2d_nchw_chw",
    "linalg.generic",
    "linalg.matmul",
    "linalg.pooling_nchw_max",
    "linalg.pooling_nchw_sum",
)
"""The structured ops: loops, maps and a body."""
_FUNCTIONS = {
    "absf": "abs",
    "atan": "atan",
    "cbrt": "cbrt",
    "ceil": "ceil",
    "cos": "cosine",
    "erf": "erf",
    "exp": "exponential",
    "expm1": "exponential_minus_one",
    "floor": "floor",
    "log": "log",
    "log1p": "log_plus_one",
    "rsqrt": "rsqrt",
    "sin": "sine",
    "sqrt": "sqrt",
    "tan": "tan",
    "tanh": "tanh",
}
"""Functions of the math dialect by their names in `numerics.functions`."""

STANDARD: Mapping[str, Rule] = {
    "arith.addf": _binary(np.add),
    "arith.addi": _binary(np.add),
    "arith.andi": _binary(np.bitwise_and),
    "arith.cmpf": _compare,
    "arith.cmpi": _compare_integers,
    "arith.divf": _binary(np.divide),
    "arith.divsi": _binary(functions.BINARY["divide"]),
    "arith.extf": _unary(_same),
    "arith.extsi": _unary(_same),
    "arith.extui": _from_unsigned,
    "arith.fptosi": _to_signed,
    "arith.fptoui": _to_unsigned,
    "arith.index_cast": _unary(_same),
    "arith.maximumf": _binary(functions.BINARY["maximum"]),
    "arith.maxsi": _binary(np.maximum),
    "arith.maxui": _unsigned_extreme(np.maximum),
    "arith.minimumf": _binary(functions.BINARY["minimum"]),
    "arith.minsi": _binary(np.minimum),
    "arith.minui": _unsigned_extreme(np.minimum),
    "arith.mulf": _binary(np.multiply),
    "arith.muli": _binary(np.multiply),
    "arith.negf": _unary(np.negative),
    "arith.ori": _binary(np.bitwise_or),
    "arith.select": _function(np.where),
    "arith.shli": _shift(np.left_shift),
    "arith.shrsi": _shift(np.right_shift),
    "arith.shrui": _shift_unsigned,
    "arith.sitofp": _unary(_same),
    "arith.subf": _binary(np.subtract),
    "arith.subi": _binary(np.subtract),
    "arith.truncf": _unary(_same),
    "arith.trunci": _truncate_integer,
    "arith.uitofp": _from_unsigned,
    "arith.xori": _binary(np.bitwise_xor),
    **dict.fromkeys(NAMED, structured.structured),
    "linalg.fill": structured.fill,
    "linalg.reduce": structured.reduce,
    "linalg.transpose": structured.transpose,
    **{f"math.{name}": _unary(functions.UNARY[function]) for name, function in _FUNCTIONS.items()},
    **loops.LOOPS,
    "math.absi": _unary(np.abs),
    "math.powf": _binary(functions.BINARY["power"]),
    "math.round": _unary(lambda x: round_half_away(x.astype(np.float64))),
    "math.roundeven": _unary(np.rint),
    "shape.num_elements": _unary(lambda extents: np.asarray(math.prod(extents.tolist()))),
    "shape.shape_of": _unary(lambda x: np.asarray(x.shape, _INDEX)),
    "shape.split_at": _split_at,
    "tensor.cast": _cast,
    "tensor.collapse_shape": tensor_ops.reshaped,
    "tensor.dim": _binary(lambda x, axis: _extract(np.asarray(x.shape), axis)),
    "tensor.empty": _empty,
    "tensor.expand_shape": tensor_ops.reshaped,
    "tensor.extract": _function(_extract),
    "tensor.extract_slice": tensor_ops.extract_slice,
    "tensor.from_elements": _from_elements,
    "tensor.insert_slice": tensor_ops.insert_slice,
    "tensor.pad": tensor_ops.pad,
    "tensor.reshape": _binary(_reshape),
    "tensor.splat": _splat,
}
"""The rules, by op name."""
