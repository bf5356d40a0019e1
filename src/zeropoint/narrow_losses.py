"""The losses caused by the narrow form of kernels that a target has in two widths, measured here or by workers.

The loss of a kernel depends only on the program and that kernel, so it is the same for any number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from zeropoint.bit_widths import least_output_sqnr
from zeropoint.budget import Budget, WideningStep, widened
from zeropoint.budget.steps import output_widths, region_names, wide_storage
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
TITLE = "each kernel in 8 bits"


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
        chosen = widened(self.program, wide, Budget(floats=False), named_target(self.target))
        run = self.engine.prepare(self.decide(chosen))
        return least_output_sqnr(zip(self._expected, map(run, self.samples), strict=True))

    def steps(self) -> dict[KernelPair, WideningStep]:
        """A step for every kernel that the target has in two widths. Raises OptionError if there is none."""
        found: dict[KernelPair, WideningStep] = {}
        for index, (region, name) in enumerate(zip(regions_of(self.program), region_names(self.program), strict=True)):
            storage = wide_storage(region, named_target(self.target))
            if storage is not None:
                key = name.partition("#")[0], region.logical_kernel.data
                found[key] = WideningStep((name,), (index,), f"i{storage.type.width}", 0.0, 0, 0)
        if not found:
            raise _without_widths(self.target, "no kernel of the model")
        return found


def check_widths(target: str) -> None:
    """Raise OptionError for a target without a kernel in two widths, where no kernel has such a loss."""
    rows = named_target(target).by_kernel.values()
    if not any(len(output_widths(one)) > 1 for one in rows):
        raise _without_widths(target, "no kernel")


def _without_widths(target: str, kernels: str) -> OptionError:
    return OptionError(
        f"found exact (--exact) with target {target}, which has {kernels} in two widths, where it changes nothing; "
        "leave it out, or name a target that has 16 bits, such as litert (--target)"
    )


def check_listed(widening: Widening, listed: Collection[KernelPair]) -> None:
    """Raise OptionError if none of some kernels is one that the target has in two widths."""
    if not any(kernel in listed for kernel in widening.steps()):
        raise _without_widths(widening.target, "none of the model's quantized kernels")


def narrow_losses(widening: Widening, workers: int = 1, progress: Progress = silent) -> dict[KernelPair, float]:
    """For every kernel that the target has in two widths, the loss at the outputs in dB if only this kernel is narrow.

    Raises OptionError if there is no such kernel, and WorkerError.
    """
    steps = widening.steps()
    # All kernels but one are wide, because other narrow kernels would hide the loss of this one.
    alone = {key: [other for other in steps.values() if other is not one] for key, one in steps.items()}
    lists: dict[KernelPair | None, list[WideningStep]] = {None: [*steps.values()], **alone}
    if workers == 1:
        found = {key: widening.sqnr(wide) for key, wide in progress(list(lists.items()), TITLE)}
    else:
        found = _by_workers(widening, lists, workers, progress)
    return {key: found[None] - found[key] for key in alone}


_Task = tuple[KernelPair | None, Sequence[WideningStep]]
"""The key of the only narrow kernel, or None if all are wide, and the steps that widen the others."""


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
    widening: Widening, lists: Mapping[KernelPair | None, Sequence[WideningStep]], workers: int, progress: Progress
) -> dict[KernelPair | None, float]:
    with folder_for_workers(None) as folder:
        path = folder / "calibrated.mlir"
        save_program(widening.program, path)
        job = _Job(path, widening.target, widening.samples, widening.decide, widening.engine, limits())
        done = completed(partial(_work, job), iter(lists.items()), workers, "kernels")
        found: dict[KernelPair | None, float] = {}
        for _ in progress(range(len(lists)), TITLE):
            (key, wide), sqnr = next(done)
            found[key] = widening.sqnr(wide) if sqnr is None else sqnr
    return found
