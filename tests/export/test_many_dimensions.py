"""Padding of more dimensions than LiteRT's PAD takes, and repetitions along more than BROADCAST_TO takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import zeropoint as zp
from zeropoint.export.litert.runtime import LiteRTFile

SHAPE = (2, 1, 3, 2, 2, 3, 2)


def padded(fill: float, low: tuple[int, ...]) -> str:
    """A program that pads its input at the start, and multiplies it."""
    sizes = [size + more for size, more in zip(SHAPE, low, strict=True)]
    before, after = (f"tensor<{'x'.join(map(str, shape))}xf32>" for shape in (SHAPE, sizes))
    zeros = ", ".join("0" for _ in SHAPE)
    return f"""func.func @main(%x: {before} {{zeropoint.name = "x"}}) -> ({after} {{zeropoint.name = "y"}}) {{
      %fill = stablehlo.constant dense<{fill}> : tensor<f32>
      %0 = stablehlo.multiply %x, %x : {before}
      %1 = stablehlo.pad %0, %fill, low = [{", ".join(map(str, low))}], high = [{zeros}], interior = [{zeros}]
        : ({before}, tensor<f32>) -> {after}
      return %1 : {after}
    }}"""


DATA = [{"x": np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)} for seed in range(4)]


@pytest.mark.parametrize("fill", [0.0, 1.5])
@pytest.mark.parametrize("low", [(1, 0, 0, 0, 0, 0, 2), (0, 0, 0, 1, 1, 1, 0)])
def test_dimensions_without_padding_are_merged(fill: float, low: tuple[int, ...], tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert.interpreter", reason="needs LiteRT")
    model = zp.quantize(padded(fill, low), DATA, target="litert", effort="none")
    model.export(tmp_path / "m.tflite")
    again = zp.quantize(tmp_path / "m.tflite", target="litert", effort="none")
    file = LiteRTFile(tmp_path / "m.tflite", reference=True)
    for sample in DATA:
        np.testing.assert_array_equal(file(sample)["y"], model(sample)["y"])
        np.testing.assert_array_equal(again(sample)["y"], model(sample)["y"])


def test_too_many_padded_dimensions_are_refused(tmp_path: Path) -> None:
    model = zp.quantize(padded(0.0, (1, 2, 1, 2, 1, 0, 1)), DATA, target="litert", effort="none")
    with pytest.raises(zp.ExportError, match="of 7 dimensions, expected at most 5"):
        model.export(tmp_path / "m.tflite")
    assert not list(tmp_path.iterdir())


TILED = (2, 3, 2, 3, 2)
TWICE, DOUBLED = [n for size in TILED for n in (2, size)], [2 * size for size in TILED]
TILES = [{"x": np.random.default_rng(seed).standard_normal(TILED).astype(np.float32)} for seed in range(4)]


@pytest.mark.parametrize("is_float", [False, True])
@pytest.mark.parametrize("units", [0, 1, 2], ids=["no dimension of one", "one", "two"])
def test_more_dimensions_than_are_repeated_at_once(units: int, is_float: bool, tmp_path: Path) -> None:
    """Tiles in every dimension. LiteRT refused the file, because its options of RESHAPE hold eight dimensions."""
    pytest.importorskip("ai_edge_litert.interpreter", reason="needs LiteRT")
    twice = [1] * units + TWICE
    texts = [f"tensor<{'x'.join(map(str, shape))}xf32>" for shape in (TILED, twice, DOUBLED)]
    own, wide, tiled = texts
    op = "cosine" if is_float else "tanh"
    dims = ", ".join(str(units + 2 * axis + 1) for axis in range(len(TILED)))
    program = f"""func.func @main(%x: {own} {{zeropoint.name = "x"}}) -> ({tiled} {{zeropoint.name = "y"}}) {{
      %0 = stablehlo.{op} %x : {own}
      %1 = stablehlo.broadcast_in_dim %0, dims = [{dims}] : ({own}) -> {wide}
      %2 = stablehlo.reshape %1 : ({wide}) -> {tiled}
      return %2 : {tiled}
    }}"""
    model = zp.quantize(program, TILES, target="litert", effort="none")
    model.export(tmp_path / "m.tflite")
    again = zp.quantize(tmp_path / "m.tflite", TILES, target="litert", effort="none")
    file = LiteRTFile(tmp_path / "m.tflite", reference=True)
    for sample in TILES:
        np.testing.assert_array_equal(file(sample)["y"], model(sample)["y"])
        np.testing.assert_array_equal(again(sample)["y"], model(sample)["y"])
