"""The steps of a search: kernels to widen, the most important first, and the program with some of them taken."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import isfinite
from typing import Protocol

from xdsl.dialects.builtin import AnyFloat, ArrayAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.budget.budget import Budget
from zeropoint.ir.annotations import (
    BLOCK_SIZE,
    DEMANDS,
    FLOAT_REASON,
    PINNED,
    WEIGHT_BITS,
    Fact,
    facts_of,
    state_facts,
)
from zeropoint.ir.constants import constant_array
from zeropoint.ir.contractions import multiplications_of
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import AnyQuantizedType, NoQuantizedType, QuantizeRegionOp, StatisticsOp, Storage
from zeropoint.ir.regions import regions_of
from zeropoint.ir.result_names import result_names
from zeropoint.ir.tensors import element_of
from zeropoint.targets import DATA, AtLeast, KernelRow, Role, Target
from zeropoint.targets import NIBBLE as NIBBLE_STORAGE

FLOAT = "float"
NIBBLE, BYTE = "i4", "i8"
"""The widths of a step from 4-bit to 8-bit weights."""
FLOAT_BYTES = 3
"""Additional bytes of an f32 weight, compared with an 8-bit one."""


@dataclass(frozen=True)
class WideningStep:
    """One widening: the regions of a kernel, by their indices, get `width`, which is `i8` (weights), `i16` or `float`.

    `names` has the unique name of each region. An op of the original model, such as a GRU, may have become several
    kernels of one kind, which are widened together. `share` is the first-order share of the outputs' noise that the
    kernel adds, from 0 to 1.
    """

    names: tuple[str, ...]
    regions: tuple[int, ...]
    width: str
    share: float
    weights: int
    products: int

    @property
    def name(self) -> str:
        """The names of the kernels as one text."""
        return ", ".join(self.names)


def wide_storage(region: QuantizeRegionOp, target: Target) -> Storage | None:
    """The wider of the two storages in the target's rows for a kernel; None if there is only one width."""
    given = output_widths(target.by_kernel.get(region.logical_kernel.data, ()))
    free = all(isinstance(spec, AnyFloat) for spec in region.output_specs)
    return given[max(given)] if free and len(given) > 1 else None


def output_widths(rows: Iterable[KernelRow]) -> dict[int, Storage]:
    """The storage of results in rows of one kernel, by its width. Of equal width, the first."""
    widths: dict[int, Storage] = {}
    for row in rows:
        if row.output.role is not Role.OTHER:
            widths.setdefault(row.output.storage.type.width, row.output.storage)
    return widths


def takes_nibbles(region: QuantizeRegionOp, target: Target) -> bool:
    """Whether the target has the kernel with 4-bit weights, and neither the model nor a recipe states their width."""
    rows = target.by_kernel.get(region.logical_kernel.data, ())
    if len(region.inputs) < 2 or not isinstance(region.input_specs.data[1], AnyFloat):
        return False
    weight = region.inputs[1].owner
    stated = PINNED in weight.attributes if isinstance(weight, Operation) else True
    stated = stated or any(fact.name in (WEIGHT_BITS, BLOCK_SIZE) for fact in facts_of(region, DEMANDS))
    rules = (row.input_rule(1) for row in rows)
    return not stated and any(rule.role is Role.WEIGHT and rule.storage.type == NIBBLE_STORAGE.type for rule in rules)


def narrow(program: Program, steps: Iterable[WideningStep], budget: Budget, target: Target) -> dict[int, str]:
    """The positions and names of the kernels of a calibrated program that have 4-bit weights with these steps."""
    taken, names = final(steps), region_names(program)
    regions = enumerate(regions_of(program) if budget.nibbles else ())
    return {n: names[n] for n, one in regions if n not in taken and takes_nibbles(one, target)}


def region_names(program: Program) -> list[str]:
    """The unique name of each region in order, which is that of its first result, as in warnings and statistics."""
    names = result_names(program)
    return [names[region.outputs[0]] for region in regions_of(program)]


def kernel_key(region: QuantizeRegionOp) -> tuple[str, str]:
    """The name of the original op and of the kernel of a region. Several regions may have the same key."""
    kernel = region.logical_kernel.data
    return location_text(region.location) or kernel, kernel


