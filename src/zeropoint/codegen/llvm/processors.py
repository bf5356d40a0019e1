"""The instruction set of each processor, by LLVM's name of the processor (`--cpu`)."""

from __future__ import annotations

from dataclasses import replace

from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.llvm.machine import ABIS, CodegenError, architecture, check_triple, host

PROCESSORS: dict[str, tuple[str, ...]] = {
    "amx-int8": ("sapphirerapids", "emeraldrapids", "graniterapids"),
    "avx512-vnni": (
        "cascadelake",
        "cooperlake",
        "icelake-client",
        "icelake-server",
        "rocketlake",
        "tigerlake",
        "znver4",
        "znver5",
    ),
    "avx-vnni": ("alderlake", "raptorlake", "meteorlake", "arrowlake", "lunarlake", "pantherlake", "sierraforest"),
    "avx2": (
        "haswell",
        "broadwell",
        "skylake",
        "skylake-avx512",
        "cannonlake",
        "znver1",
        "znver2",
        "znver3",
        "x86-64-v3",
        "x86-64-v4",
    ),
    "neon-i8mm": (
        "apple-m2",
        "apple-m3",
        "apple-m4",
        "cortex-a510",
        "cortex-a520",
        "cortex-a710",
        "cortex-a715",
        "cortex-a720",
        "cortex-x2",
        "cortex-x3",
        "cortex-x4",
        "neoverse-n2",
        "neoverse-v1",
        "neoverse-v2",
    ),
    "neon-dotprod": (
        "apple-m1",
        "cortex-a55",
        "cortex-a75",
        "cortex-a76",
        "cortex-a77",
        "cortex-a78",
        "cortex-x1",
        "neoverse-n1",
    ),
}
"""The processors for which each instruction set is the best."""


def instruction_set(*, isa: str | None = None, cpu: str | None = None, triple: str | None = None) -> InstructionSet:
    """The instruction set to compile for: one by name, the best one of a processor, or portable code for a triple.

    `cpu` "native" means this machine, and is the default if no argument is given. A triple alone selects portable code.
    Raises CodegenError for unknown names, and if the instruction set belongs to another architecture than the triple.
    """
    if isa is not None and cpu is not None:
        raise CodegenError(f"found an instruction set '{isa}' and a processor '{cpu}', expected one of them")
    if isa is not None:
        row = _named(isa)
    elif cpu is None and triple is not None:
        row = INSTRUCTION_SETS["portable"]
    elif cpu in (None, "native"):
        row = host()
    else:
        row = _of_processor(cpu)
    if triple is None:
        return row
    if row.triple and architecture(row.triple) != architecture(triple):
        raise CodegenError(
            f"found the triple '{triple}' with {row.name}, expected one of {architecture(row.triple)}, such as "
            f"{row.triple}"
        )
    if row.tiles is not None and "linux" not in triple:
        raise CodegenError(
            f"found the triple '{triple}' with {row.name}, expected one of Linux, which gives a process its tile "
            "registers; use avx512-vnni"
        )
    check_triple(triple)
    return replace(row, triple=triple, features=row.features or ABIS[architecture(triple)].features)


def _named(name: str) -> InstructionSet:
    if name not in INSTRUCTION_SETS:
        raise CodegenError(f"found the instruction set '{name}', expected one of: {', '.join(INSTRUCTION_SETS)}")
    return INSTRUCTION_SETS[name]


def _of_processor(cpu: str) -> InstructionSet:
    for row, names in PROCESSORS.items():
        if cpu in names:
            return replace(INSTRUCTION_SETS[row], cpu=cpu)
    listed = ", ".join(name for names in PROCESSORS.values() for name in names)
    raise CodegenError(
        f"found the processor '{cpu}', expected native or one of: {listed}; name an instruction set for any other"
    )
