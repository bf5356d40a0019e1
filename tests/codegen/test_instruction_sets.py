"""One program on every instruction set: the same integers, in this process, in C, and under qemu on AArch64."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from codegen.c_programs import PROGRAM, WARNINGS
from codegen.classifier import CLASSES, classifier, image
from codegen.machines import ARM, CROSS, runs_here
from zeropoint.codegen.aot.ahead_of_time import library, write
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.llvm.machine import CodegenError, assembly, best_of, compile_object, host
from zeropoint.codegen.llvm.processors import PROCESSORS, instruction_set
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.modules import kernels_of
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.tensors import Array

SAMPLES = [image(seed, factor) for seed, factor in ((0, 1.0), (1, 1.0), (2, 0.1), (3, 100.0))]


def expected() -> list[Array]:
    interpreter = Interpreter(classifier())
    return [interpreter(sample)["y0"] for sample in SAMPLES]


@pytest.mark.parametrize("name", [name for name in INSTRUCTION_SETS if not name.startswith("neon")])
def test_every_instruction_set_of_this_machine_gives_the_same_integers(name: str) -> None:
    if not runs_here(name):
        pytest.skip(f"this processor has no {name}")
    for threads in (1, 2):
        program = NativeProgram(classifier(), isa=INSTRUCTION_SETS[name], threads=threads)
        np.testing.assert_array_equal([program(sample)["y0"] for sample in SAMPLES], expected())


def in_c(isa: InstructionSet, compiler: Sequence[str], runner: Sequence[str], folder: Path) -> Array:
    """What a statically linked C program gives for every sample."""
    write(library(classifier(), "net", isa), folder / "net.o", isa)
    (folder / "main.c").write_text(PROGRAM)
    sources = [folder / "main.c", folder / "net.o"]
    subprocess.run([*compiler, *WARNINGS, "-static", f"-I{folder}", *sources, "-o", folder / "main"], check=True)
    given = b"".join(sample["x0"].tobytes() for sample in SAMPLES)
    found = subprocess.run([*runner, folder / "main"], input=given, capture_output=True, check=True).stdout
    return np.frombuffer(found, np.float32).reshape(len(SAMPLES), 1, CLASSES)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_portable_code_of_any_processor_gives_the_same_integers_in_c(tmp_path: Path) -> None:
    found = in_c(INSTRUCTION_SETS["portable"], ["gcc"], [], tmp_path)
    np.testing.assert_array_equal(found, expected())


@pytest.mark.parametrize("name", ARM)
def test_aarch64_under_qemu_gives_the_same_integers(name: str, tmp_path: Path) -> None:
    missing = [tool for tool in ("qemu-aarch64", CROSS) if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed")
    found = in_c(ARM[name], [CROSS], ["qemu-aarch64", "-cpu", "max"], tmp_path)
    np.testing.assert_array_equal(found, expected())


@functools.cache
def assembly_of(name: str) -> str:
    """Of every kernel, one after the other."""
    isa = INSTRUCTION_SETS[name]
    return "\n".join(assembly(text, isa) for text in kernels_of(steps_of(classifier(), isa)).texts.values())


@pytest.mark.parametrize(
    ("name", "expected", "absent"),
    [
        ("neon-i8mm", {"usdot", "sqrdmulh", "sqxtn", "sqxtun"}, {"sdot"}),
        ("neon-dotprod", {"sdot", "sqrdmulh", "sqxtn"}, {"usdot"}),
        ("amx-int8", {"tdpbusd", "tileloadd", "vpdpbusd", "vpackssdw", "vpmulhrsw", "vpackuswb"}, {"vpmaddubsw"}),
        ("avx512-vnni", {"vpdpbusd", "vpackssdw", "vpmulhrsw", "vpackuswb"}, {"vpmaddubsw", "tdpbusd"}),
        ("avx-vnni", {"vpdpbusd", "vpackssdw", "vpmulhrsw", "vpackuswb"}, {"vpmaddubsw"}),
        ("avx2", {"vpmaddubsw", "vpmaddwd", "vpackssdw", "vpmulhrsw", "vpackuswb"}, {"vpdpbusd"}),
    ],
)
def test_kernels_use_the_instructions_of_their_set(name: str, expected: set[str], absent: set[str]) -> None:
    used = set(re.findall(r"^\s+(?:\{vex\}\s+)?([a-z]\w+)", assembly_of(name), flags=re.MULTILINE))
    assert expected <= used
    assert not absent & used


@pytest.mark.parametrize("name", [name for name, row in INSTRUCTION_SETS.items() if row.cpu])
def test_no_vector_is_wider_than_its_set_has(name: str) -> None:
    widest = "zmm" if INSTRUCTION_SETS[name].width == 16 else "ymm"
    used = set(re.findall(r"%([xyz]mm)\d", assembly_of(name)))
    assert max(used) == widest


@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed")
def test_avx_vnni_is_encoded_as_its_processors_have_it(tmp_path: Path) -> None:
    """In VEX: of what AVX-512 added, no instruction and no register."""
    isa, listed = INSTRUCTION_SETS["avx-vnni"], list[str]()
    for name, text in kernels_of(steps_of(classifier(), isa)).texts.items():
        (tmp_path / name).write_bytes(compile_object(text, isa))
        done = subprocess.run(["objdump", "-d", "-w", tmp_path / name], capture_output=True, text=True, check=True)
        listed += [line for line in done.stdout.splitlines() if re.match(r"^ +[0-9a-f]+:\t", line)]
    products = [line for line in listed if "vpdpbusd" in line]
    assert len(products) > 100
    assert all("{vex} vpdpbusd" in line for line in products)
    assert not [line for line in listed if re.search(r"%[xyz]mm(1[6-9]|[23]\d)|%zmm|%k[0-7]", line)]
    # The first byte of every instruction that is encoded in EVEX.
    assert not [line for line in listed if line.split("\t")[1].startswith("62 ")]


# Names of processors.

FEATURES = {
    "amx-int8": ("+amx-int8,+avx512vnni,+avx512bw,+avx512vl", None),
    "avx512-vnni": ("+avx512vnni,+avx512bw,+avx512vl", "+amx-int8"),
    "avx-vnni": ("+avxvnni,+avx2", "+avx512vnni"),
    "avx2": ("+avx2,+fma", "+avx512vnni"),
    "neon-i8mm": ("+i8mm,+dotprod", None),
    "neon-dotprod": ("+dotprod", "+i8mm"),
}
"""What a row's processors have, and what those of the row above have more."""


