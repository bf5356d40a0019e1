"""`if`, `case`, `while`, `map` and `chlo.scan`, and tuples, tokens and barriers, which compute nothing.

Source: the StableHLO specification. A token is an empty array. A tuple is a Python tuple of its elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX

from zeropoint.interp.binding import ArrayFunction, Kernel, Scope
from zeropoint.interp.errors import UnsupportedError
from zeropoint.interp.trips import trips
from zeropoint.ir.chlo import ScanOp
from zeropoint.ir.locations import describe
from zeropoint.ir.stablehlo import (
    AfterAllOp,
    CaseOp,
    GetTupleElementOp,
    IfOp,
    MapOp,
    OptimizationBarrierOp,
    TupleOp,
    WhileOp,
)
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of

TOKEN = np.zeros(0, np.bool_)
"""The value of every token."""


def if_(op: IfOp, scope: Scope) -> Kernel:
    """results = pred ? true_branch() : false_branch(). Only one of them runs."""
    true_branch, false_branch = scope.branch(op.true_branch.block), scope.branch(op.false_branch.block)

    def run(pred: Array, *captured: Array) -> tuple[Array, ...]:
        return (true_branch if pred else false_branch)((), captured)

    return run


def case(op: CaseOp, scope: Scope) -> Kernel:
    """results = branches[index](), or the last branch if index is out of range. Only one of them runs."""
    branches = [scope.branch(region.block) for region in op.branches]

    def run(index: Array, *captured: Array) -> tuple[Array, ...]:
        chosen = int(index)
        return branches[chosen if 0 <= chosen < len(branches) else -1]((), captured)

    return run


def while_(op: WhileOp, scope: Scope) -> Kernel:
    """Applies body to the operands as long as cond is true.

    Raises TripsExceeded if the trips exceed the limit of the run.
    """
    cond, body, count = scope.branch(op.cond.block), scope.branch(op.body.block), len(op.inputs)
    described = describe(op)

    def run(*operands: Array) -> tuple[Array, ...]:
        values, captured = operands[:count], operands[count:]
        made = trips()
        while cond(values, captured)[0]:
            made.make(described)
            values = body(values, captured)
        return values

    return run


def scan(op: ScanOp, scope: Scope) -> Kernel:
    """outputs[i], carries = body(inputs[i], carries) along `dimension`, from its end if `is_reverse`."""
    body, inputs, inits, outputs = scope.branch(op.body.block), len(op.inputs), len(op.inits), len(op.outputs)
    axis = int(op.dimension.value.data)
    length = shape_of([*op.inputs, *op.outputs][0])[axis]
    if not inputs and length == DYNAMIC_INDEX:
        raise UnsupportedError("found a scan without inputs over a dynamic dimension, expected a static one")
    step = -1 if op.is_reverse is not None and bool(op.is_reverse.value.data) else 1
    types = [(shape_of(value), element_dtype(element_of(value))) for value in op.outputs]
    described = describe(op)

    def run(*operands: Array) -> tuple[Array, ...]:
        carried, captured = operands[inputs : inputs + inits], operands[inputs + inits :]
        indices = range(operands[0].shape[axis] if inputs else length)[::step]
        found: list[tuple[Array, ...]] = []
        made = trips()
        for index in indices:
            made.make(described)
            slices = [np.moveaxis(array, axis, 0)[index, ...] for array in operands[:inputs]]
            values = body((*slices, *carried), captured)
            found.append(values[:outputs])
            carried = values[outputs:]
        if not found:  # without slices, the size of a dynamic dimension is unknown
            empty = [np.empty([max(size, 0) for size in shape], dtype) for shape, dtype in types]
            return (*empty, *carried)
        results = [np.stack(slices[::step], axis) for slices in zip(*found, strict=True)]
        return (*results, *carried)

    return run


def map_(op: MapOp, scope: Scope) -> ArrayFunction:
    """result[index] = computation(inputs[0][index], ..., inputs[N-1][index])."""
    body = scope.body(op.computation.block)
    return lambda *inputs: np.broadcast_to(body(*inputs)[0], inputs[0].shape)


def tuple_(op: TupleOp, scope: Scope) -> Kernel:
    """The tuple of the operands."""

    def run(*values: Array) -> Any:
        return (values,)

    return run


def get_tuple_element(op: GetTupleElementOp, scope: Scope) -> Kernel:
    """result = operand[index]."""
    index = int(op.index.value.data)

    def run(operand: Any) -> Any:
        return (operand[index],)

    return run


def optimization_barrier(op: OptimizationBarrierOp, scope: Scope) -> Kernel:
    """The operands."""
    return lambda *operands: operands


def after_all(op: AfterAllOp, scope: Scope) -> ArrayFunction:
    """A token."""
    return lambda *inputs: TOKEN
