"""Compile modules in this process, or in a separate process that imports little more than LLVM's library."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.llvm.machine import compile_bitcode, compile_lightly, compile_object, compile_quickly
from zeropoint.lifetime import end_with

FORMS: dict[str, Callable[[str, InstructionSet], bytes]] = {
    "object": compile_object,
    "light": compile_lightly,
    "debug": compile_quickly,
    "bitcode": compile_bitcode,
}
"""The compiler of each form: optimized machine code, machine code without passes over the text, unoptimized machine
code, or bitcode for `combined_object`."""

KILLED = tuple(-getattr(signal, name) for name in ("SIGKILL", "SIGTERM") if hasattr(signal, name))
"""The statuses of a process that was killed from outside. Ctrl-C is not included, because it ends this process, too."""


def compiled(texts: Sequence[str], isa: InstructionSet, form: str) -> Iterator[bytes]:
    """Compile modules one by one to a form of `FORMS`."""
    return (FORMS[form](text, isa) for text in texts)


def compiled_apart(texts: Sequence[str], isa: InstructionSet, form: str) -> Iterator[bytes]:
    """Compile modules like `compiled`, in a separate process.

    If that process is killed, for example because memory is short, this process compiles the rest. Raises RuntimeError
    if LLVM fails, which is a bug in this package.
    """
    command = [sys.executable, "-c", "from zeropoint.codegen.llvm.compiling import serve; serve()"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    asked = pickle.dumps((list(texts), isa.triple, isa.cpu, isa.features, form, os.getpid()))
    pipe, made = subprocess.PIPE, 0
    with (
        tempfile.TemporaryFile() as errors,  # an unread pipe could fill up and block the process
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, env=environment) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(asked)
            process.stdin.close()
            while made < len(texts):
                data = pickle.load(process.stdout)
                made += 1
                yield data
        except (BrokenPipeError, EOFError, pickle.UnpicklingError):
            with suppress(BrokenPipeError):  # input that was not written
                process.stdin.close()
            if process.wait() not in KILLED:
                errors.seek(0)
                raise RuntimeError(_failure(process.returncode, errors.read())) from None
    yield from compiled(texts[made:], isa, form)


def _failure(status: int, errors: bytes) -> str:
    """A message about a compiler that ended with this status, with the name of the signal that killed it, if any."""
    ended = signal.Signals(-status).name if status < 0 else f"status {status}"
    return f"LLVM failed ({ended}):\n{errors.decode(errors='replace')}"


def serve() -> None:
    """Compile modules from standard input, and write each object to standard output when it is ready."""
    texts, triple, cpu, features, form, parent = pickle.load(sys.stdin.buffer)
    end_with(parent)
    # The text contains the instructions already. Of the instruction set, only triple, cpu and features are used.
    isa = replace(INSTRUCTION_SETS["portable"], triple=triple, cpu=cpu, features=features)
    for made in compiled(texts, isa, form):
        pickle.dump(made, sys.stdout.buffer)
        sys.stdout.buffer.flush()
