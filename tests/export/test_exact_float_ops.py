"""Ops outside of kernels that round nothing, in each runtime: remainders, bits, truncations, slices by index."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from export.float_programs import HEAD, RUNS, TOSA
from zeropoint.export import ExportError
from zeropoint.export.litert.model import litert_model
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.export.onnx.model import onnx_model
from zeropoint.export.tosa.model import tosa_text
from zeropoint.interp import Interpreter
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program

FORMATS = ("litert", "onnx", TOSA)


def runs_alike(text: str, inputs: Mapping[str, Array], form: str, folder: Path) -> None:
    expected = Interpreter(parse_program(text))(inputs)["y"]
    np.testing.assert_array_equal(RUNS[form](text, inputs, folder), expected)


BINARY = (
    (
        HEAD
        + """%x: tensor<64x{kind}> {{zeropoint.name = "x"}}, %z: tensor<64x{kind}> {{zeropoint.name = "z"}})
    -> (tensor<64x{kind}> {{zeropoint.name = "y"}}) {{
  %y = stablehlo.{op} %x, %z : tensor<64x{kind}>
  return %y : tensor<64x{kind}>
}}
}}"""
    )
    .replace("module attributes {", "module attributes {{", 1)
    .replace('"tosa-double"} {', '"tosa-double"}} {{', 1)
)


def words(count: int) -> dict[str, Array]:
    """Integers of both signs, none of them 0."""
    random = np.random.default_rng(0)
    x, z = random.integers(-1000, 1000, (2, count)).astype(np.int32)
    return {"x": x, "z": np.where(z == 0, 7, z % 40 + 1) * random.choice([-1, 1], count).astype(np.int32)}


@pytest.mark.parametrize("form", ["litert", "onnx"])
def test_a_remainder_of_floats_has_the_sign_of_the_dividend(form: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x, z = random.normal(0, 10, (2, 64)).astype(np.float32)
    runs_alike(BINARY.format(op="remainder", kind="f32"), {"x": x, "z": z}, form, tmp_path)


@pytest.mark.parametrize("form", FORMATS)
def test_a_remainder_of_integers_has_the_sign_of_the_dividend(form: str, tmp_path: Path) -> None:
    runs_alike(BINARY.format(op="remainder", kind="i32"), words(64), form, tmp_path)


def test_a_remainder_of_floats_is_refused_by_tosa() -> None:
    with pytest.raises(ExportError, match="found a remainder of f32, expected i32"):
        tosa_text(parse_program(BINARY.format(op="remainder", kind="f32")))


@pytest.mark.parametrize("op", ["and", "or", "xor"])
@pytest.mark.parametrize("form", ["onnx", TOSA])
def test_bits_of_integers(op: str, form: str, tmp_path: Path) -> None:
    runs_alike(BINARY.format(op=op, kind="i32"), words(64), form, tmp_path)


@pytest.mark.parametrize("op", ["and", "or", "xor"])
@pytest.mark.parametrize("form", FORMATS)
def test_operations_on_booleans(op: str, form: str, tmp_path: Path) -> None:
    text = (
        HEAD
        + f"""%x: tensor<64xi32> {{zeropoint.name = "x"}}, %z: tensor<64xi32> {{zeropoint.name = "z"}})
    -> (tensor<64xi32> {{zeropoint.name = "y"}}) {{
  %0 = stablehlo.constant dense<3> : tensor<64xi32>
  %1 = stablehlo.compare GT, %x, %0 : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi1>
  %2 = stablehlo.compare GT, %z, %0 : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi1>
  %3 = stablehlo.{op} %1, %2 : tensor<64xi1>
  %y = stablehlo.select %3, %x, %z : tensor<64xi1>, tensor<64xi32>
  return %y : tensor<64xi32>
}}
}}"""
    )
    runs_alike(text, words(64), form, tmp_path)


@pytest.mark.parametrize("form", FORMATS)
def test_floats_that_become_integers_are_truncated(form: str, tmp_path: Path) -> None:
    text = (
        HEAD
        + """%x: tensor<64xf32> {zeropoint.name = "x"}) -> (tensor<64xi32> {zeropoint.name = "y"}) {
  %y = stablehlo.convert %x : (tensor<64xf32>) -> tensor<64xi32>
  return %y : tensor<64xi32>
}
}"""
    )
    x = np.concatenate([np.linspace(-3, 3, 61), [-0.5, 0.5, 1.5]]).astype(np.float32)
    runs_alike(text, {"x": x}, form, tmp_path)


SCATTER = (
    (
        HEAD
        + """%x: tensor<3x4x2xf32> {{zeropoint.name = "x"}}, %z: tensor<{update}xf32> {{zeropoint.name = "z"}})
    -> (tensor<3x4x2xf32> {{zeropoint.name = "y"}}) {{
  %i = stablehlo.constant dense<{indices}> : tensor<{shape}xi64>
  %y = "stablehlo.scatter"(%x, %i, %z) <{{scatter_dimension_numbers = #stablehlo.scatter<{window}
    inserted_window_dims = {mapped}, scatter_dims_to_operand_dims = {mapped}, index_vector_dim = 1>}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      {body}
  }}) : (tensor<3x4x2xf32>, tensor<{shape}xi64>, tensor<{update}xf32>) -> tensor<3x4x2xf32>
  return %y : tensor<3x4x2xf32>
}}
}}"""
    )
    .replace("module attributes {", "module attributes {{", 1)
    .replace('"tosa-double"} {', '"tosa-double"}} {{', 1)
)
REPLACED = "stablehlo.return %b : tensor<f32>"
ADDED = "%c = stablehlo.add %a, %b : tensor<f32>\n      stablehlo.return %c : tensor<f32>"
PLACES = {
    "elements": {"indices": "[[0, 1, 1], [2, 3, 0], [0, 0, 0]]", "mapped": [0, 1, 2], "window": "", "update": "3"},
    "rows": {"indices": "[[0, 1], [2, 3]]", "mapped": [0, 1], "window": "update_window_dims = [1],", "update": "2x2"},
    "images": {"indices": "[[2], [0]]", "mapped": [0], "window": "update_window_dims = [1, 2],", "update": "2x4x2"},
}


def scattered(places: str, body: str) -> tuple[str, dict[str, Array]]:
    form = PLACES[places]
    count = form["update"][0]
    text = SCATTER.format(**form, shape=f"{count}x{len(form['mapped'])}", body=body)
    random = np.random.default_rng(0)
    shapes = (3, 4, 2), tuple(map(int, str(form["update"]).split("x")))
    return text, {name: random.normal(size=shape).astype(np.float32) for name, shape in zip("xz", shapes, strict=True)}


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("form", FORMATS)
def test_slices_are_replaced_at_constant_indices(places: str, form: str, tmp_path: Path) -> None:
    runs_alike(*scattered(places, REPLACED), form, tmp_path)


@pytest.mark.parametrize("op", ["add", "maximum", "minimum", "multiply"])
@pytest.mark.parametrize("places", [*PLACES, "one row twice"])
@pytest.mark.parametrize("form", ["litert", "onnx"])
def test_slices_are_combined_at_constant_indices(op: str, places: str, form: str, tmp_path: Path) -> None:
    text, sample = scattered(places.replace("one row twice", "rows"), ADDED.replace("add", op))
    if places == "one row twice":
        text = text.replace("[[0, 1], [2, 3]]", "[[0, 1], [0, 1]]")
    runs_alike(text, sample, form, tmp_path)


def test_convolutions_of_integers_are_refused_by_onnx() -> None:
    """As in a file that onnxruntime quantized dynamically. The Conv of integers that was written is no valid ONNX."""
    image, weights = "tensor<1x2x5x5xi32>", "tensor<3x2x3x3xi32>"
    text = f"""func.func @main(%x: {image} {{zeropoint.name = "x"}}, %w: {weights} {{zeropoint.name = "w"}})
        -> (tensor<1x3x3x3xi32> {{zeropoint.name = "y"}}) attributes {{zeropoint.target = "onnxruntime"}} {{
      %y = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {{}}
        {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({image}, {weights}) -> tensor<1x3x3x3xi32>
      return %y : tensor<1x3x3x3xi32>
    }}"""
    with pytest.raises(ExportError, match="found a convolution of integers, expected one of floats"):
        onnx_model(parse_program(text))


def test_scatters_that_a_format_lacks_are_refused() -> None:
    added, _ = scattered("rows", ADDED)
    with pytest.raises(ExportError, match=r"a scatter that combines elements by stablehlo\.add, which TOSA lacks"):
        tosa_text(parse_program(added))
    with pytest.raises(ExportError, match=r"a scatter that combines elements by stablehlo\.power, which LiteRT lacks"):
        litert_model(parse_program(added.replace(".add", ".power")))
    outside, _ = scattered("images", REPLACED)
    with pytest.raises(ExportError, match="found a scatter with indices out of range"):
        onnx_model(parse_program(outside.replace("[[2], [0]]", "[[3], [0]]")))


GATHER = (
    (
        HEAD
        + """%x: tensor<3x4x2xf32> {{zeropoint.name = "x"}}, %i: tensor<5x{count}xi32> {{zeropoint.name = "i"}})
    -> (tensor<{result}xf32> {{zeropoint.name = "y"}}) {{
  {constant}
  %y = "stablehlo.gather"(%x, {indices}) <{{dimension_numbers = #stablehlo.gather<{window}
    collapsed_slice_dims = {mapped}, start_index_map = {mapped}, index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 1, {last}>}}>
    : (tensor<3x4x2xf32>, tensor<5x{count}xi32>) -> tensor<{result}xf32>
  return %y : tensor<{result}xf32>
}}
}}"""
    )
    .replace("module attributes {", "module attributes {{", 1)
    .replace('"tosa-double"} {', '"tosa-double"}} {{', 1)
)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("form", FORMATS)
def test_slices_at_index_vectors(form: str, count: int, tmp_path: Path, *, constant: bool) -> None:
    vectors = np.array([[0, 1, 1], [2, 3, 0], [9, -1, 1], [1, 2, 5], [0, 0, 0]], np.int32)[:, :count]
    text = GATHER.format(
        count=count,
        result="5x2" if count == 2 else "5",
        window="offset_dims = [1]," if count == 2 else "",
        mapped=list(range(count)),
        last=2 if count == 2 else 1,
        indices="%k" if constant else "%i",
        constant=f"%k = stablehlo.constant dense<{vectors.tolist()}> : tensor<5x{count}xi32>" if constant else "",
    )
    x = np.random.default_rng(0).normal(size=(3, 4, 2)).astype(np.float32)
    runs_alike(text, {"x": x, "i": vectors}, form, tmp_path)


def test_an_operator_that_the_reference_kernels_lack_is_named_with_the_fix(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(
        litert_model(
            parse_program("""
    func.func @main(%x: tensor<6xf32> {zeropoint.name = "x"}) -> (tensor<6xf32> {zeropoint.name = "y"}) {
      %y = stablehlo.round_nearest_even %x : tensor<6xf32>
      return %y : tensor<6xf32>
    }""")
        )
    )
    with pytest.raises(
        ExportError, match=r"found ROUND, expected .* reference kernels have; run the file with the def"
    ):
        LiteRTFile(path, reference=True)
    x = np.array([-1.5, -0.5, 0.5, 1.5, 2.5, 0.6], np.float32)
    np.testing.assert_array_equal(LiteRTFile(path)({"x": x})["y"], np.rint(x))
