"""Programs of float ops, exported and run in each runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from oracle.litert import evaluate
from oracle.qdq import optimized
from zeropoint.export.litert.model import litert_model
from zeropoint.export.onnx.model import onnx_model
from zeropoint.export.tosa.model import tosa_text
from zeropoint.export.tosa.runtime import TosaFile, tools
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program

TOSA = pytest.param("tosa", marks=pytest.mark.skipif(tools() is None, reason="tosa-tools run these files"))
HEAD = 'module attributes {zeropoint.profile = "tosa-double"} {\nfunc.func @main('


def litert(text: str, inputs: Mapping[str, Array], _folder: Path) -> Array:
    return evaluate(litert_model(parse_program(text)), *inputs.values())[0]


def onnx(text: str, inputs: Mapping[str, Array], _folder: Path) -> Array:
    return optimized(onnx_model(parse_program(text))).run(dict(inputs))[0]


def tosa(text: str, inputs: Mapping[str, Array], folder: Path) -> Array:
    path = folder / "m.tosa.mlir"
    path.write_text(tosa_text(parse_program(text)))
    return TosaFile(path)(inputs)["y"]


RUNS: Mapping[str, Callable[[str, Mapping[str, Array], Path], Array]] = {"litert": litert, "onnx": onnx, "tosa": tosa}
