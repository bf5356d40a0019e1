"""Find functions that need more than 8 bits for their operand, and widen or keep float the kernels before them.

If a logarithm reads values that span decades, most of its results come from values below one step. The loss is measured
on the calibrated values: the function is evaluated on them unrounded and rounded. Noise from the roundings before the
operand is added to it (`rounding_noise`), because several that are each tolerable may be too much together. If the
function's SQNR is below the target's `least_sqnr`, and at least `WORSE` dB below that of the rounded operand itself,
both ends of the operand get the wider storage of the target's rows. If there is none, the operand stays float, and so
do the function and the kernel that produces the operand.

The operands of that kernel are also rounded. So the same test is applied to the kernel, composed with the function:
data movement passes its operand on, functions are composed, and the noise of a sum's operands is normal noise on the
sum, of which each operand may cause an equal part. Float ops in between, such as those without a kernel on the target,
do not round, but they are walked through: their operands may come from a kernel that would round. The walk continues
while the noise is too large, through at most two contractions (a filter bank before the logarithm, a transform before
that). Kernels before those are rounded as usual.

A layer normalization divides every row by its own deviation, so it is no function of one element. Its loss follows from
the observed variances of the rows (`normalized_loss`): the noise is the same in all rows, so small rows lose more.

Source: the RFC on quantization transformations, section "Target Constraints": the table decides which storage a kernel
takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import sqrt

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import Fact
from zeropoint.ir.functions import function_name, is_function
from zeropoint.ir.locations import named_kernel, value_name
from zeropoint.ir.normalizations import NORMALIZATIONS
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, Storage
from zeropoint.ir.tensors import Array
from zeropoint.solve.constraints import Constraints
from zeropoint.solve.distribution import (
    Function,
    Noisy,
    PointDistribution,
    interpolated,
    loss,
    normalized_loss,
    with_noise,
)
from zeropoint.solve.operand_functions import operand_function
from zeropoint.solve.quotients import (
    QUOTIENT_SPARE,
    QUOTIENT_WORSE,
    NormalizedRows,
    divisor_factors,
    numerator_rows,
    product_rows,
)
from zeropoint.solve.real_results import plain_contraction
from zeropoint.solve.rescale import is_rescale
from zeropoint.solve.rounding_noise import (
    CONTRACTIONS,
    CONTRACTIONS_KEPT,
    ONE_BYTE,
    RoundingNoise,
    activations,
    is_demanded,
)
from zeropoint.solve.termination import Port, result_port
from zeropoint.targets import DATA, Target

WORSE = 6.0
"""A function needs a wider operand if its SQNR is at least this many dB below that of its rounded operand."""
LINEAR = ("add", "subtract", "multiply", "maximum", "minimum", "mean", "sum", "average_pool", "batch_matmul")
"""Kernels that never need wider operands: they pass the noise of a rounded operand on, but do not amplify it."""
TRUTH = ("compare",)
"""Kernels with boolean results, which have no SQNR."""


@dataclass(frozen=True)
class _Reader:
    """A function and what its operand must become: `bits` wide, or float if that is None. `why` is the reason."""

    steps: tuple[Function, ...]
    bits: int | None
    why: str
    contractions: int = 0
    variances: Array | None = None
    """The variances of the rows if the reader divides each row by its own deviation."""
    is_quotient: bool = False
    """Whether its other operand carries noise as well, so that it needs more than the target's minimum."""
    computed: Function | None = None
    """What the kernel computes instead of the function; None if it is the function."""

    def function(self, points: Array) -> Array:
        """Apply the steps in order."""
        for step in self.steps:
            points = step(points)
        return points

    def left(self, points: Array, changed: Noisy) -> float:
        """The SQNR in dB of the reader's result when its points are perturbed."""
        if self.variances is None:
            return loss(self.function, points, changed, self.computed)
        return normalized_loss(self.function, points, changed, self.variances)


