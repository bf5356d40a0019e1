"""The ops of the linalg dialect. All iterations of the parallel loops are computed at once.

A structured op has loops, an affine map from loops to the elements of each operand, and a body. Operands are read
through strided views with one axis per loop. Reduction loops run in one of three ways. Sums of products become matrix
products in a dtype that is exact. A body of one associative op uses NumPy's `reduce`. Any other body runs step by step.

Source: MLIR's "'linalg' Dialect" document, which leaves the order of reductions open. Sums of floats are added in the
order of `zeropoint.numerics.sums`, like those of StableHLO.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineDimExpr, AffineExpr, AffineMap

from zeropoint.interp.binding import Branch, Kernel, Scope
from zeropoint.interp.errors import InputError, UnsupportedError
from zeropoint.interp.exactness import exact_dtype, greatest_magnitude, to_integers
from zeropoint.interp.integers import extended, spare_bits
from zeropoint.interp.reduction import extreme
from zeropoint.ir.tensors import Array
from zeropoint.numerics.sums import combined

ArrayKernel = Callable[..., Array]
"""A kernel with one result."""
_REDUCTIONS: dict[str, np.ufunc] = {
    "arith.addi": np.add,
    "arith.addf": np.add,
    "arith.andi": np.bitwise_and,
    "arith.maximumf": np.maximum,
    "arith.maxsi": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.minsi": np.minimum,
    "arith.muli": np.multiply,
    "arith.ori": np.bitwise_or,
}
"""Ops that are associative on integers, or for which `numerics.sums` defines the order."""


@dataclass(frozen=True)
class Loops:
    """The loops of a structured op, and the maps from their indices to the elements of operands."""

    maps: tuple[AffineMap, ...]
    reduced: tuple[int, ...]

    @property
    def rank(self) -> int:
        return self.maps[0].num_dims

    @property
    def parallel(self) -> tuple[int, ...]:
        """The loops that are not reductions."""
        return tuple(dim for dim in range(self.rank) if dim not in self.reduced)

    def sizes(self, operands: Sequence[Array]) -> tuple[int, ...]:
        """The trip counts, from the dimensions that a single loop indexes. Raises InputError if operands disagree."""
        found: list[int | None] = [None] * self.rank
        for array, indexing in zip(operands, self.maps, strict=True):
            for size, expression in zip(array.shape, indexing.results, strict=True):
                if not isinstance(expression, AffineDimExpr):
                    continue
                if found[expression.position] not in (None, size):
                    shapes = ", ".join(str([*operand.shape]) for operand in operands)
                    raise InputError(f"found operands of shapes {shapes}, expected equal sizes along each loop")
                found[expression.position] = size
        return tuple(0 if size is None else size for size in found)


def linear(expression: AffineExpr, rank: int) -> tuple[list[int], int] | None:
    """(coefficients, constant) of a linear expression of the loops; None if it has a division or remainder."""
    if isinstance(expression, AffineBinaryOpExpr):
        sides = [linear(side, rank) for side in (expression.lhs, expression.rhs)]
        if None in sides or expression.kind not in (AffineBinaryOpKind.Add, AffineBinaryOpKind.Mul):
            return None
    zero = [0] * rank
    constant = expression.eval(zero, ())
    units = [[int(dim == other) for other in range(rank)] for dim in range(rank)]
    return [expression.eval(unit, ()) - constant for unit in units], constant


def view(array: Array, indexing: AffineMap, sizes: tuple[int, ...]) -> Array:
    """The elements of an operand at every index of the loops, with one axis per loop; size 1 for loops it does not use.

    Raises InputError if the loops read elements outside of the array.
    """
    found = [linear(expression, len(sizes)) for expression in indexing.results]
    if None in found:
        return _gathered(array, indexing, sizes)
    lines = [line for line in found if line is not None]
    used = [any(coefficients[dim] for coefficients, _ in lines) for dim in range(len(sizes))]
    shape = [size if reads else 1 for size, reads in zip(sizes, used, strict=True)]
    if not math.prod(shape):
        return np.zeros(shape, array.dtype)
    _check_reach(array, [_reach(line, sizes) for line in lines], sizes)
    strides = [
        sum(coefficients[dim] * stride for (coefficients, _), stride in zip(lines, array.strides, strict=True))
        for dim in range(len(sizes))
    ]
    start = array[tuple(slice(constant, None) for _, constant in lines)]
    return np.lib.stride_tricks.as_strided(start, shape, strides, writeable=False)


def _reach(line: tuple[list[int], int], sizes: tuple[int, ...]) -> tuple[int, int, bool]:
    """The smallest and largest index, and whether a single loop indexes the dimension."""
    coefficients, constant = line
    ends = [coefficient * max(size - 1, 0) for coefficient, size in zip(coefficients, sizes, strict=True)]
    least, greatest = (constant + sum(limit(end, 0) for end in ends) for limit in (min, max))
    return least, greatest, sorted(coefficients)[-1:] == [1] and sum(coefficients) == 1 and constant == 0


def _check_reach(array: Array, reaches: Sequence[tuple[int, int, bool]], sizes: tuple[int, ...]) -> None:
    for (least, greatest, alone), size in zip(reaches, array.shape, strict=True):
        if least < 0 or greatest >= size or (alone and greatest + 1 != size):
            reach = [found[1] + 1 for found in reaches]
            raise InputError(
                f"found an operand of shape {[*array.shape]}, expected {reach} for loops of sizes {[*sizes]}"
            )


def _gathered(array: Array, indexing: AffineMap, sizes: tuple[int, ...]) -> Array:
    """The elements at indices that are not linear, as those of parameters by block."""
    loops = cast("Any", np.indices(sizes, sparse=True))
    positions = [np.asarray(expression.eval(loops, ())) for expression in indexing.results]
    reach = [int(position.max(initial=-1)) + 1 for position in positions]
    if math.prod(sizes) and reach != [*array.shape]:
        raise InputError(f"found an operand of shape {[*array.shape]}, expected {reach} for loops of sizes {[*sizes]}")
    return array[tuple(positions)]


def structured(op: Any, scope: Scope) -> Kernel:
    """`linalg.generic`, and the named ops, which abbreviate one."""
    iterators = [entry.data.value for entry in op.get_iterator_types()]
    loops = Loops(
        tuple(entry.data for entry in op.get_indexing_maps()),
        tuple(dim for dim, kind in enumerate(iterators) if kind == "reduction"),
    )
    count, block = len(op.inputs), op.body.block
    for indexing in loops.maps[count:]:
        if not _is_projection(indexing, loops.parallel):
            raise UnsupportedError(f"found an output indexed by {indexing}, expected each parallel loop once")
    if _is_contraction(block) and len(loops.maps) == 3 and loops.reduced:
        return _wrapped(op, _contraction(loops))
    combine = _associative(block) if len(loops.maps) == 2 and loops.reduced else None
    if combine is not None:
        return _wrapped(op, _reduction(loops, combine))
    return _any_body(loops, _bound(block, scope, loops.rank), count)


def _wrapped(op: Operation, kernel: ArrayKernel) -> Kernel:
    """A kernel for integers below 8 bits, which adds in their wider dtype, with results that wrap at their width."""
    spare = spare_bits(op.results[0])
    return (lambda *operands: extended(kernel(*operands), spare)) if spare else kernel


def _is_projection(indexing: AffineMap, parallel: Sequence[int]) -> bool:
    found = [expression.position for expression in indexing.results if isinstance(expression, AffineDimExpr)]
    return sorted(found) == [*parallel] and len(found) == len(indexing.results)


def _bound(block: Block, scope: Scope, rank: int) -> Branch:
    """The body as a function of the elements, followed by the indices that its `linalg.index` ops read.

    Outer tensors from which it extracts elements are its captured values.
    """
    copied = Block(arg_types=[argument.type for argument in block.args])
    values = cast("dict[SSAValue, SSAValue]", dict(zip(block.args, copied.args, strict=True)))
    indices = [copied.insert_arg(IndexType(), len(copied.args)) for _ in range(rank)]
    for op in block.ops:
        if op.name == "linalg.index":
            values[op.results[0]] = indices[cast("Any", op).dim.value.data]
        else:
            copied.add_op(op.clone(values))
    return scope.branch(copied)


def _any_body(loops: Loops, body: Branch, count: int) -> Kernel:
    """One step for each index of the reduction loops, over all parallel loops at once."""

    def run(*given: Array) -> Array | tuple[Array, ...]:
        operands, captured = given[: len(loops.maps)], given[len(loops.maps) :]
        sizes = loops.sizes(operands)
        views = [view(array, indexing, sizes) for array, indexing in zip(operands, loops.maps, strict=True)]
        inputs, totals = views[:count], tuple(views[count:])
        kept = tuple(size if dim in loops.parallel else 1 for dim, size in enumerate(sizes))
        grids = np.indices(sizes, sparse=True)
        for index in np.ndindex(*(sizes[dim] for dim in loops.reduced)):
            here = [_at(array, loops.reduced, index) for array in inputs]
            at = [_at(grid, loops.reduced, index) for grid in grids]
            totals = body([*here, *totals, *at], captured)
        outs = zip(totals, loops.maps[count:], operands[count:], strict=True)
        results = [_arranged(np.broadcast_to(t, kept).astype(o.dtype, copy=False), loops, m) for t, m, o in outs]
        return results[0] if len(results) == 1 else tuple(results)

    return run


def _at(array: Array, dims: Sequence[int], index: Sequence[int]) -> Array:
    """The part of a view at one index of some loops, which remain as axes of size 1."""
    chosen = [slice(None)] * array.ndim
    for dim, position in zip(dims, index, strict=True):
        chosen[dim] = slice(position, position + 1) if array.shape[dim] > 1 else slice(None)
    return array[tuple(chosen)]


def _arranged(total: Array, loops: Loops, indexing: AffineMap) -> Array:
    """The axes of the parallel loops in the order of the output's dimensions."""
    positions = [cast("AffineDimExpr", expression).position for expression in indexing.results]
    rest = [dim for dim in range(loops.rank) if dim not in positions]
    return total.transpose([*positions, *rest]).reshape([total.shape[dim] for dim in positions])


