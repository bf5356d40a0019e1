"""Prints the text of a StableHLO portable artifact, with locations.

    python -P artifact_text.py FILE.mlirbc SECONDS BYTES

A separate program, because on some broken files StableHLO's reader ends the process, or needs time or memory without
end (`artifact.py`). SECONDS of processor time and BYTES of memory end it, also if nobody waits for it any more.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

NO_MEMORY = 3
"""The status if the text needs more memory."""


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
        except (MemoryError, RuntimeError):  # the latter if Python's string is what does not fit
            sys.exit(NO_MEMORY)


def _limit(seconds: int, memory: int) -> None:
    """Limit this process, where the system can."""
    try:
        limits: Any = importlib.import_module("resource")
    except ImportError:
        return
    for what, most in ((limits.RLIMIT_CPU, seconds), (limits.RLIMIT_DATA, memory)):
        _, hard = limits.getrlimit(what)
        limits.setrlimit(what, (most if hard == limits.RLIM_INFINITY else min(most, hard), hard))


if __name__ == "__main__":
    main()
