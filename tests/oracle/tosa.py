"""TOSA's reference model as an oracle: programs of the TOSA dialect, serialized and run by the tools of `tosa-tools`.

The package wants older versions of numpy and flatbuffers than other tests, so that it has an environment of its own,
whose folder `ZEROPOINT_TOSA` names (`make test` makes it). Tests are skipped where it is not there.
"""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

TOOLS = ("tosa-opt", "tosa_reference_model")


@functools.cache
def _tools() -> tuple[Path, ...] | None:
    """The programs themselves, not the scripts that start them."""
    root = Path(os.environ.get("ZEROPOINT_TOSA", "nowhere"))
    folders = root.glob("lib/python*/site-packages/bin")
    found = (tuple(folder / name for name in TOOLS) for folder in folders)
    return next((tools for tools in found if all(tool.is_file() for tool in tools)), None)


def _succeeding(folder: str, *command: str | Path) -> None:
    done = subprocess.run([*map(str, command)], cwd=folder, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise ValueError(f"{Path(command[0]).name}: {(done.stderr or done.stdout)[:2000]}")


def require() -> None:
    """Skip the test where the tools are not installed."""
    if _tools() is None:
        pytest.skip(
            "TOSA's reference model (tosa-tools, in the environment that ZEROPOINT_TOSA names) is not installed"
        )


def version() -> str:
    """Of the package."""
    tools = _tools()
    assert tools is not None
    (found,) = tools[0].parents[1].glob("tosa_tools-*.dist-info")
    return found.name.removeprefix("tosa_tools-").removesuffix(".dist-info")


def evaluate(text: str, *inputs: np.ndarray, results: int = 1) -> Sequence[np.ndarray]:
    """What the reference model computes of @main. Raises ValueError with what the tools say where they refuse it."""
    require()
    tools = _tools()
    assert tools is not None
    translate, model = tools
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "program.mlir").write_text(text)
        _succeeding(folder, translate, "--tosa-serialize", "--tosa-flatbuffer-filename=program.tosa", "program.mlir")
        for index, array in enumerate(inputs):
            np.save(Path(folder, f"x{index}.npy"), np.ascontiguousarray(array))
        places = {
            "ifm_name": [f"TosaInput_{i}" for i in range(len(inputs))],
            "ifm_file": [f"x{i}.npy" for i in range(len(inputs))],
            "ofm_name": [f"TosaOutput_{i}" for i in range(results)],
            "ofm_file": [f"y{i}.npy" for i in range(results)],
        }
        options = [part for name, values in places.items() for part in (f"--{name}", ",".join(values))]
        folders = ("--flatbuffer_dir", ".", "--output_dir", ".")
        _succeeding(folder, model, "--tosa_file", "program.tosa", *folders, "--tosa_level", "EIGHTK", *options)
        return [np.load(Path(folder, f"y{i}.npy")) for i in range(results)]
