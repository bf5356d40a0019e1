"""`RNN`, `GRU` and `LSTM`: unrolled over time, or a loop if the sequence is long. The steps of a loop stay float.

Source: the ONNX operator specification: its equations and their names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.cells import CellActivation, cell_activations
from zeropoint.frontend.onnx.elementwise import converted
from zeropoint.frontend.onnx.looped import Trip, looped, row_at
from zeropoint.frontend.onnx.movement import concatenated, part_of
from zeropoint.frontend.onnx.node import NodeError, OnnxNode
from zeropoint.ir.stablehlo import (
    AddOp,
    ClampOp,
    ComparisonDirection,
    DotDimensions,
    DotGeneralOp,
    MultiplyOp,
    ReverseOp,
    SelectOp,
    SubtractOp,
    TransposeOp,
)
from zeropoint.ir.tensors import shape_of, with_shape

STEPS = 1024
"""Maximum length of a sequence that is unrolled. Longer sequences become a `while`."""


@dataclass(frozen=True)
class Cell:
    """One direction of a layer: W [gates * hidden, input], R [gates * hidden, hidden], biases and peepholes."""

    inputs: SSAValue
    recurrent: SSAValue
    input_bias: SSAValue
    recurrent_bias: SSAValue
    peepholes: Sequence[SSAValue]
    functions: Sequence[CellActivation]
    hidden: int
    clip: float
    linear_before_reset: bool
    input_forget: bool


State = tuple[SSAValue, ...]
CellStep = Callable[[SSAValue, State, Cell, Builder], State]


def _sum(build: Builder, *values: SSAValue) -> SSAValue:
    return reduce(lambda a, b: build.apply(AddOp, a, b), values)


def _product(build: Builder, *values: SSAValue) -> SSAValue:
    return reduce(lambda a, b: build.apply(MultiplyOp, a, b), values)


def _times(value: SSAValue, matrix: SSAValue, build: Builder) -> SSAValue:
    """The product of value [batch, n] and the transpose of matrix [m, n]."""
    shape = with_shape(value, [shape_of(value)[0], shape_of(matrix)[0]])
    return build.insert(DotGeneralOp(value, matrix, shape, DotDimensions((), (), (1,), (1,))))


def _biased(value: SSAValue, bias: SSAValue, build: Builder) -> SSAValue:
    return build.apply(AddOp, value, build.broadcast(bias, value.type, [1]))


def _gates(value: SSAValue, hidden: int, build: Builder) -> list[SSAValue]:
    axis = len(shape_of(value)) - 1
    return [part_of(value, axis, range(at, at + hidden), build) for at in range(0, shape_of(value)[axis], hidden)]


def _activated(index: int, value: SSAValue, cell: Cell, build: Builder) -> SSAValue:
    if cell.clip:
        value = build.insert(ClampOp(build.scalar(-cell.clip, value), value, build.scalar(cell.clip, value)))
    return cell.functions[index](value, build)


def _rnn(x: SSAValue, state: State, cell: Cell, build: Builder) -> State:
    """A step of `RNN`: Ht = f(Xt W' + Ht-1 R' + Wb + Rb). `x` is Xt W' + Wb."""
    (h,) = state
    recurrent = _biased(_times(h, cell.recurrent, build), cell.recurrent_bias, build)
    return (_activated(0, _sum(build, x, recurrent), cell, build),)


def _gru(x: SSAValue, state: State, cell: Cell, build: Builder) -> State:
    """A step of `GRU`: zt and rt by f, ht by g, Ht = (1 - zt) ht + zt Ht-1."""
    (h,) = state
    xz, xr, xh = _gates(x, cell.hidden, build)
    rows = [range(at, at + cell.hidden) for at in range(0, 3 * cell.hidden, cell.hidden)]
    biases = [part_of(cell.recurrent_bias, 0, row, build) for row in rows]
    weights = [part_of(cell.recurrent, 0, row, build) for row in rows]
    z, r = (
        _activated(0, _sum(build, gate, _biased(_times(h, weight, build), bias, build)), cell, build)
        for gate, weight, bias in ((xz, weights[0], biases[0]), (xr, weights[1], biases[1]))
    )
    if cell.linear_before_reset:
        recurrent = _product(build, r, _biased(_times(h, weights[2], build), biases[2], build))
    else:
        recurrent = _biased(_times(_product(build, r, h), weights[2], build), biases[2], build)
    new = _activated(1, _sum(build, xh, recurrent), cell, build)
    rest = build.apply(SubtractOp, build.splat(1.0, z), z)
    return (_sum(build, _product(build, rest, new), _product(build, z, h)),)


