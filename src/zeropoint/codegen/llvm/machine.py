"""The interface to LLVM's library: from assembly to machine code, and from machine code to functions.

llvmlite's wheel includes every LLVM target, so no other package is needed to compile for another machine. Modules are
optimized by LLVM's -O2 pipeline.
"""

from __future__ import annotations

import ctypes
import functools
import platform
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite.binding

from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.errors import Error

_llvm: Any = llvmlite.binding  # it has no type stubs


class CodegenError(Error, ValueError):
    """A program or processor that native code does not support.

    The message says what was found, what was expected, and the fix. `op` is the op at fault, for its location in the
    text.
    """

    def __init__(self, message: str, op: object = None):
        super().__init__(message)
        self.op = op


@functools.cache
def _initialize() -> None:
    _llvm.initialize_all_targets()
    _llvm.initialize_all_asmprinters()
    _llvm.initialize_native_asmparser()  # for inline assembly


def llvm_version() -> str:
    """The version of LLVM, on which compiled code depends."""
    return ".".join(map(str, _llvm.llvm_version_info))


def triple_of(isa: InstructionSet) -> str:
    """The target triple of an instruction set; that of this process if it has none."""
    return isa.triple or str(_llvm.get_process_triple())


def architecture(triple: str) -> str:
    """The normalized architecture of a triple: x86_64, aarch64, ..."""
    first = triple.split("-")[0].lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(first, first)


@dataclass(frozen=True)
class Abi:
    """The defaults of an architecture's C compilers: processor features, and LLVM's name of the ABI."""

    features: str = ""
    name: str = ""


ABIS: Mapping[str, Abi] = {
    "x86_64": Abi(),
    "aarch64": Abi(),
    "riscv64": Abi("+m,+a,+f,+d,+c", "lp64d"),  # rv64gc, as in Linux distributions
    "wasm32": Abi(),
}
"""The supported architectures. On others that LLVM has, float steps would call a run-time library."""


def check_triple(triple: str) -> None:
    """Raise CodegenError for a triple that LLVM has no target for, or whose architecture is not in `ABIS`."""
    _initialize()
    try:
        _llvm.Target.from_triple(triple)
    except RuntimeError as error:
        raise CodegenError(
            f"found the triple '{triple}', expected one that LLVM supports, such as aarch64-unknown-linux-gnu"
        ) from error
    if architecture(triple) not in ABIS:
        raise CodegenError(
            f"found the triple '{triple}', expected an architecture of: {', '.join(ABIS)}; on others, float steps call "
            f"a run-time library, which the header rules out"
        )


@functools.lru_cache(maxsize=16)
def _compiler(isa: InstructionSet, level: int = 3) -> Any:
    """A target machine that is kept: making one takes about as long as compiling a small kernel quickly."""
    return _target_machine(isa, level)


def _target_machine(isa: InstructionSet, level: int = 3) -> Any:
    _initialize()
    return _llvm.Target.from_triple(triple_of(isa)).create_target_machine(
        # The default is not the host's processor, because an object must not depend on the machine that compiled it.
        cpu=isa.cpu or "generic",
        features=isa.features,
        opt=level,
        # Objects are linked into shared libraries as well.
        reloc="pic",
        codemodel="default",
        abiname=ABIS.get(architecture(triple_of(isa)), Abi()).name,
    )


def _parsed(text: str, machine: Any) -> Any:
    module = _llvm.parse_assembly(text)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    # Verified before optimization, which may crash on invalid text.
    module.verify()
    return module


