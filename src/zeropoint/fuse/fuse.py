"""Wraps the float ops that one logical kernel covers into `quant.region`s.

```mlir
%0 = stablehlo.convolution(%x, %w) ... : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
%1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<4xf32>) -> tensor<1x4x6x6xf32>
%2 = stablehlo.add %0, %1 : tensor<1x4x6x6xf32>
```
becomes
```mlir
%2 = "quant.region"(%x, %w, %b) ({
^bb0(%x: ..., %w: ..., %b: ...):
  the three ops, then "quant.return"
}) {logical_kernel = "convolution", input_specs = [f32, f32, f32], output_specs = [f32]} : ...
```

Source: the RFC on quantization transformations, section "Kernel fusion pass: from ops to kernels".
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.fuse.composites import composite_match, expand_composites
from zeropoint.fuse.elementwise import GENERIC
from zeropoint.fuse.lists import ROUNDS
from zeropoint.fuse.match import FloatGraph, RegionMatch, RegionPattern
from zeropoint.fuse.split_clamps import split_clamps
from zeropoint.fuse.split_hard_swishes import split_hard_swishes
from zeropoint.fuse.statements import Statements, lift_statements, put_inside, restore_statements
from zeropoint.fuse.whole_numbers import keep_whole_numbers
from zeropoint.ir.annotations import FLOAT_REASON, FUNCTION
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConstantOp
from zeropoint.ir.tensors import element_of
from zeropoint.targets import Target
from zeropoint.targets import target as named_target
from zeropoint.targets.bodies import misfit


def _clone_constant(value: SSAValue, block: Block, mapping: dict[SSAValue, SSAValue]) -> None:
    """Copy a constant, or the broadcast of one, into the region."""
    if value in mapping:
        return
    assert isinstance(value, OpResult) and isinstance(value.op, ConstantOp | BroadcastInDimOp)
    for operand in value.op.operands:
        _clone_constant(operand, block, mapping)
    block.add_op(value.op.clone(mapping))


def _ports(match: RegionMatch, block: Block) -> dict[SSAValue, list[SSAValue]]:
    """Maps each input to its block arguments. In `dot_general(x, x)`, x has two ports, which may differ in type.

    Uses take the ports in order. Further uses read the last one.
    """
    ports: dict[SSAValue, list[SSAValue]] = {}
    for value, argument in zip(match.inputs, block.args, strict=True):
        ports.setdefault(value, []).append(argument)
    return ports


def _body(match: RegionMatch, stated: Statements) -> Block:
    """The body of a region: copies of the matched ops, of the constants that they read, and of inner annotations."""
    block = Block(arg_types=[value.type for value in match.inputs])
    ports = _ports(match, block)
    mapping: dict[SSAValue, SSAValue] = {value: arguments[-1] for value, arguments in ports.items()}
    for op in match.ops:
        for operand in op.operands:
            if operand not in mapping:
                _clone_constant(operand, block, mapping)
        copy = op.clone(mapping)
        for index, operand in enumerate(op.operands):
            if len(ports.get(operand, ())) > 1:
                # Use n takes port n. `clone` mapped all uses to the last port.
                copy.operands[index] = ports[operand].pop(0)
        block.add_op(copy)
    for result in (result for op in match.ops for result in op.results):
        if result not in match.outputs:
            put_inside(stated, result, mapping[result], block)
    block.add_op(ReturnOp([mapping[result] for result in match.outputs]))
    return block


def _region(match: RegionMatch, stated: Statements) -> QuantizeRegionOp:
    return QuantizeRegionOp(
        match.inputs,
        [result.type for result in match.outputs],
        match.kernel,
        [element_of(value) for value in match.inputs],
        [element_of(value) for value in match.outputs],
        Region(_body(match, stated)),
    )


def _computes_its_kernel(match: RegionMatch, graph: FloatGraph) -> bool:
    """Whether the ops of a composite compute the function of the kernel that its name gives."""
    region = _region(match, {})
    reason = misfit(region, graph.weights)
    region.drop_all_references()
    return reason is None


def wrap(match: RegionMatch, stated: Statements) -> QuantizeRegionOp:
    """Replace the ops of a match by a region, inserted at the last of them."""
    root = match.ops[-1]
    region = _region(match, stated)
    # A contraction's region has the contraction's name, not its clamp's. A function's region has the name of the last
    # op.
    region.location = match.ops[0].location if match.function is None else root.location
    if match.function not in (None, GENERIC, match.kernel):
        region.attributes[FUNCTION] = StringAttr(match.function)
    assert root.parent is not None
    root.parent.insert_op_before(region, root)
    for old, new in zip(match.outputs, region.outputs, strict=True):
        old.replace_all_uses_with(new)
        if old in stated:
            stated[new] = stated.pop(old)
    # Erase users before producers, because an op with uses cannot be erased.
    for op in reversed(match.ops):
        Rewriter.erase_op(op)
    return region


def _apply(patterns: Sequence[RegionPattern], ops: Sequence[Operation], graph: FloatGraph) -> None:
    for op in ops:
        if op in graph.covered:
            continue
        for pattern in patterns:
            match = pattern(op, graph)
            if match is not None:
                _take(match, graph)
                break


def _take(match: RegionMatch, graph: FloatGraph) -> None:
    graph.covered.update(match.ops)
    region = wrap(match, graph.stated)
    graph.covered.add(region)
    # Later matches may cover ops around the region and sort them by position.
    graph.positions[region] = graph.positions[match.ops[-1]]


def fuse(program: Program, target: Target | None = None) -> Program:
    """A copy in which ops that a kernel covers are wrapped into regions, for a target (default `cpu`).

    Ops that stay outside have no kernel on any target, or a `zeropoint.float_reason`.
    """
    target = target or named_target("cpu")
    program = program.for_change()
    # Composites first, because their decompositions would otherwise be matched op by op.
    composites = expand_composites(program, target.composites)
    # Before matching, so that a bound that a kernel cannot absorb is an op of its own.
    split_clamps(program, target.by_kernel)
    stated = lift_statements(program)
    split_hard_swishes(program, target.by_kernel)
    keep_whole_numbers(program)
    ops = list(program.entry.ops)
    graph = FloatGraph(
        program.weights, {op: index for index, op in enumerate(ops)}, target.by_kernel, target.bounds, stated
    )
    graph.covered.update(op for op in ops if FLOAT_REASON in op.attributes)
    # From the end, because a region replaces results that later composites may read.
    for composite in reversed(composites):
        match = composite_match(composite, graph)
        # If the ops compute another function than the name says, or a form that no kernel has, patterns match them
        # below.
        if match is not None and (composite.own or _computes_its_kernel(match, graph)):
            _take(match, graph)
    # Functions are matched from the end, contractions from the start (`lists.py`).
    for direction, patterns in ROUNDS:
        _apply(patterns, ops[::direction], graph)
    remove_dead_ops(program.entry)
    restore_statements(program, {value: ops for value, ops in stated.items() if _is_there(value, program)})
    return program


def _is_there(value: SSAValue, program: Program) -> bool:
    """Whether a value is still defined in the entry function and has uses."""
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    return block is program.entry and value.first_use is not None
