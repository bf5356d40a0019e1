"""Compile modules, in this process or in a separate one that imports little more than LLVM's library."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.llvm.machine import compile_bitcode, compile_object, compile_quickly

FORMS: dict[str, Callable[[str, InstructionSet], bytes]] = {
    "object": compile_object,
    "debug": compile_quickly,
    "bitcode": compile_bitcode,
}
"""Form -> compiler: optimized machine code, unoptimized machine code, or bitcode for `combined_object`."""


def compiled(texts: Sequence[str], isa: InstructionSet, form: str) -> list[bytes]:
    """Compile modules to a form of `FORMS`."""
    return [FORMS[form](text, isa) for text in texts]


def compiled_apart(texts: Sequence[str], isa: InstructionSet, form: str) -> list[bytes]:
    """The same in a separate process. Raises RuntimeError if it fails, which is a bug in this package."""
    command = [sys.executable, "-c", "from zeropoint.codegen.llvm.compiling import serve; serve()"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    asked = pickle.dumps((list(texts), isa.triple, isa.cpu, isa.features, form))
    finished = subprocess.run(command, input=asked, capture_output=True, env=environment, check=False)
    if finished.returncode:
        raise RuntimeError(f"LLVM failed:\n{finished.stderr.decode(errors='replace')}")
    return pickle.loads(finished.stdout)


def serve() -> None:
    """Compile modules from standard input and write the objects to standard output."""
    texts, triple, cpu, features, form = pickle.load(sys.stdin.buffer)
    # Any row will do: compiling needs only triple, cpu and features, as the text already contains the steps.
    isa = replace(INSTRUCTION_SETS["portable"], triple=triple, cpu=cpu, features=features)
    pickle.dump(compiled(texts, isa, form), sys.stdout.buffer)
