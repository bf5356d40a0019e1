"""Import StableHLO's portable artifacts (`.mlirbc`): versioned bytecode, which the package torch-mlir reads."""

from __future__ import annotations

import importlib.util
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from zeropoint.frontend.artifact_text import NO_MEMORY
from zeropoint.frontend.constants import Constant
from zeropoint.frontend.errors import ModelError
from zeropoint.frontend.stablehlo import stablehlo_of_text
from zeropoint.ir.program import Program
from zeropoint.limits import bytes_text
from zeropoint.progress import phase

READER = Path(__file__).with_name("artifact_text.py")
SECONDS, SECONDS_PER_MEGABYTE = 60, 1
"""The time limit of the reader: a constant, and seconds per MB of the file. A few bytes can encode types whose text is
endless."""
_MEMORY, _MEMORY_PER_BYTE = 2 << 30, 32
"""The memory limit of the reader in bytes: a constant, and a factor of the file size. Valid files need a tenth."""
_ERROR = re.compile(r"error: (.*)")
_NO_MEMORY = re.compile(r"out of memory|bad_alloc|MemoryError")
_TOO_LONG = -getattr(signal, "SIGXCPU", 0)
"""The status of a process that exceeded its limit of CPU time. On an idle machine, this occurs before the timeout."""


def load_artifact(
    path: Path, shapes: Mapping[str, tuple[int, ...]], constants: Mapping[str, Constant] | None = None
) -> Program:
    """Load the program in a portable artifact. `shapes` and `constants` are as in `load_stablehlo`.

    Raises ModelError for a file that StableHLO cannot read, and if torch-mlir is not installed.
    """
    if importlib.util.find_spec("torch_mlir") is None:
        raise ModelError(
            f"{path}: found no package 'torch-mlir', expected it to read a portable artifact; "
            "pip install 'zeropoint[stablehlo]'"
        )
    return stablehlo_of_text(_text(path), shapes, constants, str(path))


def _text(path: Path) -> str:
    """The MLIR text that the reader prints. Raises ModelError if it fails or exceeds its time or memory limit."""
    size = path.stat().st_size
    seconds, memory = SECONDS + SECONDS_PER_MEGABYTE * (size >> 20), _MEMORY + _MEMORY_PER_BYTE * size
    command = [sys.executable, "-P", str(READER), str(path), str(seconds), str(memory)]
    try:
        with phase(f"read {path.name}"):
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", check=False, timeout=seconds
            )
    except subprocess.TimeoutExpired:
        raise _unread(path, f" within {seconds} s") from None
    if done.returncode:
        if done.returncode == _TOO_LONG:
            raise _unread(path, f" within {seconds} s")
        found = _ERROR.search(done.stderr)
        if done.returncode == NO_MEMORY or _NO_MEMORY.search(done.stderr):
            raise _unread(path, f" with {bytes_text(memory)} of memory")
        if found and "dialect 'sdy' is unknown" in found[1]:
            raise ModelError(
                f"{path}: found ops or attributes of dialect 'sdy', expected StableHLO; JAX writes them for calls of "
                "LAPACK, shardings and callbacks, which a program cannot have"
            )
        raise _unread(path, f" ({found[1]})" if found else "")
    return done.stdout


def _unread(path: Path, why: str) -> ModelError:
    return ModelError(f"{path}: found bytes that StableHLO does not read{why}, expected a portable artifact")
