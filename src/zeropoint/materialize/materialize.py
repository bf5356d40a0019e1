"""Replaces regions by quantized StableHLO, with integer weights and biases.

```mlir
%1 = "quant.region"(%x, %w, %b) ({ convolution, add, maximum with 0 })
       {input_specs = [!quant.uniform<i8:f32, 0.5>, !quant.uniform<i8<-127:127>:f32:0, {0.1,0.2}>, ...]} : ...
```
becomes
```mlir
%0 = stablehlo.uniform_quantize %x : (tensor<1x3x8x8xf32>) -> tensor<1x3x8x8x!quant.uniform<i8:f32, 0.5>>
%1 = stablehlo.convolution(%0, %w) ... -> tensor<1x2x6x6x!quant.uniform<i32:f32:1, {0.05,0.1}>>
%2 = stablehlo.add %1, (broadcast of the i32 bias)
%3 = stablehlo.uniform_quantize %2 : (...) -> tensor<1x2x6x6x!quant.uniform<i8:f32, 0.02:-128>>
```
A region that propagation kept float is inlined unchanged. Each of its ops carries the reason.

Source: the RFC on quantization transformations, section "Export: materializing quantization" (code-gen targets).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from xdsl.builder import Builder
from xdsl.dialects.builtin import IntegerAttr, IntegerType, LocationAttr, StringAttr
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir.annotations import (
    COMPOSITE,
    DEMANDS,
    FLOAT_REASON,
    FUNCTION,
    KERNEL,
    KERNEL_NUMBER,
    PROFILE,
    Fact,
    carry,
    facts_by_type,
    facts_name,
    facts_of,
    own_profile,
    state_facts,
    unique_name,
)
from zeropoint.ir.constants import broadcast_array, constant_op, exact_array
from zeropoint.ir.contractions import has_computed_weights
from zeropoint.ir.dataflow_order import dataflow_order
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.inlining import inline_region
from zeropoint.ir.locations import location_of, location_text, value_name
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StorageCastOp, UniformQuantizedType, stored_array
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConstantOp, UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_of, with_element
from zeropoint.ir.weights import Weights
from zeropoint.materialize import (
    contraction,
    elementwise,
    interpolation,
    layer_norm,
    litert,
    movement,
    onnxruntime,
    openvino,
    positions,
    reduction,
    softmax,
    tosa,
    xnnpack,
)
from zeropoint.materialize.derived import derived
from zeropoint.materialize.edges import cast_constant, in_element, quantized_before, take_over_casts
from zeropoint.materialize.kernel import MaterializedKernel, UnroundedFloats
from zeropoint.materialize.stored_tables import store_table
from zeropoint.materialize.stored_weights import store_weights
from zeropoint.numerics.profile import DEFAULT_PROFILE, KernelBehaviour
from zeropoint.numerics.profile import profile as named_profile
from zeropoint.numerics.requantize import RequantizeBehaviour
from zeropoint.solve import check_body, drop_inside, is_quantized
from zeropoint.targets.logical_kernels import FUSED, WRITTEN

KERNELS: Mapping[str, Callable[[MaterializedKernel], SSAValue]] = {
    **contraction.KERNELS,
    **elementwise.KERNELS,
    **movement.KERNELS,
    **positions.KERNELS,
    **reduction.KERNELS,
}
"""By logical kernel. Other kernels, and those with several results, are emitted op by op (`_any_kernel`)."""

OWN_ARITHMETIC: Mapping[KernelBehaviour, Mapping[str, Callable[[MaterializedKernel], SSAValue]]] = {
    KernelBehaviour.REAL: {**KERNELS, **reduction.BY_SHIFTS},
    KernelBehaviour.INTEGER: {
        **KERNELS,
        **reduction.BY_SHIFTS,
        **elementwise.INTEGER_KERNELS,
        **interpolation.KERNELS,
        **layer_norm.KERNELS,
        **softmax.KERNELS,
    },
    KernelBehaviour.LITERT: {**KERNELS, **litert.KERNELS},
    KernelBehaviour.XNNPACK: {**KERNELS, **litert.KERNELS, **xnnpack.KERNELS},
    KernelBehaviour.ONNXRUNTIME: {**KERNELS, **onnxruntime.KERNELS},
    KernelBehaviour.OPENVINO: {**KERNELS, **openvino.KERNELS},
    KernelBehaviour.OPENVINO_AMX: {**KERNELS, **openvino.KERNELS},
    KernelBehaviour.TOSA: {**KERNELS, **tosa.KERNELS},
}
"""For each kernel behaviour of a profile, the kernels by name."""


def _any_kernel(kernel: MaterializedKernel) -> list[SSAValue]:
    """A kernel of several ports with derived intermediate types; else the float ops between casts (`encased`)."""
    found = derived(kernel) if len(kernel.arguments) > 1 or len(kernel.region.outputs) > 1 else None
    if isinstance(found, list):
        return found
    # The default reason names the target's runtime. A kernel of a user's own target has none, so it gets another
    # reason.
    own = kernel.region.logical_kernel.data not in FUSED | WRITTEN and elementwise.why_float(kernel) is not None
    stated = kernel.region.attributes.get(FLOAT_REASON)
    reason = stated.data if isinstance(stated, StringAttr) else found
    return elementwise.encased_results(kernel, reason if own else None)


def _covered(region: QuantizeRegionOp, number: int) -> list[Fact]:
    """Facts: the logical kernel of a region, with the names of the model's ops that it covers, and its unique name.

    If the region has several results, the unique name is that of the result, such as `split#1`.
    """
    names = dict.fromkeys(location_text(op.location) for op in dataflow_order(region.body.block))
    function = region.attributes.get(FUNCTION)
    kernel = region.logical_kernel.data + (f" ({function.data})" if isinstance(function, StringAttr) else "")
    whole = region.attributes.get(COMPOSITE)
    kernel += f" of {whole.data}" if isinstance(whole, StringAttr) else ""
    covered = Fact("kernel", kernel, "default", ", ".join(name for name in names if name))
    name = unique_name(region)
    if len(region.outputs) > 1:
        name = value_name(region.outputs[number]) if name is None else f"{name}#{number}"
    return [covered] if name is None else [covered, Fact("unique name", name, "default", "")]


@dataclass
class _Materialization:
    weights: Weights
    profile: str = DEFAULT_PROFILE
    quantized: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    quantizes: dict[tuple[SSAValue, UniformQuantizedType], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, UniformQuantizedType], SSAValue]
    )
    """The quantize ops on float values, by value and type. `quantized` has the results of regions."""
    explained: set[tuple[Operation, str]] = field(default_factory=set[tuple[Operation, str]])
    """Facts that were copied from a float op to the ops that quantize its results: (the float op, the attribute)."""
    unrounded: dict[SSAValue, UnroundedFloats] = field(default_factory=dict[SSAValue, UnroundedFloats])
    """The results of regions before rounding (`MaterializedKernel`)."""

    def operand(self, value: SSAValue, spec: UniformQuantizedType, builder: Builder) -> SSAValue:
        """The quantized form of a float value: a constant, an existing quantized value, or a new quantize op."""
        constant = cast_constant(value, spec)
        array = exact_array(constant, self.weights)
        if array is not None:
            return self._constant(stored_array(array, spec), spec, builder, location_of(constant))
        found = quantized_before(value, spec)
        if found is not None:
            return found
        if value in self.quantized:
            return self.quantized[value]
        if (value, spec) not in self.quantizes and (spread := self._spread(value, spec, builder)) is not None:
            self.quantizes[value, spec] = spread
        if (value, spec) not in self.quantizes:
            given = in_element(value, spec.expressed_type, builder, location_of(value))
            op = UniformQuantizeOp(given, with_element(value, spec))
            op.location = location_of(value)
            facts = facts_of(value.op, facts_name(value.index)) if isinstance(value, OpResult) else []
            if isinstance(value, OpResult) and facts and facts[0].name != "kernel":
                state_facts(op, facts_by_type(facts).get(str(spec), facts))
                self.explained.add((value.op, facts_name(value.index)))
            self.quantizes[value, spec] = builder.insert(op).result
        return self.quantizes[value, spec]

    def _spread(self, value: SSAValue, spec: UniformQuantizedType, builder: Builder) -> SSAValue | None:
        """The broadcast of a quantized constant; None for other values.

        A constant's integers do not depend on a broadcast: they are those that files have. A cast of the broadcast
        numbers divides in f32, which rounds numbers in the middle of two integers otherwise.
        """
        op = value.owner
        if not isinstance(op, BroadcastInDimOp) or not spec.is_per_layer:
            return None
        if broadcast_array(value, self.weights) is None:
            return None
        inner = self.operand(op.operand, spec, builder)
        made = BroadcastInDimOp(inner, with_element(value, spec), array_values(op.broadcast_dimensions))
        made.location = op.location
        return builder.insert(made).result

    def _constant(
        self, stored: Array, spec: UniformQuantizedType, builder: Builder, location: LocationAttr
    ) -> SSAValue:
        """A quantized constant.

        StableHLO has no constants with a scale per block, so these are integers with a `quant.scast`.
        """
        if not spec.is_sub_channel:
            made = constant_op(stored, self.weights, quantized=spec, location=location)
            return builder.insert(made).output
        made = constant_op(stored, self.weights, element_type=IntegerType(spec.storage.type.width), location=location)
        held = builder.insert(made).output
        return builder.insert(StorageCastOp(held, with_element(held, spec))).result

    def replace(self, region: QuantizeRegionOp) -> None:
        """Emit the quantized ops of a region before it."""
        drop_inside(region)
        check_body(region, self.weights)
        builder = Builder(InsertPoint.before(region))
        kernel = MaterializedKernel(
            region, builder, self.weights, unrounded=self.unrounded, program_profile=self.profile
        )
        for argument, value, spec in zip(kernel.arguments, region.inputs, region.input_specs, strict=True):
            quantized = isinstance(spec, UniformQuantizedType)
            kernel.values[argument] = self.operand(value, spec, builder) if quantized else value
        behaviour = named_profile(own_profile(region) or self.profile).kernels
        if behaviour is KernelBehaviour.LITERT and has_computed_weights(region):
            # LiteRT's reference kernel of fully connected layers.
            region.attributes[PROFILE] = StringAttr(RequantizeBehaviour.FLOAT64_AWAY.value)
        if behaviour is KernelBehaviour.XNNPACK and not xnnpack.is_delegated(region):
            region.attributes[PROFILE] = xnnpack.undelegated_profile(region)
            behaviour = named_profile(own_profile(region) or self.profile).kernels
        rule = OWN_ARITHMETIC[behaviour].get(region.logical_kernel.data) if len(region.outputs) == 1 else None
        results = _any_kernel(kernel) if rule is None else [rule(kernel)]
        for number, (output, result) in enumerate(zip(region.outputs, results, strict=True)):
            self.quantized[output] = result
            name = facts_name(number)
            is_new = result not in kernel.given
            if is_new and name in region.attributes and isinstance(result.owner, Operation):
                stated = *_covered(region, number), *facts_of(region, DEMANDS), *facts_of(region, name)
                state_facts(result.owner, stated)

    def release(self, region: QuantizeRegionOp) -> None:
        """Let float users of a region's results read the dequantized values, and erase the region."""
        for output in region.outputs:
            result = self.quantized[output]
            take_over_casts(output, result)
            if output.first_use is not None:
                output.replace_all_uses_with(self._released(result, region, element_of(output)))
        Rewriter.erase_op(region)

    def _released(self, result: SSAValue, region: QuantizeRegionOp, element: Attribute) -> SSAValue:
        """The value for float users of a result, which expect `element`. A quantized result is dequantized."""
        if not isinstance(element_of(result), UniformQuantizedType):
            return result
        builder = Builder(InsertPoint.before(region))
        made = UniformDequantizeOp(result)
        made.location = region.location
        return in_element(builder.insert(made).result, element, builder, region.location)


