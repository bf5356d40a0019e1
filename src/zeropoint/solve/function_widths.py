"""Functions that 8 bits of their operand are too few for, and the kernels before them that would round it.

A logarithm of values that span decades has most of its results from values below one step. What that costs follows
from the values that calibration saw: the function is evaluated on them as they are, and rounded. Where less than the
target's `least_sqnr` is left, and at least `WORSE` dB less than of the rounded operand itself, the ports at both ends
of the operand want the wider storage of the target's rows; where there is none, the operand stays float, and so do the
function and the kernel that makes the operand.

That kernel reads rounded values, too. It is asked the same question with the function behind it: moves hand on what
they read, functions are composed, and the rounding of what a sum reads is normal noise on the sum. The walk goes on
while the answer is no, through one contraction at most (the filter bank before the logarithm): what is behind the next
one is rounded as ever.

Source: the RFC on quantization transformations, section "Target Constraints": which storage a kernel takes is the
table's to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod, sqrt

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from zeropoint.ir.annotations import DEMANDS, Fact, facts_of
from zeropoint.ir.constants import constant_array, is_constant
from zeropoint.ir.contractions import weight_channel_axis, weights_by_channel
from zeropoint.ir.functions import evaluate_chain, function_name, is_function
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, Storage, UniformQuantizedType
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.solve.classes import real_range
from zeropoint.solve.constraints import Constraints
from zeropoint.solve.distribution import Distribution, Function, loss, with_noise
from zeropoint.solve.real_results import plain_contraction
from zeropoint.solve.rescale import is_rescale
from zeropoint.solve.termination import Port
from zeropoint.targets import DATA, OUTPUT, FixedScale, KernelRow, SameScale, Target

WORSE = 6.0
"""dB by which a function's result has to be worse than its rounded operand for the function to be the cause."""
LINEAR = ("add", "subtract", "multiply", "maximum", "minimum", "mean", "sum", "average_pool", "batch_matmul")
"""Kernels whose operands are no reason for a wider storage: rounded, they cost the result what they lose themselves."""
CONTRACTIONS = ("convolution", "depthwise_convolution", "transpose_convolution", "fully_connected")
CONTRACTIONS_KEPT = 2
"""Contractions that may stay float for one function: a filter bank before a logarithm, a transform before that."""
ONE_BYTE = Storage.of("i8")


@dataclass(frozen=True)
class _Reader:
    """A function with what its operand has to become: `bits` wide, or float where that is None; `why` says so."""

    function: Function
    bits: int | None
    why: str
    contractions: int = 0


