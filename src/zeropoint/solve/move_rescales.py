"""Remove rescales or move them to where they cost less: cancel, merge, absorb, push forward.

```mlir
%1 = "quant.region"(%0, %w) ... {logical_kernel = "convolution", output_specs = [A]}
%2 = "quant.region"(%1) ... {logical_kernel = "rescale", input_specs = [A], output_specs = [B]}
```
becomes, if nothing else reads `%1`,
```mlir
%1 = "quant.region"(%0, %w) ... {logical_kernel = "convolution", output_specs = [B]}
```
The pass applies these moves until none fits:

- A rescale to the type that the value already has is dropped. So is a second rescale of a value to the same type.
- Two consecutive rescales become one.
- A kernel with a free output scale produces the required type itself.
- A kernel that accepts any parameters reads the value before the rescale, or another rescaled form of it.
- A kernel whose operand and result share a scale moves before the rescale if its result is smaller.

A rescale between two types that the model states is neither merged nor absorbed on targets whose runtime rounds there,
too (`between_casts`).

Each move reduces the number of rescales, their cost, or the number of readers of one. So the pass terminates. A rescale
that saturates values is kept if values would no longer be saturated without it. A rescale from a type of the model to
one that holds more is kept, too: the model saturates there, at the ends of a calibrated range or for a ReLU that the
file leaves out.

Source: the RFC on quantization transformations, section "Export": the scaling of inputs can be pushed forward and
combined with the scaling of the outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir.annotations import (
    FROM_STATED,
    PINNED,
    RESCALE_COUNTS,
    STATED,
    Fact,
    facts_name,
    facts_of,
    state_facts,
)
from zeropoint.ir.constants import constant_array
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.ir.tensors import shape_of
from zeropoint.solve.classes import cuts_off
from zeropoint.solve.constraints import Constraints
from zeropoint.solve.errors import PropagationError
from zeropoint.solve.kernel import ChosenKernel
from zeropoint.solve.kernels import KernelChoice, left_float
from zeropoint.solve.operands import operand_type
from zeropoint.solve.precision import TOLERANCE
from zeropoint.solve.rescale import is_rescale, rescale_region
from zeropoint.solve.value_ranges.headroom import HeadroomPorts, greatest_real, greatest_result, least_output_scale
from zeropoint.targets import (
    OUTPUT,
    FixedScale,
    Free,
    KernelRow,
    MultiplierAccumulatorScale,
    MultiplierScale,
    Target,
)

FREE_OUTPUT = (Free, MultiplierScale, MultiplierAccumulatorScale)
FREE_INPUT = (*FREE_OUTPUT, FixedScale)


def rescale_count(program: Program) -> int:
    """The number of rescales in a program."""
    return sum(is_rescale(region) for region in regions_of(program))


def _types(region: QuantizeRegionOp) -> tuple[UniformQuantizedType, UniformQuantizedType]:
    """The types that a rescale converts from and to."""
    given, made = region.input_specs.data[0], region.output_specs.data[0]
    assert isinstance(given, UniformQuantizedType) and isinstance(made, UniformQuantizedType)
    return given, made


def _fits(row: KernelRow, port: int, wanted: UniformQuantizedType) -> bool:
    rule = row.rule(port)
    return rule.accepts(wanted.storage) and rule.zero_point in (None, wanted.zero_point)


def _by_channel(rescale: QuantizeRegionOp) -> bool:
    """Whether a rescale reads or makes values with a scale per channel."""
    return not all(kind.is_per_layer for kind in _types(rescale))


def _takes(kernel: ChosenKernel, port: int, wanted: UniformQuantizedType) -> bool:
    """Whether a port of a kernel can have a type while the others keep theirs: one storage if the row requires that.

    A zero point of 0 that a recipe demands of the results is kept.
    """
    row, region = kernel.row, kernel.region
    if port < 0 and kernel.demands.get("symmetric") == "true" and wanted.zero_point != wanted.storage.type.middle:
        return False
    has = region.output_specs.data[~port] if port < 0 else region.input_specs.data[port]
    if row.same_storage and row.rule(port).wildcard and isinstance(has, UniformQuantizedType):
        return _fits(row, port, wanted) and has.storage == wanted.storage
    return _fits(row, port, wanted)


@dataclass
class _Moves:
    program: Program
    kernels: Mapping[Operation, ChosenKernel]
    keeps_stated: bool

    def step(self, rescale: QuantizeRegionOp) -> bool:
        """Make the first move that fits. Returns False if none fits."""
        if _by_channel(rescale):  # one real range is not that of all channels
            return self._drop(rescale) or self._share(rescale)
        if self.keeps_stated and STATED in rescale.attributes:  # only moves that keep its rounding
            return self._drop(rescale) or self._share(rescale) or self._push(rescale)
        return (
            self._drop(rescale)
            or self._share(rescale)
            or self._join(rescale)
            or self._merge(rescale)
            or self._absorb(rescale)
            or self._serve(rescale)
            or self._push(rescale)
        )

    def _replace(self, rescale: QuantizeRegionOp, value: SSAValue) -> None:
        rescale.outputs[0].replace_all_uses_with(value)
        Rewriter.erase_op(rescale)

    def _drop(self, rescale: QuantizeRegionOp) -> bool:
        """Drop a rescale that has no uses or does not change the type."""
        given, made = _types(rescale)
        if given != made and rescale.outputs[0].first_use is not None:
            return False
        self._replace(rescale, rescale.inputs[0])
        return True

    def _share(self, rescale: QuantizeRegionOp) -> bool:
        """Drop a second rescale of a value to the same type."""
        for use in rescale.inputs[0].uses:
            other = use.operation
            if other is rescale or not isinstance(other, QuantizeRegionOp) or not is_rescale(other):
                continue
            if other.output_specs == rescale.output_specs and other.is_before_in_block(rescale):
                self._replace(rescale, other.outputs[0])
                return True
        return False

    def _join(self, rescale: QuantizeRegionOp) -> bool:
        """Skip the first of two consecutive rescales, or both if the second undoes the first."""
        before = rescale.inputs[0].owner
        if not isinstance(before, QuantizeRegionOp) or not is_rescale(before):
            return False
        if (self.keeps_stated and STATED in before.attributes) or _by_channel(before):
            return False
        first, between = _types(before)
        _, last = _types(rescale)
        # The first rescale saturates values that the types before and after it can hold. Without it they would pass.
        if cuts_off(between, first) and cuts_off(between, last):
            return False
        if first == last:
            self._replace(rescale, before.inputs[0])
        elif before.outputs[0].has_one_use():
            rescale.operands[0] = before.inputs[0]
            rescale.input_specs = ArrayAttr[Attribute]([first])
        else:
            return False
        return True

    def _merge(self, rescale: QuantizeRegionOp) -> bool:
        """Let the kernel that produces the value produce the required type instead."""
        value, (given, wanted) = rescale.inputs[0], _types(rescale)
        if FROM_STATED in rescale.attributes and cuts_off(given, wanted):
            return False
        kernel = self.kernels.get(value.owner) if isinstance(value.owner, Operation) else None
        if kernel is None or is_rescale(kernel.region) or not value.has_one_use():
            return False
        number = kernel.region.outputs.index(value)
        if not isinstance(kernel.row.relation, FREE_OUTPUT) or not _takes(kernel, ~number, wanted):
            return False
        # A finer output would need a multiplier that the requantization cannot represent.
        if wanted.scale < self._least_scale(kernel, kernel.region.input_specs.data):
            return False
        specs = list(kernel.region.output_specs)
        specs[number] = wanted
        kernel.region.output_specs = ArrayAttr[Attribute](specs)
        merged = Fact("parameters", str(wanted), "kernel", "a rescale that was merged with the output scaling")
        facts = facts_name(number)
        state_facts(kernel.region, [*facts_of(kernel.region, facts), merged], facts)
        self._replace(rescale, value)
        return True

    def _least_scale(self, kernel: ChosenKernel, inputs: tuple[Attribute, ...]) -> float:
        arrays = tuple(constant_array(value, self.program.weights) for value in kernel.region.inputs)
        greatest = tuple(greatest_real(spec, array) for spec, array in zip(inputs, arrays, strict=True))
        return least_output_scale(greatest_result(HeadroomPorts(kernel.region, greatest, arrays, self.program.weights)))

    def _absorb(self, rescale: QuantizeRegionOp) -> bool:
        """Let kernels that accept any parameters read the value before the rescale."""
        given, made = _types(rescale)
        # The model requires the saturation of this rescale.
        if cuts_off(made, given):
            return False
        uses = [(use.operation, use.index) for use in rescale.outputs[0].uses]
        # A list, not a generator, because every use has to be tried, not only up to the first success.
        return any([self._read_instead(user, index, rescale.inputs[0], given) for user, index in uses])

    def _serve(self, rescale: QuantizeRegionOp) -> bool:
        """Let kernels that accept any parameters read another rescaled form, at most half a bit coarser."""
        _, made = _types(rescale)
        uses = [(use.operation, use.index) for use in rescale.outputs[0].uses]
        if len({user for user, _ in uses}) < len(uses):
            return False  # a kernel reads it at two ports, and the type allowed at one depends on the other
        for use in rescale.inputs[0].uses:
            other = use.operation
            if other is rescale or not isinstance(other, QuantizeRegionOp) or not is_rescale(other):
                continue
            _, kind = _types(other)
            if not kind.is_per_layer:
                continue
            near = kind.storage.type == made.storage.type and kind.scale <= TOLERANCE * made.scale
            if not near or cuts_off(kind, made):
                continue
            if any(self._specs_reading(user, index, kind) is None for user, index in uses):
                continue
            if rescale.is_before_in_block(other):
                # The other rescale has to come before its new readers.
                other.detach()
                Rewriter.insert_op(other, InsertPoint.before(rescale))
            for user, index in uses:
                self._read_instead(user, index, other.outputs[0], kind)
            Rewriter.erase_op(rescale)
            return True
        return False

    def _read_instead(self, user: Operation, index: int, value: SSAValue, given: UniformQuantizedType) -> bool:
        """Let a kernel read `value`, of type `given`, at operand `index`. Returns False if it cannot."""
        specs = self._specs_reading(user, index, given)
        if specs is None or not isinstance(user, QuantizeRegionOp):
            return False
        user.operands[index] = value
        user.input_specs = ArrayAttr(specs)
        return True

    def _specs_reading(self, user: Operation, index: int, given: UniformQuantizedType) -> list[Attribute] | None:
        """The input specs of a kernel if it reads `given` at operand `index`; None if it cannot."""
        kernel = self.kernels.get(user)
        if kernel is None or is_rescale(kernel.region) or not isinstance(kernel.row.relation, FREE_INPUT):
            return None
        relation = kernel.row.relation
        if not _takes(kernel, index, given) or (isinstance(relation, FixedScale) and index in relation):
            return None
        outputs = [spec for spec in kernel.region.output_specs if isinstance(spec, UniformQuantizedType)]
        output = outputs[0] if outputs else None  # these rows do not tie operands to results
        specs: list[Attribute] = []
        for i, spec in enumerate(kernel.region.input_specs):
            data = kernel.is_data(i, kernel.region.inputs[i])
            try:
                specs.append((given if i == index else spec) if data else self._follows(kernel, i, specs, output))
            except PropagationError:  # a fixed weight whose sums would not fit
                return None
        if outputs and min(made.scale for made in outputs) < self._least_scale(kernel, tuple(specs)):
            return None
        return specs

    def _follows(
        self, kernel: ChosenKernel, index: int, before: list[Attribute], output: UniformQuantizedType | None
    ) -> Attribute:
        owner = kernel.region.inputs[index].owner
        pinned = owner.attributes.get(PINNED) if isinstance(owner, Operation) else None
        kept = pinned if isinstance(pinned, UniformQuantizedType) else None
        return operand_type(kernel, index, before, output, self.program.weights, kept)

    def _push(self, rescale: QuantizeRegionOp) -> bool:
        """Move a kernel before the rescale if its operand and result share a scale and its result is smaller."""
        (given, made), value = _types(rescale), rescale.outputs[0]
        use = value.get_unique_use()
        kernel = None if use is None else self.kernels.get(use.operation)
        if kernel is None or not len(kernel.region.inputs) == len(kernel.region.outputs) == 1:
            return False
        if not kernel.row.tied(0):
            return False
        output = kernel.region.outputs[0]
        smaller = prod(shape_of(output)) < prod(shape_of(value))
        if not smaller or not (_fits(kernel.row, 0, given) and _takes(kernel, OUTPUT, given)):
            return False
        kernel.region.operands[0] = rescale.inputs[0]
        kernel.region.input_specs = kernel.region.output_specs = ArrayAttr[Attribute]([given])
        moved = rescale_region(output, given, made, ("", ""))
        moved.attributes.update(rescale.attributes)
        moved.location = rescale.location
        output.replace_all_uses_with(moved.outputs[0])
        moved.operands[0] = output
        Rewriter.insert_op(moved, InsertPoint.after(kernel.region))
        Rewriter.erase_op(rescale)
        return True


def move_rescales(program: Program, target: Target) -> Program:
    """A copy of a propagated program with fewer and cheaper rescales.

    `target` must be the target of the specs. The module attribute `RESCALE_COUNTS` records the number of rescales
    before and after.
    """
    program = program.for_change()
    before = rescale_count(program)
    if before:
        # No constraints on values: after propagation, the specs state every type.
        choice = KernelChoice(target, Constraints(), left_float(program))
        kernels: dict[Operation, ChosenKernel] = {
            kernel.region: kernel for kernel in choice.choose(program, canonical=False)
        }
        moves = _Moves(program, kernels, target.between_casts)
        # One move may enable another. The loop ends because each leaves fewer or smaller rescales, or fewer readers of
        # one.
        while any([moves.step(region) for region in regions_of(program) if is_rescale(region)]):
            pass
    counts = {"before": before, "after": rescale_count(program)}
    program.module.attributes[RESCALE_COUNTS] = DictionaryAttr(
        {key: IntegerAttr(count, i64) for key, count in counts.items()}
    )
    return program
