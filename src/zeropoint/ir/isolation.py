"""Extracts one op of a program as a separate program, to run a network kernel by kernel.

```mlir
%1 = "quant.region"(%0, %w, %b) ({ convolution, add, clamp }) {input_specs = [...], output_specs = [...], ...}
```
becomes
```mlir
func.func @main(%0: tensor<1x3x8x8xf32>) -> tensor<1x4x8x8xf32> {
  %w = stablehlo.constant ...
  %b = stablehlo.constant ...
  %1 = "quant.region"(%0, %w, %b) ({ convolution, add, clamp }) {input_specs = [...], output_specs = [...], ...}
  return %1 : tensor<1x4x8x8xf32>
}
```
The float form drops the specs and contains the ops of the region instead of the region.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from zeropoint.ir.captured import captured
from zeropoint.ir.constants import is_constant
from zeropoint.ir.inlining import inline_region
from zeropoint.ir.program import Program, name_attributes
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import ConstantOp


def read_values(op: Operation) -> list[SSAValue]:
    """The values that an op and its regions use, each listed once."""
    return list(dict.fromkeys((*op.operands, *captured(op.regions))))


def activations(op: Operation) -> list[SSAValue]:
    """The values that an op uses and that are not constants."""
    return [value for value in read_values(op) if not is_constant(value)]


def isolated(program: Program, op: Operation) -> Program:
    """A program of one op: its activations are arguments, its results are returned. Ports are named by number."""
    arguments = activations(op)
    block = Block(arg_types=[value.type for value in arguments])
    values: dict[SSAValue, SSAValue] = dict(zip(arguments, block.args, strict=True))
    for value in read_values(op):
        if value not in values:
            assert isinstance(value.owner, Operation)
            constant = value.owner.clone()
            block.add_op(constant)
            values[value] = constant.results[0]
    copy = op.clone(values)
    block.add_op(copy)
    block.add_op(ReturnOp(*copy.results))
    function = FuncOp("main", ([a.type for a in block.args], [r.type for r in copy.results]), Region(block))
    function.properties["arg_attrs"] = name_attributes([str(number) for number in range(len(arguments))])
    function.properties["res_attrs"] = name_attributes([str(number) for number in range(len(copy.results))])
    return Program(ModuleOp([function], dict(program.module.attributes)), program.weights.copy())


def float_form(program: Program, op: Operation) -> Program:
    """A program of one op in float: it takes float inputs and ignores the specs."""
    made = isolated(program, op)
    made.module.attributes.clear()
    for region in [found for found in made.entry.ops if isinstance(found, QuantizeRegionOp)]:
        inline_region(region)
    return made


def form_key(op: Operation) -> Hashable:
    """What `float_form` of an op computes, to be compared: ops with equal keys have the same float form.

    The steps of a recurrence have equal keys. Locations and the specs of regions do not count.
    """
    values: dict[SSAValue, int] = {}
    given: list[Hashable] = []
    for number, value in enumerate(read_values(op)):
        owner = value.owner
        constant = (
            (type(owner), *owner.properties.values()) if is_constant(value) and isinstance(owner, Operation) else None
        )
        given.append((value.type, constant))
        values[value] = number
    if not isinstance(op, QuantizeRegionOp):
        return (*given, _structure(op, values))
    block = op.body.block
    values.update((argument, values[value]) for argument, value in zip(block.args, op.inputs, strict=True))
    return (*given, *(_structure(inner, values) for inner in block.ops))


def _structure(op: Operation, values: dict[SSAValue, int]) -> Hashable:
    """An op without its location; `values` numbers the values that it may read, and gets its results."""
    blocks = [block for region in op.regions for block in region.blocks]
    for value in (*op.results, *(argument for block in blocks for argument in block.args)):
        values[value] = len(values)
    return (
        type(op),
        tuple(values[value] for value in op.operands),
        tuple(value.type for value in op.results),
        tuple(op.properties.items()),
        tuple(op.attributes.items()),
        tuple((tuple(argument.type for argument in block.args), *_inner(block, values)) for block in blocks),
    )


def _inner(block: Block, values: dict[SSAValue, int]) -> list[Hashable]:
    return [_structure(op, values) for op in block.ops]


def computing(program: Program) -> list[Operation]:
    """The ops of a program that compute something when it runs."""
    return [op for op in list(program.entry.ops)[:-1] if not isinstance(op, ConstantOp)]


def last_readers(block: Block) -> dict[Operation, list[SSAValue]]:
    """Maps each op to the values whose last use it is."""
    last: dict[SSAValue, Operation] = {}
    for op in block.ops:
        for value in activations(op):
            last[value] = op
        for result in op.results:
            last[result] = op
    found: dict[Operation, list[SSAValue]] = {}
    for value, op in last.items():
        found.setdefault(op, []).append(value)
    return found


def most_alive(block: Block, size: Callable[[SSAValue], int]) -> int:
    """The peak total size of live values: at each op, its results and all values that it or a later op uses."""
    last = last_readers(block)
    most = alive = sum(map(size, block.args))
    for op in block.ops:
        if isinstance(op, ConstantOp):
            continue
        alive += sum(map(size, op.results))
        most = max(most, alive)
        alive -= sum(size(value) for value in last.get(op, ()) if not is_constant(value))
    return most
