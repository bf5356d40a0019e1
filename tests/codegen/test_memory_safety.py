"""Kernels stay inside their buffers: guard pages around each of them, and proof that the guards see what does not."""

from __future__ import annotations

import faulthandler
import os
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from codegen import guarded_program
from codegen.classifier import classifier, image
from codegen.guarded_program import GuardedProgram
from codegen.guarded_runs import check_all
from zeropoint.codegen.graph import Graph
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Module
from zeropoint.codegen.llvm.types import Value
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.runtime.overruns import OverrunError
from zeropoint.ir.program import Program

CASES = int(os.environ.get("ZEROPOINT_GUARDED_CASES", "1"))


def test_programs_run_between_guard_pages(tmp_path: Path) -> None:
    note, errors = tmp_path / "step", tmp_path / "errors"
    status = in_a_child(lambda: check_all(note, CASES), errors)
    assert status == 0, f"status {status} in {note.read_text()}\n{errors.read_text()[-3000:]}"


def in_a_child(work: Callable[[], object], errors: Path) -> int:
    """The status of a child that does this: that of a signal is negative. What it writes to stderr is in `errors`."""
    child = os.fork()
    if child == 0:  # never returns into the test
        status = 1
        try:
            faulthandler.disable()  # pytest's would write into the output of the tests
            os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT), 2)
            work()
            status = 0
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


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


def straying(offset: int, store: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every program end with a kernel that goes astray in its 28 bytes of output."""

    def with_stray(program: Program, isa: InstructionSet) -> Graph:
        graph = steps_of(program, isa)
        last = graph.steps[-1].arguments[-1]
        graph.call("stray", Stray(offset, store), [], [last])  # pyright: ignore (a kernel made to fail)
        return graph

    monkeypatch.setattr(guarded_program, "steps_of", with_stray)


@pytest.mark.parametrize(("high", "offset"), [(True, -1), (False, 28)])
def test_a_store_beside_a_buffer_is_found(high: bool, offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    straying(offset, True, monkeypatch)
    with pytest.raises(OverrunError, match=f"stray: Stray.offset={offset}, store=True. stored outside of its buffers"):
        GuardedProgram(classifier(), high=high)(image(0))


@pytest.mark.parametrize(("high", "offset", "store"), [(True, 28, False), (False, -1, True)])
def test_a_load_or_store_in_a_guard_page_ends_the_process(
    high: bool, offset: int, store: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    straying(offset, store, monkeypatch)
    program, errors = GuardedProgram(classifier(), high=high), tmp_path / "errors"
    assert in_a_child(lambda: program(image(0)), errors) == -signal.SIGSEGV, errors.read_text()


def test_inside_of_a_buffer_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for offset in (0, 27):
        straying(offset, False, monkeypatch)
        found = GuardedProgram(classifier(), high=True)(image(0))
        np.testing.assert_array_equal(found["y0"], GuardedProgram(classifier(), high=False)(image(0))["y0"])
