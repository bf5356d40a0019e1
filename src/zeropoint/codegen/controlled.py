"""Loops and branches: their regions become programs, which group, layout and schedule process like any other program.

Outer values that a region reads become operands of the native op. Constants are copied, because kernels pack them.

```mlir
%r:2 = stablehlo.while(%i = %zero, %h = %x) : ... cond { ... } do { ... %w, %y ... }
```
becomes, in `group`,
```mlir
%r:2 = "native.while"(%zero, %x, %y) <{channels = ...}> ({
^bb0(%i: tensor<i64>, %h: tensor<8xf32>, %y: ...):            // a grouped program
  "native.yield"(%again) : (tensor<i1>) -> ()
}, {
^bb0(%i: tensor<i64>, %h: tensor<8xf32>, %y: ...):
  "native.yield"(%next, %new) ...
})
```
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, Region, SSAValue

from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.values import CHANNEL, ISA, channel_dimension, note_channel_dimension
from zeropoint.ir import native
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.captured import captured, isolated_region
from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.dequantized import dequantized_constant
from zeropoint.ir.locations import describe
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import shape_of

CONTROLLED: Mapping[type[Operation], type[native.ControlOp]] = {
    hlo.CaseOp: native.NativeCaseOp,
    hlo.IfOp: native.NativeCaseOp,
    hlo.WhileOp: native.NativeWhileOp,
}
"""The native op of each loop and branch."""


def grouped(
    op: Operation, program: Program, group: Callable[[Program], Program], made: Callable[[SSAValue], SSAValue]
) -> native.ControlOp:
    """The native op of a loop or branch. `group` groups the program of a region, and `made` maps old to new values.

    Raises CodegenError for a value that is not a tensor of static shape, and the errors of `group`.
    """
    _check(op)
    outside = [value for value in captured(op.regions) if not _is_constant(program, value)]
    attributes = {name: value for name, value in program.module.attributes.items() if name not in (ISA, CHANNEL)}
    regions: list[Region] = []
    channels: list[int | None] = []
    for region in op.regions:
        function = isolated_region(region, outside)
        inner = group(Program(ModuleOp([function], dict(attributes)), program.weights))
        program.weights.take(inner.weights)
        channels.append(channel_dimension(inner))
        regions.append(_detached(inner))
    inputs = [made(value) for value in (*op.operands, *outside)]
    return CONTROLLED[type(op)](inputs, (), op.result_types, regions, channels)


def _check(op: Operation) -> None:
    inner = (argument for region in op.regions for argument in region.block.args)
    for value in (*op.operands, *op.results, *inner):
        found: Attribute = value.type
        if not isinstance(found, TensorType) or DYNAMIC_INDEX in shape_of(value):
            raise CodegenError(f"{describe(op)}: found {found}, expected tensors of static shapes", op)


def _is_constant(program: Program, value: SSAValue) -> bool:
    """Whether kernels treat a value as a constant."""
    if isinstance(value.owner, hlo.IotaOp):
        return True
    known = constant_array(value, program.weights) is not None or splat_value(value, program.weights) is not None
    return known or dequantized_constant(program, value) is not None


def _detached(program: Program) -> Region:
    """The entry of a program, detached as the region of a native op."""
    region = program.main.detach_region(program.main.body)
    _end(region, native.YieldOp)
    return region


def _end(region: Region, terminator: Callable[..., Operation]) -> None:
    """Replace the terminator of a region."""
    old = region.block.last_op
    assert old is not None
    values = list(old.operands)
    made = terminator(values) if terminator is native.YieldOp else terminator(*values)
    made.location = old.location
    region.block.insert_op_before(made, old)
    region.block.erase_op(old)


@contextmanager
def inside(program: Program, op: native.ControlOp, number: int) -> Generator[Program]:
    """Region `number` of a loop or branch as a program, which may be changed in place."""
    channel = array_values(op.channels)[number]
    _end(op.programs[number], ReturnOp)
    block = op.programs[number].detach_block(0)
    last = block.last_op
    assert last is not None
    types = [argument.type for argument in block.args], [value.type for value in last.operands]
    attributes = {name: value for name, value in program.module.attributes.items() if name != CHANNEL}
    function = FuncOp("main", types, Region(block))
    inner = Program(ModuleOp([function], attributes), program.weights)
    note_channel_dimension(inner, None if channel < 0 else channel)
    try:
        yield inner
    finally:
        op.programs[number].add_block(function.body.detach_block(0))
        _end(op.programs[number], native.YieldOp)
