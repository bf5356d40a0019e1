"""What becomes of a module, and the process that compiles some: it imports LLVM's library and little else."""

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
"""Machine code, optimized or not, or what `combined_object` makes one object of."""


def compiled(texts: Sequence[str], isa: InstructionSet, form: str) -> list[bytes]:
    """Modules in the form of `FORMS` that is named."""
    return [FORMS[form](text, isa) for text in texts]


def compiled_apart(texts: Sequence[str], isa: InstructionSet, form: str) -> list[bytes]:
    """The same, by a process of its own. Raises RuntimeError where it fails: a fault of ours."""
    command = [sys.executable, "-c", "from zeropoint.codegen.llvm.compiling import serve; serve()"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    asked = pickle.dumps((list(texts), isa.triple, isa.cpu, isa.features, form))
    finished = subprocess.run(command, input=asked, capture_output=True, env=environment, check=False)
    if finished.returncode:
        raise RuntimeError(f"LLVM failed:\n{finished.stderr.decode(errors='replace')}")
    return pickle.loads(finished.stdout)


def serve() -> None:
    """Compile what comes by standard input; the objects go to standard output."""
    texts, triple, cpu, features, form = pickle.load(sys.stdin.buffer)
    # Any row: its steps are in the texts already.
    isa = replace(INSTRUCTION_SETS["portable"], triple=triple, cpu=cpu, features=features)
    pickle.dump(compiled(texts, isa, form), sys.stdout.buffer)
