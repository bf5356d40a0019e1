"""Find the kernels before a reader whose rounding the reader does not tolerate, and widen them or keep them float.

If 8 bits are too few for a function's operand (`function_widths.py`), the kernel that produces the operand must not
round it to 8 bits. The operands of that kernel are rounded as well. So the same test is applied to the kernel composed
with the function, and so on backwards:

- Data movement passes the requirement on to its operand.
- Functions are composed.
- Noise in the operands of a sum is normal noise in the sum. Each operand may cause an equal share of it.
- Float ops, such as those without a kernel on the target, do not round. They are walked through, because a kernel that
  rounds may produce their operands.

The walk continues while the noise is too large, through at most two contractions (a filter bank before the logarithm,
and a transform before that). Kernels before those are rounded as usual. In a front end (`front_ends.py`), the walk may
reach the inputs of the network.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import sqrt

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, Storage
from zeropoint.ir.regions import regions_of
from zeropoint.ir.tensors import Array
from zeropoint.solve.constraints import Constraints
from zeropoint.solve.rescale import is_rescale
from zeropoint.solve.termination import PortNumber, result_port
from zeropoint.solve.widths.distribution import (
    Noisy,
    PointDistribution,
    RealFunction,
    loss,
    normalized_loss,
    with_noise,
)
from zeropoint.solve.widths.operand_functions import operand_function
from zeropoint.solve.widths.quotients import QUOTIENT_SPARE
from zeropoint.solve.widths.real_results import gives_accumulators, plain_contraction
from zeropoint.solve.widths.rounding_noise import (
    ANY_NUMBER,
    CONTRACTIONS,
    CONTRACTIONS_KEPT,
    RoundingNoise,
    activations,
    is_demanded,
)
from zeropoint.targets import Target

PRODUCTS = ("judged", "integers")
"""What a contraction does whose rounded operands a float function after it does not tolerate: it stays float, or it
keeps its integer operands and passes its accumulators on."""
UNROUNDED = "its result must not be rounded"
"""How the reason of a kernel that stays float for a function after it begins."""
LINEAR = ("add", "subtract", "multiply", "maximum", "minimum", "mean", "sum", "average_pool", "batch_matmul")
"""Kernels that never need wider operands. They pass on the noise of a rounded operand, but do not amplify it."""


@dataclass(frozen=True)
class WidthReader:
    """A function, and what its operand must become: `bits` wide, or float if `bits` is None. `why` is the reason."""

    steps: tuple[RealFunction, ...]
    bits: int | None
    why: str
    kept: int = CONTRACTIONS_KEPT
    """The number of contractions before the operand that may stay float."""
    variances: Array | None = None
    """The variances of the rows if the reader divides each row by its own standard deviation."""
    is_quotient: bool = False
    """Whether the other operand carries noise as well, so that the reader needs more than the target's minimum."""
    computed: RealFunction | None = None
    """The function that the kernel computes if it is not exactly `function`, such as an interpolation."""

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
class Unrounded:
    """The regions that stay float, with the reason, and the minimum width in bits of ports that need more than 8."""

    target: Target
    constraints: Constraints
    noise: RoundingNoise
    products: str = PRODUCTS[0]
    floats: dict[QuantizeRegionOp, str] = field(default_factory=dict[QuantizeRegionOp, str])
    wide: dict[PortNumber, int] = field(default_factory=dict[PortNumber, int])
    reals: dict[QuantizeRegionOp, str] = field(default_factory=dict[QuantizeRegionOp, str])
    """The contractions that return their accumulators as floats, with the reason."""
    _traced: dict[str, dict[SSAValue, int]] = field(default_factory=dict[str, dict[SSAValue, int]])
    """The values that readers of one op have visited, by the op, with the most contractions kept before them."""

    def trace(self, value: SSAValue, reader: WidthReader, of: str = "") -> None:
        """Keep the kernels before `value` from rounding it, backwards until the reader tolerates the rounding.

        `of` names the op of the model that the reader is a part of. A recurrent operator becomes a reader for every
        step in time, and the values before a step are before all later ones, too. They are visited once for all steps.
        """
        pending: list[tuple[SSAValue, WidthReader]] = [(value, replace(reader, kept=self.noise.kept_before(value)))]
        asked: set[SSAValue] = set()
        traced = self._traced.setdefault(of, {}) if of else {}
        while pending:
            value, reader = pending.pop()
            if value not in asked and reader.kept > traced.get(value, 0):
                asked.add(value)
                traced[value] = reader.kept
                pending += reversed(self._ask(value, reader))

    def leave(self, region: QuantizeRegionOp, value: SSAValue, why: str) -> None:
        """Keep a region float. A result without a range gets its known distribution as an observed one."""
        seen = self.noise.seen(value)
        self.floats[region] = why
        known = self.constraints.of(value)
        if known.minimum is None and seen is not None:
            # Readers need a range, and the kernel whose type would have given it is not used.
            known.observe(seen.minimum, seen.maximum, "default", "the kernel that stays float")
            known.quantiles = tuple(seen.points.tolist())

    def rounds(self, maker: object) -> bool:
        """Whether the result of an op will be rounded: it has a kernel and does not stay float."""
        return self._is_kernel(maker) and maker not in self.floats

    def least(self, reader: WidthReader) -> float:
        """The least SQNR in dB that a reader's result must keep."""
        return self.target.least_sqnr + (QUOTIENT_SPARE if reader.is_quotient else 0.0)

    def _ask(self, value: SSAValue, reader: WidthReader) -> list[tuple[SSAValue, WidthReader]]:
        """Keep the kernel that defines `value` from rounding it. Returns the next operands to visit, with readers."""
        maker = value.owner
        if not isinstance(maker, Operation) or self.noise.is_given(value):
            return []
        kernel = maker if isinstance(maker, QuantizeRegionOp) and self.rounds(maker) else None
        if kernel is not None:
            if is_demanded(kernel):
                return []
            if reader.bits is not None or not self._gives_reals(kernel):
                self._keep(kernel, value, reader)
            else:
                self.reals[kernel] = f"{UNROUNDED}: {reader.why}"
        found: list[tuple[SSAValue, WidthReader]] = []
        for index, operand in activations(maker):
            behind = self._behind(maker, index, value, reader)
            if behind is None or (kernel is not None and behind.bits is None and self._has_integers(kernel)):
                continue
            if kernel is not None and behind.bits is not None and kernel not in self.floats:
                self.wide[kernel, index] = behind.bits
            elif kernel is not None:
                self._keep(kernel, value, behind)
            if behind.kept:
                found.append((operand, behind))
        return found

    def _keep(self, region: QuantizeRegionOp, value: SSAValue, reader: WidthReader) -> None:
        """Widen the result of a region if a row allows it. Otherwise keep the region float."""
        if region in self.floats:
            return
        rows = self.noise.rows(region)
        port = result_port(value)
        if reader.bits is not None and any(max(row.rule(port).widths) >= reader.bits for row in rows):
            self.wide[region, port] = reader.bits
            return
        self.leave(region, value, f"{UNROUNDED}: {reader.why}")

    def _behind(self, maker: Operation, index: int, value: SSAValue, reader: WidthReader) -> WidthReader | None:
        """The reader composed with `maker` as a function of operand `index`; None if the reader tolerates that
        rounding."""
        name = maker.logical_kernel.data if isinstance(maker, QuantizeRegionOp) else ""
        operand = maker.operands[index]
        made, read = self.noise.estimated(value), self.noise.estimated(operand)
        if is_rescale(maker) or (read is None and self.rounds(operand.owner)):
            return None
        reader = replace(reader, kept=_kept_behind(reader.kept, name))
        if self.noise.moves(maker):
            return reader
        own = operand_function(maker, index, self.noise) if name not in LINEAR or made is None else None
        if own is not None:
            composed = replace(reader, steps=(own, *reader.steps))
            return composed if read is None else self._unborne(composed, maker, index, read)
        gain = self.noise.gain(maker, index) if isinstance(maker, QuantizeRegionOp) else None
        if gain is None or made is None or read is None:
            return None
        # The noise is tested as if each operand had as much as this one: each may use an equal share of what is
        # tolerated.
        each, weights = len(activations(maker)) * gain, self.noise.of_weights(maker)
        if self._bears(reader, made, each * self.noise.read_by(maker, index, reader.kept) + weights):
            return None
        if reader.bits is not None:
            # A row may store fewer bits than its type has: 13 of i16, for example, so that sums fit the accumulator.
            wide = self.noise.widened(maker, index, reader.bits)
            if wide is not None and not self._bears(reader, made, each * wide + weights):
                lost = "the weights" if weights > each * wide else "the operand"
                short = f"target {self.target.name} has no sufficient storage for {lost} of {name} before it"
                reader = replace(reader, bits=None, why=f"{reader.why}; {short}")
        return replace(reader, steps=(_scaled(sqrt(made.power / read.power) if read.power else 1.0), *reader.steps))

    def _bears(self, reader: WidthReader, made: PointDistribution, variance: float) -> bool:
        """Whether a reader keeps its minimum SQNR if its operand has normal noise of this variance."""
        points = made.dense.points
        return reader.left(points, with_noise(points, sqrt(variance))) >= self.least(reader)

    def _unborne(
        self, reader: WidthReader, maker: Operation, index: int, read: PointDistribution
    ) -> WidthReader | None:
        """The reader, or None if 8 bits are sufficient. Its `bits` become None if that width is too small."""

        def bears(storage: Storage, carried: float) -> bool:
            rounded = read.dense.rounded_noise(storage, carried)
            return reader.left(read.dense.points, rounded) >= self.least(reader)

        carried = self.noise.carried_by(maker.operands[index], reader.kept)
        if bears(self.noise.storage(maker, index), sqrt(carried)):
            return None
        # With the wider storage, the kernels before it are wider, too, and carry no 8-bit noise.
        enough = reader.bits is None or bears(Storage.of(f"i{reader.bits}"), 0.0)
        return reader if enough else replace(reader, bits=None)

    def _has_integers(self, region: QuantizeRegionOp) -> bool:
        """Whether the operands of a contraction are rounded although a float function after it does not tolerate it."""
        return self.products == "integers" and self._gives_reals(region)

    def _gives_reals(self, region: QuantizeRegionOp) -> bool:
        """Whether only float ops read a contraction, so that they get its dequantized accumulators.

        On a target without `real_results`, kernels may read it as well: a cast before them rounds it.
        """
        if not gives_accumulators(region, self.target):
            return False
        readers = [use.operation for use in region.outputs[0].uses]
        # Accumulators are not rounded, so the kernel may stay an integer one.
        return all(
            not isinstance(reader, ReturnOp)
            and (reader in self.floats or not self._is_kernel(reader) or not self.target.real_results)
            for reader in readers
        )

    def _is_kernel(self, reader: object) -> bool:
        return isinstance(reader, QuantizeRegionOp) and bool(self.noise.rows(reader))


def float_products(program: Program) -> int:
    """The number of contractions of a propagated program that stay float for a function after them, and that could pass
    their accumulators on."""

    def is_one(region: QuantizeRegionOp) -> bool:
        reason = region.attributes.get(FLOAT_REASON)
        kept = isinstance(reason, StringAttr) and reason.data.startswith(UNROUNDED)
        return kept and region.logical_kernel.data in CONTRACTIONS and plain_contraction(region) is not None

    return sum(map(is_one, regions_of(program)))


def _kept_behind(kept: int, name: str) -> int:
    """The number of contractions that may stay float behind a kernel."""
    return kept - (name in CONTRACTIONS and kept != ANY_NUMBER)


def _scaled(factor: float) -> RealFunction:
    return lambda points: points * np.float32(factor)
