"""What the range of a value costs the kernels that read it: a program that computes that beside the network.

```mlir
%1 = "quant.stats_ref"(%0) {statsKey = "conv1"} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
%2 = "quant.region"(%1, %w, %b) ({...}) {logical_kernel = "convolution", ...}
```
gets, for each range that is tried,
```mlir
%q = (clamp(round(%0 / scale), low, high)) * scale
%3 = "quant.region"(%q, %w, %b) ({...}) {logical_kernel = "convolution", ...}
%noise = sum((%3 - %2)^2) : tensor<f32>
```
and once for each reader `sum(%2^2)`. Everything but the one value is float, so that values are judged apart from each
other. A kernel that only moves what it reads is looked through. Readers weigh the same: the cost of a range is the sum
of noise over signal, over all of them; what floats or the caller read counts by the value itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.interp import Engine
from zeropoint.ir.constants import constant_op
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program, name_attributes
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsRefOp
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ClampOp,
    MultiplyOp,
    ReduceOp,
    RoundNearestEvenOp,
    SubtractOp,
)
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import Array, element_of, shape_of, with_shape
from zeropoint.numerics.ranges import asymmetric

Range = tuple[float, float]
MOVES = ("reshape", "transpose", "slice", "pad", "broadcast", "squeeze", "expand_dims", "flatten", "reverse")
"""Kernels whose result is what they read: the rounding of their operand is judged by those that read the result."""


@dataclass
class _Probe:
    """A copy of a program under construction, and the scalars that it is going to return.

    Ops go before `anchor`: behind the reader that is judged, so that no value is kept longer than the network needs it.
    """

    program: Program
    anchor: Operation
    network: Mapping[SSAValue, list[Operation]]
    """The readers of every value of the network, found before anything was added."""
    results: list[SSAValue] = field(default_factory=list[SSAValue])
    signals: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    terms: dict[tuple[str, int], list[tuple[int, int]]] = field(
        default_factory=dict[tuple[str, int], list[tuple[int, int]]]
    )
    """By key and number of the range: the results that hold the noise and the signal of each reader."""

    def insert(self, op: Operation) -> SSAValue:
        """Put an op before the anchor."""
        self.program.entry.insert_op_before(op, self.anchor)
        return op.results[0]

    def splat(self, number: float, like: SSAValue) -> SSAValue:
        """A number in the shape of a value."""
        scalar = self.insert(constant_op(np.array(number, np.float32), self.program.weights))
        return self.insert(BroadcastInDimOp(scalar, like.type, [])) if shape_of(like) else scalar

    def rounded(self, value: SSAValue, limits: Range) -> SSAValue:
        """The value as it comes back from 8 bits of a range."""
        chosen = asymmetric(*limits, -128, 127)
        scale, zero_point = float(chosen.scale), int(chosen.zero_point)
        steps = self.insert(MultiplyOp(value, self.splat(1.0 / scale, value)))
        steps = self.insert(RoundNearestEvenOp(steps))
        low, high = self.splat(-128.0 - zero_point, value), self.splat(127.0 - zero_point, value)
        return self.insert(MultiplyOp(self.insert(ClampOp(low, steps, high)), self.splat(scale, value)))

    def energy(self, value: SSAValue) -> int:
        """The number of the result that is the sum of a value's squares."""
        squares = self.insert(MultiplyOp(value, value))
        if shape_of(value):
            zero = self.insert(constant_op(np.array(0.0, np.float32), self.program.weights))
            axes = range(len(shape_of(value)))
            total = ReduceOp([squares], [zero], [with_shape(squares, [])], list(axes), binary_body(AddOp, f32))
            squares = self.insert(total)
        self.results.append(squares)
        return len(self.results) - 1

    def compare(self, key: tuple[str, int], exact: SSAValue, found: SSAValue) -> None:
        """Note the noise of a reader and its signal."""
        if exact not in self.signals:
            self.signals[exact] = self.energy(exact)
        noise = self.energy(self.insert(SubtractOp(found, exact)))
        self.terms.setdefault(key, []).append((noise, self.signals[exact]))

    def judge(self, key: tuple[str, int], exact: SSAValue, form: Callable[[], SSAValue]) -> None:
        """Every reader of a value with the value as it is and in another form, which is made before the anchor."""
        readers = self.network[exact]
        kernels = [op for op in readers if isinstance(op, QuantizeRegionOp) and element_of(op.outputs[0]) == f32]
        for reader in kernels:
            if reader.logical_kernel.data in MOVES:
                self.judge(key, reader.outputs[0], partial(self.copied, reader, exact, form))
            else:
                self.anchor = self.behind(reader)
                self.compare(key, reader.outputs[0], self.copied(reader, exact, form))
        if len(kernels) < len(readers):
            self.anchor = self.behind(exact.owner)
            self.compare(key, exact, form())

    def copied(self, reader: QuantizeRegionOp, exact: SSAValue, form: Callable[[], SSAValue]) -> SSAValue:
        """A copy of a kernel that reads a value in another form."""
        made = form()
        operands = [made if _root(operand) is exact else operand for operand in reader.inputs]
        return self.insert(reader.clone(dict(zip(reader.inputs, operands, strict=True))))

    def behind(self, owner: Operation | Block) -> Operation:
        """The op behind another one; behind the arguments, the first."""
        following = owner.next_op if isinstance(owner, Operation) else owner.first_op
        assert following is not None
        return following

    def finish(self) -> Program:
        """The program that returns the scalars."""
        block = self.program.entry
        for op in [op for op in block.ops if isinstance(op, StatisticsRefOp)]:
            op.res.replace_all_uses_with(op.arg)
            Rewriter.erase_op(op)
        terminator = block.last_op
        assert isinstance(terminator, ReturnOp)
        Rewriter.erase_op(terminator)
        block.add_op(ReturnOp(*self.results))
        remove_dead_ops(block)
        function = self.program.main
        function.update_function_type()
        function.properties["res_attrs"] = name_attributes([str(number) for number in range(len(self.results))])
        return self.program


