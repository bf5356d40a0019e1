"""Commands that write files, run in a child that is killed, or has no room, at some moment.

Moments are points of a command's life, which was measured before: processor time, and operations on files. So they fall
into its life on a busy machine, too.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np

from fuzz.cases import run

WEIGHTS = ", ".join(str(round(0.01 * (n % 37) - 0.2, 3)) for n in range(16 * 12))
FLOAT = f"""func.func @main(%x: tensor<1x16xf32> {{zeropoint.name = "x"}}) -> tensor<1x12xf32> {{
  %w = stablehlo.constant dense<[{WEIGHTS}]> : tensor<192xf32>
  %0 = stablehlo.reshape %w : (tensor<192xf32>) -> tensor<16x12xf32>
  %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0]
    : (tensor<1x16xf32>, tensor<16x12xf32>) -> tensor<1x12xf32>
  return %1 : tensor<1x12xf32>
}}
"""
QUANTIZE = ["quantize", "float.mlir", "--data", "data.npz", "--effort", "none"]
COMMANDS: dict[str, tuple[list[str], list[str]]] = {
    "quantize": ([*QUANTIZE, "-o", "integer.mlir"], ["integer.safetensors", "integer.mlir"]),
    "run": (["run", "float.mlir", "--input", "data.npz", "-o", "outputs.npz"], ["outputs.npz"]),
    "compile": (["compile", "ready.mlir", "-o", "made.o"], ["made.h", "made.o"]),
    "export": (["export", "kernels.mlir", "-o", "made.tflite"], ["made.tflite"]),
    "report": (["report", "ready.mlir", "-o", "page.html", "--no-timing"], ["page.html"]),
    "opt": (["opt", "float.mlir", "-p", "simplify", "-o", "simple.mlir", "--inline-weights"], ["simple.mlir"]),
}
"""Arguments, and the files that they write."""


def prepare() -> None:
    """What the commands read, in the working folder; and all modules that they import."""
    Path("float.mlir").write_text(FLOAT)
    np.savez("data.npz", x=np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32))
    assert run([*QUANTIZE, "-o", "ready.mlir"]) == ("accepted", "")
    assert run([*QUANTIZE, "--target", "litert", "--emit", "kernels", "-o", "kernels.mlir"]) == ("accepted", "")
    for arguments, _ in COMMANDS.values():
        assert run(arguments) == ("accepted", "")


def into(folder: str, command: tuple[list[str], list[str]]) -> tuple[list[str], list[str]]:
    """The same command with its output in a folder."""
    arguments, files = command
    place = arguments.index("-o") + 1
    moved = [*arguments[:place], f"{folder}/{arguments[place]}", *arguments[place + 1 :]]
    return moved, [f"{folder}/{file}" for file in files]


def start(arguments: list[str], before: Callable[[], object] | None = None) -> int:
    """The command in a child; its process. Its status is 0 where the command has done its work, 2 where it refused."""
    child = os.fork()
    if child == 0:
        status = 3
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if before is not None:
                before()
            kind, _ = run(arguments)
            status = {"accepted": 0, "refused": 2, "unreadable": 2}.get(kind, 3)
        finally:
            sys.stdout = sys.stderr = None
            os._exit(status)
    return child


def status_of(child: int) -> int:
    """The exit status; below 0 the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


FILE_EVENTS = frozenset(("open", "os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.scandir"))
"""Audit events of Python that come right before an operation on files."""
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True)
class Length:
    """How long a command is: seconds of processor time, which other work does not stretch, and file operations."""

    seconds: float
    operations: int


def before_operations(act: Callable[[int], object]) -> None:
    """Call `act` with 1, 2, ... before each operation on files of this process."""
    numbers = count(1)
    sys.addaudithook(lambda event, _: act(next(numbers)) if event in FILE_EVENTS else None)


def length_of(arguments: list[str]) -> Length:
    """The length of a command, which must succeed."""
    reading, writing = os.pipe()
    child = start(arguments, lambda: before_operations(lambda number: os.write(writing, b".")))
    os.close(writing)
    with open(reading, "rb") as told:
        operations = len(told.read())
    _, status, used = os.wait4(child, 0)
    assert status == 0
    return Length(used.ru_utime + used.ru_stime, operations)


def killed_in_time(arguments: list[str], seconds: float, wanted: signal.Signals) -> int:
    """The status of a command that gets a signal after some processor time."""
    child = start(arguments)
    clock = (~child << 3) | 2  # Linux's clock of a process
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.clock_gettime(clock) >= seconds:
            os.kill(child, wanted)
            break
        time.sleep(1e-4)
    return status_of(child)


def killed_before_operation(arguments: list[str], number: int, wanted: signal.Signals) -> int:
    """The status of a command that gets a signal before an operation on files."""
    act = partial(_kill_at, number, wanted)
    return status_of(start(arguments, lambda: before_operations(act)))


def _kill_at(number: int, wanted: signal.Signals, found: int) -> None:
    if found == number:
        os.kill(os.getpid(), wanted)


def killed(arguments: list[str], length: Length, choose: random.Random) -> int:
    """The status of a command that gets a signal at a random moment of its life."""
    wanted = choose.choice(SIGNALS)
    if choose.random() < 0.5:
        return killed_before_operation(arguments, choose.randint(1, length.operations), wanted)
    return killed_in_time(arguments, choose.uniform(0, length.seconds), wanted)


def contents(files: list[str]) -> dict[str, bytes | None]:
    """What the files hold; None for one that is not there."""
    return {name: Path(name).read_bytes() if Path(name).exists() else None for name in files}
