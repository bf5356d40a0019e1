"""Milliseconds an inference, batch 1: zeropoint's native code, onnxruntime, LiteRT and OpenVINO, at int8 and in f32.

Each engine is a process of its own (`worker.py`), so that thread pools and allocators don't mix. All are loaded first;
then they take turns, in another order each round, so that a change of the clock or other work on the machine meets all
of them alike. Only one of them computes at any time. Compare within a run, never between runs.

Other work on the machine is counted during every turn, and the figures of an engine are those of the half of its turns
that had the least of it: chosen by the load, never by the time they took. The last column says how much was left; with
more than a few hundredths of a core, and above all with as many threads as cores, measure again.

The columns: the median over all inferences, the lowest and highest median of a turn, the ratio to the best peer (the
lowest median among the other libraries' engines of the same width), GOPS a core (two operations for each product of a
convolution or matrix multiplication) and its share of the peak that `peak.py` measures, SQNR of the output on one
sample against onnxruntime's float (an engine that is fast and wrong shows), and the cores that other work took.

Files come from `prepare.py`; what is missing is skipped, with the reason. What the libraries print, and a traceback
where one fails, is in `.cache/logs`.

    python bench/latency.py [--models NAME,...] [--engines NAME,...] [--threads 1,2] [--rounds 12] [--json FILE]
    python bench/latency.py --isa avx-vnni      # as on a processor without AVX-512: zeropoint and OpenVINO in int8
"""

import argparse
import contextlib
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from agreement import sqnr_db
from choices import chosen, counts
from engines import LIMITS, limited_to
from other_work import wait_until_quiet
from peak import Peak, measure
from suite import CACHE, ENGINES, NETWORKS, SUBJECTS, model_file, operations, script

LOGS = CACHE / "logs"
WORKER = Path(__file__).resolve().parent / "worker.py"
REFERENCE = "onnxruntime-f32"
OURS = "zeropoint"
KEPT = 0.5  # of an engine's turns: those with the least other work
REASON = 100  # characters of a reason in the table
SETTLE = 0.02  # seconds between turns: what thread pools need until they stop spinning


@dataclass(frozen=True)
class Turn:
    """An engine's part of a round: seconds of each inference, and the cores that other work took meanwhile."""

    seconds: tuple[float, ...]
    others: float


@dataclass(frozen=True)
class Timing:
    """What was measured of one engine: milliseconds, over all inferences and by turn; the cores of other work."""

    median: float
    turns: tuple[float, ...]
    others: float
    inferences: int


@dataclass(frozen=True)
class Row:
    """A line of the table; `skipped` says why an engine has no timing."""

    model: str
    threads: int
    engine: str
    timing: Timing | None
    ratio: float | None = None
    gops: float | None = None
    share: float | None = None
    sqnr: float | None = None
    skipped: str = ""


class Worker:
    """A running engine.

    `skipped` is the reason why it isn't, or "".
    """

    def __init__(self, python: str, engine: str, model: str, threads: int) -> None:
        command = [python, "-W", "ignore", str(WORKER), engine, model, str(threads)]
        LOGS.mkdir(parents=True, exist_ok=True)
        with (LOGS / f"{model}.{threads}.{engine}.log").open("w") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.skipped = ""
        self._answer()

    def ask(self, command: str) -> dict[str, Any]:
        """The answer to one line; empty, and `skipped` set, when the process ended instead."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the answer will be missing, which is reported there
            print(command, file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"skipped": f"ended with status {self._process.wait()}"}
        self.skipped = answer.get("skipped", "")
        return answer

    def close(self) -> None:
        """Ends the process: it stops at the end of its input."""
        self._process.communicate()


def schedule(engines: Sequence[str], rounds: int, seed: int = 0) -> list[list[str]]:
    """The order of the turns: every engine once a round, shuffled anew for each."""
    generator = random.Random(seed)
    return [generator.sample(list(engines), len(engines)) for _ in range(rounds)]


def quietest(turns: Sequence[Turn], share: float = KEPT) -> list[Turn]:
    """That share of the turns, rounded up, which had the least other work; in the order in which they were taken."""
    kept = sorted(range(len(turns)), key=lambda index: turns[index].others)[: math.ceil(share * len(turns))]
    return [turns[index] for index in sorted(kept)]


def timing(turns: Sequence[Turn]) -> Timing:
    """The figures of an engine's quietest turns.

    Raises:
        ValueError: there is no turn, or one without an inference.
    """
    if not turns or not all(turn.seconds for turn in turns):
        found = [len(turn.seconds) for turn in turns]
        raise ValueError(f"found inferences {found} by turn, expected at least one in each")
    kept = quietest(turns)
    return Timing(
        median=1e3 * statistics.median(seconds for turn in kept for seconds in turn.seconds),
        turns=tuple(1e3 * statistics.median(turn.seconds) for turn in kept),
        others=statistics.mean(turn.others for turn in kept),
        inferences=sum(len(turn.seconds) for turn in kept),
    )


def width(engine: str) -> str:
    """ "f32" or "int8": engines are compared with those of the same width."""
    return "f32" if engine.endswith("-f32") else "int8"


def ratios(medians: Mapping[str, float]) -> dict[str, float]:
    """Each engine's median over that of the best peer of its width; engines without such a peer are left out."""
    best: dict[str, float] = {}
    for engine, median in medians.items():
        if not engine.startswith(OURS):
            best[width(engine)] = min(median, best.get(width(engine), median))
    return {engine: median / best[width(engine)] for engine, median in medians.items() if width(engine) in best}