@dataclass
class FunctionWidths:
    """Which regions stay float, with the reason, and which ports want storage of how many bits at least."""

    target: Target
    constraints: Constraints
    weights: Weights
    floats: dict[QuantizeRegionOp, str] = field(default_factory=dict[QuantizeRegionOp, str])
    wide: dict[Port, int] = field(default_factory=dict[Port, int])

    @staticmethod
    def of(program: Program, target: Target, constraints: Constraints) -> FunctionWidths:
        """Look at every function of a program that has its statistics; without them nothing is decided."""
        found = FunctionWidths(target, constraints, program.weights)
        if target.least_sqnr:
            for op in reversed(list(program.entry.ops)):
                if isinstance(op, QuantizeRegionOp) and op not in found.floats and not _is_demanded(op):
                    found._judge(op)
        return found

    def _rows(self, region: QuantizeRegionOp) -> tuple[KernelRow, ...]:
        return self.target.by_kernel.get(region.logical_kernel.data, ())

    def _judge(self, region: QuantizeRegionOp) -> None:
        """Decide for the operands of a region, where it is a function of them."""
        if region.logical_kernel.data in LINEAR or is_rescale(region) or len(region.outputs) != 1:
            return
        for index, value in _activations(region):
            seen = self._seen(value)
            function = None if seen is None or self._is_given(value) else self._function(region, index)
            if seen is not None and function is not None:
                self._judge_operand(region, index, seen, function)

    def _judge_operand(self, region: QuantizeRegionOp, index: int, seen: Distribution, function: Function) -> None:
        storages = list(self._storages(region, index)) or [ONE_BYTE]
        left = [self._left(function, seen, storage) for storage in storages]
        if left[0] is None:
            return
        enough = next((storage for storage, found in zip(storages, left, strict=True) if found is None), None)
        why = (
            f"{storages[0]} is too coarse for what {_name(region)} reads: its result would keep {left[0]:.1f} dB, "
            f"expected {self.target.least_sqnr:g}"
        )
        if enough is None:
            why = f"{why}; target {self.target.name} has no wider storage for it that is enough"
            self.floats[region] = why
        else:
            self.wide[region, index] = enough.type.width
            note = Fact("bits", f"at least {enough.type.width}", "kernel", why)
            self.constraints.of(region.inputs[index]).facts.append(note)
        reader = _Reader(function, None if enough is None else enough.type.width, why)
        self._trace(region.inputs[index], reader)

    def _left(self, function: Function, seen: Distribution, storage: Storage) -> float | None:
        """What is left of a function's result in dB, where that is too little; None where it is enough."""
        rounded = seen.rounded(storage)
        left = loss(function, seen.points, [(1.0, rounded)])
        own = loss(lambda points: points, seen.points, [(1.0, rounded)])
        return left if left < min(self.target.least_sqnr, own - WORSE) else None

    def _storages(self, region: QuantizeRegionOp, index: int) -> Iterator[Storage]:
        """The storages that the target's rows take at an operand, in the order of the table, the narrow ones first."""
        for row in self._rows(region):
            rule = row.input_rule(index)
            if rule.role in DATA:
                yield rule.storage
                for width in rule.widths if rule.wildcard and rule.bits else ():
                    if width > rule.storage.type.width:
                        yield Storage.of(f"{'i' if rule.storage.type.signed else 'u'}{width}")

    def _trace(self, value: SSAValue, reader: _Reader) -> None:
        """Have the maker of a value not round it, and look at what it reads."""
        region = value.owner
        if not isinstance(region, QuantizeRegionOp) or region in self.floats or self._is_given(value):
            return
        rows = self._rows(region)
        if not rows or _is_demanded(region) or is_rescale(region):
            return
        exact = reader.bits is None and self._gives_reals(region)
        if not exact:
            self._keep(region, value, reader)
        for index, operand in _activations(region):
            behind = self._behind(region, index, value, reader)
            if behind is None:
                continue
            if reader.bits is not None and region not in self.floats:
                self.wide[region, index] = reader.bits
            else:
                self._keep(region, value, reader)
            if behind.contractions < CONTRACTIONS_KEPT:
                self._trace(operand, behind)

    def _keep(self, region: QuantizeRegionOp, value: SSAValue, reader: _Reader) -> None:
        """Make the output of a region wide where a row can, else leave it float."""
        rows = self._rows(region)
        if reader.bits is not None and any(max(row.output.widths) >= reader.bits for row in rows):
            self.wide[region, OUTPUT] = reader.bits
            return
        self.floats[region] = f"not rounded on its way: {reader.why}"
        seen = self._seen(value)
        known = self.constraints.of(value)
        if known.minimum is None and seen is not None:  # a kernel would have said it, or what it moves
            known.observe(seen.minimum, seen.maximum, "default", "the kernel that stays float")

    def _behind(self, region: QuantizeRegionOp, index: int, value: SSAValue, reader: _Reader) -> _Reader | None:
        """The function of an operand whose rounding the reader of the result does not bear; None where it does."""
        name, operand = region.logical_kernel.data, region.inputs[index]
        made, read = self._seen(value), self._seen(operand)
        if made is None or read is None:
            return None
        rule = self._rows(region)[0].input_rule(index)
        own = self._function(region, index) if name not in LINEAR else None
        contractions = reader.contractions + (name in CONTRACTIONS)
        if isinstance(self._rows(region)[0].relation, SameScale):
            return _Reader(reader.function, reader.bits, reader.why, contractions)
        if own is not None:
            function = _composed(reader.function, own)
            left = loss(function, read.points, [(1.0, read.rounded(rule.storage))])
        else:
            gain = self._gain(region, index)
            if gain is None:
                return None
            left = loss(
                reader.function, made.points, with_noise(made.points, read.step(rule.storage) * sqrt(gain / 12))
            )
            function = _scaled(reader.function, sqrt(made.power / read.power) if read.power else 1.0)
        enough = left >= self.target.least_sqnr
        return None if enough else _Reader(function, reader.bits, reader.why, contractions)

    def _gain(self, region: QuantizeRegionOp, index: int) -> float | None:
        """The variance of a result where the elements of an operand have independent noise of variance 1."""
        name = region.logical_kernel.data
        if name in CONTRACTIONS:
            return _contraction_gain(region, self.weights)
        terms = prod(shape_of(region.inputs[index])) / max(1, prod(shape_of(region.outputs[0])))
        if name in ("add", "subtract", "maximum", "minimum"):
            return 1.0
        if name in ("mean", "average_pool"):
            return 1.0 / max(terms, 1.0)
        if name == "sum":
            return terms
        if name == "multiply":
            others = [self._seen(other) for i, other in _activations(region) if i != index]
            return prod(other.power for other in others if other is not None)
        return None

    def _seen(self, value: SSAValue) -> Distribution | None:
        """What is known of a value's distribution, by its statistics or by the kernel that makes or moves it."""
        known = self.constraints.get(value)
        if known is not None and known.minimum is not None and known.maximum is not None:
            return Distribution.of(known.minimum, known.maximum, known.quantiles)
        region = value.owner
        rows = self._rows(region) if isinstance(region, QuantizeRegionOp) else ()
        if not rows or not isinstance(region, QuantizeRegionOp):
            return None
        relation = rows[0].relation
        if isinstance(relation, FixedScale) and OUTPUT in relation:
            fixed = UniformQuantizedType.per_layer(rows[0].output.storage, relation.scale, relation.zero_point)
            return Distribution.of(*real_range(fixed))
        data = [operand for _, operand in _activations(region)]
        return self._seen(data[0]) if isinstance(relation, SameScale) and len(data) == 1 else None

    def _is_given(self, value: SSAValue) -> bool:
        """Whether the model or the user says how a value is stored."""
        known = self.constraints.get(value)
        return known is not None and (known.pinned is not None or known.least_bits is not None)

    def _gives_reals(self, region: QuantizeRegionOp) -> bool:
        """Whether float readers get what a contraction sums, and nothing else reads it."""
        readers = [use.operation for use in region.outputs[0].uses]
        floats = all(
            not isinstance(reader, ReturnOp) and (reader in self.floats or not self._is_kernel(reader))
            for reader in readers
        )
        return self.target.real_results and floats and plain_contraction(region) is not None

    def _is_kernel(self, reader: object) -> bool:
        return isinstance(reader, QuantizeRegionOp) and bool(self._rows(reader))

    def _function(self, region: QuantizeRegionOp, index: int) -> Function | None:
        """A region as a function of the elements of one operand, the others at their usual size; None for another."""
        arguments = region.body.block.args
        others: dict[SSAValue, float] = {}
        for other, (argument, value) in enumerate(zip(arguments, region.inputs, strict=True)):
            if other != index:
                size = self._usual_size(value)
                if size is None:
                    return None
                others[argument] = size
        for op in region.body.block.ops:
            if isinstance(op, BroadcastInDimOp) and op.operand in others:
                others[op.result] = others[op.operand]
        terminator = region.body.block.last_op
        assert terminator is not None
        result, dtype = terminator.operands[0], element_dtype(element_of(arguments[index]))

        def evaluate(points: Array) -> Array:
            domain = points.astype(dtype)
            known = {argument: np.full(domain.shape, size, dtype) for argument, size in others.items()}
            return evaluate_chain(result, arguments[index], domain, self.weights, known)

        try:
            with np.errstate(all="ignore"):
                evaluate(np.ones(1, np.float32))
        except ValueError:
            return None
        return evaluate

    def _usual_size(self, value: SSAValue) -> float | None:
        """The root of the mean square of an operand."""
        if not isinstance(element_of(value), AnyFloat):
            return None
        array = constant_array(value, self.weights)
        if array is not None:
            return sqrt(float((array.astype(np.float64) ** 2).mean())) if array.size else None
        seen = self._seen(value)
        return None if seen is None else sqrt(seen.power)


