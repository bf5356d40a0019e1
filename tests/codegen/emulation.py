"""The instructions of other processors as functions in plain LLVM, so that every instruction set's kernels run here.

An emulated row has the width, the registers and the steps of its instruction set; where a kernel would call an
intrinsic, it calls a function of the same meaning. The functions are compiled once, kernels stay as short as they were.
What a kernel loads and stores, where and how aligned, is what it does on the processor itself.
"""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from codegen.machines import runs_here
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, DotStep, InstructionSet, portable_dot
from zeropoint.codegen.llvm.machine import compile_object, host
from zeropoint.codegen.llvm.text import Function, Module
from zeropoint.codegen.llvm.types import Value, constant, lanes, like, vector

Body = Callable[[Function, list[Value]], Value]
TILES = Path(__file__).with_name("emulated_tiles.c")
"""The functions that stand for tile registers, which have a state."""
STEPS = (
    "pack_shorts", "pack_bytes", "multiply_high", "multiply_add", "look_up", "shift_left", "doubling_high",
    "rounding_shift",
)  # fmt: skip
"""The fields of a row that name an intrinsic."""


@dataclass(frozen=True)
class Emulation:
    """A function: its result, its arguments, and what it computes."""

    result: str
    arguments: tuple[str, ...]
    body: Body


def _multiply_add(f: Function, a: Value, b: Value) -> Value:
    wide = vector(lanes(a.type), "i32")
    products = f.binary("mul", f.cast("sext", a, wide), f.cast("sext", b, wide))
    even, odd = (f.shuffle(products, None, range(first, lanes(wide), 2)) for first in (0, 1))
    return f.add(even, odd)


def _look_up(f: Function, entries: Value, index: Value) -> Value:
    low = f.binary("and", index, constant(index.type, 15))
    result = Value(index.type, "zeroinitializer")
    for n in range(lanes(index.type)):
        lane = f.add(f.cast("zext", f.let("i8", f"extractelement {low}, i64 {n}"), "i64"), n & -16)
        found = f.let("i8", f"extractelement {entries}, {lane}")
        result = f.let(index.type, f"insertelement {result}, {found}, i64 {n}")
    nothing = Value(index.type, "zeroinitializer")
    return f.select(f.compare("slt", index, 0), nothing, result)


def _shift_left(f: Function, x: Value, by: Value) -> Value:
    return f.select(f.compare("ult", by, 32), f.binary("shl", x, by), Value(x.type, "zeroinitializer"))


def _doubling_high(f: Function, a: Value, b: Value) -> Value:
    """SQRDMULH."""
    wide = like(a, "i64")
    product = f.binary("mul", f.cast("sext", a, wide), f.cast("sext", b, wide))
    high = f.binary("ashr", f.add(product, 1 << 30), 31)
    return f.cast("trunc", f.intrinsic("smin", high, (1 << 31) - 1), a.type)


def _rounding_shift(f: Function, x: Value, by: Value) -> Value:
    """SRSHL: by the lowest byte of the amount."""
    wide, zero = like(x, "i64"), constant(like(x, "i64"), 0)
    amount = f.cast("sext", f.cast("trunc", by, like(x, "i8")), wide)
    right = f.clamp(f.binary("sub", zero, amount), 0, 33)
    half = f.binary("lshr", f.binary("shl", constant(wide, 1), right), 1)
    moved = f.binary("shl", f.cast("sext", x, wide), f.clamp(amount, 0, 32))
    return f.cast("trunc", f.binary("ashr", f.binary("add", moved, half), right), x.type)


def emulated_name(of: str) -> str:
    return f"emulated.{of}"


def dot_name(row: InstructionSet) -> str:
    kind = "pairs" if row.weight_limit < 128 else "u8" if row.unsigned else "i8"
    return emulated_name(f"dot.{kind}.{row.width}")


