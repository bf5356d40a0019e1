"""Commands that write files, run in a child that is killed, or has no room, at some moment."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
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


def killed(arguments: list[str], seconds: float, choose: random.Random) -> int:
    """The status of a command that gets a signal at a random moment of the time that it takes."""
    child = start(arguments)
    time.sleep(choose.uniform(0, seconds))
    os.kill(child, choose.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT)))
    return status_of(child)


def contents(files: list[str]) -> dict[str, bytes | None]:
    """What the files hold; None for one that is not there."""
    return {name: Path(name).read_bytes() if Path(name).exists() else None for name in files}
