"""docs/tutorial.md: its code, commands and C program run as printed. Without PyTorch, a trained network stands in."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from zeropoint.cli import main

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "tutorial.md").read_text()
STAND_IN = """
import numpy as np
import zeropoint as zp
with np.load("examples/digits/test.npz") as file:
    images, labels = file["image"], file["labels"]
train, test = slice(0, 16), slice(800, 1000)
network = zp.load("examples/digits/digits.onnx")
"""


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    return [code for name, code in found if name == language]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tutorial")
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder


@pytest.fixture(scope="module")
def named(folder: Path) -> dict[str, Any]:
    """The names that the page's Python code defines."""
    code = blocks("python")
    if importlib.util.find_spec("torch") is None:
        code = [
            STAND_IN,
            *(block.partition("network = zp.load(net, images[:1])\n")[2] or block for block in code[1:]),
        ]
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block in code:
            exec(compile(block, "tutorial.md", "exec"), names)
    return names


def test_the_network_is_integers_and_right(named: dict[str, Any], folder: Path) -> None:
    assert named["right"] > 0.85
    assert {path.name for path in folder.iterdir()} >= {"tutorial.mlir", "tutorial.o", "tutorial.h", "tutorial.tflite"}


@pytest.mark.parametrize("line", [line for block in blocks("") for line in block.splitlines()])
def test_its_commands_run(named: dict[str, Any], folder: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(main, shlex.split(line)[1:])
    assert done.exit_code == 0, done.output


def test_its_c_program_prints_what_python_computes(named: dict[str, Any], folder: Path) -> None:
    (source,) = blocks("c")
    (folder / "main.c").write_text(source)
    compile_line, run_line = blocks("sh")[0].splitlines()
    subprocess.run(compile_line, shell=True, cwd=folder, check=True)
    run_line = run_line.replace("python -c", f"{shlex.quote(sys.executable)} -c", 1)
    printed = subprocess.run(run_line, shell=True, cwd=folder, check=True, capture_output=True, text=True).stdout
    (outputs,) = named["outputs"].values()
    np.testing.assert_array_equal([int(line) for line in printed.split()], outputs.argmax(axis=1))
