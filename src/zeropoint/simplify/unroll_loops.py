"""Write out loops whose number of trips is known, so that their arithmetic is quantized.

```mlir
%0:2 = stablehlo.while(%i = %zero, %h = %start) : tensor<i32>, tensor<1x8xf32>
cond { %again = stablehlo.compare LT, %i, %six ... } do { %next = stablehlo.dot_general %h, %w ... }
```
becomes six copies of the body. What depends on the counter and constants alone is computed here, trip by trip. Ops at
positions that are known then become slices and concatenations (`fold_updates.py`).

`lax.scan`, `lax.fori_loop` and `lax.while_loop` of JAX are such loops. ONNX's Loop, Scan and recurrent layers are
written out by the importer. A loop stays if its number of trips depends on an input, if it has more than `TRIPS` trips,
if all copies have more than `OPS` ops, or if its body has no contraction: a numerical method that repeats elementwise
arithmetic keeps its float precision.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.interp.plan import plan_of
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.contractions import ContractionOp
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConstantOp, ReturnOp, WhileOp
from zeropoint.ir.tensors import Array, element_of, shape_of
from zeropoint.ir.weights import Weights

TRIPS = 512
"""The maximum number of trips of a loop that is written out, as for ONNX's Loop."""
OPS = 50_000
"""The maximum number of ops that a loop becomes."""
SMALL = 64
"""The maximum number of elements of a counter, and of a value that is computed from counters."""
LoopArrays = Sequence[Array]


@dataclass(frozen=True)
class CountedLoop:
    """A loop whose condition reads counters only.

    `counters` are the indices of the values that are carried from trip to trip and depend on each other and on
    constants alone. `again` says for their values whether there is another trip. `known` are the values of the body
    that depend on them, and `step` computes the next counters, then the known values.
    """

    loop: WhileOp
    counters: list[int]
    start: LoopArrays
    again: Callable[[LoopArrays], bool]
    known: list[OpResult]
    step: Callable[[LoopArrays], LoopArrays]

    def trips(self) -> list[LoopArrays] | None:
        """The known values in each trip; None if there are too many trips."""
        found: list[LoopArrays] = []
        state = self.start
        while self.again(state):
            if len(found) == TRIPS:
                return None
            made = self.step(state)
            state = made[: len(self.counters)]
            found.append(made[len(self.counters) :])
        return found


def unroll_loops(program: Program) -> Program:
    """A copy whose loops of known trips are written out; the program itself if there are none."""
    if not any(isinstance(op, WhileOp) for op in program.entry.ops):
        return program
    program = program.for_change()
    pending = [op for op in program.entry.ops if isinstance(op, WhileOp)]
    while pending:
        loop = pending.pop()
        counted = _counted(loop, program)
        trips = None if counted is None else counted.trips()
        if counted is not None and trips is not None and _size(loop.body.block, program) * len(trips) <= OPS:
            pending += _written_out(counted, trips, program)
    remove_dead_ops(program.entry)
    return program


def _counted(loop: WhileOp, program: Program) -> CountedLoop | None:
    """The loop if its number of trips is known and it has a contraction; None otherwise."""
    if not any(isinstance(op, ContractionOp) for op in loop.body.block.walk()):
        return None
    start = _counters(loop, program.weights)
    counters, cond, body = list(start), loop.cond.block, loop.body.block
    in_cond = _depending(cond, [cond.args[index] for index in counters])
    in_body = _depending(body, [body.args[index] for index in counters])
    (asked,) = _yielded(cond)
    if asked not in in_cond:
        return None
    known = _read_by_others(body, in_body)
    nexts = [_yielded(body)[index] for index in counters]
    again = _computation(program, cond, counters, [asked], in_cond)
    step = _computation(program, body, counters, [*nexts, *known], in_body)
    return CountedLoop(loop, counters, list(start.values()), lambda state: bool(again(state)[0].all()), known, step)


def _size(block: Block, program: Program) -> int:
    """The number of ops of a block after the loops in it are written out."""
    found = 0
    for op in block.ops:
        counted = _counted(op, program) if isinstance(op, WhileOp) else None
        trips = None if counted is None else counted.trips()
        if isinstance(op, WhileOp) and trips is not None:
            found += len(trips) * _size(op.body.block, program)
        else:
            found += sum(1 for _ in op.walk())
    return found


