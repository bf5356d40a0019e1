"""The ops of upstream MLIR dialects that `lower-quant-ops` emits, and casts of tensors.

A scalar is a rank-0 array, an index one of int64; the extents of a tensor of unknown rank are a 1-D array. Rules are
looked up by the op's name, so that only programs with such ops load their dialects.

Source: MLIR's pages of the dialects arith, linalg, math, shape and tensor. Conversion of a float that is out of range
of the integer type is poison there, and an unspecified number here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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
from xdsl.ir.affine import AffineMap

from zeropoint.interp.binding import Binary, Kernel, Rule, Scope, Unary
from zeropoint.interp.errors import InputError, UnsupportedError
from zeropoint.ir.quant.containers import element_or_self, ranked_shape
from zeropoint.ir.tensors import Array, element_dtype
from zeropoint.ir.weights import Weights
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
    position = tuple(int(index) for index in indices)
    if not all(0 <= index < size for index, size in zip(position, x.shape, strict=True)):
        raise InputError(f"found index {list(position)} of a tensor of shape {list(x.shape)}, expected one inside")
    return np.asarray(x[position])


def _cast(op: Operation, scope: Scope) -> Kernel:
    del scope
    wanted = ranked_shape(op.results[0].type)

    def run(x: Array) -> Array:
        if wanted is not None:
            _check_shape(x.shape, wanted)
        return x

    return run


def _check_shape(found: tuple[int, ...], wanted: Sequence[int]) -> None:
    fits = len(found) == len(wanted) and all(e in (f, DYNAMIC_INDEX) for e, f in zip(wanted, found, strict=True))
    if not fits:
        sizes = ", ".join("?" if size == DYNAMIC_INDEX else str(size) for size in wanted)
        raise InputError(f"found a tensor of shape {list(found)}, expected [{sizes}]")


def _generic(op: Any, scope: Scope) -> Kernel:
    """`linalg.generic` with parallel loops: applies the body to all elements at once."""
    maps = [entry.data for entry in op.indexing_maps]
    rank = len(op.iterator_types)
    whole = next((n for n, found in enumerate(maps[:-1]) if _is_identity(found, rank)), None)
    parallel = all("parallel" in str(entry) for entry in op.iterator_types)
    if whole is None or not parallel or len(op.results) != 1 or not _is_identity(maps[-1], rank):
        raise UnsupportedError("found a linalg.generic that is not elementwise; expected what lower-quant-ops makes")
    body = scope.body(op.body.block)

    def run(*operands: Array) -> Array:
        shape = operands[whole].shape
        loops = cast("Sequence[Array]", np.indices(shape, sparse=True))
        read = [_read(array, found, loops, shape) for array, found in zip(operands, maps, strict=True)]
        return np.broadcast_to(body(*read)[0], shape)

    return run


def _read(array: Array, found: AffineMap, loops: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """The elements of an operand at each loop index. Raises InputError if the operand's size does not match."""
    if _is_identity(found, len(shape)):
        _check_shape(array.shape, shape)
        return array
    positions = [np.asarray(expression.eval(cast("Any", loops), ())) for expression in found.results]
    reach = [int(position.max(initial=-1)) + 1 for position in positions]
    if np.prod(shape) and reach != [*array.shape]:
        raise InputError(f"found loops of sizes {list(shape)} that read {reach} parameters, expected {[*array.shape]}")
    return array[tuple(positions)]


def _is_identity(found: AffineMap, rank: int) -> bool:
    return found == AffineMap.identity(rank)


STANDARD: Mapping[str, Rule] = {
    "arith.addf": _binary(np.add),
    "arith.cmpf": _compare,
    "arith.divf": _binary(np.divide),
    "arith.extf": _unary(_same),
    "arith.fptosi": _to_signed,
    "arith.fptoui": _to_unsigned,
    "arith.maximumf": _binary(np.maximum),
    "arith.maxsi": _binary(np.maximum),
    "arith.maxui": _unsigned_extreme(np.maximum),
    "arith.minimumf": _binary(np.minimum),
    "arith.minsi": _binary(np.minimum),
    "arith.minui": _unsigned_extreme(np.minimum),
    "arith.mulf": _binary(np.multiply),
    "arith.select": _function(np.where),
    "arith.sitofp": _unary(_same),
    "arith.subf": _binary(np.subtract),
    "arith.truncf": _unary(_same),
    "arith.uitofp": _from_unsigned,
    "linalg.generic": _generic,
    "math.round": _unary(lambda x: round_half_away(x.astype(np.float64))),
    "math.roundeven": _unary(np.rint),
    "shape.num_elements": _unary(lambda extents: np.asarray(math.prod(extents.tolist()))),
    "shape.shape_of": _unary(lambda x: np.asarray(x.shape, _INDEX)),
    "shape.split_at": _split_at,
    "tensor.cast": _cast,
    "tensor.dim": _binary(lambda x, axis: _extract(np.asarray(x.shape), axis)),
    "tensor.empty": _empty,
    "tensor.extract": _function(_extract),
    "tensor.from_elements": _from_elements,
    "tensor.reshape": _binary(_reshape),
    "tensor.splat": _splat,
}
"""The rules, by op name."""
