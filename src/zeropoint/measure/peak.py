"""The peak throughput of one core of this processor: int8 and f32 arithmetic, measured.

The loop contains only independent accumulators, in the widest form that the processor supports. The first supported row
of `FORMS` is the one that a compiler would choose. The sums are checked against NumPy. Figures are the best of several
runs, because other work on the machine can only lower them.
"""

from __future__ import annotations

import ctypes
import platform
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import llvmlite.binding
import numpy as np

from zeropoint.codegen.llvm.machine import Loaded, architecture, compile_object, features, host
from zeropoint.codegen.llvm.text import Module
from zeropoint.codegen.llvm.tile_registers import ROWS, TileRegisters, TileShape
from zeropoint.ir.tensors import Array

llvm: Any = llvmlite.binding  # without type stubs
REPEATS = 12
SECONDS = 0.02
"""The seconds of one measurement: long enough for the clock to settle, and short enough to fall between other work."""
SHORT = 0.0002
"""The seconds of one run of `integer_peak`."""


@dataclass(frozen=True)
class ProductForm:
    """One way to accumulate products.

    `assembly` uses $0 (the accumulator), $2 and $3 (the factors). `clobbers` are other registers that it uses.
    `operations` counts a multiplication and an addition as two. Tile registers have no `assembly`.
    """

    name: str
    kind: str
    features: tuple[str, ...]
    vector: str
    assembly: str
    operations: int
    accumulators: int
    clobbers: str = ""
    register: str = "v"


def _pairs(letter: str) -> str:
    """u8 x i8 without VNNI: pairs are added in 16 bits, where they may saturate, then in 32 bits."""
    temporary = f"%{letter}mm15"
    return f"vpmaddubsw $3, $2, {temporary}; vpmaddwd {temporary}, $2, {temporary}; vpaddd {temporary}, $0, $0"


FORMS = (
    ProductForm("TDPBUSD, tiles of 16 x 64 bytes", "int8", ("amx-int8",), "256 x i32", "", 32768, 4),
    ProductForm("VPDPBUSD, 512 bits", "int8", ("avx512vnni",), "16 x i32", "vpdpbusd $3, $2, $0", 128, 24),
    ProductForm(
        "VPDPBUSD, 256 bits", "int8", ("avxvnni",), "8 x i32", "{vex} vpdpbusd $3, $2, $0", 64, 12, register="x"
    ),
    ProductForm(
        "VPMADDUBSW + VPMADDWD + VPADDD, 512 bits", "int8", ("avx512bw",), "16 x i32", _pairs("z"), 128, 24, "xmm15"
    ),
    ProductForm(
        "VPMADDUBSW + VPMADDWD + VPADDD, 256 bits", "int8", ("avx2",), "8 x i32", _pairs("y"), 64, 12, "xmm15", "x"
    ),
    ProductForm("VFMADD, 512 bits", "f32", ("avx512f",), "16 x float", "vfmadd231ps $3, $2, $0", 32, 24),
    ProductForm("VFMADD, 256 bits", "f32", ("fma",), "8 x float", "vfmadd231ps $3, $2, $0", 16, 12, register="x"),
)
CLOCK = ProductForm("chain of additions", "clock", (), "1 x i64", "addq $3, $0", 1, 1, "flags", "r")


def choose(kind: str, features: Mapping[str, bool]) -> ProductForm:
    """The first form of `kind` whose features the CPU has.

    Raises ValueError if it has none of them.
    """
    for form in FORMS:
        if form.kind == kind and all(features.get(feature, False) for feature in form.features):
            return form
    wanted = ", ".join(form.features[0] for form in FORMS if form.kind == kind)
    raise ValueError(f"found no way to measure {kind} on this CPU, expected one of the features {wanted}")


