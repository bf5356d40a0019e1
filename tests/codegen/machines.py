"""Which instruction sets run here, and those of other machines."""

from __future__ import annotations

import os
from pathlib import Path

from zeropoint.codegen.llvm.machine import architecture
from zeropoint.codegen.llvm.processors import instruction_set

BITS = {"avx512-vnni": {"avx512_vnni", "avx512bw", "avx512vl"}, "avx-vnni": {"avx_vnni"}, "avx2": {"avx2"}}
"""What Linux calls what a row needs."""


def flags() -> set[str]:
    found = Path("/proc/cpuinfo")
    return set(found.read_text().split()) if found.exists() else set()


def runs_here(name: str) -> bool:
    return name == "portable" or (architecture(os.uname().machine) == "x86_64" and BITS.get(name, {""}) <= flags())


CROSS = "aarch64-linux-gnu-gcc"
ARM = {
    "neon-i8mm": instruction_set(isa="neon-i8mm"),
    "neon-dotprod": instruction_set(isa="neon-dotprod"),
    "neoverse-v1": instruction_set(cpu="neoverse-v1"),
    "portable": instruction_set(triple="aarch64-unknown-linux-gnu"),
}
