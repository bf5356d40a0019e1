"""The debug build: wrong kernels of every form are caught and named, right ones give what ordinary code gives."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zeropoint.codegen.kernels
from codegen.classifier import classifier
from zeropoint.codegen.graph import Buffer, Graph, Space, Step, View
from zeropoint.codegen.llvm.checked import CheckedModule
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.llvm.text import Function, Module
from zeropoint.codegen.llvm.types import Value, i64
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.modules import kernels_of
from zeropoint.codegen.runtime import native
from zeropoint.codegen.runtime.guarded import is_wanted
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.codegen.runtime.overruns import OverrunError
from zeropoint.codegen.runtime.profiling import profile
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program

BYTES = np.dtype(np.uint8)
V16 = "<16 x i8>"
SMALL = parse_program("""
func.func @main(%x: tensor<19xi32> {zeropoint.name = "x"}) -> (tensor<19xi32> {zeropoint.name = "y"}) {
  %y = stablehlo.negate %x : tensor<19xi32>
  return %y : tensor<19xi32>
}
""")
NUMBERS = np.arange(19, dtype=np.int32)
PLACES = Value("<2 x i64>", "<i64 60, i64 64>")
HIDDEN = Value("<16 x i8>", "splat (i8 1)")


@dataclass(frozen=True)
class Wrong:
    """A kernel of four arguments, 64 bytes each: it reads the first and the weights, and writes the last two."""

    name: str

    def tasks(self, isa: InstructionSet) -> int:
        return 1

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        pointers = [("ptr", argument) for argument in ("in", "w", "out", "more")]
        f = module.function(name, [*pointers, ("i64", "begin"), ("i64", "end")])
        # What is read is kept, or LLVM would not read it.
        read = WRONG[self.name][0](f, *f.arguments[:4])
        if read is not None:
            f.store(read, f.arguments[3])
        f.ret()


def load(type_: str, argument: int, offset: int, align: int = 1) -> Callable[..., Value]:
    return lambda f, *p: f.load(type_, p[argument], offset, align)


def store(argument: int, offset: int, align: int = 1) -> Callable[..., None]:
    return lambda f, *p: f.store(HIDDEN, p[argument], offset, align)


def moved(f: Function, source: Value, *_: Value) -> Value:
    """By an offset that LLVM does not know."""
    number = f.cast("zext", f.load("i8", source), "i64")
    return f.load("i8", f.fresh(f.at(source, f.add(number, 64))))


def in_a_loop(f: Function, source: Value, weights: Value, out: Value, more: Value) -> None:
    f.loop(0, 65, 1, lambda x, _: f.store(Value("i8", "1"), out, x))


def on_the_stack(f: Function, *_: Value) -> Value:
    return f.load("i8", f.scratch(32), 32)


def in_a_table(f: Function, *_: Value) -> Value:
    return f.load("i64", f.module.table([1, 2, 3]), i64(24), align=8)


WRONG: dict[str, tuple[Callable[..., Value | None], str]] = {
    "load behind": (load(V16, 0, 56), r"loads 16 bytes at byte 56 of argument 0, expected 0 to 64: arena buffer of 64"),
    "load before": (load("i8", 0, -1), r"loads 1 bytes at byte -1 of argument 0"),
    "load of a scalar": (load("i32", 0, 61), r"loads 4 bytes at byte 61 of argument 0"),
    "load by a computed offset": (moved, r"loads 1 bytes at byte \d+ of argument 0"),
    "load of other parameters": (
        load("i8", 1, 64),
        r"loads 1 bytes at byte 64 of argument 1, .*: parameters of 64 bytes at \d+ of the",
    ),
    "masked load": (lambda f, *p: f.load_first(V16, 13, p[0], 52), r"loads 13 bytes at byte 52 of argument 0"),
    "gather": (lambda f, *p: f.gather("<2 x i32>", p[0], PLACES, 4), r"loads 4 bytes at byte 64 of argument 0"),
    "store behind": (store(2, 49), r"stores 16 bytes at byte 49 of argument 2, expected 0 to 64: arena buffer"),
    "store before": (store(2, -16), r"stores 16 bytes at byte -16 of argument 2"),
    "store to the neighbour": (store(2, 64), r"stores 16 bytes at byte 64 of argument 2"),
    "store in a loop": (in_a_loop, r"stores 1 bytes at byte 64 of argument 2"),
    "store to an input": (store(0, 0), r"stores 16 bytes at argument 0, which is read only: arena buffer"),
    "store to weights": (store(1, 0), r"stores 16 bytes at argument 1, which is read only: parameters of 64 bytes"),
    "masked store": (lambda f, *p: f.store_first(HIDDEN, 11, p[2], 54), r"stores 11 bytes at byte 54 of argument 2"),
    "store of half": (lambda f, *p: f.store_first(HIDDEN, 8, p[2], 57), r"stores 8 bytes at byte 57 of argument 2"),
    "fill": (lambda f, *p: f.fill(p[2], 0, 65), r"stores 65 bytes at byte 0 of argument 2"),
    "copy from": (lambda f, *p: f.copy(p[2], f.at(p[0], 1), 64), r"loads 64 bytes at byte 1 of argument 0"),
    "copy to": (lambda f, *p: f.copy(f.at(p[2], 33), p[0], 32), r"stores 32 bytes at byte 33 of argument 2"),
    "misaligned load": (load("<4 x i32>", 0, 4, 16), r"loads or stores, misaligned, 16 bytes at byte 4 of argument 0"),
    "misaligned store": (store(2, 8, 16), r"loads or stores, misaligned, 16 bytes at byte 8 of argument 2"),
    "stack": (on_the_stack, r"loads 1 bytes at an address on the stack that is not its own"),
    "table": (in_a_table, r"loads 8 bytes at an address of a table that is not its own"),
}
RIGHT: dict[str, Callable[..., Value | None]] = {
    "right load": load(V16, 0, 48),
    "right store": store(2, 48, 16),
    "right masked load": lambda f, *p: f.load_first(V16, 13, p[0], 51),
    "right masked store": lambda f, *p: f.store_first(HIDDEN, 11, p[2], 53),
    "right prefetch": lambda f, *p: f.prefetch(p[0], 1 << 30),
    "right stack": lambda f, *p: f.store(Value("i8", "1"), f.scratch(32), 31),
}


def with_step(name: str) -> Callable[..., Graph]:
    """Programs end with the kernel of that name, on buffers that lie one behind the other."""

    def selected(program: Program, isa: InstructionSet, **given: Any) -> Graph:
        graph = steps_of(program, isa, **given)
        source, out, more = (View(Buffer(Space.ARENA, 64), 0, (64,), (1,), BYTES) for _ in range(3))
        parameters = graph.parameters(bytes(64))
        graph.parameters(bytes(64))
        arguments = (source, parameters, out, more)
        graph.steps.append(Step("wrong", Wrong(name), arguments, (source.buffer,), (out.buffer, more.buffer)))
        return graph

    return selected


@pytest.mark.parametrize(("name", "threads"), [(name, 1 + n % 2) for n, name in enumerate(WRONG)])
def test_a_wrong_kernel_is_caught_and_named(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "steps_of", with_step(name))
    program = NativeProgram(SMALL, threads=threads, guarded=True)
    last = len(program.graph.steps) - 1
    message = rf"wrong: step {last} {WRONG[name][1]}.*; kernel: Wrong\(name='{name}'\)"
    for _ in range(2):
        with pytest.raises(OverrunError, match=message):
            program({"x": NUMBERS})
    program.close()


@pytest.mark.parametrize("name", RIGHT)
def test_what_stays_inside_is_no_fault(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "steps_of", with_step(name))
    monkeypatch.setitem(WRONG, name, (RIGHT[name], ""))
    (found,) = NativeProgram(SMALL, guarded=True)({"x": NUMBERS}).values()
    np.testing.assert_array_equal(found, -NUMBERS)


@dataclass(frozen=True)
class Unwritten:
    """A kernel that gives its caller what it finds in memory that nobody wrote."""

    def tasks(self, isa: InstructionSet) -> int:
        return 1

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        f = module.function(name, [("ptr", "in"), ("ptr", "out"), ("i64", "begin"), ("i64", "end")])
        f.copy(f.arguments[1], f.arguments[0], 4)
        f.ret()


def test_what_is_read_before_it_is_written_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def selected(program: Program, isa: InstructionSet, **given: Any) -> Graph:
        graph = steps_of(program, isa, **given)
        last = graph.steps[-1].arguments[-1]
        assert isinstance(last, View)
        behind_all_else = View(Buffer(Space.ARENA, 1 << 20), (1 << 20) - 4, (4,), (1,), BYTES)
        graph.call("early", Unwritten(), [behind_all_else], [last])
        return graph

    monkeypatch.setattr(native, "steps_of", selected)
    with pytest.raises(OverrunError, match="output y: found other values in memory of ones than of zeros"):
        NativeProgram(SMALL, guarded=True)({"x": NUMBERS})


@dataclass(frozen=True)
class Unchecked:
    """A kernel that stores before its buffer, and goes round the builder to do so."""

    def tasks(self, isa: InstructionSet) -> int:
        return 1

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        f = module.function(name, [("ptr", "out"), ("i64", "begin"), ("i64", "end")])
        f.emit(f"store i8 1, {f.at(f.arguments[0], -1)}")
        f.ret()


def test_what_no_check_sees_is_found_beside_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """At its start where a page guards the end; `test_memory_safety` has the pages."""

    def selected(program: Program, isa: InstructionSet, **given: Any) -> Graph:
        graph = steps_of(program, isa, **given)
        last = graph.steps[-1].arguments[-1]
        assert isinstance(last, View)
        graph.call("unchecked", Unchecked(), [], [last])
        return graph

    monkeypatch.setattr(native, "steps_of", selected)
    with pytest.raises(OverrunError, match="found bytes changed beside the buffers of a call, which no check reported"):
        NativeProgram(SMALL, guarded=True)({"x": NUMBERS})


@pytest.mark.parametrize(("value", "wanted"), [("1", True), ("yes", True), ("0", False), ("", False), (None, False)])
def test_the_environment_asks_for_it(value: str | None, wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZEROPOINT_GUARDED", raising=False)
    if value is not None:
        monkeypatch.setenv("ZEROPOINT_GUARDED", value)
    assert is_wanted() is wanted
    assert NativeProgram(SMALL).guarded is wanted
    assert not NativeProgram(SMALL, guarded=False).guarded


def test_a_guarded_program_is_not_timed() -> None:
    with pytest.raises(ValueError, match="found a guarded program, expected one to be timed; unset ZEROPOINT_GUARDED"):
        profile(NativeProgram(SMALL, guarded=True), {"x": NUMBERS})


@pytest.mark.parametrize("isa", INSTRUCTION_SETS.values(), ids=lambda row: row.name)
def test_every_load_and_store_of_a_kernel_has_a_check(isa: InstructionSet) -> None:
    """As it is written: the line before it opens a block that only those inside of their bounds enter."""
    touched = re.compile(r"= load |^  store |@llvm\.(masked|memcpy|memset)")
    for text in kernels_of(steps_of(classifier(), isa), checked=True).texts.values():
        kernels, _ = text.split("define internal void @fault")
        count = 0
        for function in re.split("^define ", kernels, flags=re.MULTILINE)[1:]:
            lines = function.splitlines()
            for before, line in itertools.pairwise(lines):
                if touched.search(line) and not line.startswith("  %e"):  # the bounds themselves
                    assert re.fullmatch(r"stay\d+:", before), (before, line)
                    count += 1
        assert count


def test_kernels_touch_memory_through_the_builder_only() -> None:
    raw = re.compile(r"llvm\.(mem|masked)|getelementptr|inttoptr|[\"'](load|store|atomicrmw|cmpxchg)\b")
    folder = Path(str(zeropoint.codegen.kernels.__file__)).parent
    found = [(file.name, raw.search(file.read_text())) for file in sorted(folder.glob("*.py"))]
    assert not [name for name, match in found if match]


def test_a_pointer_of_unknown_origin_is_refused() -> None:
    f = CheckedModule().function("f", [("ptr", "in"), ("i64", "begin")])
    with pytest.raises(ValueError, match="found the pointer %x of unknown origin"):
        f.load("i8", Value("ptr", "%x"))