def has(isa: InstructionSet, features: str) -> bool:
    """Whether LLVM says that a processor has these: it inlines a function that asks for no more than its caller has."""
    text = (
        "declare void @sink()\n"
        "define void @caller() {\n  call void @inner()\n  ret void\n}\n"
        "define internal void @inner() #0 {\n  call void @sink()\n  ret void\n}\n"
        f'attributes #0 = {{ "target-features"="{features}" }}\n'
    )
    return not re.search(r"(call|callq|bl|b|jmp)\s+inner", assembly(text, isa))


@pytest.mark.parametrize("row", PROCESSORS)
def test_llvm_agrees_that_processors_have_their_instruction_set(row: str, capfd: pytest.CaptureFixture[str]) -> None:
    needed, better = FEATURES[row]
    for cpu in PROCESSORS[row]:
        isa = instruction_set(cpu=cpu)
        assert (isa.name, isa.cpu) == (row, cpu)
        bare = INSTRUCTION_SETS["portable"]
        alone = type(bare)(**{**vars(bare), "cpu": cpu, "triple": isa.triple})
        assert has(alone, needed), cpu
        assert better is None or not has(alone, better), cpu
    assert "not a recognized processor" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("family", "features", "name"),
    [
        ("x86_64", "avx2 fma avx512vnni avx512bw avx512vl avxvnni amx-tile amx-int8", "amx-int8"),
        ("x86_64", "avx2 fma avx512vnni avx512bw avx512vl avxvnni amx-tile", "avx512-vnni"),
        ("x86_64", "avx2 fma avx512vnni avx512bw avxvnni", "avx-vnni"),
        ("x86_64", "avx2 fma avx512vnni avx512bw", "avx2"),
        ("x86_64", "avx2", "portable"),
        ("x86_64", "sse4.2 dotprod i8mm", "portable"),
        ("aarch64", "neon dotprod i8mm", "neon-i8mm"),
        ("aarch64", "neon dotprod", "neon-dotprod"),
        ("aarch64", "neon i8mm avx2 fma", "portable"),
        ("riscv64", "v", "portable"),
    ],
)
def test_the_best_row_is_the_first_whose_features_are_there(family: str, features: str, name: str) -> None:
    assert best_of(family, features.split()) == INSTRUCTION_SETS[name]


def test_this_machine_is_the_default() -> None:
    assert instruction_set() == instruction_set(cpu="native") == host()
    assert instruction_set(isa="avx2") == INSTRUCTION_SETS["avx2"]


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"isa": "avx1024"}, r"found the instruction set 'avx1024', expected one of: amx-int8, "),
        ({"cpu": "z80"}, r"found the processor 'z80', expected native or one of: sapphirerapids, .*; name an"),
        ({"isa": "avx2", "cpu": "haswell"}, r"found an instruction set 'avx2' and a processor 'haswell', expected one"),
        ({"triple": "z80-unknown-cpm"}, r"found the triple 'z80-unknown-cpm', expected one that LLVM supports"),
        (
            {"triple": "thumbv7em-none-eabi"},
            r"expected an architecture of: x86_64, aarch64, riscv64, wasm32;",
        ),
        (
            {"isa": "avx2", "triple": "aarch64-unknown-linux-gnu"},
            r"found the triple 'aarch64-unknown-linux-gnu' with avx2, expected one of x86_64",
        ),
        (
            {"cpu": "sapphirerapids", "triple": "x86_64-apple-darwin"},
            r"found the triple 'x86_64-apple-darwin' with amx-int8, expected one of Linux, .*; use avx512-vnni",
        ),
    ],
)
def test_names_that_do_not_exist_or_do_not_fit_are_refused(named: dict[str, str], message: str) -> None:
    with pytest.raises(CodegenError, match=message):
        instruction_set(**named)
