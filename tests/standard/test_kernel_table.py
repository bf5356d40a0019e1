"""A program of one kernel has the interpreter's bits in C++ MLIR; `ZEROPOINT_KERNEL_TABLE=all` runs every one."""

from __future__ import annotations

import os

import pytest

from oracle import mlir
from standard.kernel_table import PROFILES, compared, entries
from zeropoint.standard import lower_to_standard

KERNELS = ("convolution", "add", "mean", "logistic") if os.environ.get("ZEROPOINT_KERNEL_TABLE") != "all" else ()


@pytest.mark.parametrize("profile", PROFILES)
def test_kernels_have_the_same_bits_in_upstream_mlir(profile: str) -> None:
    mlir.require()
    found = {}
    for entry in entries([profile], KERNELS):
        lowered = lower_to_standard(entry.program)
        found[entry.name] = [compared(entry, engine, lowered) for engine in ("standard", "C++ MLIR")]
    assert found
    assert not {name: each for name, each in found.items() if each != ["0", "0"]}
