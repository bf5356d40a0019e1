"""The noise of `output_noise.py`, by kernels of the calibrated program that run again.

The network runs once on a sample. Then each reader of a value with several ranges runs again, on the value rounded to
each of them. No kernel is prepared alone, and a sample needs only its own values. Energies have the terms that they
have there, added in the order in which native code has them in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.calibrate.range_noise import (
    RangeNoise,
    energy_cut,
    energy_of_finite,
    finite_energy_between,
    is_kernel,
    moves,
    rounded,
)
from zeropoint.interp import Repeatable, RepeatedKernels, Runnable
from zeropoint.ir.isolation import activations, computing
from zeropoint.ir.kernel_path import KernelPath
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.numerics.ranges import RealRange
from zeropoint.progress import Progress
from zeropoint.threads import in_threads
from zeropoint.workers import processors


@dataclass
class _Readers:
    """The readers of values with several ranges, in order. `paths` has the ways to values that kernels only moved."""

    keys: Mapping[SSAValue, str]
    ranges: Mapping[str, Sequence[RealRange]]
    found: list[KernelPath] = field(default_factory=list[KernelPath])
    paths: dict[SSAValue, list[KernelPath]] = field(default_factory=dict[SSAValue, list[KernelPath]])

    def enter(self, value: SSAValue) -> None:
        """Add a value: a path begins at one with several ranges. Float ops and the caller read the value itself."""
        key = self.keys.get(value, "")
        if key in self.ranges:
            self.paths.setdefault(value, []).append(KernelPath((key,)))
        if any(not is_kernel(use.operation) for use in value.uses):
            self.found += self.paths.get(value, [])

    def step(self, op: Operation) -> None:
        """Add an op: a reader, or one that only moves a value."""
        inputs = activations(op)
        for value in inputs if is_kernel(op) else ():
            others = tuple(self.keys.get(other, "") for other in inputs if other is not value)
            for path in self.paths.get(value, ()):
                for result in op.results:
                    longer = KernelPath((*path.keys, self.keys.get(result, "")), (*path.others, *others))
                    if moves(op):
                        self.paths.setdefault(result, []).append(longer)
                    else:
                        self.found.append(longer)
        for result in op.results:
            self.enter(result)


@dataclass
class _Noise:
    """Noise and signal of one sample: of the readers by range, and of the values themselves."""

    readers: list[tuple[float, list[float]]]
    own: dict[str, list[float]]
    cut: dict[str, list[float]]
    sizes: dict[str, int]


def repeated_noise(
    program: Program,
    keys: Mapping[SSAValue, str],
    ranges: Mapping[str, Sequence[RealRange]],
    samples: Sequence[Mapping[str, Array]],
    run: Runnable | None,
    memory: int,
    progress: Progress,
) -> dict[str, RangeNoise] | None:
    """For each key, the noise of each of its ranges on each sample; None if some reader cannot run again, alone.

    `program` has no requests, `keys` are those of its values, and `run` is the program with the requests, prepared.
    At most `memory` bytes are used for values.
    """
    if not isinstance(run, Repeatable):
        return None
    readers = _Readers(keys, ranges)
    for argument in program.entry.args:
        readers.enter(argument)
    for op in computing(program):
        readers.step(op)
    lanes = run.repeated(dict.fromkeys(readers.found), min(processors(), len(samples)), memory)
    if not lanes:
        return None

    def work(lane: int) -> list[_Noise]:
        with np.errstate(all="ignore"):  # non-finite samples give non-finite values
            return [_of_sample(lanes[lane], sample, readers.found, ranges) for sample in samples[lane :: len(lanes)]]

    by_lane = in_threads(work, range(len(lanes)))
    order = progress(range(len(samples)), "choose ranges")
    return _combined(readers.found, ranges, [by_lane[n % len(lanes)][n // len(lanes)] for n in order])


def _of_sample(
    kernels: RepeatedKernels,
    sample: Mapping[str, Array],
    paths: Sequence[KernelPath],
    ranges: Mapping[str, Sequence[RealRange]],
) -> _Noise:
    exact = kernels.run(sample)
    readers: list[tuple[float, list[float]]] = [(0.0, [])] * len(paths)
    by_key: dict[str, list[int]] = {}
    for number, path in enumerate(paths):
        by_key.setdefault(path.keys[0], []).append(number)
    own, cut, sizes = dict[str, list[float]](), dict[str, list[float]](), dict[str, int]()
    # One value after the other: the rounded forms of all of them would take several times the memory of a run.
    for key, tried in ranges.items():
        value, forms = exact[key], [rounded(exact[key], limits) for limits in tried]
        for number in by_key.get(key, ()):
            right = exact[paths[number].keys[-1]]
            noise = [finite_energy_between(made, right) for made in kernels.again(paths[number], forms)]
            readers[number] = energy_of_finite(right), noise
        own[key] = [finite_energy_between(value, form) for form in forms]
        cut[key] = [energy_cut(value, limits) for limits in tried]
        sizes[key] = int(np.count_nonzero(np.isfinite(value)))
    return _Noise(readers, own, cut, sizes)


def _combined(
    paths: Sequence[KernelPath], ranges: Mapping[str, Sequence[RealRange]], samples: Sequence[_Noise]
) -> dict[str, RangeNoise]:
    found: dict[str, RangeNoise] = {}
    for key, tried in ranges.items():
        own = np.array([sample.own[key] for sample in samples]).T
        cut = np.array([sample.cut[key] for sample in samples]).T
        found[key] = RangeNoise(np.zeros((len(tried), len(samples))), own, cut, sum(s.sizes[key] for s in samples))
    for number, path in enumerate(paths):
        signal = sum(sample.readers[number][0] for sample in samples)
        if signal:
            noise = np.array([sample.readers[number][1] for sample in samples]).T
            found[path.keys[0]].readers[...] += noise / signal
    return found
