"""Compile programs ahead of time to an ELF object or a shared library, with a C header.

The object is one LLVM module. It contains the kernels and the driver, each optimized separately as for execution in
this process, the weights as a read-only constant, and two entry functions, which are the only exported symbols.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zeropoint.codegen.aot.header import ENDLESS, INVALID, NO_TILES, CArgument, arguments_of, header, selection
from zeropoint.codegen.aot.weights import WEIGHTS, filled, placeholder
from zeropoint.codegen.cache import cache_folder
from zeropoint.codegen.graph import TripCounter
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.machine import (
    TILE_REQUEST,
    CodegenError,
    architecture,
    combined_object,
    compile_bitcode,
    triple_of,
)
from zeropoint.codegen.llvm.processors import instruction_set
from zeropoint.codegen.llvm.roundings import rounding_functions
from zeropoint.codegen.llvm.text import Function, Module
from zeropoint.codegen.llvm.types import Value, constant, i64
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.memory import plan
from zeropoint.codegen.modules import ModuleSource, driver_of, kernels_of, uses_tile_registers
from zeropoint.codegen.objects import objects_of
from zeropoint.codegen.parameters import ALIGNMENT, ParameterBlock
from zeropoint.ir.outputs import check_folder, workspace, write_together
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import shape_of
from zeropoint.progress import Progress, silent

RUN = "zeropoint_run"
_SYSTEM_CALL = 'asm sideeffect "syscall", "={rax},{rax},{rdi},{rsi},~{rcx},~{r11},~{memory}"'
"""A system call with two arguments on x86-64 Linux, as LLVM's inline assembly of its number and arguments."""
_NULL = Value("ptr", "null")
SUFFIXES = (".o", ".so")


@dataclass(frozen=True)
class Library:
    """A compiled program: an ELF object with the functions `name`_run and `name`_run_thread, and a C header.

    `parts` are consecutive parts of the object's bytes.
    """

    name: str
    parts: tuple[memoryview, ...]
    header: str

    @property
    def object(self) -> bytes:
        """The object, as a copy."""
        return b"".join(self.parts)

    def write_object(self, path: Path) -> None:
        """Write the object. Raises OSError."""
        with path.open("wb") as file:
            file.writelines(self.parts)


def compile_to(
    programs: Program | Sequence[Program],
    path: Path,
    *,
    name: str | None = None,
    isa: str | None = None,
    cpu: str | None = None,
    triple: str | None = None,
    progress: Progress = silent,
) -> list[Path]:
    """Compile an integer program to `path`, NAME.o or libNAME.so, and NAME.h beside it. Returns the written files.

    Several programs of one network with different shapes become one library, with functions such as `name`_1x128_run.

    Raises OutputError if the folder does not exist, and the errors of `library_of`, `write` and `instruction_set`.
    """
    _check_suffix(path)
    check_folder(path)
    chosen = instruction_set(isa=isa, cpu=cpu, triple=triple)
    name = path.stem.removeprefix("lib") if name is None else name
    if isinstance(programs, Program):
        named = {name: programs}
    else:
        named = {f"{name}_{_sizes(program)}": program for program in programs}
    return write(library_of(named, name, chosen, progress), path, chosen)


def library(program: Program, name: str, isa: InstructionSet, progress: Progress = silent) -> Library:
    """Compile an integer program. `name` is the prefix of its functions.

    Raises CodegenError for an op without a kernel, an element type without a C type, or a `name` that is not a C
    identifier.
    """
    return library_of({name: program}, name, isa, progress)


