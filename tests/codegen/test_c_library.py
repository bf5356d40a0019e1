"""What the header promises, kept for C and C++, on a heap where every byte too many shows."""

from __future__ import annotations

import re
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
THREADS = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net.h"

enum { MOST = 3, TURNS = 20, ROOM = NET_ARENA_SIZE + NET_Y0_SIZE };

typedef struct {
    int64_t thread, threads;
    char *sync, *arena;
    const float *x;
    float *y;
    int status;
} call;

static void *block(size_t size) {
    void *found = NULL;
    return posix_memalign(&found, NET_ALIGNMENT, size) ? NULL : found;
}

static void *alone(void *given) {
    call *c = (call *)given;
    for (int turn = 0; turn < TURNS; turn++) c->status |= net_run(c->arena, c->x, c->y);
    return NULL;
}

static void *shared(void *given) {
    call *c = (call *)given;
    for (int turn = 0; turn < TURNS; turn++)
        c->status |= net_run_thread(c->thread, c->threads, c->sync, c->arena, c->x, c->y);
    return NULL;
}

static int together(void *(*work)(void *), call *calls, int count) {
    pthread_t threads[MOST];
    int status = 0;
    for (int n = 0; n < count; n++)
        if (pthread_create(&threads[n], NULL, work, &calls[n])) exit(20);
    for (int n = 0; n < count; n++) {
        pthread_join(threads[n], NULL);
        status |= calls[n].status;
    }
    return status;
}

static int refused(int64_t thread, int64_t threads, char *sync, char *arena, const float *x, float *y) {
    static char before[ROOM];
    memset(arena, 0x5A, NET_ARENA_SIZE);
    memset(y, 0x5A, NET_Y0_SIZE);
    memset(before, 0x5A, ROOM);
    return net_run_thread(thread, threads, sync, arena, x, y) == 1 && !memcmp(arena, before, NET_ARENA_SIZE) &&
           !memcmp(y, before, NET_Y0_SIZE);
}

int main(void) {
    /* Arrays are aligned to their elements and no more, and end with their last byte. */
    char *rows = (char *)block(NET_X0_SIZE + 4), *copy = (char *)block(NET_X0_SIZE);
    char *sync = (char *)block(NET_SYNC_SIZE);
    float *x = (float *)(void *)(rows + 4), *first = NULL;
    call calls[MOST];
    if (fread(x, 1, NET_X0_SIZE, stdin) != NET_X0_SIZE) return 2;
    memcpy(copy, x, NET_X0_SIZE);
    memset(sync, 0, NET_SYNC_SIZE);
    for (int n = 0; n < MOST; n++) {
        char *y = (char *)block(NET_Y0_SIZE + 4) + 4;
        call c = {n, 1, NULL, (char *)block(NET_ARENA_SIZE), x, (float *)(void *)y, 0};
        memset(c.arena, 0xFF - n, NET_ARENA_SIZE); /* what it holds does not matter */
        calls[n] = c;
    }
    first = calls[0].y;
    if (together(alone, calls, MOST)) return 3;
    for (int n = 1; n < MOST; n++)
        if (memcmp(first, calls[n].y, NET_Y0_SIZE)) return 4;
    fwrite(first, 1, NET_Y0_SIZE, stdout);
    for (int count = 1; count <= MOST; count++) { /* consecutive runs share the barrier, whatever their threads */
        call parts[MOST];
        for (int n = 0; n < count; n++) {
            call c = {n, count, sync, calls[1].arena, x, calls[1].y, 0};
            parts[n] = c;
        }
        memset(calls[1].y, 0, NET_Y0_SIZE);
        if (together(shared, parts, count)) return 5;
        if (memcmp(first, calls[1].y, NET_Y0_SIZE)) return 6;
    }
    /* What is refused touches nothing. */
    char *arena = calls[2].arena;
    float *y = calls[2].y;
    if (!refused(0, 0, sync, arena, x, y) || !refused(0, -1, sync, arena, x, y)) return 7;
    if (!refused(-1, 2, sync, arena, x, y) || !refused(2, 2, sync, arena, x, y)) return 8;
    if (!refused(INT64_MIN, INT64_MAX, sync, arena, x, y)) return 9;
    if (!refused(INT64_MIN, INT64_MIN, sync, arena, x, y)) return 9;
    if (!refused(INT64_MAX, INT64_MAX, sync, arena, x, y)) return 9;
    if (!refused(0, 2, NULL, arena, x, y)) return 10;
    for (int by = 1; by < NET_ALIGNMENT; by++)
        if (!refused(0, 1, sync + by, arena, x, y)) return 11;
    if (!refused(0, 1, NULL, arena, NULL, y)) return 12;
    for (int by = 1; by < 4; by++)
        if (!refused(0, 1, NULL, arena, (const float *)(void *)(rows + by), y)) return 13;
    if (memcmp(copy, x, NET_X0_SIZE)) return 14;
    for (int n = 0; n < MOST; n++) {
        free(calls[n].arena);
        free((char *)calls[n].y - 4);
    }
    free(rows);
    free(copy);
    free(sync);
    return 0;
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
    (folder / "threads.text").write_text(THREADS)
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


@pytest.mark.parametrize("source", ["main", "threads"])
@pytest.mark.parametrize("way", WAYS)
def test_a_program_gets_what_the_interpreter_computes_and_nothing_goes_astray(
    way: str, source: str, folder: Path
) -> None:
    compiler, checker = WAYS[way]
    missing = [tool for tool in (compiler[0], *checker[:1]) if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed")
    program = folder / f"{source} {way}"
    files = [folder / f"{source}.text", "-x", "none", folder / "net.o", "-pthread", "-o", program]
    made = subprocess.run([*compiler, f"-I{folder}", *files], capture_output=True, text=True)
    if way == "sanitizers" and "asan" in made.stderr:
        pytest.skip("the sanitizers are not installed")
    assert (made.returncode, made.stderr) == (0, "")
    sample = image(0)
    done = subprocess.run([*checker, program], input=sample["x0"].tobytes(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    expected = Interpreter(classifier())(sample)["y0"]
    np.testing.assert_array_equal(np.frombuffer(done.stdout, np.float32).reshape(1, CLASSES), expected)


@pytest.mark.skipif(shutil.which("readelf") is None, reason="no readelf")
def test_nothing_in_the_object_may_be_written(folder: Path) -> None:
    listed = subprocess.run(["readelf", "-SW", folder / "net.o"], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"\] (\.\S+) +\S+ +\S+ +\S+ (\S+) \S+ +([A-Zolpx]*) ", listed)
    sizes = {name: (int(size, 16), flags) for name, size, flags in found}
    assert sizes[".text"][0] > 0
    assert any(name.startswith(".rodata") and size > 0 for name, (size, _) in sizes.items())
    assert all(size == 0 for size, flags in sizes.values() if "W" in flags), sizes
