"""Select the row of the target's table for each region, or the reason why it stays float.

The lookup key is the logical kernel and its signature. The signature has the storage of each port, from pinned types,
bit widths and the storage of the operands. Regions are visited in program order, so the storage of the operands is
known. A kernel that only moves data takes the width of its operand. Any other kernel takes the first fitting row of the
table, even if that needs a rescale before it.

Source: the RFC on quantization transformations, section "Target Constraints".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import BLOCK_SIZE, DEMANDS, FLOAT_REASON, REAL_RESULT, facts_of
from zeropoint.ir.constants import constant_array, is_constant
from zeropoint.ir.locations import written_name
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    AnyQuantizedType,
    NoQuantizedType,
    QuantizeRegionOp,
    Storage,
    UniformQuantizedType,
    quantize,
)
from zeropoint.ir.weights import Weights
from zeropoint.solve.accumulators import sums_fit
from zeropoint.solve.blocks import demanded_storage, unfit_blocks, unfit_channels
from zeropoint.solve.constraints import Constraints
from zeropoint.solve.kernel import ChosenKernel, is_float, result_ports
from zeropoint.solve.order import canonical_ranks
from zeropoint.solve.rescale import RESCALE_KERNEL, is_rescale
from zeropoint.solve.termination import PortNumber
from zeropoint.solve.widths.function_widths import unrounded_kernels
from zeropoint.solve.widths.reader_storages import Asked, reader_storages
from zeropoint.solve.widths.recurrences import Recurrences, recurrences
from zeropoint.solve.widths.unrounded import PRODUCTS, Unrounded
from zeropoint.solve.zero_point_rows import zero_points_fit
from zeropoint.targets import (
    NIBBLE,
    OUTPUT,
    AtLeast,
    Demand,
    EitherSign,
    Free,
    KernelRow,
    KernelSignature,
    PortRule,
    Role,
    SameScale,
    Target,
    in_four_bits,
    widest,
)
from zeropoint.targets.logical_kernels import PASSES_ELEMENTS, POSITIONS

_ANY = PortRule(Role.ACTIVATION, Storage.of("i8"), wildcard=True)
SUMS: Mapping[str, str] = {"add": "sum", "subtract": "sum", "select": "selection"}
"""Kernels that cost as little in float if their neighbours are float."""
COMPARISONS = ("compare", *POSITIONS)
RESCALE_ROWS = (KernelRow(RESCALE_KERNEL, (_ANY,), _ANY, Free()),)
"""A rescale from any storage to any other. Every target has it."""


def rebased(pinned: UniformQuantizedType, storage: Storage) -> UniformQuantizedType:
    """The type with the same real values in a storage of the same signedness as `storage`, or in 4 bits if possible.

    4 bits are used if `storage` has 4 bits and the stored integers fit. The type is returned unchanged if neither
    applies.
    """
    narrow = in_four_bits(pinned.storage) if storage.type == NIBBLE.type else pinned.storage
    # Another width represents other real values at its ends, so the type stays as it is and the port gets a rescale.
    if narrow == pinned.storage and pinned.storage.type.width != storage.type.width:
        return pinned
    other = narrow if narrow.type == storage.type else EitherSign(pinned.storage).other
    # i8 and u8 differ by 128 in integers and zero points, but represent the same real values.
    shift = other.minimum - pinned.storage.minimum
    points = tuple(point + shift for point in pinned.data.zero_points)
    return UniformQuantizedType(replace(pinned.data, storage=other, zero_points=points))


@dataclass
class KernelChoice:
    """Selects the rows for a program's regions in one walk. `left` has regions that must stay float, with reasons."""

    target: Target
    constraints: Constraints
    left: Mapping[QuantizeRegionOp, str] = field(default_factory=dict[QuantizeRegionOp, str])
    products: str = PRODUCTS[0]
    storage_of: dict[SSAValue, Storage] = field(default_factory=dict[SSAValue, Storage])
    widths: Unrounded = field(init=False)
    asked: dict[PortNumber, Asked] = field(init=False)
    recurrent: Recurrences = field(init=False)
    weights: Weights = field(init=False)

    def choose(self, program: Program, *, canonical: bool = True) -> list[ChosenKernel]:
        """The kernels of the regions that have one. Sets the reason (`FLOAT_REASON`) on the other regions.

        Unless `canonical`, their positions are those in the program: the canonical order takes the texts of all types.
        """
        kernels: list[ChosenKernel] = []
        self.weights = program.weights
        self.recurrent = recurrences(program, self.target)
        self.widths = unrounded_kernels(program, self.recurrent, self.constraints, self.products)
        self.asked = reader_storages(program, self.target, self.constraints)
        ops = list(program.entry.ops)
        ranks = canonical_ranks(program, self.constraints) if canonical else {op: n for n, op in enumerate(ops)}
        for op in ops:
            if not isinstance(op, QuantizeRegionOp):
                continue
            found = self._kernel(op, ranks[op])
            if isinstance(found, str):
                op.attributes.setdefault(FLOAT_REASON, StringAttr(found))
            else:
                op.attributes.pop(FLOAT_REASON, None)
                if op in self.widths.reals and not self.target.real_results:
                    op.attributes[REAL_RESULT] = StringAttr(self.widths.reals[op])
                kernels.append(found)
                self.storage_of.update((value, found.storage(port)) for port, value in found.results())
        # After all rows are chosen, because both rules depend on the rows of the neighbours. Comparisons come first,
        # because a sum that only a float comparison reads counts as a sum that only floats read.
        kernels = self._without_comparisons_of_floats(kernels)
        return self._without_sums_of_floats(kernels) if self.target.real_results else kernels

    def _without_comparisons_of_floats(self, kernels: list[ChosenKernel]) -> list[ChosenKernel]:
        """Keep a comparison float if it reads a float, or what kernels move from one.

        Rounding would only shift the point where its result changes. Example: in a top-k mask, the score that sets the
        threshold must not become less than the threshold.
        """
        chosen: dict[Operation, ChosenKernel] = {kernel.region: kernel for kernel in kernels}
        left: set[QuantizeRegionOp] = set()
        for kernel in kernels:
            if kernel.row.kernel in COMPARISONS and not kernel.demands:
                # Data movement is followed, because a comparison of a reshaped float is a comparison of that float.
                found = [self._moved_from(value, chosen) for _, value in kernel.data_ports()]
                if any(value.owner not in chosen for value in found if not self._is_pinned(value)):
                    kernel.region.attributes[FLOAT_REASON] = StringAttr("a comparison of floats")
                    left.add(kernel.region)
        return [kernel for kernel in kernels if kernel.region not in left]

    def _moved_from(self, value: SSAValue, chosen: Mapping[Operation, ChosenKernel]) -> SSAValue:
        """The result of an op from which kernels of one operand move elements to `value`; the value itself if it is not
        moved."""
        while not self._is_pinned(value) and isinstance(value.owner, Operation) and value.owner in chosen:
            maker = chosen[value.owner]
            if len(maker.region.inputs) != 1 or maker.row.kernel not in PASSES_ELEMENTS or maker.demands:
                break
            (moved,) = maker.region.inputs
            if not isinstance(moved.owner, Operation) or is_constant(moved):
                break
            value = moved
        return value

    def _is_pinned(self, value: SSAValue) -> bool:
        known = self.constraints.get(value)
        return known is not None and known.pinned is not None

    def _without_sums_of_floats(self, kernels: list[ChosenKernel]) -> list[ChosenKernel]:
        """Keep a sum or a selection float if only float ops read it. Quantizing it would only add rounding error.

        Visits kernels in reverse, because the readers of a sum must be decided first.
        """
        chosen = {kernel.region for kernel in kernels}
        for kernel in reversed(kernels):
            readers = [use.operation for value in kernel.region.outputs for use in value.uses]
            free = not kernel.demands and not any(
                known is not None and known.pinned is not None
                for known in map(self.constraints.get, (*kernel.region.inputs, *kernel.region.outputs))
            )
            if (
                kernel.row.kernel in SUMS
                and free
                and readers
                and not any(reader in chosen or isinstance(reader, ReturnOp) for reader in readers)
            ):
                chosen.remove(kernel.region)
                kernel.region.attributes[FLOAT_REASON] = StringAttr(
                    f"a {SUMS[kernel.row.kernel]} that only floats read"
                )
        return [kernel for kernel in kernels if kernel.region in chosen]

    def _kernel(self, region: QuantizeRegionOp, position: int) -> ChosenKernel | str:
        """The kernel of a region, or the reason why it has none."""
        name = region.logical_kernel.data
        kept = self.left.get(region) or self._kept_float(region)
        if kept is not None:
            return kept
        rows = RESCALE_ROWS if is_rescale(region) else self._rows(region)
        if not rows:
            return f"target {self.target.name} has no kernel '{name}'"
        demands = {fact.name: fact.value for fact in facts_of(region, DEMANDS)}
        # First without the neighbours' storage, so that a kernel takes the target's preferred row, with a rescale if
        # the neighbours have another storage.
        asked = _with_weights(self._signature(region, neighbours=False), region, demands)
        found = self._match(region, rows, asked, demands)
        if found is None or not zero_points_fit(region, found[0], self.constraints):
            other = self._match(region, rows, _of_either_sign(asked), demands)
            if found is None or (other is not None and zero_points_fit(region, other[0], self.constraints)):
                found = other
        if found is None:
            return self._why_none(region, rows, asked)
        suiting = _with_weights(self._signature(region, neighbours=True), region, demands)
        near = None if suiting == asked else self._match(region, rows, suiting, demands)
        # A row that suits the neighbours is only taken if it moves data or has the same width. Otherwise one 16-bit
        # operand would widen all later kernels.
        if (
            near is not None
            and zero_points_fit(region, near[0], self.constraints)
            >= zero_points_fit(region, found[0], self.constraints)
            and (_is_tied(near[0]) or near[1][OUTPUT].type.width == found[1][OUTPUT].type.width)
        ):
            found = near
        return self._unfit(region, found[0], demands) or ChosenKernel(
            region, *found, position, demands, self.target.scale_type
        )

    def _rows(self, region: QuantizeRegionOp) -> tuple[KernelRow, ...]:
        """The rows of the table for a kernel. In a recurrence, those for recurrences come first. Elsewhere they come
        last, those with narrow results first."""
        if region in self.recurrent.regions:
            return self.recurrent.rows(region)
        name = region.logical_kernel.data
        more = sorted(self.target.last_rows.get(name, ()), key=lambda row: row.output.storage.type.width)
        return (*self.target.by_kernel.get(name, ()), *more)

    def _why_none(self, region: QuantizeRegionOp, rows: Sequence[KernelRow], asked: KernelSignature) -> str:
        """The reason why no row fits: the pinned port that no row accepts, if any, else the whole signature."""
        name, whole = region.logical_kernel.data, f"target {self.target.name} has no kernel"
        row = rows[0]
        values, either = [*enumerate(region.inputs), *result_ports(region)], _of_either_sign(asked)
        reasons = [[self._unfit_pin(row, port, value) for port, value in values] for row in rows]
        if all(any(found) for found in reasons):
            return next(reason for reason in reasons[0] if reason)
        for (port, value), demand in zip(values, (*either.inputs, *either.outputs), strict=True):
            known = self.constraints.get(value)
            if known is None or known.pinned is None or any(other.rule(port).accepts(demand) for other in rows):
                continue
            taken = " or ".join(dict.fromkeys(map(str, widest([other.rule(port).storage for other in rows]))))
            least = self._least_stored(value, known.pinned)
            stored = f" and stores {least}" if least is not None and least < row.rule(port).storage.minimum else ""
            found = f"'{written_name(value)}' is pinned to {known.pinned}{stored}"
            return f"{whole} '{name}' for its {row.port_name(port)}: {found}, it takes {taken}"
        return f"{whole} '{name}' for {asked}"

    def _least_stored(self, value: SSAValue, pinned: UniformQuantizedType) -> int | None:
        """The least stored integer of a pinned constant; None for other values."""
        array = constant_array(value, self.weights)
        return None if array is None or not array.size else int(quantize(array, pinned, expressed=np.float64).min())

    def _match(
        self, region: QuantizeRegionOp, rows: Sequence[KernelRow], signature: KernelSignature, demands: dict[str, str]
    ) -> tuple[KernelRow, tuple[Storage, ...]] | None:
        """The first fitting row with its storages. Rows of the output width that a recipe demands take precedence.

        A row that the operands do not fit (`_unfit`), whose zero points do not suit them, or whose accumulator does not
        hold their sums, is returned only if there is no other row.
        """
        fitting = [(row, storages) for row in rows if (storages := row.storages(signature)) is not None]
        asked = demands.get("bits")
        # A recipe's number of bits selects rows. If the target has none of that width, the check of demands reports it
        # later.
        exact = [pair for pair in fitting if str(pair[1][OUTPUT].type.width) == asked]
        found = exact or fitting
        # A row with a narrow accumulator may come first because it is fast, but holds only short sums.
        held = [pair for pair in found if sums_fit(region, pair[0])] or found
        held = [pair for pair in held if zero_points_fit(region, pair[0], self.constraints)] or held
        return next((pair for pair in held if self._unfit(region, pair[0], demands) is None), next(iter(held), None))

    def _kept_float(self, region: QuantizeRegionOp) -> str | None:
        name, numbered = region.logical_kernel.data, enumerate(region.input_specs)
        inputs = (spec for index, spec in numbered if not self.target.adds_real(name, index))
        for spec in (*region.output_specs, *inputs):
            if isinstance(spec, NoQuantizedType):
                return f"{written_name(region.outputs[0])}: its specs say not to quantize it"
        for value in (*region.outputs, *region.inputs):
            known = self.constraints.get(value)
            if known is not None and known.float_reason is not None:
                return f"'{written_name(value)}' stays float, {known.float_reason}"
        return self.widths.floats.get(region)

    def _unfit(self, region: QuantizeRegionOp, row: KernelRow, demands: Mapping[str, str]) -> str | None:
        """The reason why the operands do not fit the row; None if they do."""
        if reason := self._unfit_blocks(region, row, demands):
            return reason
        for index, value in enumerate(region.inputs):
            rule = row.input_rule(index)
            if rule.role in (Role.WEIGHT, Role.BIAS) and not is_constant(value):
                return f"kernel '{row.kernel}' requires a constant {rule.role.value}, operand {index} is computed"
            if rule.role is not Role.OTHER and not is_float(value):
                return f"kernel '{row.kernel}' requires floats, operand {index} is {value.type}"
            if reason := self._unfit_pin(row, index, value):
                return reason
        for port, value in result_ports(region):
            if row.rule(port).role is not Role.OTHER and not is_float(value):
                return f"kernel '{row.kernel}' requires floats, {row.port_name(port)} is {value.type}"
            if reason := self._unfit_pin(row, port, value):
                return reason
        return None

    def _unfit_blocks(self, region: QuantizeRegionOp, row: KernelRow, demands: Mapping[str, str]) -> str | None:
        """The reason why the weights cannot have the blocks that a recipe demands, or the blocks or channels that the
        model pins; None if they can."""
        if len(region.inputs) < 2 or row.input_rule(1).role is not Role.WEIGHT:
            return None
        known = self.constraints.get(region.inputs[1])
        pinned = known.pinned if known is not None and known.pinned is not None else None
        blocks = pinned.is_sub_channel if pinned is not None else BLOCK_SIZE in demands
        if pinned is not None and pinned.is_per_channel:
            return unfit_channels(region, pinned)
        if not blocks:
            return None
        if pinned is None and not row.input_rule(1).blocks:
            return f"kernel '{row.kernel}' of target {self.target.name} takes no blocks of weights"
        return unfit_blocks(region, demands, pinned) if row.input_rule(1).blocks else None

    def _unfit_pin(self, row: KernelRow, port: int, value: SSAValue) -> str | None:
        """The reason why a port cannot take its value's pinned type, even after a rescale; None if it can."""
        known, rule = self.constraints.get(value), row.rule(port)
        # Biases are quantized to the scale of the products in any case. A pin only states their real values.
        if known is None or known.pinned is None or rule.role is Role.BIAS:
            return None
        pinned = rebased(known.pinned, rule.storage)
        fits = (rule.per_channel and pinned.is_per_channel) or (rule.blocks and pinned.is_sub_channel)
        if not pinned.is_per_layer and not fits:
            wanted = "one scale, or one per channel," if rule.per_channel else "one scale"
            blocks = ", which has one for each block" if pinned.is_sub_channel else ""
            blocks += "; normalize-quant-types makes it one of that kind" if pinned.normalized != pinned else ""
            found = f"'{written_name(value)}' is pinned to {pinned}{blocks}"
            return f"kernel '{row.kernel}' requires {wanted} at its {row.port_name(port)}, {found}"
        wrong = rule.zero_point is not None and (pinned.zero_points != rule.zero_point).any()
        if wrong and rule.role is Role.WEIGHT:
            return f"kernel '{row.kernel}' requires zero point {rule.zero_point}, its weight is pinned to {pinned}"
        return None

    def _signature(self, region: QuantizeRegionOp, *, neighbours: bool) -> KernelSignature:
        inputs = tuple(
            self._demand(value, spec, neighbours, (region, index))
            for index, (value, spec) in enumerate(zip(region.inputs, region.input_specs, strict=True))
        )
        output, *more = (
            self._demand(value, spec, False, (region, port))
            for (port, value), spec in zip(result_ports(region), region.output_specs, strict=True)
        )
        return KernelSignature(inputs, output, tuple(more))

    def _demand(self, value: SSAValue, spec: object, neighbours: bool, port: PortNumber) -> Demand:
        known = self.constraints.get(value)
        # In order of precedence: a spec in the program, a pinned type, the storage of a state on its way in or out, the
        # storage that readers ask for, the neighbours' storage.
        if isinstance(spec, UniformQuantizedType):
            return spec.storage
        if known is not None and known.pinned is not None:
            return known.pinned.storage
        if (carried := self.recurrent.stored.get(port)) is not None:
            return carried
        bits = [width for width in (self.widths.wide.get(port), known and known.least_bits) if width]
        if isinstance(spec, AnyQuantizedType):
            bits.append(spec.storage.type.width)
        asked = self.asked.get(port)
        if isinstance(asked, Storage) and max(bits, default=0) <= asked.type.width:
            return asked
        if asked is not None:
            bits.append(asked.type.width if isinstance(asked, Storage) else asked.bits)
        if bits:
            return AtLeast(max(bits))
        return self.storage_of.get(value) if neighbours else None


