"""Loops: the dialects affine and scf, and the ops of memref and bufferization that allocate and view memory.

A nest of loops without carried values runs all iterations at once. Each index is an array along a separate axis, loads
gather, and stores scatter. So a nest must not read the memory that it writes. Loops that carry values run step by step.

Source: MLIR's documentation of the dialects affine, bufferization, memref and scf. Loads and stores out of bounds are
undefined there; here they are errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from zeropoint.interp.binding import Kernel, Scope
from zeropoint.interp.errors import InputError, UnsupportedError
from zeropoint.interp.trips import trips
from zeropoint.ir.locations import describe
from zeropoint.ir.tensors import Array, element_dtype
from zeropoint.limits import afford

VIEWS = ("bufferization.to_buffer", "bufferization.to_tensor", "memref.collapse_shape", "memref.expand_shape")
FOR, LOAD, STORE = "affine.for", "affine.load", "affine.store"


def same(op: Any, scope: Scope) -> Kernel:
    """`bufferization.to_buffer` and `to_tensor`: the same memory."""
    del op, scope
    return _same


def _same(x: Array) -> Array:
    return x


def alloc(op: Any, scope: Scope) -> Kernel:
    """`memref.alloc` of a static shape. The memory is zero at first."""
    del scope
    kind = op.memref.type
    if len(op.dynamic_sizes):
        raise UnsupportedError("found a memref of dynamic shape, expected a static one")
    shape, dtype = kind.get_shape(), element_dtype(kind.element_type)
    return lambda: np.zeros(shape, dtype)


def reshaped(op: Any, scope: Scope) -> Kernel:
    """`memref.collapse_shape` and `memref.expand_shape`: a view of another shape."""
    del scope
    shape = op.result.type.get_shape()

    def run(x: Array) -> Array:
        return x.reshape(shape)

    return run


def _at(x: Array, indices: Sequence[Array]) -> tuple[Array, ...]:
    for index, size in zip(indices, x.shape, strict=True):
        found = np.asarray(index)
        if found.size and (found.min() < 0 or found.max() >= size):
            raise InputError(f"found index {found.max()} of a memref of shape {[*x.shape]}, expected one inside")
    return tuple(indices)


def _evaluated(indexing: AffineMap, operands: Sequence[Array]) -> list[Array]:
    """The results of an affine map. Its operands are dimensions, then symbols."""
    dims, symbols = operands[: indexing.num_dims], operands[indexing.num_dims :]
    return [np.asarray(expression.eval(cast("Any", dims), cast("Any", symbols))) for expression in indexing.results]


def load(op: Any, scope: Scope) -> Kernel:
    """`affine.load`: the elements at the results of the map."""
    del scope
    indexing = op.map.data

    def run(x: Array, *indices: Array) -> Array:
        return np.asarray(x[_at(x, _evaluated(indexing, indices))])

    return run


def load_at(op: Any, scope: Scope) -> Kernel:
    """`memref.load`: the elements at the indices."""
    del op, scope

    def run(x: Array, *indices: Array) -> Array:
        return np.asarray(x[_at(x, indices)])

    return run


def store(op: Any, scope: Scope) -> Kernel:
    """`affine.store`: writes elements at the results of the map."""
    del scope
    indexing = op.map.data

    def run(value: Array, x: Array, *indices: Array) -> tuple[()]:
        x[_at(x, _evaluated(indexing, indices))] = value
        return ()

    return run


def store_at(op: Any, scope: Scope) -> Kernel:
    """`memref.store`: writes elements at the indices."""
    del op, scope

    def run(value: Array, x: Array, *indices: Array) -> tuple[()]:
        x[_at(x, indices)] = value
        return ()

    return run


def _range(op: Any) -> range:
    """The values of a loop's index. Raises UnsupportedError for bounds that are not constant."""
    if len(op.lowerBoundOperands) + len(op.upperBoundOperands):
        raise UnsupportedError("found a loop whose bounds depend on values, expected constant bounds")
    low, high = (bound.data.eval([], [])[0] for bound in (op.lowerBoundMap, op.upperBoundMap))
    return range(low, high, op.step.value.data)


