"""Contractions in tile registers: with the interpreter's bits, where they save time, and inside of their buffers.

Every case runs with functions that stand for the instructions, and on the processor if it has them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, i32

from codegen import contractions
from codegen.c_programs import WARNINGS
from codegen.emulation import emulated
from codegen.exactness import assert_native_is_exact
from codegen.machines import runs_here
from row_scaled import HOSTILE
from zeropoint.codegen.aot.ahead_of_time import compile_to
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.kernels.contraction_shape import ContractionShape
from zeropoint.codegen.kernels.integer_arithmetic import Integers
from zeropoint.codegen.kernels.requantize import Epilogue
from zeropoint.codegen.kernels.scaled_rows import ScaledRows
from zeropoint.codegen.kernels.tile_products import TileProducts
from zeropoint.codegen.llvm import machine
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.llvm.machine import CodegenError, Loaded
from zeropoint.codegen.llvm.text import Module
from zeropoint.codegen.llvm.tile_registers import TileRegisters, TileShape
from zeropoint.codegen.lowering import steps_of
from zeropoint.ir.stablehlo import ConvolutionLayout, ConvolutionOp
from zeropoint.lower import integer_program
from zeropoint.numerics import RequantizeBehaviour

AMX = INSTRUCTION_SETS["amx-int8"]
ROWS = [
    pytest.param(emulated(AMX), id="emulated"),
    pytest.param(AMX, id="amx-int8", marks=pytest.mark.skipif(not runs_here("amx-int8"), reason="no AMX here")),
]


def contractions_of(case: contractions.Case, isa: InstructionSet = AMX) -> list[ContractionShape]:
    return [step.kernel for step in steps_of(case.program, isa).steps if isinstance(step.kernel, Contraction)]


SHAPES = {
    "tiles of one size, groups of four vectors": contractions.dense(64, 128, (8, 8), 1),
    "tiles of two sizes, three of them, one vector": contractions.dense(64, 5, (1, 47), 1),
    "an odd number of tiles of two sizes": contractions.dense(32, 48, (1, 79), 1),
    "one tile of less than 16 pixels": contractions.dense(128, 33, (3, 3), 1),
    "rows with padding, seven pixels each": contractions.dense(64, 80, (7, 7), 3),
    "rows with padding, pixels of two tiles of two sizes": contractions.dense(32, 32, (3, 29), 3),
    "every other pixel": contractions.dense(48, 64, (15, 15), 3, stride=2),
    "steps that have no great divisor, with more channels in a pixel": contractions.dense(136, 64, (5, 5), 1),
    "channels that are not whole steps": contractions.dense(50, 20, (6, 6), 3),
    "channels of a pixel side by side, no room between pixels": contractions.dense(
        136, 24, (4, 8), 1, channels_first=False
    ),
    "a residual, whose memory the output may have": contractions.dense(64, 72, (1, 79), 1, added=True),
    "a residual, groups of four vectors and of one": contractions.dense(32, 80, (7, 7), 3, added=True),
    "tiles that cross rows with gaps, and a residual": contractions.dense(64, 48, (7, 7), 3, added=True),
    "tiles that cross rows without pixels between them": contractions.dense(64, 96, (5, 7), 1),
    "three spans of a sum, five blocks of which four are together": contractions.dense(1344, 72, (10, 14), 1),
    "several spans of a sum, groups of four vectors and of one": contractions.dense(1536, 80, (1, 128), 1),
    "spans of a sum over a window, an odd number of tiles": contractions.dense(144, 64, (9, 14), 3),
}


@pytest.mark.parametrize("isa", ROWS)
@pytest.mark.parametrize("name", SHAPES)
def test_convolutions_have_the_bits_of_the_interpreter(name: str, isa: InstructionSet) -> None:
    case = SHAPES[name]
    kernels = contractions_of(case, isa)
    assert kernels
    assert all(kernel.in_tiles(isa) for kernel in kernels)
    assert_native_is_exact(case.program, case.samples, isa, threads=(1, 3), guarded=True)
    assert_native_is_exact(case.program, case.samples, isa, threads=(1, 2), guarded=False)


def between(padding: int) -> contractions.Case:
    """A transposed convolution whose strides exceed its kernel: most results have no products."""
    given, result = (1, 130, 3, 17), (1, 15, 5 + 2 * padding, 33 + 2 * padding)
    net = contractions.Builder([given], seed=1)
    weights = net.random.integers(-127, 128, (15, 130, 1, 1)).astype(np.int8)
    sums = ConvolutionOp(
        net.values[0],
        net.constant(weights),
        TensorType(i32, result),
        ConvolutionLayout.channels_first(2),
        padding=[(padding, padding)] * 2,
        lhs_dilation=[2, 2],
    )
    output = contractions.Output("fixed16", True, (-14.0, -10.0), 3, (-128, 127), 1000)
    return contractions.Case(
        net.finish(net.requantized(net.insert(sums), output, 1)), contractions.samples_of(net, [given])
    )


@pytest.mark.parametrize("isa", ROWS)
@pytest.mark.parametrize("padding", [0, 1])
def test_pixels_without_products_are_biases(padding: int, isa: InstructionSet) -> None:
    case = between(padding)
    assert any(kernel.in_pixel == 0 for kernel in contractions_of(case))
    assert_native_is_exact(case.program, case.samples, isa, threads=(1, 3))


@pytest.mark.parametrize("isa", ROWS)
@pytest.mark.parametrize("number", [0, 3, len(HOSTILE) - 1])
def test_rows_with_a_factor_each_have_the_bits_of_the_interpreter(isa: InstructionSet, number: int) -> None:
    case = HOSTILE[number]
    program = integer_program(case.program("fixed16"))
    assert_native_is_exact(program, [{program.inputs[0].name: case.inputs()}], isa, guarded=True)


def shape(pixels: int, groups: int, runs: int = 1, *, pairs: bool = False) -> ContractionShape:
    arithmetic = Integers(1, Epilogue(RequantizeBehaviour.FIXED16), pairs=pairs)
    offsets = tuple(1000 * run for run in range(runs))
    return ContractionShape(1, pixels, 64 * pixels, 64, 64 * pixels, 64, offsets, groups, 4, arithmetic)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (shape(32, 16), True),
        (shape(32, 4), False),  # a product of tiles takes as long for 4 steps as for 16
        (shape(32, 4, runs=9), True),
        (shape(32, 34), False),  # products of two steps, as many as vector registers compute in a cycle
        (shape(5, 64), False),  # reading the weights takes longer than the products
        (shape(6, 64), True),
        (shape(32, 64, pairs=True), False),
    ],
)
def test_tile_registers_are_used_where_they_save_time(given: ContractionShape, expected: bool) -> None:
    assert given.in_tiles(AMX) is expected
    assert not given.in_tiles(INSTRUCTION_SETS["avx512-vnni"])


def test_the_rows_of_a_network_are_scaled_in_tile_registers() -> None:
    program = integer_program(HOSTILE[-1].program("fixed16"))
    kernels = [step.kernel for step in steps_of(program, AMX).steps if isinstance(step.kernel, Contraction)]
    assert [(type(kernel.arithmetic), kernel.in_tiles(AMX)) for kernel in kernels] == [(ScaledRows, True)]


@pytest.mark.parametrize(("width", "expected"), [(32, [(16, 2)]), (47, [(15, 1), (16, 2)]), (7, [(7, 1)])])
def test_smaller_tiles_come_first(width: int, expected: list[tuple[int, int]]) -> None:
    assert [(part.size, part.count) for part in shape(width, 16).tile_pixels.parts] == expected


@pytest.mark.parametrize(
    ("rows", "width", "pitch", "tiles"),
    [
        (7, 7, 9, 4),  # 61 pixels with those between the rows, where tiles of a row would be 7
        (7, 7, 7, 4),
        (14, 14, 16, 14),  # as many tiles as rows
        (14, 14, 14, 14),  # 13 would be hardly fewer
        (1, 47, 50, 3),
    ],
)
def test_tiles_of_narrow_images_cross_rows(rows: int, width: int, pitch: int, tiles: int) -> None:
    given = replace(shape(width, 16), rows=rows, in_row=64 * pitch)
    assert given.register_tiles == tiles
    assert given.pitch == (pitch if tiles < rows else 0)


def test_tiles_stay_in_a_row_where_rows_are_not_whole_pixels_apart() -> None:
    given = replace(shape(7, 16), rows=7, in_row=64 * 7 + 16)
    assert (given.pitch, given.register_tiles) == (0, 7)


@pytest.mark.parametrize(
    ("given", "spans"),
    [
        (shape(128, 384), 3),  # 24 chunks of 2 KB of weights in a pass: 48 KB, in spans of 16
        (shape(128, 256), 1),  # 32 KB
        (shape(96, 384), 1),  # three blocks
        (shape(128, 64, runs=9), 4),  # 36 chunks, in spans of 18 KB
    ],
)
def test_long_sums_have_spans_whose_weights_stay_in_the_cache(given: ContractionShape, spans: int) -> None:
    f = Module().kernel("run", "in", "weights", "out")
    assert TileProducts(given, AMX, f).spans == spans


def test_the_text_of_a_block() -> None:
    """Two tiles of pixels and two vectors: four products for two loads of pixels and two of weights."""
    module = Module()
    case = contractions.dense(64, 32, (4, 8), 1)
    (kernel,) = contractions_of(case)
    assert isinstance(kernel, Contraction)
    kernel.emit(module, "kernel", AMX)
    calls = re.findall(r"llvm\.x86\.(\w+)\(([^)]*)\)", str(module).partition("define")[2])
    names = [name for name, _ in calls if name.startswith(("tile", "tdp", "ldtile"))]
    biases = ["tileloadd64"] * 4
    products = ["tileloadd64"] * 2 + ["tileloadd64", "tdpbusd", "tdpbusd"] * 2
    assert names == ["ldtilecfg", *biases, *products, *["tilestored64"] * 4, "tilerelease"]
    given = [re.findall(r"i8 (\d)", arguments) for name, arguments in calls if name == "tdpbusd"]
    assert given == [list(registers) for registers in ("046", "256", "147", "357")]


def test_a_configuration_has_the_rows_and_the_bytes_of_every_register() -> None:
    """The palette is 1; the bytes of a row are u16 from byte 16 on, the rows u8 from byte 48 on."""
    module = Module()
    f = module.function("run", [])
    TileRegisters(f, "llvm.x86", [TileShape(16, 64), TileShape(7, 40)]).configure()
    words = [int(word) for word in re.findall(r"i64 (\d+)", str(module))]
    layout = np.array(words, "<u8").view(np.uint8)
    assert (layout[0], layout[16:20].tolist(), layout[48:50].tolist()) == (1, [64, 0, 40, 0], [16, 7])
    assert np.count_nonzero(layout) == 5


def test_code_with_tile_registers_needs_a_system_that_saves_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "request_tiles", lambda: False)
    with pytest.raises(CodegenError, match="found a process that may not use tile registers, expected one for amx"):
        Loaded([], AMX)
    assert not {"amx-tile", "amx-int8"} & machine.features("x86_64")


def test_padded_channels_are_multiplied_by_zero() -> None:
    """136 channels are 34 steps, which 17 divides. A pixel has 144 bytes: 36 steps, three products of 12."""
    (kernel,) = contractions_of(SHAPES["steps that have no great divisor, with more channels in a pixel"])
    assert (kernel.groups, kernel.tile_chunk) == (36, 12)
    plain = contractions_of(contractions.dense(136, 64, (5, 5), 1), INSTRUCTION_SETS["avx512-vnni"])
    assert [shape.groups for shape in plain] == [34]
    assert replace(kernel, groups=34).tile_chunk == 2


def test_an_object_asks_for_tile_registers_only_if_a_kernel_uses_them(tmp_path: Path) -> None:
    few, many = contractions.dense(64, 128, (1, 5), 1), SHAPES["tiles of one size, groups of four vectors"]
    for case, asks in ((few, False), (many, True)):
        assert all(kernel.in_tiles(AMX) is asks for kernel in contractions_of(case))
        compile_to(case.program, tmp_path / "net.o", isa="amx-int8")
        assert ("Returns 3" in (tmp_path / "net.h").read_text()) is asks


REFUSED = """
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include "net.h"