def _leave_in_float(region: QuantizeRegionOp, weights: Weights, numbers: Iterator[int]) -> None:
    """Inline a float region. Each of its ops carries the reason why it stays float. Its weights may be stored.

    A region that reads an inlined one of the same kernel gets the next of `numbers`, because connected ops of a kernel
    would otherwise count as one kernel.
    """
    before = (value.owner.attributes.get(KERNEL) for value in region.inputs if isinstance(value.owner, Operation))
    number = IntegerAttr(next(numbers), 64) if region.logical_kernel in before else None
    drop_inside(region)
    if store_table(region, weights):
        return
    if reason := store_weights(region, weights):
        given = region.attributes.get(FLOAT_REASON)
        stated = f"{given.data}: " if isinstance(given, StringAttr) else ""
        region.attributes[FLOAT_REASON] = StringAttr(stated + reason)
    for op in inline_region(region):
        if not isinstance(op, ConstantOp):
            carry(region, op, FLOAT_REASON)
            op.attributes[KERNEL] = region.logical_kernel
            if number is not None:
                op.attributes[KERNEL_NUMBER] = number


def materialize(program: Program) -> Program:
    """A copy with every region replaced by quantized StableHLO, or inlined if it is float."""
    program = program.for_change()
    run = _Materialization(program.weights, program.profile or DEFAULT_PROFILE)
    regions = regions_of(program)
    chosen = [region for region in regions if is_quantized(region)]
    for region in chosen:
        run.replace(region)
    for op, name in run.explained:
        op.attributes.pop(name, None)
    for region in reversed(chosen):
        run.release(region)
    numbers = count(1)
    for region in regions:
        if region.parent is not None:  # the others were replaced above
            _leave_in_float(region, program.weights, numbers)
    remove_dead_ops(program.entry)
    return program
