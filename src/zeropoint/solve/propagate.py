"""Decide the parameters of every port from the target's table, and insert rescales between conflicting ports.

```mlir
%1 = "quant.stats"(%0) {layerStats = dense<[0.0, 6.0]> : tensor<2xf32>} ...
%2 = "quant.region"(%1) ({...}) {logical_kernel = "max_pool", input_specs = [f32], output_specs = [f32]} ...
```
becomes
```mlir
%2 = "quant.region"(%0) ({...}) {logical_kernel = "max_pool",
       input_specs = [!quant.uniform<i8:f32, 0.0235:-128>], output_specs = [!quant.uniform<i8:f32, 0.0235:-128>]} ...
```
The pass first collects the model constraints (`constraints`), duplicates shared constants (`constants`) and chooses
rows (`kernels`). Then it ties ports (`ports`), separates them where demands conflict (`separate`), keeps joins of
uneven ranges float (`joins`), decides the parameters (`specs`), and writes the specs (here).

Source: the RFC on quantization transformations, section "Propagation pass". Each port is set once and rescaled at most
once, so the pass terminates. Ties are broken by the canonical order (`order.py`), so that swapping independent ops
changes no type.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.annotations import (
    ACTIVATION_SCALES,
    FROM_STATED,
    PINNED,
    PROFILE,
    ROW_PROFILE,
    STATED,
    TARGET,
    Fact,
    facts_name,
    state_facts,
)
from zeropoint.ir.constants import constant_array, is_constant
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.locations import describe
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StorageCastOp, UniformQuantizedType
from zeropoint.ir.quant.containers import is_typed
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.tensors import element_of
from zeropoint.ir.weights import Weights
from zeropoint.solve.classes import DEFAULT_RANGES, RANGE_RULES, ScaleClass, cuts_off
from zeropoint.solve.constants import duplicate_constants
from zeropoint.solve.constraints import Constraints, take_constraints
from zeropoint.solve.errors import PropagationError
from zeropoint.solve.functions import checked_constant
from zeropoint.solve.inputs import state_float_facts, state_input_facts
from zeropoint.solve.keep_float import state_fixed_ranges
from zeropoint.solve.kernel import ChosenKernel
from zeropoint.solve.masks.hidden_results import keep_hidden_results
from zeropoint.solve.operands import operand_type, real_bias_facts, weight_facts
from zeropoint.solve.parts.joins import settle_kernels
from zeropoint.solve.quantized_files.casts_beside_floats import drop_rescales_of_floats
from zeropoint.solve.quantized_files.changes_of_type import rescale_between_casts
from zeropoint.solve.quantized_files.model_rounding import round_as_the_model
from zeropoint.solve.quantized_files.quantized_twice import drop_copies
from zeropoint.solve.rescale import is_rescale, rescale_region
from zeropoint.solve.specs import Specs
from zeropoint.solve.termination import PortNumber, Termination
from zeropoint.solve.value_ranges.aligned_sums import align_sums
from zeropoint.solve.value_ranges.bounded_means import widen_bounded_means
from zeropoint.solve.value_ranges.constant_operands import bound_constant_operands
from zeropoint.solve.value_ranges.headroom import (
    HeadroomPorts,
    greatest_real,
    greatest_result,
    least_output_scale,
    summed_terms,
)
from zeropoint.solve.value_ranges.moved_ranges import limit_moved_ranges
from zeropoint.solve.value_ranges.read_ranges import narrow_ranges
from zeropoint.solve.widths.unrounded import PRODUCTS
from zeropoint.targets import OUTPUT, Target


@dataclass
class _Settlement:
    """Writes the specs of the regions one by one, in program order.

    `versions` maps each value to its forms by type: the value itself and its rescaled copies.
    """

    program: Program
    constraints: Constraints
    specs: Specs
    reasons: Mapping[PortNumber, tuple[str, str]]
    termination: Termination
    versions: dict[SSAValue, dict[UniformQuantizedType, SSAValue]] = field(
        default_factory=dict[SSAValue, dict[UniformQuantizedType, SSAValue]]
    )

    @cached_property
    def _ranked(self) -> dict[Operation, tuple[int, ChosenKernel]]:
        """The kernels by region, with their positions in the canonical order."""
        return {kernel.region: (rank, kernel) for rank, kernel in enumerate(self.specs.graph.kernels)}

    @property
    def weights(self) -> Weights:
        """The arrays of the program."""
        return self.program.weights

    def leave_room(self, kernel: ChosenKernel) -> None:
        """Raise the output scale of a kernel to the least one that its requantization supports (`headroom.py`).

        Raises PropagationError for a constant with NaN or infinities.
        """
        region = kernel.region
        arrays = tuple(constant_array(value, self.weights) for value in region.inputs)
        for array in arrays:
            if array is not None and not np.isfinite(array).all():
                raise PropagationError(
                    f"{kernel.name}: found NaN or infinities in a constant of shape {array.shape}, expected finite "
                    f"numbers, or -inf in a mask of scores that only a softmax reads; write a finite number, or keep "
                    f"the op float by a recipe (quantize: false)",
                    region,
                )
        greatest = tuple(
            greatest_real(self._port_type(kernel, index, value), array)
            for index, (value, array) in enumerate(zip(region.inputs, arrays, strict=True))
        )
        reached = greatest_result(HeadroomPorts(region, greatest, arrays, self.weights))
        for port, _ in kernel.results():
            self.specs.port_class((region, port)).at_least(
                least_output_scale(reached), f"kernel {kernel.name} may reach {reached:g}"
            )
            if (steps := kernel.row.steps_per_term) is not None:
                terms = summed_terms(region)
                why = f"kernel {kernel.name} sums {terms} terms and overflows beyond {steps} steps a term"
                self.specs.port_class((region, port)).at_least(1 / (steps * terms), why)

    def _port_type(self, kernel: ChosenKernel, index: int, value: SSAValue) -> UniformQuantizedType | None:
        return self.specs.port_type((kernel.region, index)) if kernel.is_data(index, value) else None

    def settle(self, kernel: ChosenKernel) -> None:
        """Write the specs of a region, and insert the rescales that its operands and results need."""
        region = kernel.region
        outputs = {port: self.specs.port_type((region, port)) for port, _ in kernel.results()}
        found = self._settle_inputs(kernel, outputs.get(kernel.row.tied_output or OUTPUT))
        region.input_specs = ArrayAttr[Attribute](found)
        specs = list(region.output_specs)
        for port, output in outputs.items():
            self.termination.set((region, port), output)
            specs[~port] = output
        region.output_specs = ArrayAttr[Attribute](specs)
        if outputs and not is_rescale(region):
            self._state(kernel, found, outputs)
        for port, value in kernel.results():
            self.versions[value] = {outputs[port]: value}
            self._rescale_output(kernel, port, value, outputs[port])

    def _settle_inputs(self, kernel: ChosenKernel, output: UniformQuantizedType | None) -> list[Attribute]:
        """The types of the operands. `output` is the type of the result that shares its type with operands."""
        region, found = kernel.region, list[Attribute]()
        for index, operand in enumerate(list(region.inputs)):
            if kernel.is_data(index, operand):
                wanted = self.specs.port_type((region, index))
                region.operands[index] = self._as(operand, wanted, kernel, index)
                self.termination.set((region, index), wanted)
                found.append(wanted)
            elif (region, index) in self.specs.constants:
                made, source = self.specs.constants[region, index]
                found.append(checked_constant(kernel, index, made, found, self.weights, source))
            else:
                pinned = self._pinned(operand)
                stated = self.constraints.get(operand)
                channels = None if stated is None else stated.channels
                found.append(operand_type(kernel, index, found, output, self.weights, pinned, channels))
        return found

    def _state(self, kernel: ChosenKernel, found: list[Attribute], outputs: Mapping[int, UniformQuantizedType]) -> None:
        """Record the facts of a region's weight and of its results."""
        region = kernel.region
        weight = weight_facts(kernel, found, self._pinned(region.inputs[1]) if len(found) > 1 else None)
        bias = real_bias_facts(kernel, found)
        for port, output in outputs.items():
            state_facts(region, [*weight, *self._facts(kernel, port, output), *bias], facts_name(~port))

    def _pinned(self, constant: SSAValue) -> UniformQuantizedType | None:
        """The type that the model pins a constant to. It is also set as an attribute, because `move_rescales` reads it
        later."""
        known = self.constraints.get(constant)
        if known is None or known.pinned is None:
            return None
        if isinstance(constant.owner, ConstantOp):
            constant.owner.attributes[PINNED] = known.pinned
        return known.pinned

    def _facts(self, kernel: ChosenKernel, result: int, output: UniformQuantizedType) -> list[Fact]:
        port = (kernel.region, result)
        if port in self.specs.apart:
            return [Fact("parameters", str(output), "kernel", self.specs.apart[port][1])]
        found = self.specs.port_class(port)
        chosen = [] if found.fixed is not None else [Fact("parameters", str(output), "default", f"{found.rule} range")]
        return [*found.facts, *chosen]

    def _rescale_output(self, kernel: ChosenKernel, port: int, value: SSAValue, output: UniformQuantizedType) -> None:
        """Rescale a result if the class of its value has other parameters than the kernel's output. All users read the
        rescale."""
        own = self.specs.value_class(value).parameters()
        if own == output or self._adds_nothing(value, own, output):
            return
        self.termination.rescale((kernel.region, port))
        # Listed before the rescale is created, because the rescale is a user, too.
        uses = list(value.uses)
        required, has = self._reason((kernel.region, port), own, output)
        made = rescale_region(value, output, own, (has, required))
        self._note_stated(made, self.specs.port_class((kernel.region, port)), self.specs.value_class(value))
        assert kernel.region.parent is not None
        kernel.region.parent.insert_op_after(made, kernel.region)
        for use in uses:
            use.operation.operands[use.index] = made.outputs[0]
        # A reader that takes the kernel's own type reads the value before the rescale.
        self.versions[made.outputs[0]] = {own: made.outputs[0], output: value}
        self.specs.graph.value_nodes[made.outputs[0]] = self.specs.graph.value_nodes[value]
        self.specs.graph.made.add(made.outputs[0])

    def _note_stated(self, rescale: QuantizeRegionOp, *ends: ScaleClass) -> None:
        """Mark a rescale from a type that the model states, and one between two such types."""
        first, *others = (end.fixed is not None and end.is_stated for end in ends)
        if first:
            rescale.attributes[FROM_STATED] = UnitAttr()
            if all(others):
                rescale.attributes[STATED] = UnitAttr()

    def _adds_nothing(self, value: SSAValue, own: UniformQuantizedType, output: UniformQuantizedType) -> bool:
        """Whether a rescale to the type of coupled values would only add rounding, because only float ops read the
        value."""
        known = self.constraints.get(value)
        if known is None or known.coupled is None or known.pinned is not None:
            return False
        return not cuts_off(own, output) and not any(isinstance(use.operation, QuantizeRegionOp) for use in value.uses)

    def _as(self, value: SSAValue, wanted: UniformQuantizedType, kernel: ChosenKernel, index: int) -> SSAValue:
        """The value with the type that a port needs: itself or a rescaled copy, which ports share."""
        if self.specs.graph.is_quantized_by_readers(value):
            return value
        own = self.specs.value_class(value).parameters()
        versions = self.versions.setdefault(value, {own: value})
        if wanted not in versions:
            self.termination.rescale((kernel.region, index))
            made = rescale_region(value, own, wanted, self._reason(self._first_port(value, wanted), own, wanted))
            self._note_stated(made, self.specs.value_class(value), self.specs.port_class((kernel.region, index)))
            assert kernel.region.parent is not None
            kernel.region.parent.insert_op_before(made, kernel.region)
            versions[wanted] = made.outputs[0]
        return versions[wanted]

    def _first_port(self, value: SSAValue, wanted: UniformQuantizedType) -> PortNumber:
        """The first port in canonical order that shares a rescale of a value. The rescale states the reason of this
        port."""
        ports = [
            (rank, use.index, kernel.region)
            for use in value.uses
            for rank, kernel in [self._ranked.get(use.operation, (-1, None))]
            if kernel is not None
            and kernel.is_data(use.index, value)
            and self.specs.port_type((kernel.region, use.index)) == wanted
        ]
        _, index, region = min(ports, key=lambda port: port[:2])
        return region, index

    def _reason(self, port: PortNumber, first: UniformQuantizedType, second: UniformQuantizedType) -> tuple[str, str]:
        if port in self.specs.apart:
            return str(first), f"{self.specs.apart[port][0]} ({self.specs.apart[port][1]})"
        return self.reasons.get(port, (str(first), str(second)))