def _optimized(text: str, machine: Any) -> Any:
    module = _parsed(text, machine)
    builder = _llvm.create_pass_builder(machine, _llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(module, builder)
    return module


def compile_object(text: str, isa: InstructionSet) -> bytes:
    """An ELF object of the module `text`. Raises RuntimeError if LLVM rejects it, which is a bug in this package."""
    machine = _compiler(isa)
    return machine.emit_object(_optimized(text, machine))


def compile_quickly(text: str, isa: InstructionSet) -> bytes:
    """An unoptimized ELF object of the module `text`. Raises RuntimeError like `compile_object`."""
    machine = _compiler(isa, 0)
    return machine.emit_object(_parsed(text, machine))


def compile_lightly(text: str, isa: InstructionSet) -> bytes:
    """An object of the module `text` without LLVM's passes over it, with good registers. Raises RuntimeError like
    `compile_object`.

    It runs as fast as an optimized one, because the text of a kernel is about what these passes would make of it, and
    compiles in half the time.
    """
    machine = _compiler(isa, 1)
    return machine.emit_object(_parsed(text, machine))


def compile_bitcode(text: str, isa: InstructionSet) -> bytes:
    """The module `text` as optimized bitcode, for `combined_object`."""
    return _optimized(text, _compiler(isa)).as_bitcode()


def combined_object(modules: Iterable[bytes], isa: InstructionSet, exported: Collection[str]) -> bytes:
    """Link bitcode modules into one ELF object. Only the functions in `exported` keep external linkage."""
    machine = _target_machine(isa)
    first, *others = [_llvm.parse_bitcode(module) for module in modules]
    for module in others:
        # Bitcode is linked before code generation, so that all kernels are in one object and internal to it.
        first.link_in(module)
    for symbol in (*first.functions, *first.global_variables):
        # Kernels are internal, because two models in one C program may have kernels of the same name.
        if not symbol.is_declaration and symbol.name not in exported and symbol.linkage.name == "external":
            symbol.linkage = "internal"
    first.verify()
    return machine.emit_object(first)


def assembly(text: str, isa: InstructionSet) -> str:
    """The machine assembly of the optimized module `text`, for reading."""
    machine = _target_machine(isa)
    return machine.emit_assembly(_optimized(text, machine))


class Loaded:
    """Objects linked in memory. Their functions are valid as long as this object exists.

    LLVM's JITLink links them, because it reserves one block for the code and data of an object. MCJIT maps each section
    separately, and aborts the process if two of them are more than 2 GB apart.
    """

    def __init__(self, objects: Iterable[bytes], isa: InstructionSet):
        if "+amx-tile" in isa.features and not request_tiles():
            raise CodegenError(
                f"found a process that may not use tile registers, expected one for {isa.name}; use avx512-vnni"
            )
        builder = _llvm.JITLibraryBuilder().add_current_process()  # memcpy and memset, which LLVM inserts
        for data in objects:
            builder.add_object_img(data)
        self._jit = _llvm.create_lljit_compiler(_target_machine(isa), use_jit_link=True)
        self._library = builder.link(self._jit, _LIBRARY)
        self._functions: dict[str, Any] = {}

    def address(self, name: str) -> int:
        """The address of a function. Raises KeyError, with LLVM's reason, for an unknown name."""
        if name not in self._functions:
            try:
                self._functions[name] = self._jit.lookup(_LIBRARY, name)
            except RuntimeError as error:
                raise KeyError(f"{name}: {error}") from error
        return int(self._functions[name][name])


_LIBRARY = "kernels"
"""LLVM's name of the library that objects are linked to. Each `Loaded` has its own linker."""


NEEDED = {
    "amx-int8": {"amx-tile", "amx-int8", "avx512vnni", "avx512bw", "avx512vl"},
    "avx512-vnni": {"avx512vnni", "avx512bw", "avx512vl"},
    "avx-vnni": {"avxvnni", "avx2", "fma"},
    "avx2": {"avx2", "fma"},
    "neon-i8mm": {"i8mm", "dotprod"},
    "neon-dotprod": {"dotprod"},
}
"""The processor features that each row requires, by LLVM's names. The best rows come first."""


_TILES = {"amx-tile", "amx-int8"}
TILE_REQUEST = (158, 0x1023, 18)
"""The system call arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) of Linux on x86-64."""


@functools.cache
def request_tiles() -> bool:
    """Ask the system for tile registers, and return whether this process may use them.

    Without a request, Linux does not save them (Documentation/arch/x86/xstate.rst). Threads and children may use them,
    too.
    """
    if platform.system() != "Linux" or architecture(platform.machine()) != "x86_64":
        return False
    return ctypes.CDLL(None).syscall(*TILE_REQUEST) == 0


def best_of(family: str, features: Collection[str]) -> InstructionSet:
    """The best row for a processor of an architecture with these features."""
    for name, needed in NEEDED.items():
        row = INSTRUCTION_SETS[name]
        if architecture(row.triple) == family and needed <= set(features):
            return row
    return INSTRUCTION_SETS["portable"]


@functools.cache
def host() -> InstructionSet:
    """The best instruction set that this processor has."""
    _initialize()
    family = architecture(platform.machine())
    return best_of(family, features(family))


def features(family: str) -> set[str]:
    """The features in `NEEDED` that this processor has, from LLVM, or from Linux on AArch64."""
    if family == "x86_64":
        # LLVM also checks whether the operating system supports AVX, that is, saves its registers on context switches.
        found = {name for name, has in dict(_llvm.get_host_cpu_features()).items() if has}
        return found if request_tiles() else found - _TILES
    said = Path("/proc/cpuinfo")
    words = set(said.read_text().split()) if family == "aarch64" and said.exists() else set[str]()
    return {name for word, name in (("asimddp", "dotprod"), ("i8mm", "i8mm")) if word in words}