AROUND = "all kernels around it stay float"
"""The reason why a kernel that adds no noise stays float."""


class KernelNoise(Protocol):
    """The noise/signal at the outputs that a quantized kernel adds, with the name of its op and of the kernel."""

    @property
    def op(self) -> str: ...
    @property
    def kernel(self) -> str: ...
    @property
    def at_outputs(self) -> float: ...


def steps_of(
    program: Program, target: Target, found: Iterable[KernelNoise], budget: Budget, taken: Collection[WideningStep] = ()
) -> list[WideningStep]:
    """The steps for the kernels of a calibrated program, the most important first, without those in `taken`.

    Kernels that add no noise have no step. Steps from 4-bit weights come first, and those to float last. A budget
    without `nibbles` or `floats` has none of these.
    """
    noise: dict[tuple[str, str], float] = {}
    for one in found:
        key = one.op, one.kernel
        # By name and kernel, not by position, because propagation has split and added regions in the measured program.
        noise[key] = noise.get(key, 0.0) + (one.at_outputs if isfinite(one.at_outputs) else 0.0)
    indices_of: dict[tuple[str, str], list[int]] = {}
    regions = regions_of(program)
    for index, region in enumerate(regions):
        # A kernel that adds no noise cannot improve the outputs.
        if noise.get(kernel_key(region), 0.0) > 0:
            indices_of.setdefault(kernel_key(region), []).append(index)
    total, names = sum(noise.values()), region_names(program)
    bytes_: list[WideningStep] = []
    wider: list[WideningStep] = []
    floats: list[WideningStep] = []
    for key, indices in indices_of.items():
        members = [regions[index] for index in indices]
        weights = sum(_weights(region, program) for region in members)
        products = sum(map(multiplications_of, members))
        step = WideningStep(
            tuple(names[index] for index in indices), tuple(indices), FLOAT, noise[key] / total, weights, products
        )
        floats.append(step)
        if budget.nibbles and all(takes_nibbles(region, target) for region in members):
            bytes_.append(replace(step, width=BYTE))
        storages = [wide_storage(region, target) for region in members]
        if all(storages):
            wider.append(replace(step, width=f"i{storages[0].type.width}"))  # pyright: ignore[reportOptionalMemberAccess] (all of them are storages)
    done = {(step.regions, step.width) for step in taken}
    ranked = [one for steps in (bytes_, wider, floats if budget.floats else ()) for one in _ranked(steps, budget)]
    return [step for step in ranked if (step.regions, step.width) not in done]


def _weights(region: QuantizeRegionOp, program: Program) -> int:
    """The number of elements of the constants that a region reads."""
    arrays = (constant_array(value, program.weights) for value in region.inputs)
    return sum(array.size for array in arrays if array is not None)


def _ranked(steps: Iterable[WideningStep], budget: Budget) -> list[WideningStep]:
    def gain(step: WideningStep) -> float:
        # Only what the budget limits is a cost. Without limits, the noise alone determines the order.
        bytes_ = FLOAT_BYTES * step.weights if budget.size is not None else 0
        products = step.products if budget.latency is not None else 0
        return step.share / max(bytes_ + products, 1)

    # Positions break ties, so the order is the same for any number of workers.
    return sorted(steps, key=lambda step: (-gain(step), step.regions))


def widened(program: Program, steps: Sequence[WideningStep], budget: Budget, target: Target) -> Program:
    """The calibrated program with the demands of the steps: `!quant.any` of the wider storage, or `!quant.none`.

    A widened kernel also reads floats, such as the program's inputs, in its wider storage, if the target has that. A
    kernel between kernels that all stay float also stays float, because rounding there would only add noise.
    """
    nibbles = narrow(program, steps, budget, target)
    program = program.clone()
    regions = regions_of(program)
    for index in nibbles:
        fact = Fact(WEIGHT_BITS, str(NIBBLE_STORAGE.type.width), "user", f"budget {budget}")
        state_facts(regions[index], [*facts_of(regions[index], DEMANDS), fact], DEMANDS)
    for index, step in final(steps).items():
        region = regions[index]
        if step.width == FLOAT:
            _keep_float(region, f"budget {budget}: it adds {step.share:.1%} of the noise at the outputs")
        # 8-bit weights are the default, so such a step only removes the demand for 4 bits.
        elif step.width != BYTE:
            _widen(region, Storage.of(step.width), target)
    for region in _between(regions, steps):
        _keep_float(region, f"budget {budget}: {AROUND}")
    return program


