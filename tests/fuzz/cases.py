"""A mutated input through one command, in a child with limits, and how it ended.

`accepted` is status 0 or 1 (a check that failed), `refused` status 2, `unreadable` the same by the guard around the
parser. Anything else is a bug: `internal` (status 70), `exception` (out of the command line), `out of memory` (which a
limit should have said before), `signal N` (the process died), `too long`.
"""

from __future__ import annotations

import io
import os
import random
import resource
import select
import signal
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

from zeropoint.cli import main

SECONDS = 20
BYTES = 2 << 30
"""What a child may take of memory above what it starts with."""
FINE = ("accepted", "refused", "unreadable")

Make = Callable[[random.Random], list[str]]
"""Writes the input of a case and returns the arguments of the command."""


@dataclass(frozen=True)
class Outcome:
    """How a case ended, and the last line that it wrote."""

    kind: str
    line: str
    seed: str


def run(arguments: list[str]) -> tuple[str, str]:
    """The command in this process."""
    errors = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(errors):
        try:
            main(arguments, standalone_mode=False)
            code: object = 0
        except SystemExit as end:
            code = end.code
        except BaseException as error:
            return "exception", f"{type(error).__name__}: {error}"
    line = (errors.getvalue().splitlines() or [""])[-1]
    if "needs more memory than is available" in line:
        return "out of memory", line
    if code == 2:
        return ("unreadable" if "unreadable " in line else "refused"), line
    return ("accepted" if code in (None, 0, 1) else "internal"), line


def _limited() -> None:
    """Limits of a child: its memory above what it has, and processor time."""
    with open("/proc/self/statm") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + BYTES, held + BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def outcome(make: Make, seed: str) -> Outcome:
    """Make the case of a seed and run it in a child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # never returns into the test
        try:
            os.close(reading)
            _limited()
            try:
                arguments = make(random.Random(seed))
            except Exception as error:
                kind, line = "no case", f"{type(error).__name__}: {error}"
            else:
                kind, line = run(arguments)
            os.write(writing, f"{kind}\n{line[:500]}".encode(errors="replace"))
        finally:
            sys.stdout = sys.stderr = None
            os._exit(0)
    os.close(writing)
    told = b""
    if select.select([reading], [], [], 2 * SECONDS)[0]:
        told = os.read(reading, 4096)
    else:
        os.kill(child, signal.SIGKILL)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    if told:
        kind, _, line = told.decode().partition("\n")
        return Outcome(kind, line, seed)
    died = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    late = died in (signal.SIGXCPU, signal.SIGKILL)
    return Outcome("too long" if late else f"signal {died}", "", seed)
