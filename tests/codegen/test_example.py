"""examples/native: built as its README says, it prints what the interpreter computes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from codegen.machines import CROSS, runs_here
from digits import DIGITS, quantized_digits
from zeropoint.ir.tensors import Array
from zeropoint.model import Model

ROOT = Path(__file__).parent.parent.parent
NATIVE = ROOT / "examples" / "native"

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def images() -> Array:
    with np.load(DIGITS / "test.npz") as file:
        return np.ascontiguousarray(file["image"][:24], np.float32)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(quantized_digits().integer)


@pytest.fixture(scope="module")
def program(model: Model, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[int, float]]]:
    """The C program, and the digit and its probability that the interpreter gives for every image."""
    folder = tmp_path_factory.mktemp("example")
    model.compile(folder / "digits.o")
    source, made = NATIVE / "digits.c", folder / "digits"
    flags = ["-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread", f"-I{folder}"]
    subprocess.run(["gcc", *flags, source, folder / "digits.o", "-o", made], check=True)
    found = [model(image=image.reshape(1, 1, 28, 28))["probabilities"][0] for image in images()]
    return made, [(int(row.argmax()), float(row.max())) for row in found]


def printed(command: list[str | Path], given: bytes) -> list[tuple[int, float]]:
    done = subprocess.run(command, input=given, capture_output=True, check=True)
    return [(int(digit), float(sure)) for digit, sure in (line.split() for line in done.stdout.decode().splitlines())]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_example_prints_what_the_interpreter_computes(
    program: tuple[Path, list[tuple[int, float]]], threads: int
) -> None:
    made, expected = program
    found = printed([made, str(threads)], images().tobytes())
    assert [digit for digit, _ in found] == [digit for digit, _ in expected]
    np.testing.assert_allclose([sure for _, sure in found], [sure for _, sure in expected], rtol=0, atol=2e-6)


def test_the_example_refuses_impossible_numbers_of_threads(program: tuple[Path, list[tuple[int, float]]]) -> None:
    done = subprocess.run([program[0], "0"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "digits: found 0 threads, expected 1 to 16\n")


def test_the_readme_compiles_what_the_example_includes() -> None:
    readme, source = (NATIVE / "README.md").read_text(), (NATIVE / "digits.c").read_text()
    assert re.findall(r'#include "(\w+)\.h"', source) == re.findall(
        r"zeropoint compile digits.mlir -o (\w+)\.o  ", readme
    )


def built(model: Model, folder: Path, compiler: list[str], **named: str) -> Path:
    """The example, compiled for another instruction set."""
    model.compile(folder / "digits.o", **named)
    made = folder / "digits"
    files = [NATIVE / "digits.c", folder / "digits.o", "-o", made]
    subprocess.run([*compiler, "-std=c11", "-g", "-pthread", f"-I{folder}", *files], check=True)
    return made


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_valgrind_finds_nothing(model: Model, tmp_path: Path) -> None:
    """Not of AVX-512, whose instructions it does not know."""
    made = built(model, tmp_path, ["gcc"], isa="avx2" if runs_here("avx2") else "portable")
    command = ["valgrind", "--error-exitcode=9", "--leak-check=full", made, "2"]
    done = subprocess.run(command, input=images()[:2].tobytes(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert len(done.stdout.splitlines()) == 2


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_sanitizers_find_nothing(program: tuple[Path, list[tuple[int, float]]], threads: str) -> None:
    folder = program[0].parent
    made, flags = folder / "sanitized", ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-pthread"]
    files = [NATIVE / "digits.c", folder / "digits.o", "-o", made]
    done = subprocess.run(["gcc", "-std=c11", "-g", *flags, f"-I{folder}", *files], capture_output=True, text=True)
    if "asan" in done.stderr:
        pytest.skip("the sanitizers are not installed")
    assert done.returncode == 0, done.stderr
    found = printed([made, threads], images().tobytes())
    assert [digit for digit, _ in found] == [digit for digit, _ in program[1]]


def test_threads_on_aarch64_under_qemu(
    model: Model, program: tuple[Path, list[tuple[int, float]]], tmp_path: Path
) -> None:
    missing = [tool for tool in ("qemu-aarch64", CROSS) if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed")
    made = built(model, tmp_path, [CROSS, "-static"], cpu="neoverse-n1")
    found = printed(["qemu-aarch64", "-cpu", "max", made, "2"], images()[:4].tobytes())
    assert [digit for digit, _ in found] == [digit for digit, _ in program[1][:4]]
    np.testing.assert_allclose([sure for _, sure in found], [sure for _, sure in program[1][:4]], rtol=0, atol=2e-6)
