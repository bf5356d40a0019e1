"""How long the selection of native kernels takes, and its share of a compile: the passes group, layout and schedule.

Milliseconds of processor time: the least and the median of `--runs`, each pass apart. A compile is all that
`NativeProgram` does: selection, memory plan, LLVM text and machine code. It is timed with an empty cache of objects
(cold, processor time of the compiling processes included) and with a full one (warm).

    python bench/selection.py [--models NAME,...] [--files PROGRAM.mlir ...] [--runs 10] [--isa avx2]
"""

import argparse
import gc
import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from choices import chosen
from suite import NETWORKS, SUBJECTS, engine_file
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.llvm.machine import host
from zeropoint.codegen.lowering import PASSES
from zeropoint.codegen.patterns.match import Found
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.codegen.schedule.steps import schedule
from zeropoint.frontend import load_model
from zeropoint.ir.program import Program

ENGINE = "zeropoint-int8"
TIMED = (*PASSES, "schedule")
HEADER = ["network", "ops", "steps", *(f"{name} ms" for name in TIMED), "least / median ms", "of cold", "of warm"]


@dataclass(frozen=True)
class Selection:
    """Milliseconds of each pass, and the number of steps."""

    passes: dict[str, float]
    steps: int

    @property
    def total(self) -> float:
        """Milliseconds of all passes."""
        return sum(self.passes.values())


def select(program: Program, isa: InstructionSet) -> Selection:
    """Run the passes once, as `codegen.lowering.steps_of` does."""
    found = Found()
    times = [time.process_time()]
    for run in PASSES.values():
        program = run(program, isa, found, 0)
        times.append(time.process_time())
    steps = len(schedule(program, isa, found).steps)
    times.append(time.process_time())
    spent = [1000 * (end - begin) for begin, end in pairwise(times)]
    return Selection(dict(zip(TIMED, spent, strict=True)), steps)


def compile_ms(program: Program, isa: InstructionSet, cache: Path) -> float:
    """Milliseconds of processor time of a compile, those of the processes that it starts included."""
    before = os.times()
    NativeProgram(program, isa=isa, cache=cache).close()
    after = os.times()
    return 1000 * sum(getattr(after, part) - getattr(before, part) for part in PARTS)


PARTS = ("user", "system", "children_user", "children_system")


def row(name: str, file: Path, isa: InstructionSet, runs: int) -> str:
    """A line of the table."""
    if not file.exists():
        return f"| {name} | found no {file.name}, made by bench/prepare.py |"
    program = load_model(file)
    select(program, isa)  # the first run imports and fills caches
    gc.collect()
    found = [select(program, isa) for _ in range(runs)]
    best = min(found, key=lambda each: each.total)
    cells = [name, f"{len(list(program.entry.ops))}", f"{best.steps}"]
    cells += [f"{spent:.0f}" for spent in best.passes.values()]
    cells.append(f"{best.total:.0f} / {statistics.median(each.total for each in found):.0f}")
    if isa.name == host().name:
        with tempfile.TemporaryDirectory() as folder:
            cold = compile_ms(program, isa, Path(folder))
            warm = min(compile_ms(program, isa, Path(folder)) for _ in range(5))
        cells += [f"{100 * best.total / whole:.1f} % of {whole:.0f} ms" for whole in (cold, warm)]
    else:
        cells += ["-", "-"]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table, a line as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=chosen(SUBJECTS), default=list(NETWORKS))
    parser.add_argument("--files", type=Path, nargs="+", help="integer programs instead of --models")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--isa", choices=list(INSTRUCTION_SETS), default=host().name)
    arguments = parser.parse_args()
    files = {name: engine_file(name, ENGINE) for name in arguments.models}
    if arguments.files:
        files = {file.stem: file for file in arguments.files}
    print("| " + " | ".join(HEADER) + " |")
    print("|" + " --- |" * len(HEADER))
    for name, file in files.items():
        print(row(name, file, INSTRUCTION_SETS[arguments.isa], arguments.runs), flush=True)


if __name__ == "__main__":
    main()