static _Alignas(NET_ALIGNMENT) unsigned char arena[NET_ARENA_SIZE];
static int8_t x[NET_X0_ELEMENTS], y[NET_Y0_ELEMENTS];
static char stack[4096];

int main(void) {
    /* Linux refuses tile registers to a process whose stack for signals could not hold them. */
    stack_t small = {.ss_sp = stack, .ss_size = sizeof stack};
    if (sigaltstack(&small, NULL)) return 100;
    return net_run(arena, x, y);
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.skipif(not runs_here("avx512-vnni"), reason="no AVX-512 here, in which the rest of the code is")
def test_a_c_program_is_told_that_it_may_not_use_tile_registers(tmp_path: Path) -> None:
    case = SHAPES["tiles of one size, groups of four vectors"]
    compile_to(case.program, tmp_path / "net.o", isa="amx-int8")
    assert "Returns 3, and runs nothing, if Linux does not let" in (tmp_path / "net.h").read_text()
    (tmp_path / "main.c").write_text(REFUSED)
    subprocess.run(["gcc", *WARNINGS, "main.c", "net.o", "-o", "main"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "main"], check=False).returncode == 3
    compile_to(case.program, tmp_path / "net.o", isa="avx512-vnni")
    assert "Returns 3" not in (tmp_path / "net.h").read_text()