def _activations(region: QuantizeRegionOp) -> list[tuple[int, SSAValue]]:
    return [
        (index, value)
        for index, value in enumerate(region.inputs)
        if not is_constant(value) and isinstance(element_of(value), AnyFloat)
    ]


def _is_demanded(region: QuantizeRegionOp) -> bool:
    """Whether a recipe says the width of a region, or that it is to be quantized whatever it costs."""
    demands = {fact.name: fact.value for fact in facts_of(region, DEMANDS)}
    return demands.get("quantize") == "true" or "bits" in demands


def _name(region: QuantizeRegionOp) -> str:
    """The functions of a region and its location: `log 'features'`."""
    steps = [function_name(op) for op in region.body.block.ops if is_function(op)]
    location = location_text(region.location)
    return f"{steps[-1] if steps else region.logical_kernel.data} '{location}'"


def _composed(outer: Function, inner: Function) -> Function:
    return lambda points: outer(inner(points))


def _scaled(function: Function, factor: float) -> Function:
    return lambda points: function(points * np.float32(factor))


def _contraction_gain(region: QuantizeRegionOp, weights: Weights) -> float | None:
    """The greatest sum of squared weights over the channels."""
    op = next((op for op in region.body.block.ops if isinstance(op, ConvolutionOp | DotGeneralOp)), None)
    array = constant_array(region.inputs[1], weights)
    axis = None if op is None else weight_channel_axis(op)
    if array is None or axis is None or not array.size:
        return None
    squares = weights_by_channel(array.astype(np.float64), axis) ** 2
    return float(squares.sum(axis=1).max())