def _widen(region: QuantizeRegionOp, storage: Storage, target: Target) -> None:
    """Demand the storage's width for the result, and for operands that no kernel produces, if a row has both."""

    def demand(value: SSAValue, least: Storage) -> AnyQuantizedType:
        expressed = element_of(value)
        assert isinstance(expressed, AnyFloat)
        return AnyQuantizedType.of(least, expressed)

    rows = target.by_kernel.get(region.logical_kernel.data, ())
    wide = AtLeast(storage.type.width)
    specs = list(region.input_specs)
    for index, value in enumerate(region.inputs):
        able = [row for row in rows if row.output.accepts(wide) and row.input_rule(index).accepts(wide)]
        is_data = all(row.input_rule(index).role in DATA for row in able)
        if able and is_data and isinstance(specs[index], AnyFloat) and _is_quantized_here(value):
            specs[index] = demand(value, storage)
    region.input_specs = ArrayAttr[Attribute](specs)
    region.output_specs = ArrayAttr[Attribute]([demand(region.outputs[0], storage)])


def _is_quantized_here(value: SSAValue) -> bool:
    """Whether a value is a float that its readers quantize: an input of the program, or the result of a float op."""
    maker = _maker(value)
    return not isinstance(maker, QuantizeRegionOp) and not (isinstance(maker, Operation) and _is_constant(maker))


def final(steps: Iterable[WideningStep]) -> dict[int, WideningStep]:
    """The step that decides each region, by the region's position. A later step replaces an earlier one."""
    return {index: step for step in steps for index in step.regions}


def between(program: Program, steps: Iterable[WideningStep]) -> dict[int, str]:
    """The positions and names of the kernels that stay float only because all kernels around them do."""
    regions, names = regions_of(program), region_names(program)
    found = set(_between(regions, steps))
    return {index: names[index] for index, region in enumerate(regions) if region in found}


def _between(regions: Sequence[QuantizeRegionOp], steps: Iterable[WideningStep]) -> list[QuantizeRegionOp]:
    chosen = {regions[index] for index, step in final(steps).items() if step.width == FLOAT}
    return [region for region in regions if region not in chosen and _is_between(region, chosen)]


def _keep_float(region: QuantizeRegionOp, reason: str) -> None:
    def none(values: Iterable[SSAValue]) -> ArrayAttr[Attribute]:
        elements = (element_of(value) for value in values)
        return ArrayAttr([NoQuantizedType(one) if isinstance(one, AnyFloat) else one for one in elements])

    region.input_specs, region.output_specs = none(region.inputs), none(region.outputs)
    region.attributes[FLOAT_REASON] = StringAttr(reason)


def _is_between(region: QuantizeRegionOp, chosen: set[QuantizeRegionOp]) -> bool:
    """Whether regions in `chosen` produce all activations that a region reads and read all its results."""
    makers = [_maker(value) for value in region.inputs]
    readers = list(chain.from_iterable(_readers(value) for value in region.outputs))
    made = [op for op in makers if not isinstance(op, Operation) or not _is_constant(op)]
    return bool(made and readers) and all(op in chosen for op in (*made, *readers))


def _maker(value: SSAValue) -> object:
    owner = value.owner
    return _maker(owner.arg) if isinstance(owner, StatisticsOp) else owner


def _is_constant(op: Operation) -> bool:
    return not op.operands and not isinstance(op, QuantizeRegionOp)


def _readers(value: SSAValue) -> list[Operation]:
    found: list[Operation] = []
    for use in value.uses:
        reader = use.operation
        found += _readers(reader.res) if isinstance(reader, StatisticsOp) else [reader]
    return found
