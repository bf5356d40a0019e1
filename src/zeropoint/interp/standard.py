"""The ops of upstream MLIR dialects that `lower-quant-ops` and `lower-to-standard` emit, and casts of tensors.

A scalar is a rank-0 array, and an index is one of int64. The extents of a tensor of unknown rank are a 1-D array. Rules
are looked up by the name of the op, so that the dialects are only loaded for programs that use them.

Integer arithmetic is in `integers.py`, the ops of linalg are in `structured.py`, the ops of tensor that move elements
in `tensor_ops.py`, and loops in `loops.py`.

Source: MLIR's documentation of the dialects arith, math, shape and tensor. The conversion of a float that is out of the
range of the integer type is poison there; here the result is an unspecified number.
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
    IntegerAttr,
)
from xdsl.ir import Attribute, Operation

from zeropoint.interp import integers, loops, structured, tensor_ops
from zeropoint.interp.binding import BindingRule, Kernel, Scope
from zeropoint.interp.errors import InputError
from zeropoint.interp.integers import INDEX, binary, dtype_of, of_arrays, unary
from zeropoint.interp.structured import check_shape
from zeropoint.ir.quant.containers import ranked_shape
from zeropoint.ir.tensors import Array
from zeropoint.ir.weights import Weights
from zeropoint.numerics import functions
from zeropoint.numerics.rounding import round_half_away

CONSTANT = "arith.constant"


def constant(op: Any, weights: Weights) -> Array:
    """`arith.constant`: a number, or the elements of a tensor."""
    found = cast("Attribute", op.value)
    if isinstance(found, IntegerAttr | FloatAttr):
        return np.asarray(cast("Any", found).value.data).astype(dtype_of(op.results[0]))
    return weights.array(cast("DenseIntOrFPElementsAttr[Any]", found))


def _same(array: Array) -> Array:
    return array


def _to_signed(op: Operation, scope: Scope) -> Kernel:
    del scope
    dtype = dtype_of(op.results[0])

    def run(array: Array) -> Array:
        return np.trunc(array.astype(np.float64)).astype(np.int64).astype(dtype)

    return run


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
"""The ordered predicates of `arith.cmpf`, from 0: false, oeq, ogt, oge, olt, ole, one, ord."""
_UNORDERED = {8: 1, 9: 2, 10: 3, 11: 4, 12: 5, 13: 6, 14: 0, 15: 7}
"""For ueq, ugt, uge, ult, ule, une, uno and true: the ordered predicate that each extends to NaN."""


def _bits(op: Operation, scope: Scope) -> Kernel:
    """`arith.bitcast` between types of one width."""
    del scope
    dtype = dtype_of(op.results[0])

    def run(x: Array) -> Array:
        return x.view(dtype)

    return run


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
    dtype = dtype_of(op.results[0])
    return lambda *dynamic: np.zeros(_sizes(op, dynamic), dtype)


def _splat(op: Operation, scope: Scope) -> Kernel:
    del scope

    def run(scalar: Array, *dynamic: Array) -> Array:
        return np.broadcast_to(scalar, _sizes(op, dynamic))

    return run


def _from_elements(op: Operation, scope: Scope) -> Kernel:
    del scope
    shape = ranked_shape(op.results[0].type)
    return lambda *elements: np.array([element.item() for element in elements], dtype_of(op.results[0])).reshape(shape)


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
    """The element at scalar indices, or one element for each position of the index arrays."""
    for index, size in zip(indices, x.shape, strict=True):
        if not ((index >= 0) & (index < size)).all():
            position = [int(np.reshape(each, -1)[0]) for each in indices]
            raise InputError(f"found index {position} of a tensor of shape {list(x.shape)}, expected one inside")
    return np.asarray(x[indices])


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
"""The structured ops, which have loops, maps and a body."""
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
"""The functions of the math dialect, with their names in `numerics.functions`."""

STANDARD: Mapping[str, BindingRule] = {
    "arith.addf": binary(np.add),
    "arith.bitcast": _bits,
    "arith.cmpf": _compare,
    "arith.divf": binary(np.divide),
    "arith.extf": unary(_same),
    "arith.fptosi": _to_signed,
    "arith.index_cast": unary(_same),
    "arith.maximumf": binary(functions.BINARY["maximum"]),
    "arith.minimumf": binary(functions.BINARY["minimum"]),
    "arith.mulf": binary(np.multiply),
    "arith.negf": unary(np.negative),
    "arith.remf": binary(functions.BINARY["remainder"]),
    "arith.select": of_arrays(np.where),
    "arith.sitofp": unary(_same),
    "arith.subf": binary(np.subtract),
    "arith.truncf": unary(_same),
    **dict.fromkeys(NAMED, structured.structured),
    "linalg.fill": structured.fill,
    "linalg.reduce": structured.reduce,
    "linalg.transpose": structured.transpose,
    **{f"math.{name}": unary(functions.UNARY[function]) for name, function in _FUNCTIONS.items()},
    **integers.INTEGERS,
    **loops.LOOPS,
    "math.powf": binary(functions.BINARY["power"]),
    "math.round": unary(lambda x: round_half_away(x.astype(np.float64))),
    "math.roundeven": unary(np.rint),
    "shape.num_elements": unary(lambda extents: np.asarray(math.prod(extents.tolist()))),
    "shape.shape_of": unary(lambda x: np.asarray(x.shape, INDEX)),
    "shape.split_at": _split_at,
    "tensor.cast": _cast,
    "tensor.collapse_shape": tensor_ops.reshaped,
    "tensor.dim": binary(lambda x, axis: _extract(np.asarray(x.shape), axis)),
    "tensor.empty": _empty,
    "tensor.expand_shape": tensor_ops.reshaped,
    "tensor.extract": of_arrays(_extract),
    "tensor.extract_slice": tensor_ops.extract_slice,
    "tensor.from_elements": _from_elements,
    "tensor.insert": tensor_ops.insert,
    "tensor.insert_slice": tensor_ops.insert_slice,
    "tensor.pad": tensor_ops.pad,
    "tensor.reshape": binary(_reshape),
    "tensor.splat": _splat,
}
"""The rules by op name."""