def _length(steps: range) -> int:
    """The number of steps. `len` of a range is limited to 63 bits."""
    return max(0, -((steps.start - steps.stop) // steps.step))


def for_(op: Any, scope: Scope) -> Kernel:
    """`affine.for`: a loop that carries values, or a nest of loops that do not."""
    return _carrying(op, scope) if len(op.inits) else _nest(op, scope)


def while_(op: Any, scope: Scope) -> Kernel:
    """`scf.while`: the first region computes whether to continue, and the arguments of the second region.

    Raises TripsExceeded if the trips exceed the limit of the run.
    """
    before, after, count = scope.branch(op.before_region.block), scope.branch(op.after_region.block), len(op.arguments)
    described = describe(op)

    def run(*operands: Array) -> Array | tuple[Array, ...]:
        values, captured = operands[:count], operands[count:]
        made = trips()
        while True:
            goes_on, *values = before(values, captured)
            if not goes_on:
                return values[0] if len(values) == 1 else tuple(values)
            made.make(described)
            values = after(values, captured)

    return run


def for_range(op: Any, scope: Scope) -> Kernel:
    """`scf.for`: a loop between computed bounds, step by step.

    Raises ExecutionError for a step that is not positive, and TripsExceeded if the trips exceed the limit of the run.
    """
    branch, count, described = scope.branch(op.body.block), len(op.iter_args), describe(op)

    def run(low: Array, high: Array, step: Array, *operands: Array) -> Array | tuple[Array, ...]:
        if step <= 0:
            raise InputError(f"{described}: found a step of {step}, expected a positive one")
        values: Sequence[Array] = operands[:count]
        made = trips()
        for index in range(int(low), int(high), int(step)):
            made.make(described)
            values = branch([np.asarray(index), *values], operands[count:])
        return values[0] if count == 1 else tuple(values)

    return run


def if_(op: Any, scope: Scope) -> Kernel:
    """`scf.if`: the results of the region that the condition selects."""
    chosen, other = (
        scope.branch(region.block) if region.blocks else None for region in (op.true_region, op.false_region)
    )

    def run(condition: Array, *captured: Array) -> tuple[Array, ...]:
        branch = chosen if condition else other
        return () if branch is None else branch((), captured)

    return run


def index_switch(op: Any, scope: Scope) -> Kernel:
    """`scf.index_switch`: the results of the region for the index's value, or of the default region."""
    default = scope.branch(op.default_region.block)
    regions = zip(op.cases.get_values(), op.case_regions, strict=True)
    branches = {value: scope.branch(region.block) for value, region in regions}

    def run(index: Array, *captured: Array) -> tuple[Array, ...]:
        return branches.get(int(index), default)((), captured)

    return run


def _carrying(op: Any, scope: Scope) -> Kernel:
    steps, count = _range(op), len(op.inits)
    branch = scope.branch(op.body.block)
    described = describe(op)

    def run(*operands: Array) -> Array | tuple[Array, ...]:
        values: Sequence[Array] = operands[:count]
        made = trips()
        for index in steps:
            made.make(described)
            values = branch([np.asarray(index), *values], operands[count:])
        return values[0] if count == 1 else tuple(values)

    return run


def _nest(op: Any, scope: Scope) -> Kernel:
    ranges, leaf = [_range(op)], op
    indices: list[SSAValue] = [op.body.block.args[0]]
    while (first := leaf.body.block.first_op).name == FOR and not len(first.inits) and _is_alone(leaf.body.block):
        leaf = first
        ranges.append(_range(leaf))
        indices.append(leaf.body.block.args[0])
    branch = scope.branch(_checked(leaf.body.block, indices))
    sizes = [_length(steps) for steps in ranges]
    for size in sizes:
        afford([size], 8, "the indices of a loop")
    afford(sizes, 1, "the values in a nest of loops")
    values = [np.arange(steps.start, steps.stop, steps.step) for steps in ranges]
    grid = np.meshgrid(*values, indexing="ij", sparse=True)

    def run(*captured: Array) -> tuple[()]:
        if all(sizes):
            branch(list(grid), captured)
        return ()

    return run


def _memory(value: SSAValue) -> SSAValue:
    """The memref or tensor that is behind a chain of views."""
    while isinstance(value.owner, Operation) and value.owner.name in VIEWS:
        value = value.owner.operands[0]
    return value


def _is_alone(block: Block) -> bool:
    return len(block.ops) == 2


def _checked(block: Block, indices: Sequence[SSAValue]) -> Block:
    """The innermost block with all indices as arguments.

    Raises UnsupportedError if its iterations cannot run at once.
    """
    read: set[SSAValue] = set()
    written: set[SSAValue] = set()
    for op in block.walk():
        if op.name == FOR and not len(cast("Any", op).inits):
            raise UnsupportedError("found a loop beside other ops, expected perfectly nested loops")
        if op.name in (LOAD, "memref.load"):
            read.add(_memory(op.operands[0]))
        if op.name in (STORE, "memref.store"):
            written.add(_memory(op.operands[1]))
    if read & written:
        raise UnsupportedError("found loops that read the memory that they write, expected different memrefs")
    copied = Block(arg_types=[IndexType()] * len(indices))
    values = dict(zip(indices, copied.args, strict=True))
    for op in block.ops:
        copied.add_op(op.clone(cast("dict[SSAValue, SSAValue]", values)))
    return copied


LOOPS: dict[str, Callable[[Any, Scope], Kernel]] = {
    FOR: for_,
    LOAD: load,
    STORE: store,
    "bufferization.to_buffer": same,
    "bufferization.to_tensor": same,
    "memref.alloc": alloc,
    "memref.collapse_shape": reshaped,
    "memref.expand_shape": reshaped,
    "memref.load": load_at,
    "memref.store": store_at,
    "scf.for": for_range,
    "scf.if": if_,
    "scf.index_switch": index_switch,
    "scf.while": while_,
}
"""The rules by op name."""
