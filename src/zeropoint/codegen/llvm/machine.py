"""Assembly to machine code: LLVM's -O2 pipeline and the code generator of one target.

llvmlite's wheel carries every LLVM target; nothing else is needed to compile for another machine.
"""

from __future__ import annotations

import functools
import platform

import llvmlite.binding as llvm

from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet


class CodegenError(ValueError):
    """What native code cannot be made of, or made for; says what was found, what was expected, and the fix."""


@functools.cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def target_machine(isa: InstructionSet) -> llvm.TargetMachine:
    """A code generator for `isa`; each MCJIT engine needs one of its own."""
    _initialize()
    triple = isa.triple or llvm.get_process_triple()
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=isa.cpu or "generic", features=isa.features, opt=3, reloc="pic", codemodel="default"
    )


def compile_object(text: str, isa: InstructionSet) -> bytes:
    """An ELF object of the module `text`. Raises RuntimeError where LLVM refuses it: a fault of ours."""
    machine = target_machine(isa)
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)


def assembly(text: str, isa: InstructionSet) -> str:
    """The machine's assembly of the module `text`, to be read."""
    machine = target_machine(isa)
    module = llvm.parse_assembly(text)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(module, builder)
    return machine.emit_assembly(module)


@functools.cache
def host() -> InstructionSet:
    """The best instruction set that this processor has."""
    _initialize()
    if platform.machine().lower() in ("x86_64", "amd64"):
        features = llvm.get_host_cpu_features()
        if all(features.get(name) for name in ("avx512vnni", "avx512bw", "avx512vl")):
            return INSTRUCTION_SETS["avx512-vnni"]
        if features.get("avxvnni"):
            return INSTRUCTION_SETS["avx-vnni"]
        if features.get("avx2"):
            return INSTRUCTION_SETS["avx2"]
    return INSTRUCTION_SETS["portable"]
