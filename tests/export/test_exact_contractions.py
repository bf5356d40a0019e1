"""Contractions of bytes minus a zero point, as files of dynamic quantization have them, have their bits in runtimes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from zeropoint.export import ExportOptions, export_program
from zeropoint.export.errors import ExportError
from zeropoint.export.exact_contractions import EXACT
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.export.tosa.runtime import TosaFile, tools
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program
from zeropoint.pipeline import Options, quantize

CONVOLUTIONS = {
    "channels": ("2x3x8x8", "4x3x3x3", "pad = [[1, 1], [0, 2]]", 1, "2x4x8x8"),
    "strides": ("1x3x9x9", "5x3x3x3", "stride = [2, 2], pad = [[1, 1], [1, 1]]", 1, "1x5x5x5"),
    "dilation": ("1x2x9x9", "3x2x3x3", "rhs_dilate = [2, 2]", 1, "1x3x5x5"),
    "depthwise": ("1x6x8x8", "6x1x3x3", "pad = [[1, 1], [1, 1]]", 6, "1x6x8x8"),
    "groups": ("1x6x8x8", "4x3x3x3", "pad = [[1, 1], [1, 1]]", 2, "1x4x8x8"),
    "many channels": ("1x400x3x3", "2x400x3x3", "pad = [[1, 1], [1, 1]]", 1, "1x2x3x3"),
}
TARGETS = ["litert", pytest.param("tosa", marks=pytest.mark.skipif(tools() is None, reason="needs tosa-tools"))]


def made(text: str, target: str, tmp_path: Path) -> tuple[Program, LiteRTFile | TosaFile]:
    program = quantize(parse_program(text), [], Options(target=target)).propagated
    path = tmp_path / ("m.tflite" if target == "litert" else "m.tosa.mlir")
    export_program(program, path, ExportOptions(channels_last=False))
    return program, LiteRTFile(path, reference=True) if target == "litert" else TosaFile(path)


def extremes(shape: str, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.choice(np.array([-128, -127, -1, 0, 1, 127], np.int8), [int(n) for n in shape.split("x")])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", CONVOLUTIONS)
def test_a_convolution_of_bytes_with_results_of_32_bits(form: str, target: str, tmp_path: Path) -> None:
    image, weights, window, groups, result = CONVOLUTIONS[form]
    text = f"""
      func.func @main(%x: tensor<{image}xi8> {{zeropoint.name = "x"}})
          -> (tensor<{result}xi32> {{zeropoint.name = "y"}}) {{
        %w = stablehlo.constant dense<{extremes(weights, 1).tolist()}> : tensor<{weights}xi8>
        %z = stablehlo.constant dense<127> : tensor<i32>
        %zs = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<i32>) -> tensor<{image}xi32>
        %wide = stablehlo.convert %x : (tensor<{image}xi8>) -> tensor<{image}xi32>
        %a = stablehlo.subtract %wide, %zs : tensor<{image}xi32>
        %b = stablehlo.convert %w : (tensor<{weights}xi8>) -> tensor<{weights}xi32>
        %y = stablehlo.convolution(%a, %b) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {{{window}}}
          {{feature_group_count = {groups} : i64, batch_group_count = 1 : i64}}
          : (tensor<{image}xi32>, tensor<{weights}xi32>) -> tensor<{result}xi32>
        return %y : tensor<{result}xi32>
      }}"""
    program, run = made(text, target, tmp_path)
    x = {"x": np.full([int(n) for n in image.split("x")], -128, np.int8)}
    y = Interpreter(program)(x)["y"]
    assert (np.abs(y).max() > EXACT) == (form == "many channels")
    np.testing.assert_array_equal(run(x)["y"], y)
    x = {"x": extremes(image, 2)}
    np.testing.assert_array_equal(run(x)["y"], Interpreter(program)(x)["y"])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("terms", [5, 900])
def test_a_product_of_computed_bytes_with_results_of_32_bits(terms: int, target: str, tmp_path: Path) -> None:
    left, right = f"2x3x{terms}", f"2x{terms}x4"
    text = f"""
      func.func @main(%x: tensor<{left}xi8> {{zeropoint.name = "x"}}, %w: tensor<{right}xi8> {{zeropoint.name = "w"}})
          -> (tensor<2x3x4xi32> {{zeropoint.name = "y"}}) {{
        %a = stablehlo.convert %x : (tensor<{left}xi8>) -> tensor<{left}xi32>
        %b = stablehlo.convert %w : (tensor<{right}xi8>) -> tensor<{right}xi32>
        %twice = stablehlo.add %b, %b : tensor<{right}xi32>
        %y = stablehlo.dot_general %a, %twice, batching_dims = [0] x [0], contracting_dims = [2] x [1]
          : (tensor<{left}xi32>, tensor<{right}xi32>) -> tensor<2x3x4xi32>
        return %y : tensor<2x3x4xi32>
      }}"""
    program, run = made(text, target, tmp_path)
    largest = {"x": np.full((2, 3, terms), -128, np.int8), "w": np.full((2, terms, 4), -127, np.int8)}
    for x in ({"x": extremes(left, 1), "w": extremes(right, 2)}, largest):
        np.testing.assert_array_equal(run(x)["y"], Interpreter(program)(x)["y"])


@pytest.mark.parametrize("target", ["litert", "tosa"])
def test_a_product_of_wide_integers_is_refused(target: str, tmp_path: Path) -> None:
    text = """
      func.func @main(%x: tensor<2x3xi32> {zeropoint.name = "x"}, %w: tensor<3x4xi32> {zeropoint.name = "w"})
          -> (tensor<2x4xi32> {zeropoint.name = "y"}) {
        %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
          : (tensor<2x3xi32>, tensor<3x4xi32>) -> tensor<2x4xi32>
        return %y : tensor<2x4xi32>
      }"""
    with pytest.raises(ExportError, match="a contraction of i32 values, expected i32 values that are 8-bit"):
        made(text, target, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("target", ["litert", "tosa"])
def test_a_convolution_by_computed_bytes_is_refused(target: str, tmp_path: Path) -> None:
    text = """
      func.func @main(%x: tensor<1x2x5x5xi8> {zeropoint.name = "x"}, %w: tensor<3x2x3x3xi8> {zeropoint.name = "w"})
          -> (tensor<1x3x3x3xi32> {zeropoint.name = "y"}) {
        %a = stablehlo.convert %x : (tensor<1x2x5x5xi8>) -> tensor<1x2x5x5xi32>
        %b = stablehlo.convert %w : (tensor<3x2x3x3xi8>) -> tensor<3x2x3x3xi32>
        %y = stablehlo.convolution(%a, %b) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {}
          {feature_group_count = 1 : i64, batch_group_count = 1 : i64}
          : (tensor<1x2x5x5xi32>, tensor<3x2x3x3xi32>) -> tensor<1x3x3x3xi32>
        return %y : tensor<1x3x3x3xi32>
      }"""
    with pytest.raises(ExportError, match="minus a zero point, constant weights, and sums of at most 24 bits"):
        made(text, target, tmp_path)
