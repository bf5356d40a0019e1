"""The noise of 8-bit roundings: what a kernel adds to it, and what reaches a value from earlier kernels.

Roundings are treated as independent. The variance of one is step² / 12. A kernel multiplies the variance of an operand
by its gain, and the variances of its operands add up. Data movement passes noise on. The noise is not followed through
nonlinear functions, because it then depends on the values. Nor is it followed through more than `CONTRACTIONS_KEPT`
contractions, because it could not be avoided there. In a front end (`front_ends.py`), it is followed through all.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod, sqrt

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import DEMANDS, facts_of
from zeropoint.ir.constants import constant_array, is_constant
from zeropoint.ir.functions import evaluate_chain
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, Storage
from zeropoint.ir.stablehlo import (
    ConcatenateOp,
    DotGeneralOp,
    DynamicSliceOp,
    DynamicUpdateSliceOp,
    GatherOp,
    PadOp,
    ReshapeOp,
    ScatterOp,
    SelectOp,
    SortOp,
    TransposeOp,
)
from zeropoint.ir.tensors import element_dtype, element_of, has_floats, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.solve.classes import real_range
from zeropoint.solve.constraints import Constraints
from zeropoint.solve.rescale import is_rescale
from zeropoint.solve.termination import result_port
from zeropoint.solve.value_constraint import STRENGTH
from zeropoint.solve.widths.distribution import PointDistribution
from zeropoint.solve.widths.front_ends import front_end
from zeropoint.solve.widths.recurrences import Recurrences
from zeropoint.solve.widths.weight_noise import contraction_gain, weight_noise
from zeropoint.targets import KernelRow, SameScale
from zeropoint.targets.logical_kernels import MOVEMENTS

CONTRACTIONS = ("convolution", "depthwise_convolution", "transpose_convolution", "fully_connected")
CONTRACTIONS_KEPT = 2
"""The maximum number of contractions that may stay float for one function: a filter bank before a logarithm, and a
transform before the filter bank."""
ANY_NUMBER = CONTRACTIONS_KEPT + 1
"""Stands for any number of contractions, all of which may stay float: in a front end."""
ONE_BYTE = Storage.of("i8")
FLOAT_MOVES = (
    ConcatenateOp,
    DynamicSliceOp,
    DynamicUpdateSliceOp,
    GatherOp,
    PadOp,
    ReshapeOp,
    ScatterOp,
    SelectOp,
    SortOp,
    TransposeOp,
)
"""Float ops outside of regions that pass elements on. A term that a scatter adds counts as an element."""
SUMS = ("add", "subtract")


@dataclass
class RoundingNoise:
    """Distributions of values, gains of kernels, and the noise that each value carries.

    `carried` has a variance for each number of contractions that the noise may have passed: 0 to `CONTRACTIONS_KEPT`,
    and `ANY_NUMBER`.
    """

    recurrent: Recurrences
    constraints: Constraints
    weights: Weights
    front_end: frozenset[SSAValue] = frozenset()
    carried: dict[SSAValue, tuple[float, ...]] = field(default_factory=dict[SSAValue, tuple[float, ...]])
    _made: dict[SSAValue, PointDistribution] = field(default_factory=dict[SSAValue, PointDistribution])
    _moved: dict[SSAValue, PointDistribution] = field(default_factory=dict[SSAValue, PointDistribution])
    _sums: dict[SSAValue, PointDistribution] = field(default_factory=dict[SSAValue, PointDistribution])
    _of_weights: dict[Operation, float] = field(default_factory=dict[Operation, float])

    @staticmethod
    def of(program: Program, recurrent: Recurrences, constraints: Constraints) -> RoundingNoise:
        """The noise of every value if all kernels of the target round."""
        found, block = RoundingNoise(recurrent, constraints, program.weights, front_end(program)), program.entry
        ops = [*block.ops]
        # Each value once: where values branch and join again, the number of paths is exponential.
        for value in (*(result for op in reversed(ops) for result in op.results), *block.args):
            _note(found._moved, value, found._moved_to(value))
        for argument in block.args:
            _note(found._made, argument, found._observed(argument))
        for op in ops:
            for result in op.results:
                _note(found._made, result, found._made_by(result))
                _note(found._sums, result, found._sum(result))
            found._pass_on(op)
        return found

    def kept_before(self, value: SSAValue) -> int:
        """The number of contractions that may stay float for a function of a value."""
        return ANY_NUMBER if value in self.front_end else CONTRACTIONS_KEPT

    def carried_by(self, value: SSAValue, contractions: int | None = None) -> float:
        """The variance of a value's noise before its own rounding. Noise has passed at most `contractions`
        contractions; by default, those that may stay float."""
        carried = self.carried.get(value)
        return 0.0 if carried is None else carried[self.kept_before(value) if contractions is None else contractions]

    def read_by(self, maker: Operation, index: int, contractions: int) -> float:
        """The variance of the noise of a kernel's operand, from its own rounding and from the noise that it carries."""
        return self._rounded(maker, index) + self.carried_by(maker.operands[index], contractions)

    def _rounded(self, maker: Operation, index: int) -> float:
        """The variance of rounding a kernel's operand: of an error that is uniform over one step.

        A value of unknown range counts as exact, so noise may be underestimated but not overestimated.
        """
        operand = maker.operands[index]
        seen = None if self.is_given(operand) else self.seen(operand)
        return 0.0 if seen is None else seen.step(self.storage(maker, index)) ** 2 / 12

    def widened(self, maker: Operation, index: int, bits: int) -> float | None:
        """The variance of rounding a kernel's operand in the finest storage of at least `bits` that its rows accept.

        None if no row has such a storage, or the operand's range is unknown or given.
        """
        operand = maker.operands[index]
        known = None if self.is_given(operand) else self.constraints.get(operand)
        seen = self.seen(operand)
        if seen is None or known is None or not isinstance(maker, QuantizeRegionOp):
            return None
        storages = [row.input_rule(index).storage for row in self.rows(maker)]
        steps: list[float] = []
        for storage in (storage for storage in storages if storage.type.width >= bits):
            # A wide storage holds every observed value, a narrow one only the calibrated range.
            held = known.within(storage)
            low = seen.minimum if held.minimum is None else held.minimum
            high = seen.maximum if held.maximum is None else held.maximum
            steps.append(PointDistribution(seen.points, low, high).step(storage))
        return min(steps) ** 2 / 12 if steps else None

    def _pass_on(self, op: Operation) -> None:
        """Compute the noise that the result of an op carries."""
        if len(op.results) != 1 or (isinstance(op, QuantizeRegionOp) and is_demanded(op)):
            return
        operands = activations(op)
        if self.moves(op):
            kinds = [self.carried[value] for _, value in operands if value in self.carried]
            # The maximum, not the sum, because each element of the result comes from one operand.
            carried = np.max(kinds, axis=0) if kinds else np.zeros(1)
        else:
            carried = np.zeros(ANY_NUMBER + 1)
            for index, _ in operands:
                # The variances of independent noises add up.
                carried += self._contribution(op, index)
        if carried.any():
            self.carried[op.results[0]] = tuple(carried.tolist())

    def _contribution(self, op: Operation, index: int) -> list[float]:
        """The noise that one operand contributes to the result of an op, by the number of contractions passed."""
        passes = int(isinstance(op, QuantizeRegionOp) and op.logical_kernel.data in CONTRACTIONS)
        gain = self.gain(op, index) if isinstance(op, QuantizeRegionOp) else None
        if gain is None:
            return [0.0] * (ANY_NUMBER + 1)
        weights, own, operand = self.of_weights(op), self._rounded(op, index), op.operands[index]
        numbers = [count - passes for count in range(ANY_NUMBER)] + [ANY_NUMBER]
        return [gain * (own + self.carried_by(operand, left)) + weights if left >= 0 else 0.0 for left in numbers]

    def of_weights(self, maker: Operation) -> float:
        """The variance that rounded weights cause at the result of a contraction; 0 for other ops.

        The errors of rounded weights are constant, but they are as independent of the operand as noise. Near the pole
        of a function after the contraction, they cost as much as a rounded operand.
        """
        if not isinstance(maker, QuantizeRegionOp) or maker.logical_kernel.data not in CONTRACTIONS:
            return 0.0
        if maker not in self._of_weights:
            read, rows = self.seen(maker.inputs[0]), self.rows(maker)
            rounded = weight_noise(maker, rows[0], self.weights) if rows and len(maker.inputs) > 1 else 0.0
            self._of_weights[maker] = 0.0 if read is None else rounded * read.power
        return self._of_weights[maker]

    def rows(self, region: QuantizeRegionOp) -> tuple[KernelRow, ...]:
        """The target's rows for a kernel."""
        return self.recurrent.rows(region)

    def moves(self, maker: Operation) -> bool:
        """Whether an op passes elements of its operands on unchanged."""
        if not isinstance(maker, QuantizeRegionOp):
            return isinstance(maker, FLOAT_MOVES)
        rows = self.rows(maker)
        shares = bool(rows) and isinstance(rows[0].relation, SameScale)
        return shares or maker.logical_kernel.data in MOVEMENTS

    def storage(self, maker: Operation, index: int) -> Storage:
        """The storage of a kernel's operand; i8 for operands of float ops."""
        rows = self.rows(maker) if isinstance(maker, QuantizeRegionOp) else ()
        if isinstance(maker, QuantizeRegionOp) and (read := self.recurrent.read_as(maker, index)) is not None:
            return read
        return rows[0].input_rule(index).storage if rows else ONE_BYTE

    def is_given(self, value: SSAValue) -> bool:
        """Whether the model or the user determines the storage of a value."""
        known = self.constraints.get(value)
        return known is not None and (known.pinned is not None or known.least_bits is not None)

    def gain(self, region: QuantizeRegionOp, index: int) -> float | None:
        """The variance of a result if the elements of an operand have independent noise of variance 1.

        None if the kernel is not linear in that operand, or if its weights are not constant.
        """
        name = region.logical_kernel.data
        if is_rescale(region):
            return None
        if name in CONTRACTIONS:
            return contraction_gain(region, self.weights)
        terms = prod(shape_of(region.inputs[index])) / max(1, prod(shape_of(region.outputs[0])))
        # A maximum passes on the noise of one operand, so 1 is an upper bound.
        if name in ("add", "subtract", "maximum", "minimum"):
            return 1.0
        # The mean of n independent noises has 1/n of the variance of one.
        if name in ("mean", "average_pool"):
            return 1.0 / max(terms, 1.0)
        if name == "sum":
            return terms
        if name == "multiply":
            # The other factor scales the noise, so its mean square scales the variance.
            powers = [self._power(other) for i, other in enumerate(region.inputs) if i != index]
            return prod(power for power in powers if power is not None)
        if name == "batch_matmul":
            return self._product_gain(region, index)
        return None

    def _power(self, value: SSAValue) -> float | None:
        """The mean square of an observed value or of a constant; None if it is unknown."""
        array = constant_array(value, self.weights)
        if array is not None:
            return float(np.mean(np.square(array.astype(np.float64)))) if array.size else None
        seen = self.seen(value)
        return None if seen is None else seen.power

    def _product_gain(self, region: QuantizeRegionOp, index: int) -> float | None:
        """The gain of one operand of a product of two activations: the number of terms times the mean square of the
        other one."""
        op = next((op for op in region.body.block.ops if isinstance(op, DotGeneralOp)), None)
        others = [self.estimated(other) for i, other in activations(region) if i != index]
        if op is None or len(others) != 1 or others[0] is None:
            return None
        shape = shape_of(op.lhs)
        return others[0].power * prod(shape[d] for d in op.dot_dimension_numbers.data.lhs_contracting_dimensions)

    def seen(self, value: SSAValue) -> PointDistribution | None:
        """The distribution of a value; None if it is unknown.

        It comes from the value's statistics, from the kernel that produces it, or from a value that its elements are
        moved from or to. Calibration does not observe values that only float ops read, such as the sum before a gather
        without a kernel.
        """
        return self._made.get(value) or self._moved.get(value)

    def estimated(self, value: SSAValue) -> PointDistribution | None:
        """Like `seen`, but a sum that was not observed, because only float ops read it, has the distribution of its
        larger operand."""
        return self.seen(value) or self._sums.get(value)

    def _sum(self, value: SSAValue) -> PointDistribution | None:
        """The distribution of the larger operand of a sum; None if another op produces the value."""
        maker = value.owner
        if not isinstance(maker, QuantizeRegionOp) or maker.logical_kernel.data not in SUMS:
            return None
        terms = [term for _, operand in activations(maker) if (term := self.estimated(operand)) is not None]
        return max(terms, key=lambda term: term.power, default=None)

    def _made_by(self, value: SSAValue) -> PointDistribution | None:
        """The distribution of a value from its statistics or from the op that produces it."""
        if (observed := self._observed(value)) is not None:
            return self._part(value, observed) or observed
        region = value.owner
        if not isinstance(region, QuantizeRegionOp):
            return None
        rows, port = self.rows(region), result_port(value)
        fixed = rows[0].fixed(port, rows[0].rule(port).storage) if rows else None
        if fixed is not None:
            return PointDistribution.of(*real_range(fixed), self._computed(region))
        data = [operand for _, operand in activations(region)]
        return self._made.get(data[0]) if self.moves(region) and len(data) == 1 else None

    def _part(self, value: SSAValue, whole: PointDistribution) -> PointDistribution | None:
        """The distribution of a product with a constant whose statistics are only a range; None for other values.

        It is a part of a join, and the range is that of the whole (`parts/split_joins.py`).
        """
        known, region = self.constraints.get(value), value.owner
        if known is None or known.quantiles or not isinstance(region, QuantizeRegionOp):
            return None
        data = activations(region)
        read = self._made.get(data[0][1]) if len(data) == 1 else None
        if region.logical_kernel.data != "multiply" or read is None or (gain := self.gain(region, data[0][0])) is None:
            return None
        return replace(whole, points=read.points * np.float32(sqrt(gain)))

    def _moved_to(self, value: SSAValue) -> PointDistribution | None:
        """The distribution of a value from the statistics of the value that its elements are moved to."""
        for op in (use.operation for use in value.uses):
            if isinstance(op, QuantizeRegionOp) and self.moves(op) and len(op.outputs) == 1:
                found = self._observed(op.outputs[0]) or self._moved.get(op.outputs[0])
                if found is not None:
                    return found
        return None

    def _observed(self, value: SSAValue) -> PointDistribution | None:
        """The distribution of a value from its own statistics."""
        known = self.constraints.get(value)
        if known is None or known.minimum is None or known.maximum is None:
            return None
        if known.strength != STRENGTH["calibrated"]:
            return PointDistribution.of(known.minimum, known.maximum, known.quantiles)
        observed = known.extremes or (known.minimum, known.maximum)
        return PointDistribution.of(known.minimum, known.maximum, known.quantiles, known.extremes, observed)

    def _computed(self, region: QuantizeRegionOp) -> list[float]:
        """The results of a kernel at the points of its operand; empty if it is not an elementwise function of one."""
        data = activations(region)
        operand = self._made.get(data[0][1]) if len(data) == 1 else None
        if operand is None or len(region.outputs) != 1:
            return []
        body = region.body.block
        argument, returned = body.args[data[0][0]], body.last_op
        assert returned is not None
        points = operand.points.astype(element_dtype(element_of(argument)))
        try:
            with np.errstate(all="ignore"):
                return evaluate_chain(returned.operands[0], argument, points, self.weights).tolist()
        except ValueError:
            return []


def _note(found: dict[SSAValue, PointDistribution], value: SSAValue, distribution: PointDistribution | None) -> None:
    if distribution is not None:
        found[value] = distribution


def activations(op: Operation) -> list[tuple[int, SSAValue]]:
    """The float operands of an op that are not constant, with their indices."""
    return [(index, value) for index, value in enumerate(op.operands) if not is_constant(value) and has_floats(value)]


def is_demanded(region: QuantizeRegionOp) -> bool:
    """Whether a recipe sets the width of a region or forces its quantization."""
    demands = {fact.name: fact.value for fact in facts_of(region, DEMANDS)}
    return demands.get("quantize") == "true" or "bits" in demands
