"""Which instruction sets run here, and those of other machines."""

from __future__ import annotations

import os
from pathlib import Path

from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS
from zeropoint.codegen.llvm.machine import architecture, request_tiles
from zeropoint.codegen.llvm.processors import instruction_set

VNNI = {"avx512_vnni", "avx512bw", "avx512vl"}
BITS = {
    "amx-int8": {"amx_tile", "amx_int8", *VNNI},
    "avx512-vnni": VNNI,
    "avx-vnni": {"avx_vnni"},
    "avx2": {"avx2"},
}
"""What Linux calls what a row needs."""


def flags() -> set[str]:
    found = Path("/proc/cpuinfo")
    return set(found.read_text().split()) if found.exists() else set()


def runs_here(name: str) -> bool:
    if name == "portable":
        return True
    has = architecture(os.uname().machine) == "x86_64" and BITS.get(name, {""}) <= flags()
    return has and (INSTRUCTION_SETS[name].tiles is None or request_tiles())


CROSS = "aarch64-linux-gnu-gcc"
ARM = {
    "neon-i8mm": instruction_set(isa="neon-i8mm"),
    "neon-dotprod": instruction_set(isa="neon-dotprod"),
    "neoverse-v1": instruction_set(cpu="neoverse-v1"),
    "portable": instruction_set(triple="aarch64-unknown-linux-gnu"),
}
