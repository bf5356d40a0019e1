"""Print the text of a StableHLO portable artifact, with locations.

    python -P artifact_text.py FILE.mlirbc SECONDS BYTES

This is a separate program, because StableHLO's reader aborts on some broken files, or needs unlimited time or memory
(`artifact.py`). The process limits its own CPU time to SECONDS and its memory to BYTES, so that it also ends if its
parent is gone.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

NO_MEMORY = 3
"""The exit status if the text exceeds the memory limit."""


def main() -> None:
    """Print the text; errors go to the standard error stream."""
    ir = importlib.import_module("torch_mlir.ir")
    stablehlo = importlib.import_module("torch_mlir._mlir_libs._stablehlo")
    _limit(int(sys.argv[2]), int(sys.argv[3]))
    with ir.Context() as context:
        try:
            module = stablehlo.deserialize_portable_artifact(context, Path(sys.argv[1]).read_bytes())
        except ValueError:  # the reader has printed why
            sys.exit(1)
        try:
            print(module.operation.get_asm(enable_debug_info=True))
        except (MemoryError, RuntimeError):  # RuntimeError if the string for Python does not fit
            sys.exit(NO_MEMORY)


def _limit(seconds: int, memory: int) -> None:
    """Limit the CPU time and the memory of this process, if the system supports it."""
    try:
        limits: Any = importlib.import_module("resource")
    except ImportError:
        return
    for what, most in ((limits.RLIMIT_CPU, seconds), (limits.RLIMIT_DATA, memory)):
        _, hard = limits.getrlimit(what)
        limits.setrlimit(what, (most if hard == limits.RLIM_INFINITY else min(most, hard), hard))


if __name__ == "__main__":
    main()