def arithmetic_ir(form: ProductForm, unroll: int = 4) -> str:
    """LLVM IR of `void run(i64 iterations, ptr factors, ptr sums)`. An iteration is `unroll` steps per accumulator."""
    if not form.assembly:
        return _tile_ir(form.accumulators, unroll)
    vector = f"<{form.vector}>" if form.register != "r" else "i64"
    count = form.accumulators
    clobbers = f",~{{{form.clobbers}}}" if form.clobbers else ""
    constraints = f"={form.register},0,{form.register},{form.register}{clobbers}"
    zero = "zeroinitializer" if vector != "i64" else "0"
    heads = [f"  %s{i}.0 = phi {vector} [{zero}, %entry], [%s{i}.{unroll}, %loop]" for i in range(count)]
    steps = [
        f'  %s{i}.{step + 1} = call {vector} asm sideeffect "{form.assembly}", "{constraints}"'
        f"({vector} %s{i}.{step}, {vector} %a, {vector} %b)"
        for step in range(unroll)
        for i in range(count)
    ]
    stores = [
        f"  %p{i} = getelementptr {vector}, ptr %sums, i64 {i}\n  store {vector} %s{i}.{unroll}, ptr %p{i}, align 8"
        for i in range(count)
    ]
    return "\n".join(
        [
            "define void @run(i64 %iterations, ptr %factors, ptr %sums) {",
            "entry:",
            f"  %a = load {vector}, ptr %factors, align 8",
            f"  %q = getelementptr {vector}, ptr %factors, i64 1",
            f"  %b = load {vector}, ptr %q, align 8",
            "  br label %loop",
            "loop:",
            "  %n = phi i64 [0, %entry], [%next, %loop]",
            *heads,
            *steps,
            "  %next = add i64 %n, 1",
            "  %more = icmp ult i64 %next, %iterations",
            "  br i1 %more, label %loop, label %done",
            "done:",
            *stores,
            "  ret void",
            "}",
        ]
    )


def _tile_ir(accumulators: int, unroll: int) -> str:
    """`arithmetic_ir` of tile registers, all of them whole."""
    module = Module()
    f = module.function("run", [("i64", "iterations"), ("ptr", "factors"), ("ptr", "sums")])
    iterations, factors, sums = f.arguments
    whole = TileShape(ROWS, 64)
    registers = TileRegisters(f, "llvm.x86", [whole] * (accumulators + 2))
    registers.configure()
    for number in range(2):
        registers.load(accumulators + number, f.at(factors, number * ROWS * 64), 64)

    def steps(*_: object) -> None:
        for number in [*range(accumulators)] * unroll:
            registers.multiply(number, accumulators, accumulators + 1)

    f.loop(0, iterations, 1, steps)
    for number in range(accumulators):
        registers.store(number, f.at(sums, number * ROWS * 64), 64)
    registers.release()
    f.ret()
    return str(module)


class Native:
    """A compiled `run`. The machine code lives as long as this object."""

    def __init__(self, ir: str, arguments: int):
        given = str(llvm.get_host_cpu_features().flatten()).split(",")
        # The processor may have tile registers that the system does not let a process use.
        mine = [each for each in given if host().tiles is not None or not each.startswith("+amx")]
        here = replace(host(), cpu=str(llvm.get_host_cpu_name()), features=",".join(mine))
        self._code = Loaded([compile_object(ir, here)], here)
        signature = ctypes.CFUNCTYPE(None, *[ctypes.c_int64 if i == 0 else ctypes.c_void_p for i in range(arguments)])
        self.run = signature(self._code.address("run"))


def aligned(size: int) -> Array:
    """`size` zero bytes (u8) that start at a multiple of 64. Each page is touched."""
    raw = np.zeros(size + 64, np.uint8)
    offset = -raw.ctypes.data % 64
    raw[:] = 0
    return raw[offset : offset + size]


