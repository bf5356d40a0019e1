"""Measure the noise that the range of a value causes in the kernels that read it, kernel by kernel.

```mlir
%1 = "quant.stats_ref"(%0) {statsKey = "conv1"} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
%2 = "quant.region"(%1, %w, %b) ({...}) {logical_kernel = "convolution", ...}
```
The region runs alone in float, once on %0 and, for every candidate range, once on

```
%q = clip(round(%0 / scale), low, high) * scale
```
The noise of the range is the sum of (%2 of %q - %2 of %0)^2, and the signal is the sum of %2^2. All other values are
float, so each value is judged independently. Kernels that only move data are not readers: the readers of their results
are judged instead. All readers have the same weight: the cost of a range is the sum of noise/signal over the readers.
For float ops and the caller, it is the noise of the value itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.calibrate.range_noise import (
    RangeNoise,
    energy_cut,
    energy_of_finite,
    finite_energy_between,
    is_kernel,
    moves,
    rounded,
)
from zeropoint.calibrate.repeated_noise import repeated_noise
from zeropoint.interp import Engine, MaskedEngine, Runnable, masks_of, unpadded
from zeropoint.ir.isolation import activations, computing, float_form, form_key, last_readers, most_alive
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StatisticsOp, StatisticsRefOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.numerics.ranges import RealRange
from zeropoint.progress import Progress, silent

MEMORY = 480 << 20
"""The maximum number of bytes for values and their rounded forms. It limits the number of samples, but at least one is
used."""
FORMS = 3
"""The forms of a value in memory: float, and rounded to two ranges."""

NoiseForm = tuple[str, int]
"""A value rounded to a candidate range: the key of its statistics and the index of the range."""


@dataclass
class _Walk:
    """The walk over the float network. `values` has the values by sample, `forms` their rounded forms.

    Values that kernels only moved have the forms of the original value. `masks` has the positions of each sample that
    are not padding.
    """

    program: Program
    ranges: Mapping[str, Sequence[RealRange]]
    keys: Mapping[SSAValue, str]
    engine: Engine
    count: int
    masks: Sequence[Array] | None = None
    values: dict[SSAValue, list[Array]] = field(default_factory=dict[SSAValue, list[Array]])
    forms: dict[SSAValue, dict[NoiseForm, list[Array]]] = field(
        default_factory=dict[SSAValue, dict[NoiseForm, list[Array]]]
    )
    found: dict[str, RangeNoise] = field(default_factory=dict[str, RangeNoise])
    shared: dict[Hashable, Runnable] = field(default_factory=dict[Hashable, Runnable])
    """The prepared ops of forms that later ops have, too: the steps of a recurrence."""

    def __post_init__(self) -> None:
        self._form_keys = {op: form_key(op) for op in computing(self.program)}
        self._left = Counter(self._form_keys.values())
        """How many ops of each form have not been prepared."""
        for key, tried in self.ranges.items():
            none = np.zeros((len(tried), self.count))
            self.found[key] = RangeNoise(none, none.copy(), none.copy())

    def enter(self, value: SSAValue, arrays: list[Array]) -> None:
        """Add a computed value and measure its own noise. This counts if float ops or the caller read the value."""
        self.values[value] = arrays
        key = self.keys.get(value, "")
        for number, limits in enumerate(self.ranges.get(key, ())):
            found = self.found[key]
            shown, made = self._shown(arrays), [rounded(array, limits) for array in arrays]
            found.size = sum(int(np.count_nonzero(np.isfinite(array))) for array in shown)
            # Clipping is separated from rounding, because few samples have rare outliers: `choice` takes the clipping
            # from the histogram.
            found.cut[number] = [energy_cut(array, limits) for array in shown]
            found.own[number] = [
                finite_energy_between(array, form) for array, form in zip(shown, self._shown(made), strict=True)
            ]
            self.forms.setdefault(value, {})[key, number] = made
        # Float ops and the caller read the value itself, so its own noise counts.
        if any(not is_kernel(use.operation) for use in value.uses):
            for form, made in self.forms.get(value, {}).items():
                self._add(form, arrays, made)

    def step(self, op: Operation) -> None:
        """Run an op in float. A kernel is also run on every rounded form of its operands."""
        run = self._prepared(op)
        inputs = activations(op)
        exact = self._run(run, [self.values[value] for value in inputs])
        if is_kernel(op):
            self._judge(op, run, inputs, exact)
        for result, arrays in zip(op.results, exact, strict=True):
            self.enter(result, arrays)

    def _prepared(self, op: Operation) -> Runnable:
        """An op in float, prepared by the engine. Ops of the same form are prepared once."""
        key = self._form_keys[op]
        self._left[key] -= 1
        run = self.shared.pop(key, None) or self.engine.prepare(float_form(self.program, op))
        if self._left[key]:
            self.shared[key] = run
        return run

    def _judge(self, op: Operation, run: Runnable, inputs: Sequence[SSAValue], exact: list[list[Array]]) -> None:
        for index, value in enumerate(inputs):
            for form, arrays in self.forms.get(value, {}).items():
                given = [self.values[other] for other in inputs]
                # One operand at a time, with the others in float, so that a range does not depend on the ranges of
                # other values.
                given[index] = arrays
                for result, right, made in zip(op.results, exact, self._run(run, given), strict=True):
                    # A moved value is the same value. It is judged where a kernel computes with it.
                    if moves(op):
                        self.forms.setdefault(result, {})[form] = made
                    else:
                        self._add(form, right, made)

    def _shown(self, arrays: list[Array]) -> list[Array]:
        """The arrays of all samples without padding."""
        return arrays if self.masks is None else list(map(unpadded, arrays, self.masks))

    def _add(self, form: NoiseForm, exact: list[Array], made: list[Array]) -> None:
        """Add the noise of a reader. `exact` has its results for the float value, `made` for the rounded form."""
        exact, made = self._shown(exact), self._shown(made)
        noise = np.array([finite_energy_between(found, right) for found, right in zip(made, exact, strict=True)])
        signal = sum(map(energy_of_finite, exact))
        # A reader that is always 0 has no ratio, and noise cannot harm it.
        if signal:
            # Relative to each reader's signal, so that readers of different units have the same weight.
            self.found[form[0]].readers[form[1]] += noise / signal

    def _run(self, run: Runnable, given: Sequence[list[Array]]) -> list[list[Array]]:
        """The results of an op, each by sample."""
        rows = [
            list(run({str(number): arrays[sample] for number, arrays in enumerate(given)}).values())
            for sample in range(self.count)
        ]
        return [list(arrays) for arrays in zip(*rows, strict=True)]

    def leave(self, value: SSAValue) -> None:
        """Release a value after its last reader."""
        self.values.pop(value, None)
        self.forms.pop(value, None)


def _bytes(value: SSAValue) -> int:
    return prod(shape_of(value)) * element_dtype(element_of(value)).itemsize


def _without_statistics(program: Program) -> tuple[Program, dict[SSAValue, str]]:
    """A copy without `quant.stats` and `quant.stats_ref` ops, and the keys of the f32 values that had a request."""
    program = program.clone()
    keys: dict[SSAValue, str] = {}
    for op in [op for op in program.module.walk() if isinstance(op, StatisticsOp | StatisticsRefOp)]:
        if isinstance(op, StatisticsRefOp) and element_of(op.arg) == f32:
            keys.setdefault(op.arg, op.stats_key.data)
        op.res.replace_all_uses_with(op.arg)
        Rewriter.erase_op(op)
    return program, keys


def output_noise(
    program: Program,
    ranges: Mapping[str, Sequence[RealRange]],
    samples: Sequence[Mapping[str, Array]],
    engine: Engine,
    progress: Progress = silent,
    run: Runnable | None = None,
) -> dict[str, RangeNoise]:
    """For each key, the noise of each of its ranges on each sample. Uses the first samples that fit in memory.

    Every op runs alone, over all samples at once; unless `run`, the program that an engine has prepared, can run its
    kernels again. Positions that a `MaskedEngine` leaves out do not count. Passes on the errors of the engine.
    """
    program, keys = _without_statistics(program)
    # All samples go through an op before the next op runs, so the values of all samples are in memory at once.
    samples = samples[: max(1, MEMORY // max(1, FORMS * most_alive(program.entry, _bytes)))]
    repeated = repeated_noise(program, keys, ranges, samples, run, MEMORY, progress)
    if repeated is not None:
        return repeated
    masks = masks_of(samples, engine.mask if isinstance(engine, MaskedEngine) else None)
    walk = _Walk(program, ranges, keys, engine, len(samples), masks)
    last = last_readers(program.entry)
    with np.errstate(all="ignore"):  # non-finite samples give non-finite values
        for argument, port in zip(program.entry.args, program.inputs, strict=True):
            walk.enter(argument, [np.asarray(sample[port.name]) for sample in samples])
        for op in progress(computing(program), "choose ranges"):
            walk.step(op)
            for value in last.get(op, ()):
                walk.leave(value)
    return walk.found