def _is_contraction(block: Block) -> bool:
    """Whether the body is total + a * b of integers, which may be extended first."""
    last = block.last_op
    total = last.operands[0].owner if last is not None and last.operands else None
    if not isinstance(total, Operation) or total.name != "arith.addi" or len(block.args) != 3:
        return False
    for product, kept in (total.operands, total.operands[::-1]):
        made = product.owner
        if kept is block.args[2] and isinstance(made, Operation) and made.name == "arith.muli":
            return [_source(factor) for factor in made.operands] in ([*block.args[:2]], [*block.args[1::-1]])
    return False


def _source(value: SSAValue) -> SSAValue:
    """The value that an extension extends; other values themselves."""
    owner = value.owner
    return owner.operands[0] if isinstance(owner, Operation) and owner.name == "arith.extsi" else value


def _contraction(loops: Loops) -> ArrayKernel:
    """total + sum a * b. A bound of the sum selects the dtype: f32 or f64 (BLAS) if that is exact, else int64."""

    def run(a: Array, b: Array, total: Array) -> Array:
        sizes = loops.sizes((a, b, total))
        if not math.prod(sizes):
            return total
        terms = math.prod(sizes[dim] for dim in loops.reduced)
        dtype = exact_dtype(greatest_magnitude(a) * greatest_magnitude(b) * terms)
        arguments: list[Any] = []
        for array, indexing in zip((a, b), loops.maps[:2], strict=True):
            seen = view(array.astype(dtype, copy=False), indexing, sizes)
            dims = [dim for dim in range(loops.rank) if seen.shape[dim] > 1]
            arguments += [seen.squeeze(tuple(dim for dim in range(loops.rank) if dim not in dims)), dims]
        read = {dim for dims in arguments[1::2] for dim in dims}
        positions = [cast("AffineDimExpr", expression).position for expression in loops.maps[2].results]
        sums = np.einsum(*arguments, [dim for dim in positions if dim in read], optimize=True)
        kept = [sizes[dim] if dim in read else 1 for dim in positions]
        # A reduction loop that no operand reads multiplies the sum by its size.
        repeats = math.prod(sizes[dim] for dim in loops.reduced if dim not in read)
        whole = to_integers(np.asarray(sums).reshape(kept) * sums.dtype.type(repeats), total.dtype)
        return np.asarray(total + whole)

    return run


