"""Many cases of a class, spread over processes or a cluster, recorded in a journal.

A case depends on its seed only, so the outcomes are the same for any number of workers. The environment says how:

    FUZZ_CASES    cases of each class; the outcomes by kind are printed
    FUZZ_SEED     another seed
    FUZZ_WORKERS  processes, -1 for one per processor (default: 1, this one)
    FUZZ_CLUSTER  a Dask scheduler (`tcp://host:8786`) or `ray` instead of local processes; with `tests` and `src` in
                  the PYTHONPATH of its workers
    FUZZ_JOURNAL  a file of outcomes; cases that it has are not run again
"""

from __future__ import annotations

import functools
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fuzz.cases import FINE, Make, Outcome, outcome
from zeropoint.workers import completed

CASES = int(os.environ.get("FUZZ_CASES", "0"))
SEED = int(os.environ.get("FUZZ_SEED", "19"))
WORKERS = int(os.environ.get("FUZZ_WORKERS", "1"))
CHUNK = 20
"""Cases that a worker runs at a time."""


@functools.cache
def _places(prepare: Callable[[], None]) -> tempfile.TemporaryDirectory[str]:
    """The folder for those that `prepare` fills, one per process. It goes when this process ends."""
    return tempfile.TemporaryDirectory(prefix="zeropoint-fuzz-")


def run_all(make: Make, prepare: Callable[[], None], places: str, seeds: Sequence[str]) -> list[Outcome]:
    """The outcomes of cases, run in a folder of this process in `places`, which `prepare` fills once."""
    before, folder = Path.cwd(), Path(places, str(os.getpid()))
    if fresh := not folder.exists():
        folder.mkdir(parents=True)
    os.chdir(folder)
    try:
        if fresh:
            prepare()
        return [outcome(make, seed) for seed in seeds]
    finally:
        os.chdir(before)


def outcomes(
    make: Make, prepare: Callable[[], None], seeds: Sequence[str], workers: int = 1, journal: Path | None = None
) -> list[Outcome]:
    """The outcomes of cases, in order, run by `workers` processes. A killed worker's cases are run again.

    They are recorded in `journal`, which also has those that are not run again.
    """
    found = {} if journal is None else recorded(journal)
    left = [seed for seed in seeds if seed not in found]
    chunks = iter([left[start : start + CHUNK] for start in range(0, len(left), CHUNK)])
    run = partial(run_all, make, prepare, _places(prepare).name)
    done = map(run, chunks) if workers == 1 else (part for _, part in completed(run, chunks, workers, "parts"))
    for part in done:
        found |= {one.seed: one for one in part}
        if journal is not None:
            with journal.open("a") as file:
                file.write("".join(json.dumps(asdict(one)) + "\n" for one in part))
    return [found[seed] for seed in seeds]


def recorded(journal: Path) -> dict[str, Outcome]:
    """The outcomes in a journal, by seed. A last line that is not whole is taken off."""
    lines = journal.read_text().splitlines(keepends=True) if journal.exists() else []
    if lines and not lines[-1].endswith("\n"):
        journal.write_text("".join(lines := lines[:-1]))
    found = [Outcome(**json.loads(line)) for line in lines]
    return {one.seed: one for one in found}


@contextmanager
def cluster(address: str) -> Iterator[None]:
    """joblib's backend for an address: that of a Dask scheduler, `ray`, or empty for local processes."""
    import joblib

    if address == "ray":
        module: Any = pytest.importorskip("ray")
        pytest.importorskip("ray.util.joblib").register_ray()
        module.init(ignore_reinit_error=True)
        with joblib.parallel_config("ray"):
            yield
    elif address:
        with pytest.importorskip("distributed").Client(address), joblib.parallel_config("dask"):
            yield
    else:
        yield


def survey(name: str, make: Make, prepare: Callable[[], None], default: int) -> list[Outcome]:
    """Run the cases of a class, print their outcomes by kind where that was asked for; those that are bugs."""
    seeds = [f"{name} {SEED} {number}" for number in range(CASES or default)]
    journal = os.environ.get("FUZZ_JOURNAL")
    with cluster(os.environ.get("FUZZ_CLUSTER", "")):
        found = outcomes(make, prepare, seeds, WORKERS, Path(journal) if journal else None)
    if CASES:
        counts = Counter(one.kind for one in found)
        print(f"\n{name}: {', '.join(f'{count} {kind}' for kind, count in counts.most_common())} (FUZZ_SEED={SEED})")
    return [one for one in found if one.kind not in FINE]


def listed(bugs: Sequence[Outcome]) -> str:
    """The first of them, one a line."""
    return "\n".join(f"{bug.kind} ({bug.seed}): {bug.line}" for bug in bugs[:20])
