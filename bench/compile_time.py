"""How long native code takes to make: of nothing (cold), and of kernels that are in the cache (warm).

Each figure is of a process of its own, imports and the reading of the program's file aside; seconds of the clock and of
the processors, those of compiling processes included. With it the memory of a run: the arena against the lower bound
that no plan can beat, the block of weights, and the machine code.

    python bench/compile_time.py [--models NAME,...] [--runs 3]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from choices import chosen
from suite import NETWORKS, SUBJECTS, engine_file

ENGINE = "zeropoint-int8"


@dataclass(frozen=True)
class Made:
    """A program made ready: seconds that passed and that processors worked, bytes, kernels that differ."""

    read: float
    clock: float
    processors: float
    kernels: int
    steps: int
    arena: int
    lower_bound: int
    weights: int


def make(file: Path) -> Made:
    """Read a program and make native code of it, in this process."""
    from zeropoint.codegen.runtime.native import NativeProgram
    from zeropoint.frontend import load_model

    started = time.perf_counter()
    program = load_model(file)
    read, worked = time.perf_counter(), _worked()
    native = NativeProgram(program)
    clock, processors = time.perf_counter() - read, _worked() - worked
    graph, arena = native.graph, native.arena
    kernels = len({step.kernel for step in graph.steps})
    weights = len(graph.weights)
    return Made(read - started, clock, processors, kernels, len(graph.steps), arena.size, arena.lower_bound, weights)


def _worked() -> float:
    """Seconds that processors worked for this process and for those it started and waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def measured(file: Path, cache: Path) -> Made:
    """`make` in a new process with the given cache."""
    command = [sys.executable, "-W", "ignore", __file__, "--make", str(file)]
    environment = {**os.environ, "ZEROPOINT_CACHE": str(cache)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return Made(**json.loads(done.stdout))


def row(name: str, runs: int) -> str:
    """A line of the table."""
    file = engine_file(name, ENGINE)
    if not file.exists():
        return f"| {name} | found no {file.name}, made by bench/prepare.py |"
    with tempfile.TemporaryDirectory() as folder:
        cold = measured(file, Path(folder))
        warm = [measured(file, Path(folder)) for _ in range(runs)]
    middle = statistics.median(each.clock for each in warm)
    least = statistics.median(each.processors for each in warm)
    cells = [
        name,
        f"{cold.steps} / {cold.kernels}",
        f"{cold.clock:.1f} / {cold.processors:.1f}",
        f"{middle:.2f} / {least:.2f}",
        f"{statistics.median(each.read for each in warm):.2f}",
        f"{cold.arena / 1024:.0f} / {cold.lower_bound / 1024:.0f} kB",
        f"{cold.weights / 1024:.0f} kB",
    ]
    return "| " + " | ".join(cells) + " |"


HEADER = [
    "network",
    "steps / kernels",
    "cold s: clock / processors",
    "warm s",
    "file read s",
    "arena / bound",
    "weights",
]


def main() -> None:
    """Print the table, a line as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=chosen(SUBJECTS), default=list(NETWORKS))
    parser.add_argument("--runs", type=int, default=3, help="warm ones, of which the median counts")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.make is not None:
        print(json.dumps(asdict(make(arguments.make))))
        return
    print("| " + " | ".join(HEADER) + " |")
    print("|" + " --- |" * len(HEADER))
    for name in arguments.models:
        print(row(name, arguments.runs), flush=True)


if __name__ == "__main__":
    main()
