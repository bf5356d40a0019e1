"""Prints the text of a StableHLO portable artifact, with locations: `python -P artifact_text.py FILE.mlirbc`.

A separate program, because StableHLO's reader ends the process on some broken files (`artifact.py`).
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def main() -> None:
    """Print the text; errors go to the standard error stream."""
    ir = importlib.import_module("torch_mlir.ir")
    stablehlo = importlib.import_module("torch_mlir._mlir_libs._stablehlo")
    with ir.Context() as context:
        try:
            module = stablehlo.deserialize_portable_artifact(context, Path(sys.argv[1]).read_bytes())
        except ValueError:  # the reader has printed why
            sys.exit(1)
        print(module.operation.get_asm(enable_debug_info=True))


if __name__ == "__main__":
    main()
