"""Find functions for which 8 bits of the operand are too few. Widen the kernels before them, or keep these float.

Example: if a logarithm reads values that span decades, most of its results come from values below one step. The loss is
measured on the calibrated values: the function is evaluated on them unrounded and rounded. Noise from earlier roundings
is added to the operand (`rounding_noise`), because several roundings that are each tolerable may be too much together.
If the function's SQNR is below the target's `least_sqnr`, and at least `WORSE` dB below that of the rounded operand
itself, both ends of the operand get the wider storage of the target's rows. If there is no such row, the operand stays
float, and so do the function and the kernel that produces the operand.

The kernels before that one also round; `unrounded.py` decides about them.

Functions in a row are also judged as one, because each alone may tolerate what together they do not: a root of 8 bits
and a logarithm of 8 bits both keep 20 dB, but the values that the root gets as 0 are lost for the logarithm.

A layer normalization divides every row by its own standard deviation, so it is not a function of one element. Its loss
follows from the observed variances of the rows (`normalized_loss`): the noise is the same in all rows, so small rows
lose more.

Source: the RFC on quantization transformations, section "Target Constraints": the table decides which storage a kernel
takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import Fact
from zeropoint.ir.functions import function_name, is_function
from zeropoint.ir.locations import location_text, named_kernel, value_name
from zeropoint.ir.normalizations import NORMALIZATIONS
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, Storage
from zeropoint.ir.tensors import Array
from zeropoint.solve.constraints import Constraints
from zeropoint.solve.rescale import is_rescale
from zeropoint.solve.widths.distribution import (
    PointDistribution,
    RealFunction,
    interpolated,
    loss,
)
from zeropoint.solve.widths.operand_functions import operand_function
from zeropoint.solve.widths.quotients import (
    QUOTIENT_WORSE,
    NormalizedRows,
    divisor_factors,
    numerator_rows,
    product_rows,
)
from zeropoint.solve.widths.recurrences import Recurrences
from zeropoint.solve.widths.rounding_noise import (
    ONE_BYTE,
    RoundingNoise,
    activations,
    is_demanded,
)
from zeropoint.solve.widths.selected_elements import selecting_floats
from zeropoint.solve.widths.unrounded import LINEAR, PRODUCTS, Unrounded, WidthReader
from zeropoint.solve.widths.zero_divisors import rounds_to_zero
from zeropoint.targets import DATA, Target
from zeropoint.targets.logical_kernels import POSITIONS

WORSE = 6.0
"""A function needs a wider operand if its SQNR is at least this many dB below that of its rounded operand."""
LOOKED_THROUGH = 4
"""The number of kernels before a function that are judged with it."""
TRUTH = ("compare", *POSITIONS)
"""Kernels whose results are booleans or positions, which have no SQNR."""


def unrounded_kernels(
    program: Program, recurrent: Recurrences, constraints: Constraints, products: str = PRODUCTS[0]
) -> Unrounded:
    """Find the regions that stay float and the ports that need more than 8 bits, from the functions with observed
    operands. `products` is one of `PRODUCTS`."""
    target = recurrent.target
    noise = RoundingNoise.of(program, recurrent, constraints)
    found = Unrounded(target, constraints, noise, products)
    if target.least_sqnr:
        _Functions(target, constraints, noise, found).judge([*program.entry.ops])
    return found


@dataclass
class _Functions:
    """Judges the functions of a program and records the decisions in `before`."""

    target: Target
    constraints: Constraints
    noise: RoundingNoise
    before: Unrounded

    def judge(self, ops: Sequence[Operation]) -> None:
        """Judge every function."""
        regions = [op for op in ops if isinstance(op, QuantizeRegionOp) and not is_demanded(op)]
        # From the end, because the width of an operand only matters if its reader does not stay float.
        for region in reversed(regions):
            if self._is_open(region):
                self._judge(region)
        for region in regions:
            if region.logical_kernel.data == "multiply":
                self._judge_floats_read(region)
        for value, function in selecting_floats([*ops]):
            self._judge_position(value, function)

    def _is_open(self, region: QuantizeRegionOp) -> bool:
        """Whether a region still has to be judged: not if its readers have decided that it stays float.

        A quotient is always judged, because a divisor that is rounded to 0 destroys everything computed from it.
        """
        return region not in self.before.floats or region.logical_kernel.data == "divide"

    def _judge(self, region: QuantizeRegionOp) -> None:
        """Decide the width of each operand that a region computes a function of."""
        if region.logical_kernel.data == "multiply":
            for rows in product_rows(region, self.noise):
                if region not in self.before.floats:
                    self._judge_rows(region, rows)
        # After products: a product with the reciprocals of rows is a division, in which rounding matters.
        if region.logical_kernel.data in (*LINEAR, *TRUTH) or is_rescale(region) or len(region.outputs) != 1:
            return
        if variances := self.constraints.variances.get(region):
            self._judge_rows(region, NormalizedRows(0, np.array(variances), is_quotient=False))
            return
        if region.logical_kernel.data == "divide":
            self._judge_quotient(region)
        # A quotient is judged both at the RMS of the other operand and over all its points, because either may show the
        # loss.
        for spread in (False, True) if region.logical_kernel.data == "divide" else (False,):
            # To evaluate functions of values that were not observed would take most of the time.
            for index, value in [one for one in activations(region) if self._way(one[1]) is not None]:
                function = operand_function(region, index, self.noise, spread=spread)
                source = None if function is None else self._source(value, function)
                if source is not None and not self.noise.is_given(source[0]):
                    self._judge_function(region, index, *source)

    def _judge_position(self, value: SSAValue, function: RealFunction) -> None:
        """Keep a position, whose whole part selects elements, from being rounded if 8 bits would select other ones."""
        source = self._source(value, function)
        if source is None or self.noise.is_given(source[0]):
            return
        reader = WidthReader((source[1],), None, "")
        seen = self.noise.seen(source[0])
        assert seen is not None
        left = self._left(reader, seen, ONE_BYTE, sqrt(self.noise.carried_by(source[0])))
        if left is not None:
            step = f"{ONE_BYTE} is too coarse for the elements that '{value_name(value)}' selects"
            self.before.trace(source[0], replace(reader, why=step))

    def _judge_function(self, region: QuantizeRegionOp, index: int, value: SSAValue, function: RealFunction) -> None:
        """Judge a region as a function of `value`. If 8 bits of it suffice, also the functions that compute it."""
        self._judge_operand(region, index, value, WidthReader((function,), None, ""))
        if region not in self.before.floats and (region, index) not in self.before.wide:
            self._judge_functions_before(region, value, function)

    def _judge_functions_before(self, region: QuantizeRegionOp, value: SSAValue, function: RealFunction) -> None:
        """Judge the kernels that compute the operand of a region element by element, each with all functions after it.

        Noise passes through linear ones (`RoundingNoise`), so they are only judged behind a nonlinear one.
        """
        steps, is_linear = (function,), True
        for _ in range(LOOKED_THROUGH):
            maker = value.owner
            if not isinstance(maker, QuantizeRegionOp) or not self.before.rounds(maker) or is_demanded(maker):
                return
            operands = activations(maker)
            if len(operands) != 1:
                return
            (index, value), moves = operands[0], self.noise.moves(maker)
            step = None if moves else operand_function(maker, index, self.noise)
            if self.noise.is_given(value) or (step is None and not moves):
                return
            if step is not None:
                steps, is_linear = (step, *steps), is_linear and maker.logical_kernel.data in LINEAR
            if not is_linear and self.noise.seen(value) is not None:
                self._judge_operand(maker, index, value, WidthReader(steps, None, ""), _name(region))

    def _judge_floats_read(self, region: QuantizeRegionOp) -> None:
        """Judge a product that is a quotient in other words (`quotients.py`) and reads a float result.

        If 8 bits cannot hold the float result, the operand is widened or the product stays float. Nothing else needs
        that result rounded, so the product costs no more in float.
        """
        for rows in product_rows(region, self.noise):
            value = region.inputs[rows.index]
            seen, maker = self.noise.seen(value), value.owner
            if (
                region in self.before.floats
                or maker not in self.before.floats
                or seen is None
                or self.noise.is_given(value)
            ):
                continue
            reader = WidthReader((), None, "", variances=rows.variances, is_quotient=rows.is_quotient)
            storages = list(self._storages(region, rows.index)) or [ONE_BYTE]
            left = [reader.left(seen.dense.points, seen.dense.rounded_noise(storage)) for storage in storages]
            fits = [one for one, found in zip(storages, left, strict=True) if found >= self.before.least(reader)]
            why = (
                f"{storages[0]} is too coarse for the float result '{value_name(value)}' that it reads: its own result "
                f"would keep {left[0]:.1f} dB, expected {self.before.least(reader):g}"
            )
            if not fits:
                self.before.leave(region, region.outputs[0], why)
            elif fits[0] != storages[0]:
                self.before.wide[region, rows.index] = fits[0].type.width
                note = Fact("bits", f"at least {fits[0].type.width}", "kernel", why)
                self.constraints.of(value).facts.append(note)

    def _judge_quotient(self, region: QuantizeRegionOp) -> None:
        """Decide the width of a numerator. If 8 bits are too few for it, also decide about the kernels that compute the
        divisor."""
        variances = numerator_rows(region, self.noise)
        if variances is not None:
            self._judge_rows(region, NormalizedRows(0, variances, is_quotient=True))
            if region in self.before.floats or (region, 0) in self.before.wide:
                self._trace_divisor(region)

    def _trace_divisor(self, region: QuantizeRegionOp) -> None:
        """Give the divisor the width of the numerator, and widen the kernels that compute it or keep them float.

        The reader is judged as `1 / x`.
        """
        factors = divisor_factors(region, self.noise)
        if factors is not None:
            why = f"{_name(region)} divides rows of different size by it"
            bits = None if region in self.before.floats else self.before.wide[region, 0]
            if bits is not None:
                self.before.wide[region, 1] = bits
            self.before.trace(
                region.inputs[1], WidthReader((_reciprocal,), bits, why, variances=factors, is_quotient=True)
            )

    def _judge_rows(self, region: QuantizeRegionOp, rows: NormalizedRows) -> None:
        """Decide the width of an operand whose rows a region normalizes or multiplies by different factors."""
        value = region.inputs[rows.index]
        if rows.variances.size and self.noise.seen(value) is not None and not self.noise.is_given(value):
            reader = WidthReader((), None, "", variances=rows.variances, is_quotient=rows.is_quotient)
            self._judge_operand(region, rows.index, value, reader)

    def _way(self, value: SSAValue) -> tuple[SSAValue, list[tuple[Operation, int]]] | None:
        """A value with statistics, and the float ops that compute the given one of it, the last one first.

        Each op is given with the operand that it computes on. None if no value on the way has statistics.
        """
        way: list[tuple[Operation, int]] = []
        while self.noise.seen(value) is None:
            maker = value.owner
            if not isinstance(maker, Operation) or self.before.rounds(maker):
                return None
            operands = activations(maker)
            if len(operands) != 1:
                return None
            index, value = operands[0]
            way.append((maker, index))
        return value, way

    def _source(self, value: SSAValue, function: RealFunction) -> tuple[SSAValue, RealFunction] | None:
        """The operand of a function. If it has no statistics, the value from which float ops compute the operand.

        Returns that value and the composed function of it; None if no value on the way has statistics.
        """
        found = self._way(value)
        if found is None:
            return None
        source, way = found
        steps = [function]
        for maker, index in way:
            if self.noise.moves(maker):
                continue
            step = operand_function(maker, index, self.noise)
            if step is None:
                return None
            steps = [step, *steps]
        return source, WidthReader(tuple(steps), None, "").function

    def _judge_operand(
        self, region: QuantizeRegionOp, index: int, value: SSAValue, reader: WidthReader, after: str = ""
    ) -> None:
        """Judge a region as a reader of `value`: operand `index`, or a value from which float ops compute it.

        `after` names the function after the region with which it is judged as one.
        """
        seen = self.noise.seen(value)
        assert seen is not None
        kept = region in self.before.floats
        own = value is region.inputs[index] and not kept
        storages = (list(self._storages(region, index)) if own else []) or [ONE_BYTE]
        computing = own and not after
        kinds = [self._computing(region, index, storage, reader, seen) if computing else reader for storage in storages]
        zeros = [own and self._refuses(region, index, storage) for storage in storages]
        # A wider operand comes from wider kernels, so only the narrowest storage carries noise from kernels before.
        narrow = self._left(kinds[0], seen, storages[0], sqrt(self.noise.carried_by(value)))
        if narrow is None and not zeros[0]:
            return
        # Without the noise of the kernels before: the message says whether this rounding alone is too coarse.
        alone = [self._left(kind, seen, storage) for kind, storage in zip(kinds, storages, strict=True)]
        left = [-np.inf if zero else found for zero, found in zip(zeros, [narrow, *alone[1:]], strict=True)]
        assert left[0] is not None
        fits = (storage for storage, found in zip(storages, left, strict=True) if found is None)
        # Storages come narrowest first, so this is the cheapest sufficient one.
        enough = None if kept else next(fits, None)
        earlier = " and of the kernels before it" if alone[0] is None else ""
        whose = f"the result of {after} after it" if after else "its result"
        why = (
            f"{storages[0]} is too coarse for the operand of {_name(region)}{earlier}: {whose} would keep "
            f"{left[0]:.1f} dB, expected {self.before.least(reader):g}"
        )
        if zeros[0]:
            why = f"{storages[0]} rounds some of '{value_name(value)}' to 0, which {_name(region)} refuses"
        if enough is None:
            why = f"{why}; target {self.target.name} has no wider storage that suffices"
            if not kept:
                self.before.leave(region, region.outputs[0], why)
        else:
            self.before.wide[region, index] = enough.type.width
            note = Fact("bits", f"at least {enough.type.width}", "kernel", why)
            self.constraints.of(region.inputs[index]).facts.append(note)
        of = _name(region) if location_text(region.location) else ""
        self.before.trace(value, replace(reader, bits=None if enough is None else enough.type.width, why=why), of)

    def _computing(
        self, region: QuantizeRegionOp, index: int, storage: Storage, reader: WidthReader, seen: PointDistribution
    ) -> WidthReader:
        """The reader as the kernel for this storage of operand `index` computes it: interpolated if its row says so."""
        rows = (row for row in self.noise.rows(region) if row.input_rule(index).storage == storage)
        segments = next((row.segments for row in rows), None)
        if segments is None or not reader.steps or reader.variances is not None:
            return reader
        return replace(reader, computed=interpolated(reader.function, seen.within(storage), segments))

    def _refuses(self, region: QuantizeRegionOp, index: int, storage: Storage) -> bool:
        """Whether the kernel of a storage refuses zeros in operand `index` and rounding produces some."""
        rows = [row for row in self.noise.rows(region) if row.input_rule(index).storage == storage]
        refuses = any(row.nonzero == index for row in rows)
        return refuses and rounds_to_zero(region.inputs[index], storage, self.noise)

    def _left(
        self, reader: WidthReader, seen: PointDistribution, storage: Storage, carried: float = 0.0
    ) -> float | None:
        """The SQNR in dB of a reader of the rounded operand if it is too low; None if it is sufficient.

        `carried` is the standard deviation of the operand's noise before it is rounded.
        """
        seen = seen.dense
        rounded = seen.rounded_noise(storage, carried)
        ends, moved = seen.ends(storage)
        left = reader.left(
            np.append(seen.points, ends), [(weight, np.append(points, moved)) for weight, points in rounded]
        )
        # A function is not at fault for what its rounded operand has lost already, so its SQNR is compared with the
        # operand's. Rare large values may dominate the power of the operand. In a normalization, such values are in
        # other rows: what the small rows lose is not the operand's loss (seen in MiniLM's feed-forward layers).
        whole = seen if reader.variances is not None else seen.with_tails(storage)
        own = loss(lambda points: points, whole.points, whole.rounded_noise(storage, carried))
        return (
            left
            if left < min(self.before.least(reader), own - (QUOTIENT_WORSE if reader.is_quotient else WORSE))
            else None
        )

    def _storages(self, region: QuantizeRegionOp, index: int) -> Iterator[Storage]:
        """The storages that the target's rows accept at an operand, in the order of the table; narrow ones of a row
        first."""
        for row in self.noise.rows(region):
            rule = row.input_rule(index)
            if rule.role in DATA:
                yield rule.storage
                for width in rule.widths if rule.wildcard and rule.bits else ():
                    if width > rule.storage.type.width:
                        yield Storage.of(f"{'i' if rule.storage.type.signed else 'u'}{width}")


def _name(region: QuantizeRegionOp) -> str:
    """The last function of a region and its location, for messages: `log 'features'`."""
    kernel = region.logical_kernel.data
    steps = [function_name(op) for op in region.body.block.ops if is_function(op) and kernel not in NORMALIZATIONS]
    return named_kernel(steps[-1] if steps else kernel, region.outputs[0])


def _reciprocal(points: Array) -> Array:
    return 1.0 / points
