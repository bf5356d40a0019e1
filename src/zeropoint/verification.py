"""The SQNR of a program's worst output on all samples, with the same bits for any number of workers.

A worker returns the energies of each sample's outputs. They are added here in the order of the samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path

from zeropoint.bit_widths import Energies, SqnrEstimate, energies_of, estimated_sqnr
from zeropoint.calibrate import Work
from zeropoint.calibrate.workers import folder_for_workers
from zeropoint.interp import Engine, Runnable
from zeropoint.ir.arguments import Sample
from zeropoint.ir.files import load_program, save_program
from zeropoint.ir.program import Program
from zeropoint.limits import Limits, limited, limits
from zeropoint.workers import completed


@dataclass(frozen=True)
class _Job:
    """What a worker needs besides samples: the files of both programs, the engine, and limits."""

    exact: Path
    judged: Path
    engine: Engine
    limits: Limits


@dataclass(frozen=True)
class _Chunk:
    number: int
    samples: Sequence[Sample]


_PREPARED: dict[Path, tuple[Runnable, Runnable]] = {}
"""The prepared programs of the last job, in each worker."""


def sqnr_on(
    exact: Program, judged: Program, samples: Iterable[Sample], engine: Engine, work: Work | None
) -> SqnrEstimate:
    """The SQNR of the worst output of `judged` compared with the outputs of `exact`, in dB, and its margin.

    Passes on the errors of running the programs. With more than one worker, also raises WorkerError.
    """
    if work is None or work.workers == 1:
        return estimated_sqnr(_judged(engine.prepare(exact), engine.prepare(judged), samples))
    with folder_for_workers(work.journal) as folder:
        job = _Job(folder / "exact.mlir", folder / "judged.mlir", engine, limits())
        save_program(exact, job.exact)
        save_program(judged, job.judged)
        found: dict[int, list[Energies]] = {}
        for part, energies in completed(partial(_work, job), _chunks(samples, work.chunk), work.workers, "samples"):
            if energies is None:  # run again here, for its exception
                energies = list(_judged(engine.prepare(exact), engine.prepare(judged), part.samples))
            found[part.number] = energies
    return estimated_sqnr(chain.from_iterable(found[number] for number in sorted(found)))


def _judged(exact: Runnable, judged: Runnable, samples: Iterable[Sample]) -> Iterator[Energies]:
    return (energies_of(exact(sample), judged(sample)) for sample in samples)


def _work(job: _Job, chunk: _Chunk) -> list[Energies] | None:
    """Judge a chunk in a worker. Returns None on failure."""
    try:
        with limited(memory=job.limits.memory, trips=job.limits.trips):
            if job.exact not in _PREPARED:
                _PREPARED.clear()
                exact, judged = (job.engine.prepare(load_program(path)) for path in (job.exact, job.judged))
                _PREPARED[job.exact] = exact, judged
            return list(_judged(*_PREPARED[job.exact], chunk.samples))
    except Exception:
        _PREPARED.clear()
        return None


def _chunks(samples: Iterable[Sample], size: int) -> Iterator[_Chunk]:
    source, number = iter(samples), 0
    while part := list(islice(source, size)):
        yield _Chunk(number, part)
        number += 1