def _pairs(f: Function, acc: Value, activations: Value, weights: Value) -> Value:
    """VPMADDUBSW, which saturates the sum of two products, and the sum of two of those."""
    wide = vector(lanes(activations.type), "i32")
    total = f.binary("mul", f.cast("zext", activations, wide), f.cast("sext", weights, wide))
    for saturates in (True, False):
        even, odd = (f.shuffle(total, None, range(first, lanes(total.type), 2)) for first in (0, 1))
        total = f.add(even, odd)
        if saturates:
            total = f.clamp(total, -(1 << 15), (1 << 15) - 1)
    return f.add(acc, total)


def emulations(row: InstructionSet) -> dict[str, Emulation]:
    """The functions of a row and its narrower forms, by their names."""
    plain = replace(row, pack_shorts=None, pack_bytes=None, multiply_high=None)
    bodies: dict[str, tuple[str, str, Body]] = {
        "pack_shorts": (row.i16, row.i32, lambda f, a: plain.shorts(f, *a)),
        "pack_bytes": (row.i8, row.i16, lambda f, a: plain.narrow(f, *a)),
        "multiply_high": (row.i16, row.i16, lambda f, a: plain.scaled(f, *a)),
        "multiply_add": (row.i32, row.i16, lambda f, a: _multiply_add(f, *a)),
        "look_up": (row.i8, row.i8, lambda f, a: _look_up(f, *a)),
        "shift_left": (row.i32, row.i32, lambda f, a: _shift_left(f, *a)),
        "doubling_high": (row.i32, row.i32, lambda f, a: _doubling_high(f, *a)),
        "rounding_shift": (row.i32, row.i32, lambda f, a: _rounding_shift(f, *a)),
    }
    dot = _pairs if row.weight_limit < 128 else portable_dot(row.unsigned)
    found = {dot_name(row): Emulation(row.i32, (row.i32, row.i8, row.i8), lambda f, a: dot(f, *a))}
    for step, (result, argument, body) in bodies.items():
        if getattr(row, step) is not None:
            found[emulated_name(getattr(row, step))] = Emulation(result, (argument, argument), body)
    return found if row.narrower is None else {**emulations(row.narrower), **found}


def _called_dot(name: str) -> DotStep:
    return lambda f, acc, activations, weights: f.call(acc.type, name, acc, activations, weights)


def emulated(row: InstructionSet) -> InstructionSet:
    """The row for this processor: its kernels call functions where they would have their own instructions."""
    _functions()
    here = host()
    steps = {step: name and emulated_name(name) for step in STEPS for name in [getattr(row, step)]}
    return replace(
        row,
        name=f"{row.name} emulated",
        triple="",
        cpu=here.cpu,
        features=here.features,
        dot=_called_dot(dot_name(row)),
        fused=row.fused and here.fused,
        tiles=row.tiles and emulated_name(row.tiles),
        narrower=None if row.narrower is None else emulated(row.narrower),
        **steps,
    )


@functools.cache
def _functions() -> ctypes.CDLL:
    """The functions of all instruction sets as a library of this process, which code loaded from now on may call."""
    found = {name: made for row in INSTRUCTION_SETS.values() for name, made in emulations(row).items()}
    module = Module()
    for name, made in found.items():
        f = module.function(name, [(type_, f"a{n}") for n, type_ in enumerate(made.arguments)], made.result)
        f.ret(made.body(f, [Value(type_, f"%a{n}") for n, type_ in enumerate(made.arguments)]))
    with tempfile.TemporaryDirectory() as folder:
        compiled, library = Path(folder) / "emulated.o", Path(folder) / "emulated.so"
        compiled.write_bytes(compile_object(str(module), host()))
        subprocess.run(["gcc", "-O2", "-fPIC", "-shared", "-o", library, compiled, TILES], check=True)
        return ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)


EVERYWHERE = {
    name: row if row.width > 4 and runs_here(name) else emulated(row) for name, row in INSTRUCTION_SETS.items()
}
"""Every instruction set, those that this processor has not, emulated.

The portable row too: LLVM takes its time over its dot product, which is a function here.
"""
