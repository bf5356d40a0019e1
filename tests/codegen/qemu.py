"""Programs compiled for other processors, called from C, under qemu: several in one executable."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from codegen.c_programs import WARNINGS
from zeropoint.codegen.aot.ahead_of_time import library
from zeropoint.codegen.aot.header import CArgument, arguments_of
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of

Sample = Mapping[str, Array]


@dataclass(frozen=True)
class Machine:
    """A C compiler for Linux on another processor, and the emulator that runs what it makes."""

    compiler: str
    emulator: str
    cpu: str

    @property
    def skipped(self) -> pytest.MarkDecorator:
        """The mark of tests that need both."""
        missing = [tool for tool in (self.emulator, self.compiler) if shutil.which(tool) is None]
        return pytest.mark.skipif(bool(missing), reason=f"{' and '.join(missing)} not installed")


AARCH64 = Machine("aarch64-linux-gnu-gcc", "qemu-aarch64", "max")
RISCV64 = Machine("riscv64-linux-gnu-gcc", "qemu-riscv64", "rv64")


def _function(name: str, arguments: Sequence[CArgument]) -> str:
    """A C function that reads the inputs of a run, runs, and writes its outputs."""
    prefix = name.upper()

    def moved(argument: CArgument) -> str:
        how = "fwrite({0}, 1, {1}, stdout)" if argument.output else "fread({0}, 1, {1}, stdin)"
        size = f"{prefix}_{argument.name.upper()}_SIZE"
        return f"    if ({how.format(argument.name, size)} != {size}) return 2;"

    declared = [f"    static {a.type} {a.name}[{prefix}_{a.name.upper()}_ELEMENTS + 1];" for a in arguments]
    names = ", ".join(argument.name for argument in arguments)
    return "\n".join([
        f"static int call_{name}(void) {{",
        f"    static _Alignas({prefix}_ALIGNMENT) unsigned char memory[{prefix}_ARENA_SIZE + 1];",
        *declared,
        *(moved(argument) for argument in arguments if not argument.output),
        f"    if ({name}_run(memory, {names})) return 1;",
        *(moved(argument) for argument in arguments if argument.output),
        "    return 0;\n}\n",
    ])  # fmt: skip


def under_qemu(
    programs: Sequence[tuple[Program, Sample]], isa: InstructionSet, folder: Path, machine: Machine = AARCH64
) -> list[dict[str, Array]]:
    """The outputs of every program."""
    includes, functions, calls, objects, given = list[str](), list[str](), list[str](), list[Path](), list[bytes]()
    for number, (program, sample) in enumerate(programs):
        name = f"p{number}"
        made = library(program, name, isa)
        (folder / f"{name}.h").write_text(made.header)
        (folder / f"{name}.o").write_bytes(made.object)
        objects.append(folder / f"{name}.o")
        includes.append(f'#include "{name}.h"\n')
        functions.append(_function(name, arguments_of(program)))
        calls.append(f'    if (call_{name}()) return fprintf(stderr, "{name}"), 1;\n')
        given += [np.ascontiguousarray(sample[port.name]).tobytes() for port in program.inputs]
    text = ["#include <stdio.h>\n", *includes, *functions, "int main(void) {\n", *calls, "    return 0;\n}\n"]
    (folder / "main.c").write_text("".join(text))
    command = [
        machine.compiler,
        *WARNINGS,
        "-static",
        f"-I{folder}",
        folder / "main.c",
        *objects,
        "-o",
        folder / "main",
    ]
    subprocess.run(command, check=True)
    run = [machine.emulator, "-cpu", machine.cpu, folder / "main"]
    done = subprocess.run(run, input=b"".join(given), capture_output=True)
    assert done.returncode == 0, done.stderr
    rest = done.stdout
    results: list[dict[str, Array]] = []
    for program, _ in programs:
        found: dict[str, Array] = {}
        for port in program.outputs:
            shape, dtype = shape_of(port.type), element_dtype(element_of(port.type))
            size = int(np.prod(shape)) * dtype.itemsize
            found[port.name] = np.frombuffer(rest[:size], dtype).reshape(shape)
            rest = rest[size:]
        results.append(found)
    assert not rest
    return results