def best_rate(work: float, run: Callable[[int], None], seconds: float | None = None, repeats: int = 0) -> float:
    """The highest rate of `run(n)`, which does `n` times `work`, in units of `work` per second.

    `seconds` is the time of one run (default `SECONDS`), and `repeats` the number of runs (default `REPEATS`).
    """
    count, elapsed, least = 1, 0.0, seconds or SECONDS
    while elapsed < least:
        count *= 2 if elapsed < least / 8 else 1 + int(least / elapsed)
        started = time.perf_counter()
        run(count)
        elapsed = time.perf_counter() - started
    rates: list[float] = []
    for _ in range(repeats or REPEATS):
        started = time.perf_counter()
        run(count)
        rates.append(count * work / (time.perf_counter() - started))
    return max(rates)


def arithmetic(
    form: ProductForm, threads: int = 1, unroll: int = 4, *, seconds: float | None = None, repeats: int = 0
) -> float:
    """Operations per second of one core, in units of 1e9, while `threads` cores run the same loop.

    `seconds` and `repeats` are those of `best_rate`. Raises ValueError if the sums differ from NumPy's.
    """
    native = Native(arithmetic_ir(form, unroll), 3)
    factors, expected = _factors(form)
    out = [aligned(max(64, expected.nbytes) * form.accumulators) for _ in range(threads)]
    native.run(1, factors.ctypes.data, out[0].ctypes.data)
    size = expected.nbytes * form.accumulators
    found = out[0][:size].view(expected.dtype).reshape(form.accumulators, -1)
    if not np.array_equal(found, np.broadcast_to(expected * unroll, found.shape)):
        raise ValueError(f"found other sums than NumPy's from {form.name}")

    def run(count: int) -> None:
        workers = [
            threading.Thread(target=native.run, args=(count, factors.ctypes.data, sums.ctypes.data)) for sums in out[1:]
        ]
        for worker in workers:
            worker.start()
        native.run(count, factors.ctypes.data, out[0].ctypes.data)
        for worker in workers:
            worker.join()

    return best_rate(form.operations * form.accumulators * unroll, run, seconds, repeats) / 1e9


def _factors(form: ProductForm) -> tuple[Array, Array]:
    """The two factors as consecutive bytes, and the number that one step adds to an accumulator."""
    generator = np.random.default_rng(0)
    if form.kind == "clock":
        return np.array([0, 3], np.int64).view(np.uint8), np.array([3], np.int64)
    lanes = int(form.vector.split(" ")[0])
    if form.kind == "f32":
        values = generator.integers(1, 5, (2, lanes)).astype(np.float32)  # small integers: exact sums
        return values.view(np.uint8).ravel(), values[0] * values[1]
    if "VPMADDWD" in form.name:  # ones, because the second multiplication of the pairs uses the first factor, 0x0101
        left, right = np.ones((lanes, 4), np.uint8), generator.integers(-60, 60, (lanes, 4)).astype(np.int8)
        pairs = right.reshape(lanes, 2, 2).sum(2, dtype=np.int32) * 0x0101
        return np.concatenate([left.ravel(), right.ravel().view(np.uint8)]), pairs.sum(1, dtype=np.int32)
    left, right = generator.integers(0, 256, (lanes, 4)), generator.integers(-128, 128, (lanes, 4))
    if not form.assembly:  # (rows, terms) times (steps, columns, terms of a step)
        step = left.reshape(16, 64) @ right.reshape(16, 16, 4).swapaxes(1, 2).reshape(64, 16)
    else:
        step = (left * right).sum(1)
    step = step.astype(np.int32).ravel()
    return np.concatenate([left.astype(np.uint8).ravel(), right.astype(np.int8).ravel().view(np.uint8)]), step


@cache
def integer_peak() -> float | None:
    """Integer operations per second of one core, where a multiplication and an addition are two; None for unknown
    processors.

    The runs are as short as those of kernels, because their times are compared. On a machine with other work, only
    short runs are undisturbed.
    """
    try:
        form = choose("int8", dict.fromkeys(features(architecture(platform.machine())), True))
    except (ValueError, RuntimeError):
        return None
    return 1e9 * arithmetic(form, seconds=SHORT, repeats=200)


def processor() -> str:
    """The processor's name in LLVM."""
    return str(llvm.get_host_cpu_name())
