"""Mutated inputs are accepted or refused, never a traceback, a crash, a hang or a large allocation.

`make fuzz FUZZ_CASES=2000` prints the outcomes by kind; `survey.py` lists what else the environment says.
"""

from __future__ import annotations

import functools
import io
import random
import zipfile
from pathlib import Path

import numpy as np
from onnx import ModelProto
from onnx.backend.test.loader import load_model_tests

from fuzz.cases import run
from fuzz.damage import damaged
from fuzz.onnx_models import models, mutated_model
from fuzz.survey import CASES, listed, survey
from fuzz.texts import mutated_text
from onnx_conformance import made_quickly

PROGRAM = """func.func @main(%x: tensor<1x4xf32> {zeropoint.name = "x"}) -> tensor<1x3xf32> {
  %w = stablehlo.constant dense<[[0.5, 1.0, -1.0], [0.2, 2.0, 1.5], [1.0, 0.0, 0.0], [3.0, 1.0, 1.0]]> : tensor<4x3xf32>
  %b = stablehlo.constant dense<[0.5, 1.0, -2.0]> : tensor<3xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims=[1] x [0] : (tensor<1x4xf32>, tensor<4x3xf32>) -> tensor<1x3xf32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<3xf32>) -> tensor<1x3xf32>
  %2 = stablehlo.add %0, %1 : tensor<1x3xf32>
  %3 = func.call @act(%2) : (tensor<1x3xf32>) -> tensor<1x3xf32>
  return %3 : tensor<1x3xf32>
}
func.func private @act(%x: tensor<1x3xf32>) -> tensor<1x3xf32> {
  %0 = stablehlo.tanh %x : tensor<1x3xf32>
  %1 = "quant.stats"(%0) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %2 = "quant.qcast"(%1) : (tensor<1x3xf32>) -> tensor<1x3x!quant.uniform<i8:f32, 0.0078125>>
  %3 = "quant.dcast"(%2) : (tensor<1x3x!quant.uniform<i8:f32, 0.0078125>>) -> tensor<1x3xf32>
  return %3 : tensor<1x3xf32>
}
"""
PASSES = ("", "simplify,fuse", "inline-calls", "simplify,fuse,instrument", "convert-fake-quant", "legalize-chlo")


def text_case(choose: random.Random) -> list[str]:
    Path("m.mlir").write_text(mutated_text(choose, PROGRAM), encoding="utf-8")
    if choose.random() < 0.3:
        return ["explain", "m.mlir"]
    return ["opt", "m.mlir", "-p", choose.choice(PASSES)]


def archive(choose: random.Random) -> bytes:
    """An .npz of the input's array by some method of compression."""
    method = choose.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    array = io.BytesIO()
    np.save(array, np.ones((5, 4), choose.choice((np.float32, np.float32, np.float64, np.int8))))
    member = array.getvalue()
    if choose.random() < 0.4:
        member = damaged(member, choose, 120)
    if choose.random() < 0.2:
        shape = choose.choice(("(5, 4", "(99999999999999999999, 4)", "(-1, 4)", "(5.0, 4)", "(9**9**9,)", "(" * 200))
        member = member.replace(b"(5, 4)", shape.encode())
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", method) as file:
        file.writestr(choose.choice(("x.npy", "x.npy", "x.npy", "x", "é.npy", "../x.npy")), member)
    return found.getvalue()


def data_case(choose: random.Random) -> list[str]:
    data = archive(choose)
    Path("d.npz").write_bytes(damaged(data, choose) if choose.random() < 0.6 else data)
    return ["run", "float.mlir", "--input", "d.npz", "-o", "out.npz"]


@functools.cache
def originals() -> tuple[ModelProto, ...]:
    """Small models; where many cases are asked for, those of ONNX's own suite as well."""
    if not CASES:
        return models()
    with made_quickly():
        return (*models(), *(case.model for case in load_model_tests(kind="node") if case.model is not None))


def onnx_case(choose: random.Random) -> list[str]:
    model = choose.choice(models() if choose.random() < 0.5 else originals())
    Path("m.onnx").write_bytes(mutated_model(model, choose))
    limit = ["--max-memory", "512M"]
    if choose.random() < 0.3:
        return ["run", "m.onnx", "--input", f"{model.graph.name}.npz", "-o", "out.npz", *limit]
    return ["explain", "m.onnx", *limit]


FLOAT = """func.func @main(%x: tensor<1x4xf32> {zeropoint.name = "x"}) -> tensor<1x4xf32> {
  %0 = stablehlo.tanh %x : tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}
"""


def prepare() -> None:
    """What the cases read, in the working folder. Without a mutation all is accepted; the imports are then done."""
    Path("float.mlir").write_text(FLOAT)
    Path("program.mlir").write_text(PROGRAM)
    np.savez("good.npz", x=np.ones((5, 4), np.float32))
    originals()  # which takes long: once, not in every child
    for passes in PASSES:
        assert run(["opt", "program.mlir", "-p", passes]) == ("accepted", "")
    assert run(["explain", "program.mlir"]) == ("accepted", "")
    assert run(["run", "float.mlir", "--input", "good.npz", "-o", "out.npz"]) == ("accepted", "")
    for model in models():
        Path("m.onnx").write_bytes(model.SerializeToString())
        shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
        np.savez(f"{model.graph.name}.npz", x=np.ones(shape, np.float32))
        assert run(["explain", "m.onnx"]) == ("accepted", "")
        assert run(["run", "m.onnx", "--input", f"{model.graph.name}.npz", "-o", "out.npz"]) == ("accepted", "")


def test_mutated_texts_are_accepted_or_refused() -> None:
    bugs = survey("mlir", text_case, prepare, 25)
    assert not bugs, listed(bugs)


def test_damaged_data_is_accepted_or_refused() -> None:
    bugs = survey("npz", data_case, prepare, 25)
    assert not bugs, listed(bugs)


def test_mutated_models_are_accepted_or_refused() -> None:
    bugs = survey("onnx", onnx_case, prepare, 25)
    assert not bugs, listed(bugs)
