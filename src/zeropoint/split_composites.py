"""Split a user's composite into kernels of the target if its inner types do not follow from its ports, or too coarsely.

```mlir
%2 = "quant.region"(%0, %1) ({ dot_general of %0 and %1; quant.stats; tanh })
       {logical_kernel = "gate", input_specs = [A, B], output_specs = [C]}
```
becomes
```mlir
%g = "quant.region"(%0, %1) ({ dot_general })
       {logical_kernel = "batch_matmul", input_specs = [A, B], output_specs = [D]}
%2 = "quant.region"(%g) ({ tanh }) {logical_kernel = "tanh", input_specs = [D], output_specs = [C]}
```
The body becomes a separate program, whose inputs and outputs are pinned to the types of the ports. It is fused and
propagated for the same target, with the ranges that calibration observed inside. An op without a kernel stays float
alone, with the reason. A composite whose inner types follow from its ports stays whole (`composed.py`).

Source: the RFC on quantization transformations, "Export": regions that are coarser than the target's ops.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.fuse import fuse
from zeropoint.ir.annotations import COMPOSITE, FLOAT_REASON, KERNEL, PROFILE, carry, facts_name, facts_of, state_facts
from zeropoint.ir.constants import is_constant
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.locations import location_of, location_text, name_location
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.ir.tensors import with_element
from zeropoint.ir.weights import Weights
from zeropoint.simplify import simplify
from zeropoint.solve import (
    DEFAULT_RANGES,
    MissingStatistics,
    drop_inside,
    is_coarse_inside,
    is_composed,
    is_quantized,
    move_rescales,
    propagate,
    why_not_derived,
)
from zeropoint.targets import Target

BIAS_WIDTH = 32
"""Constants of this many bits are biases, which have the scale of the products inside."""


def split_composites(
    program: Program, target: Target, profile: str | None = None, *, ranges: str = DEFAULT_RANGES
) -> Program:
    """A propagated program in which composites of contractions, quotients or reductions are split.

    A composite stays whole if none of its ops has a kernel, or if calibration did not observe the values inside.
    `materialize` then computes it in float. `profile` and `ranges` are those of `propagate`. Raises PropagationError.
    """
    if not _composed(program):
        return program
    program = program.for_change()
    for region in _composed(program):
        if why_not_derived(region, program.weights) is not None or is_coarse_inside(region, program.weights):
            inner = _decided(region, program.weights, target, profile, ranges)
            if inner is not None:
                program = Program(program.module, inner.weights)
                _Splice(region, inner, target.name).replace()
                continue
        drop_inside(region)
    remove_dead_ops(program.entry)
    return program


def _composed(program: Program) -> list[QuantizeRegionOp]:
    """The quantized composites of several ops."""
    regions = filter(is_quantized, regions_of(program))
    return [region for region in regions if is_composed(region, program.weights)]


def _decided(
    region: QuantizeRegionOp, weights: Weights, target: Target, profile: str | None, ranges: str
) -> Program | None:
    """The body with a type for every port. None if it has to stay whole; the region then carries the reason."""
    inner = fuse(simplify(_body_program(region, weights)), target)
    try:
        decided = move_rescales(propagate(inner, target, profile, ranges=ranges, integer_io=True), target)
    except MissingStatistics as error:
        region.attributes[FLOAT_REASON] = StringAttr(f"kernel '{region.logical_kernel.data}': {error}")
        return None
    computed = regions_of(decided)
    return decided if any(map(is_quantized, computed)) else None


def _body_program(region: QuantizeRegionOp, weights: Weights) -> Program:
    """The body as `@main`, with casts that pin its arguments and results to the types of the region's ports."""
    data = [index for index, value in enumerate(region.inputs) if not is_constant(value)]
    block = Block(arg_types=[region.inputs[index].type for index in data])
    values: dict[SSAValue, SSAValue] = {}
    given = dict(zip(data, block.args, strict=True))
    for index, (value, spec) in enumerate(zip(region.inputs, region.input_specs, strict=True)):
        inside = given[index] if index in given else _copied(value, block)
        if index in given:
            given[index].location, given[index].name_hint = location_of(value), value.name_hint
        values[region.body.block.args[index]] = _pinned(inside, spec, block)
    *body, returned = region.body.block.ops
    for op in body:
        block.add_op(op.clone(values))
    results = [
        _pinned(values[value], spec, block) for value, spec in zip(returned.operands, region.output_specs, strict=True)
    ]
    block.add_op(FuncReturnOp(*results))
    kinds = [value.type for value in block.args], [value.type for value in results]
    main = FuncOp("main", kinds, Region(block))
    return Program(ModuleOp([main]), weights.copy())