def _with_weights(signature: KernelSignature, region: QuantizeRegionOp, demands: Mapping[str, str]) -> KernelSignature:
    """The signature with the storage of weights that a recipe demands, unless the model pins them."""
    storage = demanded_storage(demands)
    first, *others = signature.inputs
    if storage is None or not others or others[0] is not None or not is_constant(region.inputs[1]):
        return signature
    return replace(signature, inputs=(first, storage, *others[1:]))


def left_float(program: Program) -> dict[QuantizeRegionOp, str]:
    """The regions of a solved program that stay float, with the reason for each."""
    found: dict[QuantizeRegionOp, str] = {}
    for op in program.entry.ops:
        if isinstance(op, QuantizeRegionOp) and isinstance(reason := op.attributes.get(FLOAT_REASON), StringAttr):
            found[op] = reason.data
    return found


def _is_tied(row: KernelRow) -> bool:
    """Whether the ports of the kernel share one scale, so that it works in any storage."""
    return isinstance(row.relation, SameScale)


def _of_either_sign(signature: KernelSignature) -> KernelSignature:
    """The signature with either signedness allowed for each storage. 32-bit storage, used for biases, stays signed."""

    def other(demand: Demand) -> Demand:
        return EitherSign(demand) if isinstance(demand, Storage) and demand.type.width < 32 else demand

    output, *more = map(other, signature.outputs)
    return KernelSignature(tuple(map(other, signature.inputs)), output, tuple(more))
