"""Objects for other programs: called from C and from here, they compute what the interpreter computes."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from codegen.c_programs import PROGRAM, WARNINGS
from codegen.classifier import CLASSES, SHAPE, classifier, image
from zeropoint.codegen.aot.ahead_of_time import Library, library, write
from zeropoint.codegen.aot.header import arguments_of, header
from zeropoint.codegen.llvm.machine import CodegenError, host
from zeropoint.codegen.llvm.processors import instruction_set
from zeropoint.codegen.memory import Arena
from zeropoint.interp import Interpreter
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


@pytest.fixture(scope="module")
def made() -> Library:
    return library(classifier(), "net", host())


@pytest.fixture(scope="module")
def folder(made: Library, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("native")
    assert write(made, folder / "libnet.so", host()) == [folder / "libnet.so", folder / "net.h"]
    assert write(made, folder / "net.o", host()) == [folder / "net.o", folder / "net.h"]
    assert sorted(path.name for path in folder.iterdir()) == ["libnet.so", "net.h", "net.o"]
    return folder


def macros(text: str) -> dict[str, str]:
    return dict(re.findall(r"#define (\w+) (\S+)", text))


def aligned(size: int) -> Array:
    block = np.full(size + 64, 0xA5, np.uint8)
    start = -block.ctypes.data % 64
    return block[start : start + size]


class Caller:
    """The shared library as Python sees it, with memory of its own."""

    def __init__(self, folder: Path, made: Library):
        self.code = ctypes.CDLL(str(folder / "libnet.so"))
        self.arena = aligned(int(macros(made.header)["NET_ARENA_SIZE"]))
        self.sync = aligned(int(macros(made.header)["NET_SYNC_SIZE"]))
        self.sync[:] = 0

    def run(self, sample: Array, threads: int) -> Array:
        scores = np.full((1, CLASSES), np.nan, np.float32)
        arrays = [ctypes.c_void_p(array.ctypes.data) for array in (self.arena, sample, scores)]
        statuses: list[int] = []

        def one(thread: int) -> None:
            sync = ctypes.c_void_p(self.sync.ctypes.data)
            status = self.code.net_run_thread(ctypes.c_int64(thread), ctypes.c_int64(threads), sync, *arrays)
            statuses.append(status)

        if threads == 1:
            statuses.append(self.code.net_run(*arrays))
        else:
            started = [threading.Thread(target=one, args=(n,)) for n in range(threads)]
            for thread in started:
                thread.start()
            for thread in started:
                thread.join()
        assert statuses == [0] * threads
        return scores


@needs_gcc
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_shared_library_computes_what_the_interpreter_computes(folder: Path, made: Library, threads: int) -> None:
    caller, interpreter = Caller(folder, made), Interpreter(classifier())
    for seed, factor in ((0, 1.0), (1, 1.0), (2, 100.0)):
        sample = image(seed, factor)
        np.testing.assert_array_equal(caller.run(sample["x0"], threads), interpreter(sample)["y0"])


@needs_gcc
def test_wrong_pointers_and_numbers_of_threads_are_refused_and_nothing_is_run(folder: Path, made: Library) -> None:
    code = ctypes.CDLL(str(folder / "libnet.so"))
    arena, sync = aligned(int(macros(made.header)["NET_ARENA_SIZE"]) + 64), aligned(128)
    sample, scores = image(0)["x0"], np.full((1, CLASSES), np.nan, np.float32)
    good = [arena.ctypes.data, sample.ctypes.data, scores.ctypes.data]
    for wrong, offset in ((0, 32), (1, 2), (2, 1), (0, None), (1, None), (2, None)):
        pointers = [ctypes.c_void_p(0 if offset is None and n == wrong else p) for n, p in enumerate(good)]
        if offset is not None:
            pointers[wrong] = ctypes.c_void_p(good[wrong] + offset)
        assert code.net_run(*pointers) == 1
    pointers = [ctypes.c_void_p(pointer) for pointer in good]
    for place in (0, sync.ctypes.data + 8):
        assert code.net_run_thread(ctypes.c_int64(1), ctypes.c_int64(2), ctypes.c_void_p(place), *pointers) == 1
    place = ctypes.c_void_p(sync.ctypes.data)
    for thread, threads in ((0, 0), (0, -1), (1, 1), (2, 2), (-1, 2), (-1, 1)):
        assert code.net_run_thread(ctypes.c_int64(thread), ctypes.c_int64(threads), place, *pointers) == 1
    assert np.isnan(scores).all()
    assert code.net_run(*pointers) == 0
    assert not np.isnan(scores).any()


@needs_gcc
@pytest.mark.parametrize("form", ["net.o", "libnet.so"])
def test_a_c_program_computes_what_the_interpreter_computes(folder: Path, form: str, tmp_path: Path) -> None:
    source, program = tmp_path / "main.c", tmp_path / "main"
    source.write_text(PROGRAM)
    rpath = f"-Wl,-rpath,{folder}"
    subprocess.run(["gcc", *WARNINGS, f"-I{folder}", source, folder / form, rpath, "-o", program], check=True)
    samples = [image(seed) for seed in range(5)]
    given = b"".join(sample["x0"].tobytes() for sample in samples)
    found = subprocess.run([program], input=given, capture_output=True, check=True).stdout
    interpreter = Interpreter(classifier())
    expected = [interpreter(sample)["y0"] for sample in samples]
    np.testing.assert_array_equal(np.frombuffer(found, np.float32).reshape(5, 1, CLASSES), expected)


@needs_gcc
def test_only_two_functions_are_seen_and_only_libc_is_needed(folder: Path) -> None:
    listed = subprocess.run(["nm", folder / "net.o"], capture_output=True, text=True, check=True).stdout
    symbols = [line.split()[-2:] for line in listed.splitlines()]
    assert {name for kind, name in symbols if kind == "T"} == {"net_run", "net_run_thread"}
    assert {kind for kind, _ in symbols} <= {"T", "t", "r", "U"}
    assert {name for kind, name in symbols if kind == "U"} <= {"memset", "memcpy", "sched_yield"}
    (weights,) = [line.split()[0] for line in listed.splitlines() if line.endswith(" r zeropoint_weights")]
    assert int(weights, 16) % 64 == 0
    needed = subprocess.run(["readelf", "-d", folder / "libnet.so"], capture_output=True, text=True, check=True).stdout
    assert re.findall(r"NEEDED.*\[(.*)\]", needed) == ["libc.so.6"]


QUANTIZED = """module attributes {zeropoint.profile = "fixed32-double"} {
  func.func @main(%x: tensor<3xf32>) -> tensor<3xi8> {
    %0 = stablehlo.uniform_quantize %x : (tensor<3xf32>) -> tensor<3x!quant.uniform<i8:f32, 0.5:3>>
    %1 = quant.scast %0 : tensor<3x!quant.uniform<i8:f32, 0.5:3>> to tensor<3xi8>
    return %1 : tensor<3xi8>
  }
}"""


@pytest.mark.skipif(shutil.which("llvm-nm") is None, reason="no llvm-nm")
@pytest.mark.parametrize("triple", ["wasm32-unknown-unknown", "riscv64-unknown-linux-gnu"])
def test_objects_for_other_machines_need_no_library_either(triple: str, tmp_path: Path) -> None:
    """fmaxf was called on WebAssembly, which has no instruction for llvm.maxnum."""
    (tmp_path / "net.mlir").write_text(QUANTIZED)
    # In a process of its own: LLVM keeps settings of WebAssembly for the modules of other machines that follow.
    command = [sys.executable, "-m", "zeropoint", "compile", "net.mlir", "-o", "net.o", "--triple", triple]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    listed = subprocess.run(["llvm-nm", "-u", tmp_path / "net.o"], capture_output=True, text=True, check=True).stdout
    needed = {line.split()[-1] for line in listed.splitlines()}
    of_the_linker = {"__memory_base", "__stack_pointer"}  # of position-independent WebAssembly
    assert needed - of_the_linker <= {"memset", "memcpy", "sched_yield"}


def test_the_header_says_sizes_and_what_numbers_mean(made: Library) -> None:
    found = macros(made.header)
    quantize = next(op for op in classifier().entry.ops if op.name == "stablehlo.uniform_quantize")
    (scale, zero_point) = (quantize.results[0].type.element_type.scales[0], 0)
    zero_point = quantize.results[0].type.element_type.zero_points[0]
    assert found["NET_X0_ELEMENTS"] == str(np.prod(SHAPE))
    assert found["NET_X0_SIZE"] == str(4 * np.prod(SHAPE))
    assert np.float32(found["NET_X0_SCALE"].rstrip("f")) == np.float32(scale)
    assert found["NET_X0_ZERO_POINT"] == f"({zero_point})"
    assert found["NET_Y0_SIZE"] == str(4 * CLASSES)
    assert (found["NET_INPUTS"], found["NET_OUTPUTS"], found["NET_ALIGNMENT"]) == ("1", "1", "64")
    assert "int net_run(void *arena, const float *x0, float *y0);" in made.header
    assert "numerics profile fixed16" in made.header
    assert f"float x0{''.join(f'[{n}]' for n in SHAPE)}, row-major" in made.header


def test_integer_inputs_and_outputs_have_their_parameters_in_the_header() -> None:
    program = classifier(integer_io=True)
    arguments = arguments_of(program)
    assert [argument.type for argument in arguments] == ["int8_t", "int8_t"]
    text = header("net", arguments, Arena(128, 64), "any", None)
    assert "int net_run(void *arena, const int8_t *x0, int8_t *y0);" in text
    assert text.count("which represent the real numbers SCALE * (q - ZERO_POINT)") == 2
    assert macros(text)["NET_Y0_SIZE"] == str(CLASSES)
    assert "#define NET_ARENA_SIZE 128 /* bytes that a run needs; lower bound of any plan: 64 */" in text


@needs_gcc
def test_arrays_without_elements_are_no_misaligned_ones(tmp_path: Path) -> None:
    text = (
        "func.func @main(%a: tensor<0x3xf32>, %b: tensor<2xf32>) -> (tensor<0x3xf32>, tensor<2xf32>) {\n"
        "  %c = stablehlo.negate %a : tensor<0x3xf32>\n  %d = stablehlo.negate %b : tensor<2xf32>\n"
        "  return %c, %d : tensor<0x3xf32>, tensor<2xf32>\n}\n"
    )
    write(library(parse_program(text), "empty", host()), tmp_path / "libempty.so", host())
    code, memory, given = ctypes.CDLL(str(tmp_path / "libempty.so")), aligned(64), np.ones(2, np.float32)
    found = np.zeros(2, np.float32)
    arrays = [memory, given, given, found, found]
    assert code.empty_run(*(ctypes.c_void_p(array.ctypes.data) for array in arrays)) == 0
    assert found.tolist() == [-1, -1]


def named(*names: str) -> list[str]:
    """The C names of inputs with the given names."""
    ports = ", ".join(f'%a{n}: tensor<2xf32> {{zeropoint.name = "{name}"}}' for n, name in enumerate(names))
    text = f"func.func @main({ports}) -> tensor<2xf32> {{\n  return %a0 : tensor<2xf32>\n}}\n"
    return [argument.name for argument in arguments_of(parse_program(text))]


def test_names_become_c_identifiers_that_differ_in_more_than_case() -> None:
    assert named("image", "input.1", "2nd", "*/", "Image", "while", "arena") == [
        "image", "input_1", "_2nd", "value", "Image_2", "while_2", "arena_2", "result0"
    ]  # fmt: skip


def test_a_name_cannot_end_the_comment_it_stands_in() -> None:
    text = 'func.func @main(%a: tensor<2xf32> {zeropoint.name = "*/ int x; /*"}) -> tensor<2xf32> {\n'
    program = parse_program(f"{text}  return %a : tensor<2xf32>\n}}\n")
    described = header("net", arguments_of(program), Arena(128, 64), "any", None)
    assert "'* / int x; / *'" in described


def test_elements_without_a_c_type_are_refused() -> None:
    text = "func.func @main(%a: tensor<2xbf16>) -> tensor<2xbf16> {\n  return %a : tensor<2xbf16>\n}\n"
    with pytest.raises(CodegenError, match="input 'arg0': found tensor<2xbf16>, expected an element type that C has"):
        arguments_of(parse_program(text))


def test_a_name_that_is_no_identifier_is_refused() -> None:
    with pytest.raises(CodegenError, match="found the name 'my-net', expected a C identifier"):
        library(classifier(), "my-net", host())


def test_another_suffix_is_refused(made: Library, tmp_path: Path) -> None:
    with pytest.raises(CodegenError, match=r"net.dll: found suffix '.dll', expected .o or .so"):
        write(made, tmp_path / "net.dll", host())
    assert not list(tmp_path.iterdir())


def test_a_missing_or_failing_linker_is_named_and_nothing_is_written(
    made: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CodegenError, match=r"found no C compiler 'no-such-compiler', expected one to link .* net.o"):
        write(made, tmp_path / "net.so", host())
    monkeypatch.setenv("CC", "false")
    with pytest.raises(CodegenError, match="the linker 'false' failed: status 1"):
        write(made, tmp_path / "net.so", host())
    monkeypatch.delenv("CC")
    with pytest.raises(CodegenError, match=r"expected a C compiler in \$CC that links it"):
        write(made, tmp_path / "net.so", instruction_set(triple="riscv64-unknown-linux-gnu"))
    assert not list(tmp_path.iterdir())


def test_objects_for_riscv64_have_the_abi_of_linux(tmp_path: Path) -> None:
    double = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = stablehlo.add %x, %x : tensor<4xf32>
      return %y : tensor<4xf32> }"""
    made = library(parse_program(double), "net", instruction_set(triple="riscv64-unknown-linux-gnu"))
    flags = int.from_bytes(made.object[48:52], "little")  # e_flags of a 64-bit ELF header
    assert made.object[18:20] == b"\xf3\x00"  # EM_RISCV
    assert flags & 0x6 == 0x4  # EF_RISCV_FLOAT_ABI_DOUBLE: lp64d
    assert flags & 0x1  # EF_RISCV_RVC


def test_the_same_program_gives_the_same_bytes(made: Library) -> None:
    again = library(classifier(), "net", host())
    assert (again.object, again.header) == (made.object, made.header)