def library_of(programs: Mapping[str, Program], name: str, isa: InstructionSet, progress: Progress = silent) -> Library:
    """Compile integer programs to one object, in which equal kernels and parameters occur once.

    The keys of `programs` are the prefixes of their functions. Several programs must have the same C types. The header
    then also has `name`_find, which selects a program by the sizes of its inputs. Raises CodegenError like `library`.
    """
    weights = ParameterBlock()
    sources: dict[str, ModuleSource] = {}
    headers: list[str] = []
    ports: dict[str, list[CArgument]] = {}
    target = f"{isa.name}, {isa.cpu or 'any processor'} ({triple_of(isa)})"
    for prefix, program in programs.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", prefix, flags=re.ASCII):
            raise CodegenError(
                f"found the name '{prefix}', expected a C identifier, the prefix of the functions; give one with --name"
            )
        graph = steps_of(program, isa, weights)
        arena = plan(graph)
        ports[prefix] = arguments_of(program)
        run = RUN if len(programs) == 1 else f"{RUN}_{prefix}"
        kernels = kernels_of(graph)
        limit, tiles = graph.trips and graph.trips.limit, uses_tile_registers(graph)
        driver = driver_of(graph, kernels, run, _entries(prefix, ports[prefix], run, graph.trips, tiles=tiles))
        sources |= kernels.sources | {f"{part}_{prefix}": source for part, source in driver.items()}
        headers.append(header(prefix, ports[prefix], arena, target, program.profile, limit, tiles=tiles))
    if not isa.fused:
        sources["roundings"] = ModuleSource(rounding_functions(), rounding_functions)
    modules = objects_of(sources, isa, cache=cache_folder(), form="bitcode", progress=progress)
    space = compile_bitcode(placeholder(len(weights.array), triple_of(isa)), isa)
    exported = [f"{prefix}_{entry}" for prefix in programs for entry in ("run", "run_thread")]
    code = combined_object([*modules.values(), space], isa, exported)
    if len(programs) > 1:
        headers.append(selection(name, ports))
    return Library(name, filled(code, weights.array.data, triple_of(isa)), "\n".join(headers))


def _sizes(program: Program) -> str:
    return "_".join("x".join(map(str, shape_of(port.type))) or "scalar" for port in program.inputs)


def write(made: Library, path: Path, isa: InstructionSet) -> list[Path]:
    """Write `path`, .o or .so, and the header beside it, each atomically. Returns the written files.

    Raises CodegenError for another suffix, and if the linker for a shared library is missing or fails. Raises OSError.
    """
    _check_suffix(path)
    described = path.with_name(f"{made.name}.h")
    write_together(
        {
            described: lambda temporary: temporary.write_text(made.header, encoding="utf-8"),
            path: made.write_object if path.suffix == ".o" else lambda temporary: _link(made, path, isa, temporary),
        }
    )
    return [path, described]


def _check_suffix(path: Path) -> None:
    if path.suffix not in SUFFIXES:
        raise CodegenError(f"{path}: found suffix '{path.suffix}', expected {' or '.join(SUFFIXES)}")


def _link(made: Library, path: Path, isa: InstructionSet, target: Path) -> None:
    """Link the object to a shared library in the file `target`, with the C compiler in `$CC`, or else `cc`.

    `path` is the final name of the library.
    """
    named = os.environ.get("CC", "")
    wanted = architecture(triple_of(isa))
    if not named and wanted != architecture(platform.machine()):
        raise CodegenError(
            f"{path}: found code for {wanted} on {platform.machine()}, expected a C compiler in $CC that links it; "
            f"set CC=gcc for {wanted}, or write {path.with_suffix('.o').name}"
        )
    with workspace(path) as folder:
        source = folder / "code.o"
        made.write_object(source)
        command = [*shlex.split(named or "cc"), "-shared", "-Wl,-z,noexecstack", f"-Wl,-soname,{path.name}"]
        try:
            done = subprocess.run([*command, "-o", str(target), str(source)], capture_output=True, check=False)
        except OSError as error:
            raise CodegenError(
                f"{path}: found no C compiler '{command[0]}', expected one to link a shared library; install one, name "
                f"it in $CC, or write {path.with_suffix('.o').name}"
            ) from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines() or [f"status {done.returncode}"]
            raise CodegenError(f"{path}: the linker '{command[0]}' failed: {said[-1]}")