def _lstm(x: SSAValue, state: State, cell: Cell, build: Builder) -> State:
    """A step of `LSTM`: it, ft and ot by f, ct by g, Ct = ft Ct-1 + it ct, Ht = ot h(Ct). Peepholes add P C."""
    h, c = state
    total = _sum(build, x, _biased(_times(h, cell.recurrent, build), cell.recurrent_bias, build))
    gate_i, gate_o, gate_f, gate_c = _gates(total, cell.hidden, build)

    def peeped(gate: SSAValue, index: int, old: SSAValue) -> SSAValue:
        if not cell.peepholes:
            return gate
        return _sum(build, gate, _product(build, build.broadcast(cell.peepholes[index], old.type, [1]), old))

    i = _activated(0, peeped(gate_i, 0, c), cell, build)
    if cell.input_forget:
        f = build.apply(SubtractOp, build.splat(1.0, i), i)
    else:
        f = _activated(0, peeped(gate_f, 2, c), cell, build)
    new = _activated(1, gate_c, cell, build)
    c = _sum(build, _product(build, f, c), _product(build, i, new))
    o = _activated(0, peeped(gate_o, 1, c), cell, build)
    return (_product(build, o, cell.functions[2](c, build)), c)


@dataclass(frozen=True)
class CellKind:
    """A recurrent operator: its step, its numbers of gates and states, its default activation functions."""

    step: CellStep
    gates: int
    states: int
    functions: tuple[str, ...]


KINDS = {
    "RNN": CellKind(_rnn, 1, 1, ("Tanh",)),
    "GRU": CellKind(_gru, 3, 1, ("Sigmoid", "Tanh")),
    "LSTM": CellKind(_lstm, 4, 2, ("Sigmoid", "Tanh", "Tanh")),
}


def recurrent(node: OnnxNode, build: Builder) -> tuple[SSAValue, ...]:
    """`RNN`, `GRU`, `LSTM`: Y, Y_h and, for an LSTM, Y_c.

    One `dot_general` multiplies the inputs of all steps. Every step is then a `dot_general` of the state and the gates.
    """
    kind = KINDS[node.op_type]
    value = node.operand(0)
    sizes, recurrence = (shape_of(node.operand(index)) for index in (0, 2))
    if len(sizes) != 3 or len(recurrence) != 3:
        raise NodeError(f"found X and R of shapes {list(sizes)} and {list(recurrence)}, expected three dimensions")
    by_batch = bool(node.integer("layout", 0))
    if by_batch:
        value = build.insert(TransposeOp(value, [1, 0, 2]))
    steps, batch, _ = shape_of(value)
    hidden = recurrence[2]
    if node.integer("hidden_size", hidden) != hidden:
        raise NodeError(f"found hidden_size {node.integer('hidden_size', hidden)}, expected {hidden} as R has it")
    if not hidden:
        raise NodeError("found hidden_size 0, expected 1 or more")
    if not steps:
        raise NodeError("found a sequence of 0 steps, expected 1 or more")
    direction = node.choice("direction", "forward", ("forward", "reverse", "bidirectional"))
    ways = [direction == "reverse"] if direction != "bidirectional" else [False, True]
    results = [
        _direction(node, kind, value, index, reverse, hidden, by_batch, build) for index, reverse in enumerate(ways)
    ]
    made = concatenated([build.reshape(y, [steps, 1, batch, hidden]) for y, _ in results], 1, build)
    states = [
        concatenated([build.reshape(state[i], [1, batch, hidden]) for _, state in results], 0, build)
        for i in range(kind.states)
    ]
    if by_batch:
        made = build.insert(TransposeOp(made, [2, 0, 1, 3]))
        states = [build.insert(TransposeOp(state, [1, 0, 2])) for state in states]
    return (made, *states)


