"""Decide the parameters of every port of every region by the target's table; rescale where two demands collide.

```mlir
%1 = "quant.stats"(%0) {layerStats = dense<[0.0, 6.0]> : tensor<2xf32>} ...
%2 = "quant.region"(%1) ({...}) {logical_kernel = "max_pool", input_specs = [f32], output_specs = [f32]} ...
```
becomes
```mlir
%2 = "quant.region"(%0) ({...}) {logical_kernel = "max_pool",
       input_specs = [!quant.uniform<i8:f32, 0.0235:-128>], output_specs = [!quant.uniform<i8:f32, 0.0235:-128>]} ...
```

Source: the RFC on quantization transformations, section "Propagation pass". Every port is set once, or rescaled once,
so the pass ends; it walks the regions in program order, so its result depends on the program text only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.annotations import FACTS, FLOAT_REASON, PROFILE, RESCALE, TARGET
from zeropoint.ir.constants import constant_array, is_constant
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.locations import value_name
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    QuantizeRegionOp,
    ReturnOp,
    StatisticsOp,
    StatisticsRefOp,
    Storage,
    UniformQuantizedType,
)
from zeropoint.ir.stablehlo import ConvolutionOp, DotGeneralOp
from zeropoint.ir.weights import Weights, inline_array
from zeropoint.solve.fuse.contraction import weight_channel_axis
from zeropoint.solve.propagate.classes import PropagationError, ScaleClasses, collision
from zeropoint.solve.propagate.headroom import Ports, greatest_result, least_output_scale
from zeropoint.solve.propagate.weights import bias_type, constant_type, weight_type
from zeropoint.targets import FixedScale, KernelRow, Role, SameScale, Target

RESCALE_KERNEL = "rescale"
"""The logical kernel of a region that only changes parameters."""


def _take_statistics(program: Program) -> dict[SSAValue, tuple[float, float]]:
    """The observed range of each value; the statistics ops themselves go."""
    ranges: dict[SSAValue, tuple[float, float]] = {}
    for op in program.entry.ops:
        if isinstance(op, StatisticsOp):
            low, high = inline_array(op.layer_stats).tolist()
            ranges[op.arg] = (low, high)
        if isinstance(op, StatisticsOp | StatisticsRefOp):
            op.res.replace_all_uses_with(op.arg)
            op.detach()
            op.erase()
    return ranges


def _contraction_in(region: QuantizeRegionOp) -> ConvolutionOp | DotGeneralOp:
    return next(op for op in region.body.block.ops if isinstance(op, ConvolutionOp | DotGeneralOp))


@dataclass
class _Propagation:
    """One run over one program."""

    target: Target
    weights: Weights
    classes: ScaleClasses
    rescales: dict[tuple[SSAValue, UniformQuantizedType], SSAValue]

    def tie(self, region: QuantizeRegionOp, row: KernelRow) -> dict[int, str]:
        """Record the demands of a kernel on its activations; the inputs that must be rescaled, and why."""
        output = region.outputs[0]
        shared = self.classes.of(output)
        if isinstance(row.relation, FixedScale):
            shared.fixed = UniformQuantizedType.per_layer(
                row.output.storage, row.relation.scale, row.relation.zero_point
            )
            shared.facts = [f"fixed by kernel {row.kernel}"]
        collisions: dict[int, str] = {}
        for index, value in self._activations(region, row):
            reason = None
            if isinstance(row.relation, SameScale):
                reason = collision(self.classes.of(value), shared, exclusive=value.has_one_use())
                if reason is None:
                    self.classes.join(output, value)
            elif row.input_rule(index).zero_point == 0:
                reason = self.classes.of(value).centre(row.kernel)
            if reason is not None:
                collisions[index] = reason
        return collisions

    def _activations(self, region: QuantizeRegionOp, row: KernelRow) -> Iterable[tuple[int, SSAValue]]:
        for index, value in enumerate(region.inputs):
            if row.input_rule(index).role in (Role.ACTIVATION, Role.CONSTANT) and not is_constant(value):
                yield index, value

    def leave_room(self, region: QuantizeRegionOp) -> None:
        """Raise the output scale of a kernel to what its requantization can do with."""
        arrays = tuple(constant_array(value, self.weights) for value in region.inputs)
        for array in arrays:
            if array is not None and not np.isfinite(array).all():
                raise PropagationError(
                    f"{region.logical_kernel.data} '{value_name(region.outputs[0])}': found NaN or infinities in a "
                    f"constant of shape {array.shape}, expected finite numbers; repair the model's weights"
                )
        greatest = tuple(
            self._greatest(value) if array is None else float(np.abs(array).max(initial=0.0))
            for value, array in zip(region.inputs, arrays, strict=True)
        )
        kernel = Ports(region, greatest, arrays, self.weights)
        self.classes.of(region.outputs[0]).at_least(
            least_output_scale(kernel), f"kernel {region.logical_kernel.data} may reach {greatest_result(kernel):g}"
        )

    def _greatest(self, value: SSAValue) -> float:
        chosen = self.classes.of(value).parameters()
        return chosen.scale * max(
            chosen.storage.maximum - chosen.zero_point, chosen.zero_point - chosen.storage.minimum
        )

    def settle(self, region: QuantizeRegionOp, row: KernelRow, collisions: dict[int, str]) -> None:
        """Write the specs of a region, and rescale the inputs that collided."""
        output = region.outputs[0]
        output_type = self.classes.of(output).parameters()
        specs: list[UniformQuantizedType] = []
        for index, value in enumerate(region.inputs):
            if index in collisions:
                same_scale = isinstance(row.relation, SameScale)
                wanted = output_type if same_scale else self.classes.of(value).centred_parameters()
                self._rescale(region, index, wanted, collisions[index])
                specs.append(wanted)
            else:
                specs.append(self._input_type(region, row, index, value, specs, output_type))
        region.input_specs = ArrayAttr[Attribute](specs)
        region.output_specs = ArrayAttr[Attribute]([output_type])
        region.attributes[FACTS] = ArrayAttr([StringAttr(fact) for fact in self.classes.of(output).facts])

    def _input_type(
        self,
        region: QuantizeRegionOp,
        row: KernelRow,
        index: int,
        value: SSAValue,
        before: list[UniformQuantizedType],
        output_type: UniformQuantizedType,
    ) -> UniformQuantizedType:
        rule = row.input_rule(index)
        array = constant_array(value, self.weights)
        if array is None:
            return self.classes.of(value).parameters()
        if rule.role is Role.WEIGHT:
            axis = weight_channel_axis(_contraction_in(region))
            assert axis is not None and row.accumulator_bits is not None
            bias = constant_array(region.inputs[2], self.weights) if len(region.inputs) > 2 else None
            limit = (1 << (row.accumulator_bits - 2)) - 1
            return weight_type(array, axis, rule.storage, before[0], bias, limit)
        if rule.role is Role.BIAS:
            return bias_type(rule.storage, before[0], before[1])
        return output_type if isinstance(row.relation, SameScale) else constant_type(array, rule)

    def _rescale(self, region: QuantizeRegionOp, index: int, wanted: UniformQuantizedType, reason: str) -> None:
        value = region.inputs[index]
        if self.classes.of(value).parameters() == wanted:  # a later demand brought the two together
            return
        if (value, wanted) not in self.rescales:
            rescale = _rescale_region(value, self.classes.of(value).parameters(), wanted, reason)
            assert region.parent is not None
            region.parent.insert_op_before(rescale, region)
            self.rescales[value, wanted] = rescale.outputs[0]
        region.operands[index] = self.rescales[value, wanted]


def _rescale_region(
    value: SSAValue, given: UniformQuantizedType, wanted: UniformQuantizedType, reason: str
) -> QuantizeRegionOp:
    block = Block(arg_types=[value.type])
    block.add_op(ReturnOp([block.args[0]]))
    region = QuantizeRegionOp([value], [value.type], RESCALE_KERNEL, [given], [wanted], Region(block))
    if not isinstance(value.owner, Block):
        region.location = value.owner.location
    region.attributes[RESCALE] = StringAttr(f"'{value_name(value)}': {reason}")
    return region


def propagate(program: Program, target: Target, profile: str | None = None) -> Program:
    """Specs for every region that `target` has a kernel for; the others say why they stay float.

    Raises MissingStatistics where parameters have to be decided for a value that nobody observed, PropagationError for
    values that no parameters can hold.
    """
    program = program.clone()
    run = _Propagation(
        target, program.weights, ScaleClasses(_activation_storage(target), _take_statistics(program)), {}
    )
    rows: list[tuple[QuantizeRegionOp, KernelRow, dict[int, str]]] = []
    for op in program.entry.ops:
        if not isinstance(op, QuantizeRegionOp) or FLOAT_REASON in op.attributes:  # a recipe keeps it float
            continue
        kernel = op.logical_kernel.data
        row = target.row(kernel)
        if row is None:
            op.attributes[FLOAT_REASON] = StringAttr(f"target {target.name} has no kernel '{kernel}'")
            continue
        rows.append((op, row, run.tie(op, row)))
    for region, _, _ in rows:
        run.leave_room(region)
    for region, row, collisions in rows:
        try:
            run.settle(region, row, collisions)
        except (ValueError, VerifyException) as error:
            if isinstance(error, PropagationError):
                raise
            raise PropagationError(f"{row.kernel} '{value_name(region.outputs[0])}': {error}") from error
    remove_dead_ops(program.entry)
    program.module.attributes[TARGET] = StringAttr(target.name)
    program.module.attributes[PROFILE] = StringAttr(profile or target.profile)
    return program


def _activation_storage(target: Target) -> Storage:
    return next(row.output.storage for row in target.rows)


def is_quantized(region: QuantizeRegionOp) -> bool:
    """Whether propagation gave the region's output a quantized type."""
    return isinstance(region.output_specs.data[0], UniformQuantizedType)