def _other_booleans(f: Function, pointer: Value, size: int, invalid: Value) -> Value:
    """Emit whether the arguments are `invalid`, or one of `size` booleans at the pointer is neither 0 nor 1."""

    def merge(at: Value, bits: list[Value]) -> list[Value]:
        return [f.binary("or", bits[0], f.load("i8", pointer, at))]

    end = f.select(invalid, i64(0), i64(size))  # nothing is read through an invalid pointer
    (bits,) = f.loop(0, end, 1, merge, [constant("i8", 0)])
    return f.binary("or", invalid, f.compare("ugt", bits, 1))


def _entries(
    name: str, arguments: Sequence[CArgument], run_name: str, trips: TripCounter | None, *, tiles: bool
) -> str:
    """The text of the two C entry functions, which check their arguments and pass them to the driver in two arrays.

    With `tiles`, they ask the system for tile registers first.
    """
    module = Module()
    declared = [("ptr", "arena"), *(("ptr", f"p{n}") for n in range(len(arguments)))]
    f = module.function(f"{name}_run", declared, "i32")
    f.ret(f.call("i32", f"{name}_run_thread", i64(0), i64(1), Value("ptr", "null"), *f.arguments))
    f = module.function(
        f"{name}_run_thread", [("i64", "thread"), ("i64", "threads"), ("ptr", "sync"), *declared], "i32"
    )
    thread, threads, sync, arena, *pointers = f.arguments
    aligned = [(sync, ALIGNMENT), (arena, ALIGNMENT), *zip(pointers, (a.itemsize for a in arguments), strict=True)]
    several = f.compare("ne", threads, 1)
    wrong = [f.binary("and", f.compare("eq", sync, _NULL), several)]
    # The comparison is unsigned, so that a negative thread number is also out of range.
    wrong += [f.compare("slt", threads, 1), f.compare("uge", thread, threads)]
    wrong += [f.compare("eq", pointer, _NULL) for pointer in (arena, *pointers)]
    for pointer, step in aligned:
        address = f.let("i64", f"ptrtoint {pointer} to i64")
        wrong.append(f.compare("ne", f.binary("and", address, i64(step - 1)), 0))
    invalid = functools.reduce(lambda left, right: f.binary("or", left, right), wrong)
    for pointer, argument in zip(pointers, arguments, strict=True):
        if argument.boolean and not argument.output:
            invalid = _other_booleans(f, pointer, argument.size, invalid)

    def run() -> None:
        if tiles:
            # In every run, so that the object has no state: the call takes much less time than a kernel.
            asked = ", ".join(str(i64(number)) for number in TILE_REQUEST)
            status = f.let("i64", f"call i64 {_SYSTEM_CALL}({asked})")
            f.leave(f.compare("ne", status, 0), lambda: f.ret(constant("i32", NO_TILES)))
        tables: list[Value] = []
        for output in (False, True):
            given = [p for p, argument in zip(pointers, arguments, strict=True) if argument.output is output]
            table = f.scratch(8 * max(1, len(given)))
            for number, pointer in enumerate(given):
                f.store(pointer, table, 8 * number, align=8)
            tables.append(table)
        f.perform(run_name, thread, threads, arena, Value("ptr", WEIGHTS), *tables, sync)
        if trips is not None:
            late = f.load("i64", arena, trips.count.buffer.offset + 8, align=8)
            f.leave(f.compare("ne", late, 0), lambda: f.ret(constant("i32", ENDLESS)))

    f.branch(f.compare("eq", invalid, 0), run)
    f.ret(f.select(invalid, constant("i32", INVALID), constant("i32", 0)))
    # The functions that kernels call are in the same module.
    functions = "\n".join(str(function) for function in module.functions)
    return f"{WEIGHTS} = external constant i8\n{functions}\n"