@dataclass
class FunctionWidths:
    """The regions that stay float, with the reason, and the minimum width in bits of ports that need more than 8."""

    target: Target
    constraints: Constraints
    noise: RoundingNoise
    floats: dict[QuantizeRegionOp, str] = field(default_factory=dict[QuantizeRegionOp, str])
    wide: dict[Port, int] = field(default_factory=dict[Port, int])

    @staticmethod
    def of(program: Program, target: Target, constraints: Constraints) -> FunctionWidths:
        """Check every function of a program whose operands have statistics."""
        found = FunctionWidths(target, constraints, RoundingNoise.of(program, target, constraints))
        if target.least_sqnr:
            # From the end: whether a reader stays float decides whether its operand's width matters.
            for op in reversed(list(program.entry.ops)):
                if isinstance(op, QuantizeRegionOp) and not is_demanded(op) and found._is_open(op):
                    found._judge(op)
            for op in program.entry.ops:
                if isinstance(op, QuantizeRegionOp) and not is_demanded(op) and op.logical_kernel.data == "multiply":
                    found._judge_floats_read(op)
        return found

    def _is_open(self, region: QuantizeRegionOp) -> bool:
        """Whether a region is not decided by its readers.

        A quotient is never: a divisor that rounding makes 0 destroys what any reader computes of it.
        """
        return region not in self.floats or region.logical_kernel.data == "divide"

    def _judge(self, region: QuantizeRegionOp) -> None:
        """Decide the width of each operand of a region that is a function of it."""
        if region.logical_kernel.data == "multiply":
            for rows in product_rows(region, self.noise):
                if region not in self.floats:
                    self._judge_rows(region, rows)
        # After products: a product with a reciprocal of rows is a division, for which rounding matters.
        if region.logical_kernel.data in (*LINEAR, *TRUTH) or is_rescale(region) or len(region.outputs) != 1:
            return
        if variances := self.constraints.variances.get(region):
            self._judge_rows(region, NormalizedRows(0, np.array(variances), is_quotient=False))
            return
        if region.logical_kernel.data == "divide":
            self._judge_quotient(region)
        # A quotient is judged at the RMS of the other operand, and over all its points: either may show the loss.
        for spread in (False, True) if region.logical_kernel.data == "divide" else (False,):
            for index, value in activations(region):
                function = operand_function(region, index, self.noise, spread=spread)
                source = None if function is None else self._source(value, function)
                if source is not None and not self.noise.is_given(source[0]):
                    self._judge_operand(region, index, source[0], _Reader((source[1],), None, ""))

    def _judge_floats_read(self, region: QuantizeRegionOp) -> None:
        """Widen a product that is a quotient in other words, or keep it float, if it reads a float result that 8 bits
        cannot hold.

        Rounding that result is not needed for anything else: the product costs no more in float.
        """
        for rows in product_rows(region, self.noise):
            value = region.inputs[rows.index]
            seen, maker = self.noise.seen(value), value.owner
            if region in self.floats or maker not in self.floats or seen is None or self.noise.is_given(value):
                continue
            reader = _Reader((), None, "", 0, rows.variances, rows.is_quotient)
            storages = list(self._storages(region, rows.index)) or [ONE_BYTE]
            left = [reader.left(seen.points, seen.rounded_noise(storage)) for storage in storages]
            fits = [one for one, found in zip(storages, left, strict=True) if found >= self._least(reader)]
            why = (
                f"{storages[0]} is too coarse for the float result '{value_name(value)}' that it reads: its own result "
                f"would keep {left[0]:.1f} dB, expected {self._least(reader):g}"
            )
            if not fits:
                self._leave(region, region.outputs[0], why)
            elif fits[0] != storages[0]:
                self.wide[region, rows.index] = fits[0].type.width
                note = Fact("bits", f"at least {fits[0].type.width}", "kernel", why)
                self.constraints.of(value).facts.append(note)

    def _judge_quotient(self, region: QuantizeRegionOp) -> None:
        """Decide the widths of a numerator and, if 8 bits are too few for it, of the kernels before the divisor."""
        variances = numerator_rows(region, self.noise)
        if variances is not None:
            self._judge_rows(region, NormalizedRows(0, variances, is_quotient=True))
            if region in self.floats or (region, 0) in self.wide:
                self._trace_divisor(region)

    def _trace_divisor(self, region: QuantizeRegionOp) -> None:
        """Widen the kernels that compute the divisor as the numerator, or keep them float, as those of `1 / x`."""
        factors = divisor_factors(region, self.noise)
        if factors is not None:
            why = f"{_name(region)} divides rows of different size by it"
            bits = None if region in self.floats else self.wide[region, 0]
            if bits is not None:
                self.wide[region, 1] = bits
            self._trace(region.inputs[1], _Reader((_reciprocal,), bits, why, 0, factors, is_quotient=True))

    def _judge_rows(self, region: QuantizeRegionOp, rows: NormalizedRows) -> None:
        """Decide the width of an operand that a region normalizes, by elements or rows."""
        value = region.inputs[rows.index]
        if rows.variances.size and self.noise.seen(value) is not None and not self.noise.is_given(value):
            reader = _Reader((), None, "", 0, rows.variances, rows.is_quotient)
            self._judge_operand(region, rows.index, value, reader)

    def _source(self, value: SSAValue, function: Function) -> tuple[SSAValue, Function] | None:
        """The operand of a function, or what it is computed from by float ops if it has no statistics itself.

        Returns that value and the function of it; None if no value on the way has statistics.
        """
        steps = [function]
        while self.noise.seen(value) is None:
            maker = value.owner
            if not isinstance(maker, Operation) or self._rounds(maker):
                return None
            operands = activations(maker)
            if len(operands) != 1:
                return None
            (index, value), moves = operands[0], self.noise.moves(maker)
            step = None if moves else operand_function(maker, index, self.noise)
            if step is None and not moves:
                return None
            steps = steps if step is None else [step, *steps]
        return value, _Reader(tuple(steps), None, "").function

    def _judge_operand(self, region: QuantizeRegionOp, index: int, value: SSAValue, reader: _Reader) -> None:
        """Judge a region as the reader of a value: of operand `index`, or of what float ops compute that from."""
        seen = self.noise.seen(value)
        assert seen is not None
        kept = region in self.floats
        own = value is region.inputs[index] and not kept
        storages = (list(self._storages(region, index)) if own else []) or [ONE_BYTE]
        # Without the noise of kernels before it: it tells whether this rounding alone is too coarse, for the message.
        kinds = [self._computing(region, index, storage, reader, seen) if own else reader for storage in storages]
        alone = [self._left(kind, seen, storage) for kind, storage in zip(kinds, storages, strict=True)]
        # A wider operand comes from wider kernels, so only the narrowest storage has the noise before it.
        carried = sqrt(self.noise.carried_by(value))
        left = [self._left(reader, seen, storages[0], carried), *alone[1:]]
        if left[0] is None:
            return
        fits = (storage for storage, found in zip(storages, left, strict=True) if found is None)
        # Storages come narrowest first, so this is the cheapest one that suffices.
        enough = None if kept else next(fits, None)
        readers = f"{_name(region)} {'and the kernels before it read' if alone[0] is None else 'reads'}"
        why = (
            f"{storages[0]} is too coarse for what {readers}: its result would keep {left[0]:.1f} dB, "
            f"expected {self._least(reader):g}"
        )
        if enough is None:
            why = f"{why}; target {self.target.name} has no wider storage for it that is enough"
            if not kept:
                self._leave(region, region.outputs[0], why)
        else:
            self.wide[region, index] = enough.type.width
            note = Fact("bits", f"at least {enough.type.width}", "kernel", why)
            self.constraints.of(region.inputs[index]).facts.append(note)
        self._trace(value, replace(reader, bits=None if enough is None else enough.type.width, why=why))

    def _computing(
        self, region: QuantizeRegionOp, index: int, storage: Storage, reader: _Reader, seen: PointDistribution
    ) -> _Reader:
        """The reader as a kernel computes it that has operand `index` in a storage: interpolated if its row says so."""
        rows = (row for row in self.noise.rows(region) if row.input_rule(index).storage == storage)
        segments = next((row.segments for row in rows), None)
        if segments is None or not reader.steps or reader.variances is not None:
            return reader
        return replace(reader, computed=interpolated(reader.function, seen, segments))

    def _left(self, reader: _Reader, seen: PointDistribution, storage: Storage, carried: float = 0.0) -> float | None:
        """The SQNR in dB of a reader of the rounded operand if it is too low; None if it is sufficient.

        `carried` is the standard deviation of the noise that the operand has before it is rounded.
        """
        rounded = seen.rounded_noise(storage, carried)
        left = reader.left(seen.points, rounded)
        # A function may lose what its rounded operand has lost already; it is at fault only for what it loses beyond
        # that.
        own = loss(lambda points: points, seen.points, rounded)
        return (
            left if left < min(self._least(reader), own - (QUOTIENT_WORSE if reader.is_quotient else WORSE)) else None
        )

    def _least(self, reader: _Reader) -> float:
        """The least SQNR in dB that a reader's result must keep."""
        return self.target.least_sqnr + (QUOTIENT_SPARE if reader.is_quotient else 0.0)

    def _storages(self, region: QuantizeRegionOp, index: int) -> Iterator[Storage]:
        """The storages that the target's rows accept at an operand, in table order; the narrow ones of a row first."""
        for row in self.noise.rows(region):
            rule = row.input_rule(index)
            if rule.role in DATA:
                yield rule.storage
                for width in rule.widths if rule.wildcard and rule.bits else ():
                    if width > rule.storage.type.width:
                        yield Storage.of(f"{'i' if rule.storage.type.signed else 'u'}{width}")

    def _trace(self, value: SSAValue, reader: _Reader) -> None:
        """Keep the kernels before `value` from rounding it, backwards until the reader tolerates the rounding."""
        pending: list[tuple[SSAValue, _Reader]] = [(value, reader)]
        asked: set[SSAValue] = set()
        while pending:
            value, reader = pending.pop()
            if value not in asked:
                asked.add(value)
                pending += reversed(self._ask(value, reader))

    def _ask(self, value: SSAValue, reader: _Reader) -> list[tuple[SSAValue, _Reader]]:
        """Keep the kernel that defines `value` from rounding it. Returns the operands to visit next, with readers."""
        maker = value.owner
        if not isinstance(maker, Operation) or self.noise.is_given(value):
            return []
        kernel = maker if isinstance(maker, QuantizeRegionOp) and self._rounds(maker) else None
        if kernel is not None:
            if is_demanded(kernel):
                return []
            if reader.bits is not None or not self._gives_reals(kernel):
                self._keep(kernel, value, reader)
        found: list[tuple[SSAValue, _Reader]] = []
        for index, operand in activations(maker):
            behind = self._behind(maker, index, value, reader)
            if behind is None:
                continue
            if kernel is not None and behind.bits is not None and kernel not in self.floats:
                self.wide[kernel, index] = behind.bits
            elif kernel is not None:
                self._keep(kernel, value, behind)
            if behind.contractions < CONTRACTIONS_KEPT:
                found.append((operand, behind))
        return found

    def _keep(self, region: QuantizeRegionOp, value: SSAValue, reader: _Reader) -> None:
        """Widen the output of a region if a row allows it; otherwise keep the region float."""
        if region in self.floats:
            return
        rows = self.noise.rows(region)
        port = result_port(value)
        if reader.bits is not None and any(max(row.rule(port).widths) >= reader.bits for row in rows):
            self.wide[region, port] = reader.bits
            return
        self._leave(region, value, f"not rounded on its way: {reader.why}")

    def _leave(self, region: QuantizeRegionOp, value: SSAValue, why: str) -> None:
        """Keep a region float. Its result no longer has the range of its kernel: state what is known as observed."""
        seen = self.noise.seen(value)
        self.floats[region] = why
        known = self.constraints.of(value)
        if known.minimum is None and seen is not None:
            # Readers need a range; without the kernel, whose type would have given it, there is none.
            known.observe(seen.minimum, seen.maximum, "default", "the kernel that stays float")
            known.quantiles = tuple(seen.points.tolist())

    def _behind(self, maker: Operation, index: int, value: SSAValue, reader: _Reader) -> _Reader | None:
        """The reader composed with `maker` as a function of operand `index`; None if it tolerates that rounding."""
        name = maker.logical_kernel.data if isinstance(maker, QuantizeRegionOp) else ""
        operand = maker.operands[index]
        made, read = self.noise.estimated(value), self.noise.estimated(operand)
        if is_rescale(maker) or (read is None and self._rounds(operand.owner)):
            return None
        reader = replace(reader, contractions=reader.contractions + (name in CONTRACTIONS))
        if self.noise.moves(maker):
            return reader
        own = operand_function(maker, index, self.noise) if name not in LINEAR or made is None else None
        if own is not None:
            composed = replace(reader, steps=(own, *reader.steps))
            return composed if read is None else self._unborne(composed, maker, index, read)
        gain = self.noise.gain(maker, index) if isinstance(maker, QuantizeRegionOp) else None
        if gain is None or made is None or read is None:
            return None
        left = CONTRACTIONS_KEPT - reader.contractions
        # As if each operand had this one's noise: each may use up its equal part of what the reader tolerates, no more.
        noise = sqrt(len(activations(maker)) * gain * self.noise.read_by(maker, index, left))
        if reader.left(made.points, with_noise(made.points, noise)) >= self._least(reader):
            return None
        return replace(reader, steps=(_scaled(sqrt(made.power / read.power) if read.power else 1.0), *reader.steps))

    def _unborne(self, reader: _Reader, maker: Operation, index: int, read: PointDistribution) -> _Reader | None:
        """The reader of an operand, with `bits` None if that width is too small; None if 8 bits are sufficient."""

        def bears(storage: Storage, carried: float) -> bool:
            rounded = read.rounded_noise(storage, carried)
            return reader.left(read.points, rounded) >= self._least(reader)

        carried = self.noise.carried_by(maker.operands[index], CONTRACTIONS_KEPT - reader.contractions)
        if bears(self.noise.storage(maker, index), sqrt(carried)):
            return None
        # With the wider storage, the kernels before it are wider, too, and carry no 8-bit noise.
        enough = reader.bits is None or bears(Storage.of(f"i{reader.bits}"), 0.0)
        return reader if enough else replace(reader, bits=None)

    def _rounds(self, maker: object) -> bool:
        """Whether the result of an op will be rounded: it has a kernel and does not stay float."""
        return self._is_kernel(maker) and maker not in self.floats

    def _gives_reals(self, region: QuantizeRegionOp) -> bool:
        """Whether only float ops read a contraction, so that they get its dequantized accumulators."""
        readers = [use.operation for use in region.outputs[0].uses]
        # Accumulators are not rounded, so the kernel may stay an integer one.
        floats = all(
            not isinstance(reader, ReturnOp) and (reader in self.floats or not self._is_kernel(reader))
            for reader in readers
        )
        return self.target.real_results and floats and plain_contraction(region) is not None

    def _is_kernel(self, reader: object) -> bool:
        return isinstance(reader, QuantizeRegionOp) and bool(self.noise.rows(reader))


def _name(region: QuantizeRegionOp) -> str:
    """The last function of a region and its location: `log 'features'`."""
    kernel = region.logical_kernel.data
    steps = [function_name(op) for op in region.body.block.ops if is_function(op) and kernel not in NORMALIZATIONS]
    return named_kernel(steps[-1] if steps else kernel, region.outputs[0])


def _reciprocal(points: Array) -> Array:
    return 1.0 / points


def _scaled(factor: float) -> Function:
    return lambda points: points * np.float32(factor)
