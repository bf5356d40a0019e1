"""Kernels stay inside their buffers: guard pages around each of them, and proof that the guards see what does not."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from codegen import guarded_program
from codegen.classifier import classifier, image
from codegen.guarded_program import GuardedProgram
from zeropoint.codegen.graph import Graph
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Module
from zeropoint.codegen.llvm.types import Value
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.runtime.overruns import OverrunError
from zeropoint.ir.program import Program

CASES = int(os.environ.get("ZEROPOINT_GUARDED_CASES", "1"))


def test_programs_run_between_guard_pages(tmp_path: Path) -> None:
    note = tmp_path / "step"
    command = [sys.executable, str(Path(__file__).parent / "guarded_runs.py"), str(note), str(CASES)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"status {done.returncode} in {note.read_text()}\n{done.stderr[-3000:]}"


@dataclass(frozen=True)
class Stray:
    """A kernel that loads or stores one byte, so many from the start of its buffer."""

    offset: int
    store: bool

    def tasks(self, isa: InstructionSet) -> int:
        return 1

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        f = module.function(name, [("ptr", "out"), ("i64", "begin"), ("i64", "end")])
        if self.store:
            f.store(Value("i8", "1"), f.arguments[0], self.offset)
        else:
            f.emit(f"%x = load volatile i8, {f.at(f.arguments[0], self.offset)}, align 1")
        f.ret()


def straying(offset: int, store: bool, monkeypatch: pytest.MonkeyPatch | None = None) -> None:
    """Make every program end with a kernel that goes astray in its 28 bytes of output."""

    def with_stray(program: Program, isa: InstructionSet) -> Graph:
        graph = steps_of(program, isa)
        last = graph.steps[-1].arguments[-1]
        graph.call("stray", Stray(offset, store), [], [last])  # pyright: ignore (a kernel made to fail)
        return graph

    if monkeypatch is None:
        guarded_program.steps_of = with_stray
    else:
        monkeypatch.setattr(guarded_program, "steps_of", with_stray)


@pytest.mark.parametrize(("high", "offset"), [(True, -1), (False, 28)])
def test_a_store_beside_a_buffer_is_found(high: bool, offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    straying(offset, True, monkeypatch)
    with pytest.raises(OverrunError, match=f"stray: Stray.offset={offset}, store=True. stored outside of its buffers"):
        GuardedProgram(classifier(), high=high)(image(0))


@pytest.mark.parametrize(("high", "offset", "store"), [(True, 28, False), (False, -1, True)])
def test_a_load_or_store_in_a_guard_page_ends_the_process(high: bool, offset: int, store: bool) -> None:
    script = (
        "from codegen.test_memory_safety import *\n"
        f"straying({offset}, {store})\nGuardedProgram(classifier(), high={high})(image(0))\n"
    )
    folder = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True)
    assert done.returncode == -11, done.stderr


def test_inside_of_a_buffer_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for offset in (0, 27):
        straying(offset, False, monkeypatch)
        found = GuardedProgram(classifier(), high=True)(image(0))
        np.testing.assert_array_equal(found["y0"], GuardedProgram(classifier(), high=False)(image(0))["y0"])