def _yielded(block: Block) -> Sequence[SSAValue]:
    last = block.last_op
    assert last is not None
    return last.operands


def _counters(loop: WhileOp, weights: Weights) -> dict[int, Array]:
    """The carried integers that depend on each other and on constants alone, with the values that they start with."""
    body = loop.body.block
    start = {
        index: array
        for index, value in enumerate(loop.inputs)
        if isinstance(element_of(value), IntegerType)
        and prod(shape_of(value)) <= SMALL
        and (array := constant_array(value, weights)) is not None
    }
    while True:
        known = _depending(body, [body.args[index] for index in start])
        kept = {index: array for index, array in start.items() if _is_known(_yielded(body)[index], known)}
        if len(kept) == len(start):
            return start
        start = kept


def _is_known(value: SSAValue, known: Container[SSAValue]) -> bool:
    return value in known or (isinstance(value, OpResult) and isinstance(value.op, ConstantOp))


def _depending(block: Block, given: Sequence[SSAValue]) -> dict[SSAValue, None]:
    """The values of a block that depend on the given ones and on constants alone, and are small."""
    found: dict[SSAValue, None] = dict.fromkeys(given)
    for op in block.ops:
        small = all(prod(shape_of(value)) <= SMALL for value in op.results)
        if op is not block.last_op and not op.regions and small and all(_is_known(each, found) for each in op.operands):
            found |= dict.fromkeys(op.results)
    return found


def _read_by_others(block: Block, known: Container[SSAValue]) -> list[OpResult]:
    """The known results that other ops read, or that are yielded. Constants are not among them: they are copied."""
    found: dict[OpResult, None] = {}
    for op in block.ops:
        if op is block.last_op or not all(value in known for value in op.results):
            found |= {
                value: None
                for value in op.operands
                if value in known and isinstance(value, OpResult) and not isinstance(value.op, ConstantOp)
            }
    return list(found)


def _computation(
    program: Program, block: Block, counters: Sequence[int], wanted: Sequence[SSAValue], known: Container[SSAValue]
) -> Callable[[LoopArrays], LoopArrays]:
    """A function from the counters to values of a block that depend on them alone."""
    made = Block(arg_types=[block.args[index].type for index in counters])
    copies: dict[SSAValue, SSAValue] = {block.args[index]: made.args[n] for n, index in enumerate(counters)}
    for op in block.ops:
        if op is block.last_op or not all(value in known or isinstance(op, ConstantOp) for value in op.results):
            continue
        for value in op.operands:
            if value not in copies and isinstance(value, OpResult):  # a constant outside of the loop
                made.add_op(value.op.clone(copies))
        made.add_op(op.clone(copies))
    for value in wanted:
        if value not in copies and isinstance(value, OpResult):
            made.add_op(value.op.clone(copies))
    made.add_op(ReturnOp([copies[value] for value in wanted]))
    plan = plan_of(program, made)
    return lambda arrays: plan.run(list(arrays))


def _written_out(counted: CountedLoop, trips: Sequence[LoopArrays], program: Program) -> list[WhileOp]:
    """Replace a loop by copies of its body, one for each trip. Returns the loops among the copies."""
    loop, block = counted.loop, counted.loop.body.block
    state: list[SSAValue] = list(loop.inputs)
    inner: list[WhileOp] = []
    for arrays in trips:
        copies: dict[SSAValue, SSAValue] = dict(zip(block.args, state, strict=True))
        made: list[Operation] = []
        for value, array in zip(counted.known, arrays, strict=True):
            number = constant_op(array, program.weights, element_type=element_of(value), location=value.op.location)
            made.append(number)
            copies[value] = number.output
        for op in block.ops:
            if op is not block.last_op and not any(value in copies for value in op.results):
                made.append(op.clone(copies))
        Rewriter.insert_op(made, InsertPoint.before(loop))
        inner += [op for op in made if isinstance(op, WhileOp)]
        state = [copies.get(value, value) for value in _yielded(block)]
    Rewriter.replace_op(loop, [], state)
    return inner
