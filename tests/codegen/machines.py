"""Which instruction sets run here, and those of other machines."""

from __future__ import annotations

import os
from pathlib import Path

import llvmlite.binding as llvm

from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.machine import architecture, compile_bitcode, triple_of
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


def assembly(text: str, isa: InstructionSet) -> str:
    """The machine's assembly of a module, optimized as the product does it."""
    triple = triple_of(isa)
    target = llvm.Target.from_triple(triple)
    machine = target.create_target_machine(cpu=isa.cpu or "generic", features=isa.features, opt=3, reloc="pic")
    return machine.emit_assembly(llvm.parse_bitcode(compile_bitcode(text, isa)))