def _readers(value: SSAValue) -> list[Operation]:
    """The ops that read a value, those behind its statistics too."""
    ops = dict.fromkeys(use.operation for use in value.uses)
    return [reader for op in ops for reader in (_readers(op.res) if isinstance(op, StatisticsRefOp) else [op])]


def _root(value: SSAValue) -> SSAValue:
    while isinstance(value.owner, StatisticsRefOp):
        value = value.owner.arg
    return value


def probe(program: Program, ranges: Mapping[str, Sequence[Range]]) -> _Probe:
    """The program that judges ranges of the values that `program` asks for, by key."""
    program = program.clone()
    block = program.entry
    first = block.first_op
    assert first is not None
    values = [*block.args, *(value for op in block.ops for value in op.results)]
    made = _Probe(program, first, {value: _readers(value) for value in values})
    for op in [op for op in block.ops if isinstance(op, StatisticsRefOp)]:
        key, value = op.stats_key.data, _root(op.arg)
        for number, limits in enumerate(ranges.get(key, ())):
            made.judge((key, number), value, partial(made.rounded, value, limits))
    return made


def output_noise(
    program: Program, ranges: Mapping[str, Sequence[Range]], samples: Iterable[Mapping[str, Array]], engine: Engine
) -> dict[str, list[float]]:
    """By key, for each of its ranges, the noise of the readers over their signal, summed over the readers.

    Noise and signal are sums over the samples. A reader that is 0 throughout counts nothing.
    """
    made = probe(program, ranges)
    run = engine.prepare(made.finish())
    totals = np.zeros(len(made.results))
    for sample in samples:
        totals += np.array([float(array) for array in run(sample).values()])

    def cost(terms: Sequence[tuple[int, int]]) -> Iterator[float]:
        for noise, signal in terms:
            yield float(totals[noise] / totals[signal]) if totals[signal] else 0.0

    return {
        key: [sum(cost(made.terms.get((key, number), ()))) for number in range(len(listed))]
        for key, listed in ranges.items()
    }
