"""What the range of a value costs the kernels that read it, measured kernel by kernel.

```mlir
%1 = "quant.stats_ref"(%0) {statsKey = "conv1"} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
%2 = "quant.region"(%1, %w, %b) ({...}) {logical_kernel = "convolution", ...}
```
The region runs alone in float, once on %0 and, for every range that is tried, on

```
%q = clip(round(%0 / scale), low, high) * scale
```
The noise of that range is the sum of (%2 of %q - %2 of %0)^2, its signal that of %2^2. Everything but the one value is
float, so that values are judged apart from each other. A kernel that only moves what it reads is looked through.
Readers weigh the same: the cost of a range is the sum of noise over signal, over all of them; what floats or the caller
read counts by the value itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.calibrate.progress import Progress, silent
from zeropoint.interp import Engine, Runnable
from zeropoint.ir.isolation import activations, computing, float_form, last_readers, most_alive
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsRefOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.numerics import asymmetric, dequantize, quantize

MEMORY = 480 << 20
"""Bytes that values and their rounded forms may take; there are as many samples as fit, one at least."""
FORMS = 3
"""A value in float and rounded to two ranges."""

Range = tuple[float, float]
Form = tuple[str, int]
"""A value rounded to one of the ranges that are tried: the key of its statistics and the number of the range."""
MOVES = ("reshape", "transpose", "slice", "pad", "broadcast", "squeeze", "expand_dims", "flatten", "reverse")
"""Kernels whose result is what they read: the rounding of their operand is judged by those that read the result."""


@dataclass(eq=False)
class Noise:
    """What ranges of one value cost, by range and sample.

    `readers` is the noise of the value's readers over their signal, whose sums are taken over all samples; a reader
    that is 0 throughout counts nothing. `own` is the squared error of the value itself, and `cut` that of what lies
    outside the range alone; both are sums over the elements, `size` is their number in all samples.
    """

    readers: Array
    own: Array
    cut: Array
    size: int = 0


def rounded(array: Array, limits: Range) -> Array:
    """An f32 array as it comes back from 8 bits of a range."""
    chosen = asymmetric(*limits, -128, 127)
    stored = quantize(array, chosen.scale, chosen.zero_point, -128, 127)
    return dequantize(stored, chosen.scale, chosen.zero_point)


def _energy(array: Array) -> float:
    return float(np.square(array, dtype=np.float64).sum())


@dataclass
class _Walk:
    """The values of the float network by sample, and rounded forms of those that kernels have moved."""

    program: Program
    ranges: Mapping[str, Sequence[Range]]
    keys: Mapping[SSAValue, str]
    engine: Engine
    count: int
    values: dict[SSAValue, list[Array]] = field(default_factory=dict[SSAValue, list[Array]])
    moved: dict[SSAValue, dict[Form, list[Array]]] = field(default_factory=dict[SSAValue, dict[Form, list[Array]]])
    found: dict[str, Noise] = field(default_factory=dict[str, Noise])

    def __post_init__(self) -> None:
        for key, tried in self.ranges.items():
            none = np.zeros((len(tried), self.count))
            self.found[key] = Noise(none, none.copy(), none.copy())

    def enter(self, value: SSAValue, arrays: list[Array]) -> None:
        """A value that has been computed: its own noise, which counts where floats or the caller read it."""
        self.values[value] = arrays
        key = self.keys.get(value, "")
        for number, limits in enumerate(self.ranges.get(key, ())):
            found = self.found[key]
            found.size = sum(array.size for array in arrays)
            found.cut[number] = [_energy(array - np.clip(array, *limits)) for array in arrays]
            found.own[number] = [_energy(array - rounded(array, limits)) for array in arrays]
        if any(not _is_kernel(use.operation) for use in value.uses):
            for form, made in self._forms(value):
                self._add(form, arrays, made)

    def step(self, op: Operation) -> None:
        """Run an op in float, and a kernel on every rounded form of what it reads, too."""
        run = self.engine.prepare(float_form(self.program, op))
        inputs = activations(op)
        exact = self._run(run, [self.values[value] for value in inputs])
        if _is_kernel(op):
            self._judge(op, run, inputs, exact[0])
        for result, arrays in zip(op.results, exact, strict=True):
            self.enter(result, arrays)

    def _judge(self, op: Operation, run: Runnable, inputs: Sequence[SSAValue], exact: list[Array]) -> None:
        moves = isinstance(op, QuantizeRegionOp) and op.logical_kernel.data in MOVES
        for index, value in enumerate(inputs):
            for form, arrays in self._forms(value):
                given = [self.values[other] for other in inputs]
                given[index] = arrays
                made = self._run(run, given)[0]
                if moves:
                    self.moved.setdefault(op.results[0], {})[form] = made
                else:
                    self._add(form, exact, made)

    def _forms(self, value: SSAValue) -> Iterator[tuple[Form, list[Array]]]:
        """The rounded forms of a value, by sample: of its own ranges, and as kernels have moved them here."""
        key = self.keys.get(value, "")
        for number, limits in enumerate(self.ranges.get(key, ())):
            yield (key, number), [rounded(array, limits) for array in self.values[value]]
        yield from self.moved.get(value, {}).items()

    def _add(self, form: Form, exact: list[Array], made: list[Array]) -> None:
        """A reader of a rounded form: what it makes of the value as it is and of the form."""
        noise = np.array([_energy(found - right) for found, right in zip(made, exact, strict=True)])
        signal = sum(map(_energy, exact))
        if signal:
            self.found[form[0]].readers[form[1]] += noise / signal

    def _run(self, run: Runnable, given: Sequence[list[Array]]) -> list[list[Array]]:
        """The results of an op, each by sample."""
        rows = [
            list(run({str(number): arrays[sample] for number, arrays in enumerate(given)}).values())
            for sample in range(self.count)
        ]
        return [list(arrays) for arrays in zip(*rows, strict=True)]

    def leave(self, value: SSAValue) -> None:
        """Behind its last reader."""
        self.values.pop(value, None)
        self.moved.pop(value, None)


def _is_kernel(op: Operation) -> bool:
    """Whether an op is a region whose first result is f32: one that has a signal, and noise."""
    return isinstance(op, QuantizeRegionOp) and element_of(op.outputs[0]) == f32


def _bytes(value: SSAValue) -> int:
    return prod(shape_of(value)) * element_dtype(element_of(value)).itemsize


def _without_references(program: Program) -> tuple[Program, dict[SSAValue, str]]:
    """The program that asks nothing, and the keys of the f32 values that it asked for."""
    program = program.clone()
    keys: dict[SSAValue, str] = {}
    for op in [op for op in program.entry.ops if isinstance(op, StatisticsRefOp)]:
        if element_of(op.arg) == f32:
            keys.setdefault(op.arg, op.stats_key.data)
        op.res.replace_all_uses_with(op.arg)
        Rewriter.erase_op(op)
    return program, keys


def output_noise(
    program: Program,
    ranges: Mapping[str, Sequence[Range]],
    samples: Sequence[Mapping[str, Array]],
    engine: Engine,
    progress: Progress = silent,
) -> dict[str, Noise]:
    """For each key, what each of its ranges costs on each of the samples, or on the first of them that fit the memory.

    Every op runs alone, over all samples at once. Raises what the engine raises.
    """
    program, keys = _without_references(program)
    samples = samples[: max(1, MEMORY // max(1, FORMS * most_alive(program.entry, _bytes)))]
    walk = _Walk(program, ranges, keys, engine, len(samples))
    last = last_readers(program.entry)
    with np.errstate(all="ignore"):  # what is not finite in the samples is not finite here
        for argument, port in zip(program.entry.args, program.inputs, strict=True):
            walk.enter(argument, [np.asarray(sample[port.name]) for sample in samples])
        for op in progress(computing(program), "choose ranges"):
            walk.step(op)
            for value in last.get(op, ()):
                walk.leave(value)
    return walk.found