def propagate(
    program: Program,
    target: Target,
    profile: str | None = None,
    *,
    ranges: str = DEFAULT_RANGES,
    integer_io: bool = False,
    products: str = PRODUCTS[0],
) -> Program:
    """A copy with specs for every region that `target` has a kernel for. The other regions carry the reason why they
    stay float.

    If a kernel's row names its own rounding profile, its region carries that profile, unless a `profile` is given for
    all. `ranges` is the rule from a range to scale and zero point: `asymmetric` or `minmax-nudged`. With `integer_io`,
    all kernels that read an input of the program share one type for it. Otherwise each of them quantizes it for itself.
    `products` says what a contraction does whose rounded operands a float function after it does not tolerate: it is
    float (`judged`), or it has integer operands and its accumulators are dequantized (`integers`).

    Raises MissingStatistics if a value without statistics needs parameters, and PropagationError if constraints cannot
    be satisfied.
    """
    if ranges not in RANGE_RULES:
        raise PropagationError(f"found ranges '{ranges}', expected one of: {', '.join(RANGE_RULES)}")
    if products not in PRODUCTS:
        raise PropagationError(f"found products '{products}', expected one of: {', '.join(PRODUCTS)}")
    program = program.for_change()
    _check_retargeting(program, target)
    if target.between_casts:
        rescale_between_casts(program)
    constraints = take_constraints(program, target.scale_type, integer_io=integer_io, kernels=target.by_kernel)
    duplicate_constants(program, constraints)
    keep_hidden_results(program, constraints)
    state_fixed_ranges(program, constraints, target)
    widen_bounded_means(program, constraints)
    align_sums(program, constraints)
    limit_moved_ranges(program, constraints)
    narrow_ranges(program, constraints)
    bound_constant_operands(program, constraints)
    joined = program.entry.args if integer_io else ()
    graph, specs = settle_kernels(program, target, constraints, ranges, joined, products)
    # Constants were duplicated, so ops have new positions.
    positions = {op: position for position, op in enumerate(program.entry.ops)}
    kernels = sorted(graph.kernels, key=lambda kernel: positions[kernel.region])
    specs.run_functions(graph.kernels, program.weights)
    reasons = {edge.port: edge.reason for edge in graph.edges if edge.reason is not None}
    termination = Termination(graph.port_nodes)
    run = _Settlement(program, constraints, specs, reasons, termination)
    for kernel in kernels:
        if kernel.row.profile:
            name = PROFILE if profile in (None, target.profile) else ROW_PROFILE
            kernel.region.attributes[name] = StringAttr(kernel.row.profile)
        if kernel.row.activation_scales and kernel.demands.get("activation_scales") != "per_tensor":
            kernel.region.attributes[ACTIVATION_SCALES] = StringAttr(kernel.row.activation_scales)
        with _noting_region(kernel):
            # For all kernels first, because a raised scale changes the type that other kernels read.
            run.leave_room(kernel)
    for kernel in kernels:
        with _noting_region(kernel):
            run.settle(kernel)
    termination.finish()
    state_input_facts(program, specs)
    state_float_facts(specs)
    _leave_to_casts(program, {kernel.region for kernel in kernels}, constraints)
    round_as_the_model(program, graph, constraints)
    drop_copies(constraints.copies)
    drop_rescales_of_floats(constraints.rescales, joined)
    remove_dead_ops(program.entry)
    program.module.attributes[TARGET] = StringAttr(target.name)
    program.module.attributes[PROFILE] = StringAttr(profile or target.profile)
    return program


