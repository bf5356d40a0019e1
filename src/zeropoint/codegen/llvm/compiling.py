"""Compile modules, in this process or in a separate one that imports little more than LLVM's library."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.llvm.machine import compile_bitcode, compile_object, compile_quickly
from zeropoint.lifetime import end_with

FORMS: dict[str, Callable[[str, InstructionSet], bytes]] = {
    "object": compile_object,
    "debug": compile_quickly,
    "bitcode": compile_bitcode,
}
"""Form -> compiler: optimized machine code, unoptimized machine code, or bitcode for `combined_object`."""


def compiled(texts: Sequence[str], isa: InstructionSet, form: str) -> Iterator[bytes]:
    """Compile modules to a form of `FORMS`, one after the other."""
    return (FORMS[form](text, isa) for text in texts)


def compiled_apart(texts: Sequence[str], isa: InstructionSet, form: str) -> Iterator[bytes]:
    """The same in a separate process. Raises RuntimeError if it fails, which is a bug in this package."""
    command = [sys.executable, "-c", "from zeropoint.codegen.llvm.compiling import serve; serve()"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    asked = pickle.dumps((list(texts), isa.triple, isa.cpu, isa.features, form, os.getpid()))
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryFile() as errors,  # a pipe that nobody reads could fill up
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, env=environment) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(asked)
            process.stdin.close()
            for _ in texts:
                yield pickle.load(process.stdout)
        except (BrokenPipeError, EOFError, pickle.UnpicklingError):
            process.wait()
            errors.seek(0)
            raise RuntimeError(f"LLVM failed:\n{errors.read().decode(errors='replace')}") from None


def serve() -> None:
    """Compile modules from standard input and write each object to standard output when it is ready."""
    texts, triple, cpu, features, form, parent = pickle.load(sys.stdin.buffer)
    end_with(parent)
    # The steps of the row are not used: the text has them already. Compiling needs triple, cpu and features.
    isa = replace(INSTRUCTION_SETS["portable"], triple=triple, cpu=cpu, features=features)
    for made in compiled(texts, isa, form):
        pickle.dump(made, sys.stdout.buffer)
        sys.stdout.buffer.flush()
