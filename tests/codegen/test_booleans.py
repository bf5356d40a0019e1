"""Booleans from outside are bytes of 0 and 1: others are true here, and refused by the C functions."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import zeropoint as zp
from zeropoint.cli import main
from zeropoint.codegen.aot.ahead_of_time import library, write
from zeropoint.codegen.llvm.processors import instruction_set
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program

TEXT = """func.func @main(%p: tensor<37xi1> {zeropoint.name = "p"}, %a: tensor<37xi8> {zeropoint.name = "a"})
  -> (tensor<37xi1> {zeropoint.name = "same"}, tensor<37xi1> {zeropoint.name = "reverse"},
      tensor<37xi8> {zeropoint.name = "chosen"}) {
  %0 = stablehlo.reverse %p, dims = [0] : tensor<37xi1>
  %1 = stablehlo.negate %a : tensor<37xi8>
  %2 = stablehlo.select %p, %a, %1 : tensor<37xi1>, tensor<37xi8>
  return %p, %0, %2 : tensor<37xi1>, tensor<37xi1>, tensor<37xi8>
}
"""
BYTES = np.array([0, 1, 2, 3, 4, 127, 128, 254, 255, *[1] * 28], np.uint8)
A = np.arange(37, dtype=np.int8)


def check(results: dict[str, Array]) -> None:
    true = BYTES != 0
    assert results["same"].view(np.uint8).tolist() == true.astype(np.uint8).tolist()
    assert results["reverse"].view(np.uint8).tolist() == true[::-1].astype(np.uint8).tolist()
    assert results["chosen"].tolist() == np.where(true, A, -A).tolist()


@pytest.mark.parametrize("engine", ["interp", "native"])
def test_any_byte_but_0_is_true(engine: str, tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(TEXT)
    model = zp.load(tmp_path / "m.mlir")
    run = model.interpreted() if engine == "interp" else model.native()
    check(run({"p": BYTES.view(np.bool_), "a": A}))


@pytest.mark.parametrize("engine", ["interp", "native"])
def test_booleans_of_a_file_may_be_any_byte(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(TEXT)
    np.savez("x.npz", p=BYTES.view(np.bool_)[None], a=A[None])
    done = CliRunner().invoke(main, ["run", "m.mlir", "--input", "x.npz", "-o", "o.npz", "--engine", engine])
    assert done.exit_code == 0, done.output
    with np.load("o.npz") as outputs:
        check({name: outputs[name][0] for name in outputs})


C = """
#include <stdio.h>
#include "net.h"
static _Alignas(NET_ALIGNMENT) unsigned char arena[NET_ARENA_SIZE], sync[NET_SYNC_SIZE];
static uint8_t p[NET_P_ELEMENTS], same[NET_SAME_ELEMENTS], reverse[NET_REVERSE_ELEMENTS];
static int8_t a[NET_A_ELEMENTS], chosen[NET_CHOSEN_ELEMENTS];

int main(void) {
    for (int at = 0; at < NET_P_ELEMENTS; at++) {
        p[at] = 2 << at % 7;
        same[0] = 77;
        if (net_run(arena, p, a, same, reverse, chosen) != 1 || same[0] != 77) return 2;
        if (net_run_thread(0, 2, sync, arena, p, a, same, reverse, chosen) != 1 || same[0] != 77) return 3;
        p[at] = at % 2;
        if (net_run(arena, p, a, same, reverse, chosen) != 0 || same[at] != at % 2) return 4;
    }
    return 0;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_the_c_functions_refuse_other_bytes_as_the_header_says(tmp_path: Path) -> None:
    isa = instruction_set(isa="portable")
    write(library(parse_program(TEXT), "net", isa), tmp_path / "net.o", isa)
    header = " ".join((tmp_path / "net.h").read_text().split())
    assert "Input 'p': uint8_t p[37], row-major. It holds booleans: bytes of 0 or 1." in header
    assert "or a boolean input has another byte than 0 and 1; then nothing was run" in header
    (tmp_path / "main.c").write_text(C)
    strict = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", *strict, "main.c", "net.o", "-o", "main"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "main"]).returncode == 0