def _leave_to_casts(program: Program, quantized: Container[QuantizeRegionOp], constraints: Constraints) -> None:
    """Move the activation types that the specs of float regions state to `simulated`, which puts casts around the
    regions."""
    for region in program.entry.ops:
        if not isinstance(region, QuantizeRegionOp) or region in quantized or is_rescale(region):
            continue
        specs: list[list[Attribute]] = [[*region.input_specs], [*region.output_specs]]
        for values, of_values in zip((region.inputs, region.outputs), specs, strict=True):
            for index, (value, spec) in enumerate(zip(values, of_values, strict=True)):
                if isinstance(spec, UniformQuantizedType) and not is_constant(value):
                    of_values[index] = element_of(value)
                    if constraints.holds(spec):
                        constraints.simulated.setdefault(value, spec)
        region.input_specs, region.output_specs = map(ArrayAttr[Attribute], specs)


def _check_retargeting(program: Program, target: Target) -> None:
    """Raise PropagationError if a program for another target has quantized or integer ops, which cannot be changed any
    more."""
    given = program.module.attributes.get(TARGET)
    if not isinstance(given, StringAttr) or given.data == target.name:
        return
    for op in program.entry.ops:
        is_quantized = any(map(is_typed, op.operands)) and any(map(is_typed, op.results))
        if is_quantized or isinstance(op, StorageCastOp):
            kind = "a quantized op" if is_quantized else "integers"
            raise PropagationError(
                f"{describe(op)}: found {kind} of target {given}, expected regions and float ops; start from a "
                "stage before 'materialize' (`quantize --save-stages`: propagated or corrected), and `unfuse` it",
                op,
            )


@contextmanager
def _noting_region(kernel: ChosenKernel) -> Generator[None]:
    """Add the op of a kernel to errors, and its name to errors that are not a PropagationError."""
    try:
        yield
    except (ValueError, VerifyException) as error:
        if not isinstance(error, PropagationError):
            raise PropagationError(f"{kernel.name}: {error}", kernel.region) from error
        error.op = error.op or kernel.region
        raise


def is_quantized(region: QuantizeRegionOp) -> bool:
    """Whether propagation gave a result of the region a quantized type, or an operand if no result is a float."""
    return region.is_quantized