def _direction(
    node: OnnxNode,
    kind: CellKind,
    value: SSAValue,
    index: int,
    reverse: bool,
    hidden: int,
    by_batch: bool,
    build: Builder,
) -> tuple[SSAValue, State]:
    """All steps of one direction: the outputs in order of time, and the last state."""
    steps, batch, size = shape_of(value)
    cell = _cell(node, kind, index, hidden, value, build)
    flat = _biased(_times(build.reshape(value, [steps * batch, size]), cell.inputs, build), cell.input_bias, build)
    gates = build.reshape(flat, [steps, batch, kind.gates * hidden])
    state = tuple(_initial(node, 5 + i, index, [batch, hidden], by_batch, value, build) for i in range(kind.states))
    lengths = _lengths(node, steps, build)

    def stepped(x: SSAValue, state: State, time: SSAValue | int) -> tuple[SSAValue, State]:
        """The output and the state after a step. Sequences that have ended keep their state."""
        new = kind.step(build.reshape(x, [batch, kind.gates * hidden]), state, cell, build)
        if lengths is None:
            return new[0], new
        time = time if isinstance(time, int) else build.broadcast(time, lengths.type, ())
        inside = build.compare(ComparisonDirection.GT, lengths, time)
        inside = build.broadcast(inside, with_shape(inside, [batch, hidden]), [0])
        kept = tuple(build.apply(SelectOp, inside, *pair) for pair in zip(new, state, strict=True))
        return build.apply(SelectOp, inside, new[0], build.splat(0.0, new[0])), kept

    if steps > STEPS:

        def trip(number: SSAValue, state: Sequence[SSAValue]) -> Trip:
            last = build.constant(np.array(steps - 1, np.int64))
            time = build.apply(SubtractOp, last, number) if reverse else number
            output, new = stepped(row_at(gates, 0, time, build), tuple(state), time)
            return Trip(new, [output])

        found, (rows,) = looped(build, steps, state, trip)
        return build.insert(ReverseOp(rows, [0])) if reverse else rows, tuple(found)
    outputs: list[SSAValue] = []
    order = range(steps)[:: -1 if reverse else 1]
    for time in order:
        output, state = stepped(part_of(gates, 0, range(time, time + 1), build), state, time)
        outputs.append(build.reshape(output, [1, batch, hidden]))
    return concatenated(outputs[:: -1 if reverse else 1], 0, build), state


def _lengths(node: OnnxNode, steps: int, build: Builder) -> SSAValue | None:
    """The length of each sequence in the batch, or None if all have full length."""
    array = node.constant(4)
    if not node.has(4) or (array is not None and bool((array == steps).all())):
        return None
    return converted(node.operand(4), i64, build)


def _initial(
    node: OnnxNode, index: int, way: int, shape: list[int], by_batch: bool, like: SSAValue, build: Builder
) -> SSAValue:
    if not node.has(index):
        zero = build.scalar(0.0, like)
        return build.broadcast(zero, with_shape(zero, shape), ())
    axis = 1 if by_batch else 0
    return build.reshape(part_of(node.operand(index), axis, range(way, way + 1), build), shape)


def _cell(node: OnnxNode, kind: CellKind, way: int, hidden: int, like: SSAValue, build: Builder) -> Cell:
    def of_way(index: int) -> SSAValue:
        value = node.operand(index)
        return build.reshape(part_of(value, 0, range(way, way + 1), build), shape_of(value)[1:])

    rows = kind.gates * hidden
    if node.has(3):
        bias = of_way(3)
        biases = [part_of(bias, 0, range(at, at + rows), build) for at in (0, rows)]
    else:
        biases = [build.constant(np.zeros(rows, np.float32))] * 2
    peepholes = _gates(of_way(7), hidden, build) if node.op_type == "LSTM" and node.has(7) else []
    return Cell(
        inputs=of_way(1),
        recurrent=of_way(2),
        input_bias=biases[0],
        recurrent_bias=biases[1],
        peepholes=peepholes,
        functions=cell_activations(node, kind.functions, way),
        hidden=hidden,
        clip=node.number("clip", 0.0),
        linear_before_reset=bool(node.integer("linear_before_reset", 0)),
        input_forget=bool(node.integer("input_forget", 0)),
    )
