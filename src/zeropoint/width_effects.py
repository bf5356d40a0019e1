"""What the width of each kernel changes at the outputs, measured here or by workers.

The wider form of a kernel has 16 bits, or is float where the target has the kernel in one width. Its gain is measured
in the program whose other kernels are all narrow. The loss of the narrow form is measured in the program whose other
kernels are all wide, so that their noise does not hide it; only for kernels that the target has in two widths. Both
depend only on the program and that kernel, so they are the same for any number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from xdsl.dialects.builtin import AnyFloat

from zeropoint.bit_widths import least_output_sqnr
from zeropoint.budget import Budget, WideningStep, widened
from zeropoint.budget.steps import FLOAT, region_names, wide_storage
from zeropoint.calibrate.workers import folder_for_workers
from zeropoint.errors import OptionError
from zeropoint.interp import Engine
from zeropoint.ir.arguments import Sample
from zeropoint.ir.files import load_program, save_program
from zeropoint.ir.program import Program
from zeropoint.ir.regions import regions_of
from zeropoint.limits import Limits, limited, limits
from zeropoint.progress import Progress, silent
from zeropoint.targets import target as named_target
from zeropoint.workers import completed

Decide = Callable[[Program], Program]
"""Quantizes a fused program with statistics, under the user's options."""
KernelPair = tuple[str, str]
"""A kernel's unique name and its kind."""
TITLE = "each kernel in its other width"


@dataclass(frozen=True)
class Widening:
    """A fused program with statistics, and how to measure it with some kernels wide. `decide` quantizes it."""

    program: Program
    target: str
    samples: Sequence[Sample]
    decide: Decide
    engine: Engine

    @cached_property
    def _expected(self) -> list[Sample]:
        run = self.engine.prepare(self.program)
        return [run(sample) for sample in self.samples]

    def sqnr(self, wide: Sequence[WideningStep]) -> float:
        """The SQNR of the worst output in dB."""
        chosen = widened(self.program, wide, Budget(), named_target(self.target))
        run = self.engine.prepare(self.decide(chosen))
        return least_output_sqnr(zip(self._expected, map(run, self.samples), strict=True))

    def steps(self, listed: Collection[KernelPair]) -> dict[KernelPair, WideningStep]:
        """A step to the wider form of every kernel that has one. Raises OptionError if no listed kernel has."""
        found: dict[KernelPair, WideningStep] = {}
        for index, (region, name) in enumerate(zip(regions_of(self.program), region_names(self.program), strict=True)):
            key = name.partition("#")[0], region.logical_kernel.data
            if all(isinstance(spec, AnyFloat) for spec in region.output_specs):
                storage = wide_storage(region, named_target(self.target))
                width = FLOAT if storage is None else f"i{storage.type.width}"
                found[key] = WideningStep((name,), (index,), width, 0.0, 0, 0)
        if found.keys().isdisjoint(listed):
            raise OptionError(
                f"found exact (--exact) with target {self.target}, where none of the model's quantized kernels has a "
                "wider form, so that it changes nothing; leave it out"
            )
        return found


@dataclass(frozen=True)
class WidthEffect:
    """The wider form of a kernel, `i16` or `float`, and its gain at the outputs in dB. `loss` is that of the narrow
    form; None if the wider one is float."""

    form: str
    gain: float
    loss: float | None


_Case = tuple[KernelPair | None, bool]
"""A kernel, and whether it is the only wide one; otherwise it is the only narrow one. None: all others, too."""


def width_effects(
    widening: Widening, listed: Collection[KernelPair], workers: int = 1, progress: Progress = silent
) -> dict[KernelPair, WidthEffect]:
    """What the width of each of some kernels changes, for those that have a wider form.

    Raises OptionError if there is no such kernel, and WorkerError.
    """
    every = widening.steps(listed)
    words = [one for one in every.values() if one.width != FLOAT]
    steps = {key: one for key, one in every.items() if key in listed}
    lists: dict[_Case, list[WideningStep]] = {(None, True): [], **{(key, True): [one] for key, one in steps.items()}}
    narrow = {key: [other for other in words if other is not one] for key, one in steps.items() if one in words}
    if narrow:
        lists |= {(None, False): words, **{(key, False): others for key, others in narrow.items()}}
    if workers == 1:
        found = {case: widening.sqnr(wide) for case, wide in progress(list(lists.items()), TITLE)}
    else:
        found = _by_workers(widening, lists, workers, progress)
    gains = {key: _change(found[None, True], found[key, True]) for key in steps}
    losses = {key: _change(found[key, False], found[None, False]) for key in narrow}
    return {key: WidthEffect(one.width, gains[key], losses.get(key)) for key, one in steps.items()}


def _change(before: float, after: float) -> float:
    """The gain from one SQNR to another in dB; 0 if both are infinite."""
    return 0.0 if before == after else after - before


_Task = tuple[_Case, Sequence[WideningStep]]
"""A case, and the steps that widen its wide kernels."""


@dataclass(frozen=True)
class _Job:
    """A `Widening` for another process. Its program is a file."""

    program: Path
    target: str
    samples: Sequence[Sample]
    decide: Decide
    engine: Engine
    limits: Limits

    def widening(self) -> Widening:
        return Widening(load_program(self.program), self.target, self.samples, self.decide, self.engine)


_PREPARED: dict[Path, Widening] = {}
"""The program of the last job, in each worker."""


def _work(job: _Job, task: _Task) -> float | None:
    """Measure in a worker. Returns None on failure; the parent then measures itself and gets the exception."""
    try:
        with limited(memory=job.limits.memory, trips=job.limits.trips):
            if job.program not in _PREPARED:
                _PREPARED.clear()
                _PREPARED[job.program] = job.widening()
            return _PREPARED[job.program].sqnr(task[1])
    except Exception:
        _PREPARED.clear()
        return None


def _by_workers(
    widening: Widening, lists: Mapping[_Case, Sequence[WideningStep]], workers: int, progress: Progress
) -> dict[_Case, float]:
    with folder_for_workers(None) as folder:
        path = folder / "calibrated.mlir"
        save_program(widening.program, path)
        job = _Job(path, widening.target, widening.samples, widening.decide, widening.engine, limits())
        done = completed(partial(_work, job), iter(lists.items()), workers, "kernels")
        found: dict[_Case, float] = {}
        for _ in progress(range(len(lists)), TITLE):
            (case, wide), sqnr = next(done)
            found[case] = widening.sqnr(wide) if sqnr is None else sqnr
    return found