def _associative(block: Block) -> np.ufunc | None:
    """The function of a body that is one op on the element and the total; None for other bodies."""
    first, last = block.first_op, block.last_op
    if first is None or last is None or len(block.args) != 2 or first.next_op is not last:
        return None
    uses = set(first.operands) == set(block.args) and last.operands[0].owner is first
    return _REDUCTIONS.get(first.name) if uses else None


def _reduction(loops: Loops, combine: np.ufunc) -> ArrayKernel:
    def run(array: Array, total: Array) -> Array:
        sizes = loops.sizes((array, total))
        seen = np.broadcast_to(view(array, loops.maps[0], sizes), sizes)
        if not math.prod(sizes[dim] for dim in loops.reduced):
            return total
        found = _arranged(reduced(seen, loops.reduced, combine, keepdims=True), loops, loops.maps[1])
        return _joined(total, found, combine)

    return run


def reduced(array: Array, dims: Sequence[int], combine: np.ufunc, *, keepdims: bool = False) -> Array:
    """The elements combined along some dimensions. Sums of floats are in the order of `numerics.sums`."""
    if array.dtype.kind == "f" and combine is np.add:
        moved = np.moveaxis(array, dims, range(len(dims)))
        flat = moved.reshape(math.prod(moved.shape[: len(dims)]), *moved.shape[len(dims) :])
        total = combined(flat, combine) if len(flat) else np.zeros(flat.shape[1:], array.dtype)
        return np.expand_dims(total, tuple(dims)) if keepdims else total
    if array.dtype.kind == "f" and combine in (np.maximum, np.minimum):
        found = extreme(array, combine, dims)  # orders -0 and +0
        return np.expand_dims(found, tuple(dims)) if keepdims else found
    return np.asarray(combine.reduce(array, axis=tuple(dims), dtype=array.dtype, keepdims=keepdims))


