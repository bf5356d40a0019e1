"""Products of two computed tensors, exported to LiteRT, give our integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from zeropoint.export import ExportOptions, export_program
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program
from zeropoint.pipeline import Options, quantize


@pytest.mark.parametrize("target", ["litert", "litert-16x8"])
@pytest.mark.parametrize(
    ("left", "right", "dimensions", "result"),
    [
        ("1x5x2x4", "1x6x2x4", "batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3]", "1x2x5x6"),  # attention
        ("1x4x3x2", "1x5x3x2", "batching_dims = [0] x [0], contracting_dims = [2, 3] x [2, 3]", "1x4x5"),
        ("3x4", "2x4x5", "contracting_dims = [1] x [1]", "3x2x5"),
        (
            "2x1x3x2x4x5",
            "2x1x3x2x5x3",
            "batching_dims = [0, 1, 2, 3] x [0, 1, 2, 3], contracting_dims = [5] x [4]",
            "2x1x3x2x4x3",
        ),
    ],
)
def test_products_over_any_dimensions(
    left: str, right: str, dimensions: str, result: str, target: str, tmp_path: Path
) -> None:
    program = parse_program(f"""
      func.func @main(%a: tensor<{left}xf32> {{zeropoint.name = "a"}}, %b: tensor<{right}xf32> {{zeropoint.name = "b"}})
          -> (tensor<{result}xf32> {{zeropoint.name = "y"}}) {{
        %0 = stablehlo.dot_general %a, %b, {dimensions}
            : (tensor<{left}xf32>, tensor<{right}xf32>) -> tensor<{result}xf32>
        return %0 : tensor<{result}xf32>
      }}""")
    random = np.random.default_rng(0)
    shapes = {name: tuple(map(int, text.split("x"))) for name, text in (("a", left), ("b", right))}
    data = [{k: random.normal(size=shape).astype(np.float32) for k, shape in shapes.items()} for _ in range(4)]
    made = quantize(program, data, Options(target=target))
    export_program(made.propagated, tmp_path / "m.tflite", ExportOptions())
    found = LiteRTFile(tmp_path / "m.tflite", reference=True)(data[0])["y"]
    np.testing.assert_array_equal(found, Interpreter(made.integer)(data[0])["y"])


def test_the_scales_of_both_operands_are_multiplied_in_f32(tmp_path: Path) -> None:
    """The multiplier has 15 bits. For one of these ranges, the square of the scale in f64 gives another one."""
    program = parse_program("""
      func.func @main(%a: tensor<1x512xf32> {zeropoint.name = "a"}) -> (tensor<512x512xf32> {zeropoint.name = "y"}) {
        %0 = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0]
            : (tensor<1x512xf32>, tensor<1x512xf32>) -> tensor<512x512xf32>
        return %0 : tensor<512x512xf32>
      }""")
    for greatest in (3.0575, 3.0576, 3.0577):
        x = np.linspace(-1, 1, 512, dtype=np.float32).reshape(1, 512) * np.float32(greatest)
        made = quantize(program, [{"a": x}], Options(target="litert-16x8", effort="none"))
        export_program(made.propagated, tmp_path / "m.tflite", ExportOptions())
        found = LiteRTFile(tmp_path / "m.tflite", reference=True)({"a": x})["y"]
        for stage in (made.quantized, made.integer):
            np.testing.assert_array_equal(found, Interpreter(stage)({"a": x})["y"])


def test_the_scales_of_a_constant_left_operand_are_multiplied_in_f32(tmp_path: Path) -> None:
    """As in `jax.image.resize`. With the product in f64, one of these sums is a step less."""
    weights = np.random.default_rng(5).uniform(0, 1, (48, 96)).astype(np.float32)
    text = "[" + ", ".join(str(row.tolist()) for row in weights) + "]"
    program = parse_program(f"""
      func.func @main(%a: tensor<48x512xf32> {{zeropoint.name = "a"}})
          -> (tensor<96x512xf32> {{zeropoint.name = "y"}}) {{
        %w = stablehlo.constant dense<{text}> : tensor<48x96xf32>
        %0 = stablehlo.dot_general %w, %a, contracting_dims = [0] x [0]
            : (tensor<48x96xf32>, tensor<48x512xf32>) -> tensor<96x512xf32>
        return %0 : tensor<96x512xf32>
      }}""")
    a = np.random.default_rng(1).normal(size=(48, 512)).astype(np.float32)
    made = quantize(program, [{"a": a}], Options(target="litert", effort="none"))
    export_program(made.propagated, tmp_path / "m.tflite", ExportOptions())
    found = LiteRTFile(tmp_path / "m.tflite", reference=True)({"a": a})["y"]
    for stage in (made.quantized, made.integer):
        np.testing.assert_array_equal(found, Interpreter(stage)({"a": a})["y"])
