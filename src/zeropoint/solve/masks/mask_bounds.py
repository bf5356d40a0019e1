"""How low the numbers of masks and masked scores have to be, from the softmax back to every mask.

```mlir
%s = "quant.stats"(%scores)                            [-4, 5]
%0 = "quant.region"(%mask, %causal) ({ minimum })      [-1e9, 0]
%1 = "quant.region"(%s, %0) ({ add })                  visible in [-4, 5], down to -1e9
%2 = "quant.region"(%1) ({ softmax })
```
The analysis goes through the program twice. Forwards, it finds the range of the visible numbers of every value: what a
mask adds to them is taken to be 0 at least. Backwards, it finds the bound below which a number may have any value:

- where a softmax reads the value, `MARGIN` below the least visible number;
- for a term of a sum, the greatest number of the other term lower than for the sum;
- for an element of a minimum, maximum, selection, concatenation or movement, the bound of the result;
- for an operand that is scaled, the bound of the result divided by the factor.

So a mask may be combined of others in any order. If a value has several readers, the lowest bound applies. It has none
if a reader does anything else.

In a sum, a term is a mask if its least number would hide the least number of the other term, if its numbers are far
below 0, but not far above it, and if a gap parts those that hide from the others (`mask_evidence.py`). A constant
beside scores in a selection, a concatenation or a pad hides in the same way, but a table of many numbers does not. An
assumption that changes nothing in the end, because the bound is lower than the mask, is dropped, and the analysis
starts again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Operation, SSAValue, Use

from zeropoint.ir.masks import HIDDEN
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp
from zeropoint.solve.constraints import stated_range
from zeropoint.solve.masks.mask_evidence import hides, least_visible, may_be_mask
from zeropoint.solve.masks.masked_scores import Combined, MaskRule, Term, combined, different_numbers
from zeropoint.solve.widths.keep_tested import is_kept

MARGIN = 8.0
"""How far below the least visible score a hidden score must be where the softmax reads them."""
DEEPER = 16
"""A mask goes this many times as far below 0 as above it. Other terms of a sum are biases or scores."""
LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class ShownNumbers:
    """The numbers of a value: visible ones in [low, high], and hidden ones down to `least`.

    `added`: a mask that hides some was added, not inserted.
    """

    least: float
    low: float
    high: float
    added: bool = False

    @property
    def hides(self) -> bool:
        """Whether there are hidden numbers."""
        return self.least < self.low


@dataclass(frozen=True)
class HidingBound:
    """A number below which all numbers are equally hidden. `stated`: a value from there to the softmax has a range."""

    least: float
    stated: bool = False


@dataclass
class MaskBounds:
    """The numbers and bounds of a program's values. The program must not change in the meantime.

    `steps` are the combinations whose results reach only softmaxes and maxima. `denied` are the terms that are no masks
    after all.
    """

    program: Program
    steps: dict[Operation, Combined] = field(default_factory=dict[Operation, Combined])
    numbers: dict[SSAValue, ShownNumbers | None] = field(default_factory=dict[SSAValue, ShownNumbers | None])
    bounds: dict[SSAValue, HidingBound] = field(default_factory=dict[SSAValue, HidingBound])
    assumed: dict[Term, float] = field(default_factory=dict[Term, float])
    denied: set[Term] = field(default_factory=set[Term])

    def __post_init__(self) -> None:
        reached = self._reached()
        while reached:
            self.numbers, self.assumed = {}, {}
            self._find_numbers()
            self._find_bounds()
            useless = {term for term, least in self.assumed.items() if not self._cuts(term, least)}
            if not useless:
                break
            self.denied |= useless

    def of(self, value: SSAValue) -> ShownNumbers | None:
        """The numbers of a value or constant; None if they are not known."""
        if value in self.numbers:
            return self.numbers[value]
        array = different_numbers(value, self.program.weights)
        if array is None or not array.size or not array.max() < np.inf:
            return None
        return ShownNumbers(float(array.min()), float(array.min()), float(array.max()))

    def bound(self, term: Term) -> HidingBound | None:
        """The bound of one term of a combination; None if it has none."""
        op = term.holder if term.holder in self.steps else term.holder.parent_op()
        step = None if op is None else self.steps.get(op)
        behind = None if op is None else self.bounds.get(op.results[0])
        if step is None or behind is None:
            return None
        if step.rule is MaskRule.SCALED:
            return HidingBound(behind.least / step.factor, behind.stated)
        if step.rule is not MaskRule.SUM:
            return behind
        others = [self.of(other.value) for other in step.terms if other != term]
        known = [max(other.high, 0.0) for other in others if other is not None]
        return HidingBound(behind.least - sum(known), behind.stated) if len(known) == len(others) else None

    def _cuts(self, term: Term, least: float) -> bool:
        bound = self.bound(term)
        return bound is not None and least < bound.least

    def _reached(self) -> bool:
        """Finds the combinations that only softmaxes and maxima read. Returns whether there are any."""
        reaching: set[SSAValue] = set()
        for op in reversed(list(self.program.entry.ops)):
            if len(op.results) != 1 or not (uses := list(op.results[0].uses)):
                continue
            if not all(
                _hides(use) or reaching.issuperset(use.operation.results[:1] or [op.results[0]]) for use in uses
            ):
                continue
            if isinstance(op, StatisticsOp):
                reaching.add(op.res)
            elif (step := combined(op, self.program.weights)) is not None:
                self.steps[op] = step
                reaching.add(op.results[0])
        return bool(self.steps)

    def _find_numbers(self) -> None:
        """The numbers of every value with statistics, and of what is computed from them."""
        for op in self.program.entry.ops:
            if isinstance(op, StatisticsOp):
                self.numbers[op.res] = _stated(op, self.numbers.get(op.arg))
            elif op in self.steps:
                self.numbers[op.results[0]] = self._combined(self.steps[op])

    def _combined(self, step: Combined) -> ShownNumbers | None:
        given = [self.of(term.value) for term in step.terms]
        known = [each for each in given if each is not None]
        if len(known) != len(given):
            return None
        match step.rule:
            case MaskRule.SUM:
                return self._sum(step.terms, known)
            case MaskRule.ONE_OF:
                return self._one_of(step.terms, known)
            case MaskRule.SCALED:
                (one,) = known
                return ShownNumbers(one.least * step.factor, one.low * step.factor, one.high * step.factor, one.added)
            case MaskRule.LEAST | MaskRule.GREATEST:
                pick = min if step.rule is MaskRule.LEAST else max
                least, low = pick(one.least for one in known), pick(one.low for one in known)
                return ShownNumbers(least, low, pick(one.high for one in known), any(one.added for one in known))

    def _sum(self, terms: tuple[Term, ...], known: list[ShownNumbers]) -> ShownNumbers:
        """The sum of two terms, of which one may be a mask."""
        for scores, mask in ((0, 1), (1, 0)):
            shown, hiding = known[scores], known[mask]
            limit = shown.low - MARGIN - max(shown.high, 0.0)
            low = self._least_added(terms[mask], hiding, limit)
            if low is not None and terms[mask] not in self.denied:
                self.assumed[terms[mask]] = hiding.low
                least = shown.least + hiding.least
                return ShownNumbers(least, shown.low + low, shown.high + max(hiding.high, 0.0), added=True)
        one, other = known
        added = one.added or other.added
        return ShownNumbers(one.least + other.least, one.low + other.low, one.high + other.high, added)

    def _least_added(self, term: Term, hiding: ShownNumbers, limit: float) -> float | None:
        """The least number, 0 at most, that a mask adds to visible scores; None if the term is no mask."""
        if hiding.low >= limit or DEEPER * hiding.high > -hiding.low:
            return None
        array = different_numbers(term.value, self.program.weights)
        if array is not None:
            low = least_visible(array, limit)
            return None if low is None else min(low, 0.0)
        ends = hiding.low, hiding.high
        return 0.0 if may_be_mask(term.value, ends, limit, self.program.weights) else None

    def _one_of(self, terms: tuple[Term, ...], known: list[ShownNumbers]) -> ShownNumbers:
        """Elements of several values; those of constants may hide scores."""
        constant = [different_numbers(term.value, self.program.weights) is not None for term in terms]
        shown = [one for one, is_constant in zip(known, constant, strict=True) if not is_constant]
        limit = min((one.low for one in shown), default=-np.inf) - MARGIN
        visible = list(shown)
        for term, one, is_constant in zip(terms, known, constant, strict=True):
            array = different_numbers(term.value, self.program.weights) if is_constant else None
            if array is not None and hides(array, limit) and term not in self.denied:
                self.assumed[term] = one.low
                low = min(each.low for each in shown)
                visible.append(ShownNumbers(one.least, low, max(low, one.high)))
            elif is_constant:
                visible.append(one)
        low, high = min(one.low for one in visible), max(one.high for one in visible)
        return ShownNumbers(min(one.least for one in known), low, high, any(one.added for one in known))

    def _find_bounds(self) -> None:
        """The bound of every value, from its readers."""
        self.bounds = {}
        for op in reversed(list(self.program.entry.ops)):
            for result in op.results:
                self._bound_value(result)
        for argument in self.program.entry.args:
            self._bound_value(argument)

    def _bound_value(self, value: SSAValue) -> None:
        found = [self._of_use(use, value) for use in value.uses]
        known = [bound for bound in found if bound is not None]
        if known and len(known) == len(found):
            stated = isinstance(value.owner, StatisticsOp) or all(bound.stated for bound in known)
            self.bounds[value] = HidingBound(min(bound.least for bound in known), stated)

    def _of_use(self, use: Use, value: SSAValue) -> HidingBound | None:
        """The bound that one reader sets."""
        reader = use.operation
        if isinstance(reader, StatisticsOp):
            return self.bounds.get(reader.res)
        if reader in self.steps:
            here = [term for term in self.steps[reader].terms if term.holder is reader and term.index == use.index]
            return self.bound(here[0]) if here else None
        read = self.numbers.get(value)
        if read is None or not _hides(use) or not np.isfinite(read.low):
            return None
        assert isinstance(reader, QuantizeRegionOp)
        if reader.logical_kernel.data == "softmax":
            return HidingBound(read.low - MARGIN)
        # `value_ranges/read_ranges.py` narrows the operand of a maximum of inserted numbers.
        return HidingBound(read.low) if read.added and read.least <= HIDDEN else None


def _hides(use: Use) -> bool:
    """Whether the reader of scores hides the low ones: a softmax, or a maximum whose results are visible ones."""
    op = use.operation
    if not isinstance(op, QuantizeRegionOp) or is_kept(op) or use.index:
        return False
    if op.logical_kernel.data == "softmax":
        return True
    seen = [reader.operation for reader in op.outputs[0].uses if isinstance(reader.operation, StatisticsOp)]
    return op.logical_kernel.data == "reduce_max" and bool(seen) and stated_range(seen[0])[0] > HIDDEN


def _stated(op: StatisticsOp, derived: ShownNumbers | None) -> ShownNumbers:
    """The numbers of a value with statistics, which `derived` follows from those of the operands."""
    # With hidden numbers among them, the observed ends say nothing about the visible ones. Infinities were left out.
    if derived is not None and (derived.hides or derived.low < LOWEST):
        return derived
    low, high = stated_range(op)
    return ShownNumbers(low, low, high, derived is not None and derived.added)
