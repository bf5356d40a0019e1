"""Compile modules, in this process or in a separate one that imports little more than LLVM's library."""

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
from zeropoint.codegen.llvm.machine import compile_bitcode, compile_object, compile_quickly
from zeropoint.lifetime import end_with

FORMS: dict[str, Callable[[str, InstructionSet], bytes]] = {
    "object": compile_object,
    "debug": compile_quickly,
    "bitcode": compile_bitcode,
}
"""Form -> compiler: optimized machine code, unoptimized machine code, or bitcode for `combined_object`."""

KILLED = tuple(-getattr(signal, name) for name in ("SIGKILL", "SIGTERM") if hasattr(signal, name))
"""Statuses of a process that others ended. Ctrl-C is not among them: it ends this process, too."""


def compiled(texts: Sequence[str], isa: InstructionSet, form: str) -> Iterator[bytes]:
    """Compile modules to a form of `FORMS`, one after the other."""
    return (FORMS[form](text, isa) for text in texts)


def compiled_apart(texts: Sequence[str], isa: InstructionSet, form: str) -> Iterator[bytes]:
    """The same in a separate process.

    This process compiles the rest if the other one is killed, as the system does where memory is short. Raises
    RuntimeError if LLVM fails, which is a bug in this package.
    """
    command = [sys.executable, "-c", "from zeropoint.codegen.llvm.compiling import serve; serve()"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    asked = pickle.dumps((list(texts), isa.triple, isa.cpu, isa.features, form, os.getpid()))
    pipe, made = subprocess.PIPE, 0
    with (
        tempfile.TemporaryFile() as errors,  # a pipe that nobody reads could fill up
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
            with suppress(BrokenPipeError):  # what was not written
                process.stdin.close()
            if process.wait() not in KILLED:
                errors.seek(0)
                raise RuntimeError(_failure(process.returncode, errors.read())) from None
    yield from compiled(texts[made:], isa, form)


def _failure(status: int, errors: bytes) -> str:
    """The report about a compiler that ended with this status, with the name of the signal that killed it."""
    ended = signal.Signals(-status).name if status < 0 else f"status {status}"
    return f"LLVM failed ({ended}):\n{errors.decode(errors='replace')}"


def serve() -> None:
    """Compile modules from standard input and write each object to standard output when it is ready."""
    texts, triple, cpu, features, form, parent = pickle.load(sys.stdin.buffer)
    end_with(parent)
    # The steps of the row are not used: the text has them already. Compiling needs triple, cpu and features.
    isa = replace(INSTRUCTION_SETS["portable"], triple=triple, cpu=cpu, features=features)
    for made in compiled(texts, isa, form):
        pickle.dump(made, sys.stdout.buffer)
        sys.stdout.buffer.flush()
