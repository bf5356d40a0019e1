"""Operands of lower rank than an image are repeated in the order of its dimensions, which channels last changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from zeropoint.export import export_program
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.export.onnx.runtime import OnnxFile
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program
from zeropoint.pipeline import Options, quantize
from zeropoint.simplify import simplify

CONVOLUTION = """
func.func @main(%x: tensor<1x3x5x4xf32> {{zeropoint.name = "x"}}) -> ({result} {{zeropoint.name = "y"}}) {{
  %w = stablehlo.constant dense<{weights}> : tensor<4x3x1x1xf32>
  %c = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {{}}
    {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : (tensor<1x3x5x4xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x5x4xf32>
  {rest}
  return %y : {result}
}}"""


def convolution(result: str, rest: str) -> Program:
    weights = np.random.default_rng(0).normal(0, 0.5, (4, 3, 1, 1)).round(3).tolist()
    return parse_program(CONVOLUTION.format(weights=weights, result=result, rest=rest))


def dense(*shape: int) -> str:
    """The constant `%k`."""
    numbers = np.random.default_rng(1).normal(0, 1, shape).round(3).tolist()
    return f"%k = stablehlo.constant dense<{numbers}> : tensor<{'x'.join(map(str, shape))}xf32>"


def runs_alike(program: Program, samples: list[dict[str, Array]], target: str, path: Path) -> None:
    """Compare the exported file in its runtime with our interpreter, exactly."""
    made = quantize(program, samples, Options(target, effort="none"))
    export_program(made.propagated, path)
    file = LiteRTFile(path, reference=True) if path.suffix == ".tflite" else OnnxFile(path)
    for sample in samples:
        np.testing.assert_array_equal(file(sample)["y"], Interpreter(made.quantized)(sample)["y"])


@pytest.mark.parametrize(
    ("shape", "dimensions"), [((4, 5, 4), [1, 2, 3]), ((4, 5, 1), [1, 2, 3]), ((4, 4), [1, 3]), ((5, 4), [2, 3])]
)
@pytest.mark.parametrize("op", ["add", "multiply", "maximum"])
def test_a_constant_without_a_batch_beside_an_image_moves_with_it(
    shape: tuple[int, ...], dimensions: list[int], op: str, tmp_path: Path
) -> None:
    """In .tflite files it was added in the order of the model to an image channels last."""
    kind, image = f"tensor<{'x'.join(map(str, shape))}xf32>", "tensor<1x4x5x4xf32>"
    spread = f"%b = stablehlo.broadcast_in_dim %k, dims = {dimensions} : ({kind}) -> {image}"
    program = convolution(image, "\n".join([dense(*shape), spread, f"%y = stablehlo.{op} %c, %b : {image}"]))
    random = np.random.default_rng(2)
    samples = [{"x": random.normal(0, 1, (1, 3, 5, 4)).astype(np.float32)} for _ in range(3)]
    runs_alike(program, samples, "litert", tmp_path / "m.tflite")


@pytest.mark.parametrize("dimensions", [[0, 2, 3, 4], [0, 1, 3, 4], [0, 1, 2, 4]])
def test_an_image_that_is_repeated_along_a_new_dimension_keeps_its_order(dimensions: list[int], tmp_path: Path) -> None:
    sizes = dict(zip(dimensions, (1, 4, 5, 4), strict=True))
    result = f"tensor<{'x'.join(str(sizes.get(d, 2)) for d in range(5))}xf32>"
    spread = f"%b = stablehlo.broadcast_in_dim %c, dims = {dimensions} : (tensor<1x4x5x4xf32>) -> {result}"
    full = dense(*(sizes.get(d, 2) for d in range(5)))
    program = convolution(result, "\n".join([spread, full, f"%y = stablehlo.add %b, %k : {result}"]))
    random = np.random.default_rng(2)
    samples = [{"x": random.normal(0, 1, (1, 3, 5, 4)).astype(np.float32)} for _ in range(3)]
    runs_alike(program, samples, "litert", tmp_path / "m.tflite")


EXCHANGED = """func.func @main(%x: tensor<3x2xf32> {{zeropoint.name = "x"}}) -> ({result} {{zeropoint.name = "y"}}) {{
  %k = stablehlo.constant dense<[[0.1, 0.2, 3.0], [4.0, 5.0, -6.0]]> : tensor<2x3xf32>
  %b = stablehlo.broadcast_in_dim {operand}, dims = [1, 0] : ({given}) -> {result}
  %e = stablehlo.abs %b : {result}
  %y = stablehlo.add {other}, %e : {result}
  return %y : {result}
}}"""
TRANSPOSED = {
    "constant": EXCHANGED.format(operand="%k", given="tensor<2x3xf32>", result="tensor<3x2xf32>", other="%x"),
    "input": EXCHANGED.format(operand="%x", given="tensor<3x2xf32>", result="tensor<2x3xf32>", other="%k"),
}
"""Broadcasts that exchange dimensions."""


@pytest.mark.parametrize("name", TRANSPOSED)
def test_a_broadcast_that_transposes_is_simplified_to_the_same_values(name: str) -> None:
    program = parse_program(TRANSPOSED[name])
    sample = {"x": np.arange(6, dtype=np.float32).reshape(3, 2)}
    np.testing.assert_array_equal(Interpreter(simplify(program))(sample)["y"], Interpreter(program)(sample)["y"])


@pytest.mark.parametrize("name", TRANSPOSED)
@pytest.mark.parametrize(("target", "suffix"), [("litert", ".tflite"), ("onnxruntime", ".onnx")])
def test_a_broadcast_that_transposes_is_exported_with_its_transpose(
    name: str, target: str, suffix: str, tmp_path: Path
) -> None:
    random = np.random.default_rng(2)
    samples = [{"x": random.normal(0, 1, (3, 2)).astype(np.float32)} for _ in range(3)]
    runs_alike(parse_program(TRANSPOSED[name]), samples, target, tmp_path / f"m{suffix}")
