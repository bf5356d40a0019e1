"""Running sums, as `jnp.cumsum` makes, in each runtime: CumSum, CUMSUM, or a window of ones over integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import zeropoint
from export.float_programs import RUNS, TOSA
from oracle.litert import evaluate
from zeropoint.export import ExportError, export_program
from zeropoint.export.litert.model import litert_model
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.export.onnx.runtime import OnnxFile
from zeropoint.export.tosa.runtime import TosaFile
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program
from zeropoint.pipeline import Options, quantize

FORMATS = ("litert", "onnx", TOSA)
PLACES = [((7,), 0), ((3, 7), 1), ((7, 3), 0), ((5, 2, 3), 0), ((2, 5, 3), 1), ((2, 3, 5), 2), ((2, 3, 4, 5), 1)]
PLACES += [((2, 3, 4, 5), 3), ((2, 1, 3, 4, 2), 3)]


def text_of(shape: tuple[int, ...], axis: int, *, reverse: bool = False, kind: str = "f32") -> str:
    size, rank = shape[axis], len(shape)
    covered = (0, size - 1) if reverse else (size - 1, 0)
    padding = ", ".join(str([*covered] if each == axis else [0, 0]) for each in range(rank))
    window = ", ".join(str(size if each == axis else 1) for each in range(rank))
    tensor = f"tensor<{'x'.join(map(str, shape))}x{kind}>"
    return f"""func.func @main(%x: {tensor} {{zeropoint.name = "x"}}) -> ({tensor} {{zeropoint.name = "y"}}) {{
      %z = stablehlo.constant dense<0> : tensor<{kind}>
      %y = "stablehlo.reduce_window"(%x, %z) <{{window_dimensions = array<i64: {window}>,
          padding = dense<[{padding}]> : tensor<{rank}x2xi64>}}> ({{
        ^bb0(%a: tensor<{kind}>, %b: tensor<{kind}>):
          %c = stablehlo.add %a, %b : tensor<{kind}>
          stablehlo.return %c : tensor<{kind}>
        }}) : ({tensor}, tensor<{kind}>) -> {tensor}
      return %y : {tensor}
    }}""".replace("dense<0> : tensor<f32>", "dense<0.0> : tensor<f32>")


def summed(x: np.ndarray, axis: int, *, reverse: bool) -> np.ndarray:
    turned = np.flip(x, axis) if reverse else x
    made = np.cumsum(turned, axis, dtype=x.dtype)
    return np.flip(made, axis) if reverse else made


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), PLACES)
def test_floats(shape: tuple[int, ...], axis: int, reverse: bool, form: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    program = (
        'module attributes {zeropoint.profile = "tosa-double"} {\n' + text_of(shape, axis, reverse=reverse) + "\n}"
    )
    np.testing.assert_allclose(
        RUNS[form](program, {"x": x}, tmp_path), summed(x, axis, reverse=reverse), rtol=0, atol=2e-6
    )


@pytest.mark.parametrize("kind", ["i32", "i64"])
@pytest.mark.parametrize("form", ["litert", "onnx"])
def test_integers(form: str, kind: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(-(2**29), 2**29, (3, 9)).astype(f"int{kind[1:]}")
    found = RUNS[form](text_of((3, 9), 1, kind=kind), {"x": x}, tmp_path)
    np.testing.assert_array_equal(found, summed(x, 1, reverse=False))
    np.testing.assert_array_equal(found, Interpreter(parse_program(text_of((3, 9), 1, kind=kind)))({"x": x})["y"])


@pytest.mark.parametrize("target", ["litert", "litert-16x8", "onnxruntime", pytest.param("tosa", marks=TOSA.marks)])
@pytest.mark.parametrize(("shape", "axis"), PLACES)
def test_quantized_programs_give_our_bytes(shape: tuple[int, ...], axis: int, target: str, tmp_path: Path) -> None:
    samples = [{"x": np.random.default_rng(seed).normal(size=shape).astype(np.float32)} for seed in range(3)]
    made = quantize(parse_program(text_of(shape, axis)), samples, Options(target=target, effort="none"))
    suffix = {"onnxruntime": ".onnx", "tosa": ".tosa.mlir"}.get(target, ".tflite")
    path = tmp_path / f"m{suffix}"
    export_program(made.propagated, path)
    run = {".onnx": OnnxFile, ".tosa.mlir": TosaFile}.get(suffix, lambda path: LiteRTFile(path, reference=True))(path)
    for sample in samples:
        found, expected = run(sample)["y"], Interpreter(made.integer)(sample)["y"]
        if target == "onnxruntime":  # the sums stay float
            np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)
        else:
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("shape", "axis"), [((3, 7), 1), ((2, 5, 3), 1), ((5, 2, 3), 0)])
def test_xnnpack_gives_our_bytes(shape: tuple[int, ...], axis: int, tmp_path: Path) -> None:
    samples = [{"x": np.random.default_rng(seed).normal(size=shape).astype(np.float32)} for seed in range(3)]
    options = Options(target="litert", effort="none", profile="xnnpack")
    made = quantize(parse_program(text_of(shape, axis)), samples, options)
    export_program(made.propagated, tmp_path / "m.tflite")
    run = LiteRTFile(tmp_path / "m.tflite", reference=False)
    for sample in samples:
        np.testing.assert_array_equal(run(sample)["y"], Interpreter(made.integer)(sample)["y"])


def test_other_windows_and_types_are_refused() -> None:
    text = text_of((3, 7), 1).replace("[6, 0]", "[3, 3]")
    with pytest.raises(ExportError, match=r"found stablehlo\.reduce_window, expected an op that LiteRT has in float"):
        litert_model(parse_program(text))
    with pytest.raises(ExportError, match=r"found stablehlo\.reduce_window, expected an op that LiteRT has in float"):
        litert_model(parse_program(text_of((3, 7), 1, kind="i16")))


def test_associative_scans_pad_between_elements() -> None:
    """The last step of `jax.lax.associative_scan`."""
    text = """func.func @main(%x: tensor<2x4xf32> {zeropoint.name = "x"}) -> (tensor<2x8xf32> {zeropoint.name = "y"}) {
      %z = stablehlo.constant dense<0.5> : tensor<f32>
      %y = stablehlo.pad %x, %z, low = [0, 1], high = [0, 0], interior = [0, 1]
        : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x8xf32>
      return %y : tensor<2x8xf32>
    }"""
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    expected = Interpreter(parse_program(text))({"x": x})["y"]
    np.testing.assert_array_equal(RUNS["onnx"](text, {"x": x}, Path()), expected)
    np.testing.assert_array_equal(evaluate(litert_model(parse_program(text)), x)[0], expected)


def test_the_cumsum_of_jax_is_exported(tmp_path: Path) -> None:
    path = Path(__file__).parent.parent / "frontend" / "jax" / "texts" / "cumulative_sum.mlir"
    rows = np.random.default_rng(3).normal(size=(8, 3, 7)).astype(np.float32)
    for target, suffix in (("onnxruntime", ".onnx"), ("litert", ".tflite"), ("tosa", ".tosa.mlir")):
        zeropoint.quantize(path, rows, target=target, effort="none").export(tmp_path / f"m{suffix}")