def _copied(value: SSAValue, block: Block) -> SSAValue:
    """Copy a constant operand, and the ops that compute it from constants, into a block."""
    assert isinstance(value, OpResult)
    block.add_op(value.op.clone({operand: _copied(operand, block) for operand in value.op.operands}))
    assert block.last_op is not None
    return block.last_op.results[value.index]


def _pinned(value: SSAValue, spec: Attribute, block: Block) -> SSAValue:
    """The value through a pair of casts to a decided type; the value itself for a port without a type and for a
    bias."""
    if not isinstance(spec, UniformQuantizedType) or spec.storage.type.width >= BIAS_WIDTH:
        return value
    quantize = QuantizeCastOp(value, with_element(value, spec))
    dequantize = DequantizeCastOp(quantize.result, value.type)
    block.add_ops([quantize, dequantize])
    return dequantize.result


@dataclass(frozen=True)
class _Splice:
    """Replaces a region by the decided ops of its body."""

    region: QuantizeRegionOp
    inner: Program
    target: str

    def replace(self) -> None:
        region, block = self.region, self.inner.entry
        data = [value for value in region.inputs if not is_constant(value)]
        values: dict[SSAValue, SSAValue] = dict(zip(block.args, data, strict=True))
        *body, returned = block.ops
        assert region.parent is not None
        for op in body:
            region.parent.insert_op_before(op.clone(values), region)
        results = [values[value] for value in returned.operands]
        made = [values[result].owner for op in body for result in op.results]
        self._explain([op for op in dict.fromkeys(made) if isinstance(op, Operation)], results)
        Rewriter.replace_op(region, [], results)

    def _explain(self, made: list[Operation], results: list[SSAValue]) -> None:
        """Name the ops, and give the results the facts of the composite's ports. Float ops get their reason."""
        for number, result in enumerate(results):
            if isinstance(result, OpResult) and isinstance(result.op, QuantizeRegionOp):
                own = [fact for fact in facts_of(result.op, facts_name(result.index)) if fact.salience != "user"]
                stated = facts_of(self.region, facts_name(number))
                facts = [*(fact for fact in own if fact not in stated), *stated]
                state_facts(result.op, facts, facts_name(result.index))
        whole = location_text(self.region.location)
        taken: Counter[str] = Counter()
        for op in made:
            if whole is not None and not any(result in results for result in op.results):
                kind = op.logical_kernel.data if isinstance(op, QuantizeRegionOp) else op.name.partition(".")[2]
                name = f"{whole}.{kind}"
                op.location = name_location(f"{name}_{taken[name]}" if taken[name] else name)
                taken[name] += 1
            self._note(op)

    def _note(self, op: Operation) -> None:
        if isinstance(op, QuantizeRegionOp):
            op.attributes[COMPOSITE] = self.region.logical_kernel
            if PROFILE not in op.attributes:
                carry(self.region, op, PROFILE)
        elif not is_constant(op.results[0]) and not isinstance(op, QuantizeCastOp | DequantizeCastOp):
            op.attributes[FLOAT_REASON] = StringAttr(f"target {self.target} has no kernel for {op.name}")
            op.attributes[KERNEL] = self.region.logical_kernel
