"""Imports StableHLO's portable artifacts (`.mlirbc`): versioned bytecode, which the package torch-mlir reads."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from zeropoint.frontend.constants import Constant
from zeropoint.frontend.errors import ModelError
from zeropoint.frontend.stablehlo import stablehlo_of_text
from zeropoint.ir.program import Program
from zeropoint.progress import phase

READER = Path(__file__).with_name("artifact_text.py")
_ERROR = re.compile(r"error: (.*)")


def load_artifact(
    path: Path, shapes: Mapping[str, tuple[int, ...]], constants: Mapping[str, Constant] | None = None
) -> Program:
    """The program in a portable artifact. `shapes` and `constants` as in `load_stablehlo`.

    Raises ModelError for a file that StableHLO does not read, and if torch-mlir is not installed.
    """
    if importlib.util.find_spec("torch_mlir") is None:
        raise ModelError(
            f"{path}: found no package 'torch-mlir', expected it to read a portable artifact; "
            "pip install 'zeropoint[stablehlo]'"
        )
    command = [sys.executable, "-P", str(READER), str(path)]
    with phase(f"read {path.name}"):
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        found = _ERROR.search(done.stderr)
        why = f" ({found[1]})" if found else ""
        raise ModelError(f"{path}: found bytes that StableHLO does not read{why}, expected a portable artifact")
    return stablehlo_of_text(done.stdout, shapes, constants, str(path))
