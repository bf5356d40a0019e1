"""Functions that 8 bits of their operand are too few for, and the kernels before them that would round it.

A logarithm of values that span decades has most of its results from values below one step. What that costs follows
from the values that calibration saw: the function is evaluated on them as they are, and rounded. Where less than the
target's `least_sqnr` is left, and at least `WORSE` dB less than of the rounded operand itself, the ports at both ends
of the operand want the wider storage of the target's rows; where there is none, the operand stays float, and so do the
function and the kernel that makes the operand.

That kernel reads rounded values, too. It is asked the same question with the function behind it: moves hand on what
they read, functions are composed, and the rounding of what a sum reads is normal noise on the sum. Float ops between,
as those that the target has no kernel for, round nothing and are asked as well: what a kernel makes for them would be
rounded. The walk goes on while the answer is no, through two contractions at most (a filter bank before the logarithm,
a transform before that): what is behind them is rounded as ever.

Source: the RFC on quantization transformations, section "Target Constraints": which storage a kernel takes is the
table's to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod, sqrt

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import DEMANDS, Fact, facts_of
from zeropoint.ir.constants import constant_array, is_constant
from zeropoint.ir.contractions import weight_channel_axis, weights_by_channel
from zeropoint.ir.functions import evaluate_chain, function_name, is_function
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, Storage, UniformQuantizedType
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConvolutionOp, DotGeneralOp, SelectOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.solve.classes import real_range
from zeropoint.solve.constraints import Constraints
from zeropoint.solve.distribution import Distribution, Function, loss, with_noise
from zeropoint.solve.real_results import plain_contraction
from zeropoint.solve.rescale import is_rescale
from zeropoint.solve.termination import Port
from zeropoint.targets import DATA, OUTPUT, FixedScale, KernelRow, SameScale, Target
from zeropoint.targets.logical_kernels import MOVEMENTS

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

    steps: tuple[Function, ...]
    bits: int | None
    why: str
    contractions: int = 0

    def function(self, points: Array) -> Array:
        """The steps, one after the other."""
        for step in self.steps:
            points = step(points)
        return points


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
        reader = _Reader((function,), None if enough is None else enough.type.width, why)
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
        """Have the makers of a value not round it, and of what those read, where the reader does not bear it."""
        pending: list[tuple[SSAValue, _Reader]] = [(value, reader)]
        asked: set[SSAValue] = set()
        while pending:
            value, reader = pending.pop()
            if value not in asked:
                asked.add(value)
                pending += reversed(self._ask(value, reader))

    def _ask(self, value: SSAValue, reader: _Reader) -> list[tuple[SSAValue, _Reader]]:
        """Have the maker of a value not round it; which of its operands are to be asked next, and for what."""
        maker = value.owner
        if not isinstance(maker, Operation) or self._is_given(value):
            return []
        kernel = maker if isinstance(maker, QuantizeRegionOp) and self._rounds(maker) else None
        if kernel is not None:
            if _is_demanded(kernel):
                return []
            if reader.bits is not None or not self._gives_reals(kernel):
                self._keep(kernel, value, reader)
        found: list[tuple[SSAValue, _Reader]] = []
        for index, operand in _activations(maker):
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
        """Make the output of a region wide where a row can, else leave it float."""
        if region in self.floats:
            return
        rows = self._rows(region)
        if reader.bits is not None and any(max(row.output.widths) >= reader.bits for row in rows):
            self.wide[region, OUTPUT] = reader.bits
            return
        self.floats[region] = f"not rounded on its way: {reader.why}"
        seen = self._seen(value)
        known = self.constraints.of(value)
        if known.minimum is None and seen is not None:  # a kernel would have said it, or what it moves
            known.observe(seen.minimum, seen.maximum, "default", "the kernel that stays float")

    def _behind(self, maker: Operation, index: int, value: SSAValue, reader: _Reader) -> _Reader | None:
        """The function of an operand whose rounding the reader of the result does not bear; None where it does."""
        name = maker.logical_kernel.data if isinstance(maker, QuantizeRegionOp) else ""
        operand = maker.operands[index]
        made, read = self._seen(value), self._seen(operand)
        if is_rescale(maker) or (read is None and self._rounds(operand.owner)):
            return None
        reader = replace(reader, contractions=reader.contractions + (name in CONTRACTIONS))
        if self._moves(maker):
            return reader
        own = self._function(maker, index) if name not in LINEAR or made is None else None
        if own is not None:
            composed = replace(reader, steps=(own, *reader.steps))
            return composed if read is None else self._unborne(composed, read, self._storage(maker, index))
        gain = self._gain(maker, index) if isinstance(maker, QuantizeRegionOp) else None
        if gain is None or made is None or read is None:
            return None
        noise = read.step(self._storage(maker, index)) * sqrt(gain / 12)
        if loss(reader.function, made.points, with_noise(made.points, noise)) >= self.target.least_sqnr:
            return None
        return replace(reader, steps=(_scaled(sqrt(made.power / read.power) if read.power else 1.0), *reader.steps))

    def _unborne(self, reader: _Reader, read: Distribution, storage: Storage) -> _Reader | None:
        """The reader of an operand, for floats where the width that it asks for is too little; None where 8 bits do."""

        def bears(storage: Storage) -> bool:
            return loss(reader.function, read.points, [(1.0, read.rounded(storage))]) >= self.target.least_sqnr

        if bears(storage):
            return None
        return reader if reader.bits is None or bears(Storage.of(f"i{reader.bits}")) else replace(reader, bits=None)

    def _rounds(self, maker: object) -> bool:
        """Whether what an op makes is going to be rounded: it has a kernel and is not left float."""
        return self._is_kernel(maker) and maker not in self.floats

    def _moves(self, maker: Operation) -> bool:
        """Whether an op hands on elements of its operands as they are."""
        if not isinstance(maker, QuantizeRegionOp):
            return isinstance(maker, SelectOp)
        rows = self._rows(maker)
        return isinstance(rows[0].relation, SameScale) if rows else maker.logical_kernel.data in MOVEMENTS

    def _storage(self, maker: Operation, index: int) -> Storage:
        """In what the operand of a kernel is stored, or that of a float op, where a kernel makes it."""
        rows = self._rows(maker) if isinstance(maker, QuantizeRegionOp) else ()
        return rows[0].input_rule(index).storage if rows else ONE_BYTE

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

    def _function(self, op: Operation, index: int) -> Function | None:
        """An op as a function of the elements of one operand, the others at their usual size; None for another."""
        region = op if isinstance(op, QuantizeRegionOp) else None
        arguments = op.operands if region is None else region.body.block.args
        result = op.results[0] if region is None else _returned(region)
        others: dict[SSAValue, float] = {}
        for other, (argument, value) in enumerate(zip(arguments, op.operands, strict=True)):
            if other != index and argument is not arguments[index]:
                size = self._usual_size(value)
                if size is None:
                    return None
                others[argument] = size
        for inner in () if region is None else region.body.block.ops:
            if isinstance(inner, BroadcastInDimOp) and inner.operand in others:
                others[inner.result] = others[inner.operand]
        dtype = element_dtype(element_of(arguments[index]))

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


def _activations(op: Operation) -> list[tuple[int, SSAValue]]:
    return [
        (index, value)
        for index, value in enumerate(op.operands)
        if not is_constant(value) and isinstance(element_of(value), AnyFloat)
    ]


def _returned(region: QuantizeRegionOp) -> SSAValue:
    terminator = region.body.block.last_op
    assert terminator is not None
    return terminator.operands[0]


def _is_demanded(region: QuantizeRegionOp) -> bool:
    """Whether a recipe says the width of a region, or that it is to be quantized whatever it costs."""
    demands = {fact.name: fact.value for fact in facts_of(region, DEMANDS)}
    return demands.get("quantize") == "true" or "bits" in demands


def _name(region: QuantizeRegionOp) -> str:
    """The functions of a region and its location: `log 'features'`."""
    steps = [function_name(op) for op in region.body.block.ops if is_function(op)]
    location = location_text(region.location)
    return f"{steps[-1] if steps else region.logical_kernel.data} '{location}'"


def _scaled(factor: float) -> Function:
    return lambda points: points * np.float32(factor)


def _contraction_gain(region: QuantizeRegionOp, weights: Weights) -> float | None:
    """The greatest sum of squared weights over the channels."""
    op = next((op for op in region.body.block.ops if isinstance(op, ConvolutionOp | DotGeneralOp)), None)
    array = constant_array(region.inputs[1], weights)
    axis = None if op is None else weight_channel_axis(op)
    if array is None or axis is None or not array.size:
        return None
    squares = weights_by_channel(array.astype(np.float64), axis) ** 2
    return float(squares.sum(axis=1).max())
