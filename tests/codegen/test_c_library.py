"""What the header promises, kept for C and C++, on a heap where every byte too many shows."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from codegen.classifier import CLASSES, classifier, image
from codegen.machines import runs_here
from zeropoint.codegen.aot.ahead_of_time import library, write
from zeropoint.codegen.llvm.processors import instruction_set
from zeropoint.interp import Interpreter

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net.h"

/* Exactly as many bytes as the header says, on the heap; not initialized. */
static void *block(size_t size) {
    void *found = NULL;
    return posix_memalign(&found, NET_ALIGNMENT, size) ? NULL : found;
}

int main(void) {
    char *arena = (char *)block(NET_ARENA_SIZE), *sync = (char *)block(NET_SYNC_SIZE);
    float *x = (float *)block(NET_X0_SIZE), *y = (float *)block(NET_Y0_SIZE);
    float *wrong = (float *)(void *)((char *)y + 1);
    const float *odd = (const float *)(void *)((char *)x + 1);
    int status = 0;
    memset(sync, 0, NET_SYNC_SIZE);
    if (fread(x, 1, NET_X0_SIZE, stdin) != NET_X0_SIZE) return 2;
    /* A null or misaligned pointer, or a number of no thread: 1, and nothing is touched. */
    if (net_run(NULL, x, y) != 1 || net_run(arena, NULL, y) != 1 || net_run(arena, x, NULL) != 1) return 3;
    if (net_run(arena + 1, x, y) != 1 || net_run(arena, odd, y) != 1 || net_run(arena, x, wrong) != 1) return 4;
    if (net_run_thread(0, 2, NULL, arena, x, y) != 1 || net_run_thread(0, 2, sync + 8, arena, x, y) != 1) return 5;
    if (net_run_thread(1, 1, sync, arena, x, y) != 1 || net_run_thread(-1, 1, sync, arena, x, y) != 1) return 6;
    for (int turn = 0; turn < 2; turn++) status |= net_run(arena, x, y);
    status |= net_run_thread(0, 1, sync, arena, x, y);
    /* A single thread waits for nobody. */
    memset(y, 0, NET_Y0_SIZE);
    status |= net_run_thread(0, 1, NULL, arena, x, y);
    fwrite(y, 1, NET_Y0_SIZE, stdout);
    free(arena);
    free(sync);
    free(x);
    free(y);
    return status;
}
"""
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wshadow", "-Wconversion"]
C, CPP = ["gcc", "-std=c11", "-D_POSIX_C_SOURCE=200112L", *STRICT], ["g++", "-std=c++11", *STRICT]
WAYS = {
    "C": ([*C, "-x", "c"], []),
    "C++": ([*CPP, "-x", "c++"], []),
    "sanitizers": ([*C, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-x", "c"], []),
    "valgrind": ([*C, "-g", "-x", "c"], ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full"]),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library for AVX2: valgrind does not know AVX-512."""
    folder = tmp_path_factory.mktemp("library")
    isa = instruction_set(isa="avx2" if runs_here("avx2") else "portable")
    write(library(classifier(), "net", isa), folder / "net.o", isa)
    (folder / "main.text").write_text(PROGRAM)
    return folder


@pytest.mark.parametrize("standard", ["c11", "c17", "c++11", "c++20"])
def test_the_header_is_whole_by_itself_and_may_come_twice(standard: str, folder: Path) -> None:
    compiler, language = ("g++", "c++") if "+" in standard else ("gcc", "c")
    extra = ["-Wold-style-cast"] if language == "c++" else ["-Wstrict-prototypes", "-Wmissing-prototypes"]
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    command = [compiler, f"-std={standard}", *STRICT, *extra, "-fsyntax-only", "-x", language, f"-I{folder}", "-"]
    done = subprocess.run(command, input='#include "net.h"\n#include "net.h"\n', capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_header_says_when_a_pointer_may_be_null(folder: Path) -> None:
    text = " ".join((folder / "net.h").read_text().split())
    assert "With one thread, `sync` may be NULL. Returns 0, or 1 if another pointer is NULL" in text


@pytest.mark.parametrize("way", WAYS)
def test_a_program_gets_what_the_interpreter_computes_and_nothing_goes_astray(way: str, folder: Path) -> None:
    compiler, checker = WAYS[way]
    missing = [tool for tool in (compiler[0], *checker[:1]) if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed")
    program = folder / f"main {way}"
    files = [folder / "main.text", "-x", "none", folder / "net.o", "-o", program]
    made = subprocess.run([*compiler, f"-I{folder}", *files], capture_output=True, text=True)
    if way == "sanitizers" and "asan" in made.stderr:
        pytest.skip("the sanitizers are not installed")
    assert (made.returncode, made.stderr) == (0, "")
    sample = image(0)
    done = subprocess.run([*checker, program], input=sample["x0"].tobytes(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    expected = Interpreter(classifier())(sample)["y0"]
    np.testing.assert_array_equal(np.frombuffer(done.stdout, np.float32).reshape(1, CLASSES), expected)