def interleaved(workers: Mapping[str, Worker], rounds: int, seconds: float, patience: float = 0.0) -> dict[str, Timing]:
    """Timings of the engines that lived to the end; `patience` is how long turns may wait for quiet, in all."""
    turns: dict[str, list[Turn]] = {engine: [] for engine in workers}
    for order in schedule(list(workers), rounds):
        for engine in order:
            if not workers[engine].skipped:
                patience -= wait_until_quiet(patience)
                answer = workers[engine].ask(f"run {seconds}")
                turns[engine].append(Turn(tuple(answer.get("seconds", ())), answer.get("others", 0.0)))
                time.sleep(SETTLE)
    return {engine: timing(taken) for engine, taken in turns.items() if not workers[engine].skipped}


def compare(model: str, engines: Sequence[str], threads: int, arguments: argparse.Namespace, peak: Peak) -> list[Row]:
    """The rows of one network with one number of threads."""
    workers = {engine: Worker(sys.executable, engine, model, threads) for engine in engines}
    try:
        alive = {engine: worker for engine, worker in workers.items() if not worker.skipped}
        timings = interleaved(alive, arguments.rounds, arguments.seconds, arguments.patience)
        outputs = {engine: np.array(alive[engine].ask("output").get("output", []), np.float32) for engine in timings}
    finally:
        for worker in workers.values():
            worker.close()
    quotients = ratios({engine: figures.median for engine, figures in timings.items()})
    work = operations(onnx.load(model_file(model)))
    rows = []
    for engine, worker in workers.items():
        figures = timings.get(engine)
        if figures is None:
            rows.append(Row(model, threads, engine, None, skipped=worker.skipped))
            continue
        gops = work / (figures.median * 1e6) / threads
        ceiling = peak.int8_gops if width(engine) == "int8" else peak.f32_gflops
        sqnr = sqnr_db(outputs[REFERENCE], outputs[engine]) if REFERENCE in outputs and engine != REFERENCE else None
        rows.append(Row(model, threads, engine, figures, quotients.get(engine), gops, gops / ceiling, sqnr))
    return rows


def cells(row: Row) -> list[str]:
    """What the table shows of a row."""
    if row.timing is None:
        reason = row.skipped if len(row.skipped) <= REASON else f"{row.skipped[:REASON]} ..."
        return [row.model, str(row.threads), row.engine, reason]
    lowest, highest = min(row.timing.turns), max(row.timing.turns)
    return [
        row.model,
        str(row.threads),
        row.engine,
        f"{row.timing.median:.3f}",
        f"{lowest:.3f} to {highest:.3f}",
        "" if row.ratio is None else f"{row.ratio:.2f}",
        f"{row.gops:.0f}",
        f"{100 * (row.share or 0):.0f} %",
        "" if row.sqnr is None else f"{row.sqnr:.1f}",
        f"{row.timing.others:.2f}",
    ]


HEADER = ["network", "threads", "engine", "median ms", "turns ms", "to best peer", "GOPS a core", "of peak", "SQNR dB"]
HEADER += ["other work"]


def table(rows: Iterable[Row]) -> str:
    """A Markdown table; a reason takes the place of the figures that are missing."""
    lines = [HEADER, ["---"] * len(HEADER), *(cells(row) for row in rows)]
    return "\n".join("| " + " | ".join(line + [""] * (len(HEADER) - len(line))) + " |" for line in lines)


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=chosen(SUBJECTS), default=list(NETWORKS))
    parser.add_argument("--engines", type=chosen(ENGINES), default=list(ENGINES))
    parser.add_argument("--threads", type=counts(len(os.sched_getaffinity(0))), default=[1, 2])
    parser.add_argument("--isa", choices=LIMITS, help="limit engines to these instructions; others are skipped")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=0.3, help="of an engine's turn in a round")
    parser.add_argument(
        "--patience", type=float, default=0, help="seconds that the turns of a table may wait for a quiet machine"
    )
    parser.add_argument("--json", type=Path, help="also every figure to this file")
    return parser.parse_args()


def main() -> None:
    """Measure, print a table for each network and number of threads as it comes."""
    arguments = options()
    peak = measure()
    print(f"{peak.cpu}; {peak.int8_gops:.0f} GOPS int8 ({peak.int8_form}), {peak.f32_gflops:.0f} GFLOPS f32 a core")
    if arguments.isa:
        os.environ.update(limited_to(arguments.isa))
        print(f"Engines use no other instructions than those of {arguments.isa}; the peak is that of all instructions.")
    print(flush=True)
    rows = []
    for model in arguments.models:
        if not model_file(model).exists():
            print(f"{model}: skipped, found no {model_file(model)}; bench/models/{script(model)}.py makes it\n")
            continue
        for threads in arguments.threads:
            found = compare(model, arguments.engines, threads, arguments, peak)
            rows += found
            print(f"{table(found)}\n", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"peak": asdict(peak), "rows": [asdict(row) for row in rows]}, indent=1))


if __name__ == "__main__":
    main()