def _joined(total: Array, found: Array, combine: np.ufunc) -> Array:
    """Two arrays of one shape, combined as `reduced` combines elements."""
    if total.dtype.kind == "f" and combine in (np.maximum, np.minimum):
        return extreme(np.stack(np.broadcast_arrays(total, found)), combine, [0])
    return np.asarray(combine(total, found))


def reduce(op: Any, scope: Scope) -> Kernel:
    """`linalg.reduce`: the body along some dimensions."""
    dims = tuple(op.dimensions.get_values())
    combine, block = _associative(op.region.block), op.region.block
    if combine is None:
        rank = len(op.input.type.get_shape())
        kept = tuple(AffineExpr.dimension(dim) for dim in range(rank) if dim not in dims)
        loops = Loops((AffineMap.identity(rank), AffineMap(rank, 0, kept)), dims)
        return _any_body(loops, _bound(block, scope, rank), 1)

    def run(array: Array, total: Array) -> Array:
        if not math.prod(array.shape[dim] for dim in dims):
            return total
        return _joined(total, reduced(array, dims, combine), combine)

    return _wrapped(op, run)


def fill(op: Any, scope: Scope) -> Kernel:
    """`linalg.fill`: a tensor in which all elements are one number."""
    del op, scope

    def run(number: Array, array: Array) -> Array:
        return np.full(array.shape, number, array.dtype)

    return run


def transpose(op: Any, scope: Scope) -> Kernel:
    """`linalg.transpose`: result[i] = input[permutation of i]."""
    del scope
    permutation = op.permutation.get_values()

    def run(array: Array, init: Array) -> Array:
        del init
        return array.transpose(permutation)

    return run


def check_shape(found: Sequence[int], wanted: Sequence[int]) -> None:
    """Raise InputError if a shape does not match the wanted one, whose dimensions may be dynamic."""
    fits = len(found) == len(wanted) and all(e in (f, DYNAMIC_INDEX) for e, f in zip(wanted, found, strict=True))
    if not fits:
        sizes = ", ".join("?" if size == DYNAMIC_INDEX else str(size) for size in wanted)
        raise InputError(f"found a tensor of shape {[*found]}, expected [{sizes}]")
