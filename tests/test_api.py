"""The public Python API on the example network."""

from pathlib import Path

import numpy as np
import pytest

import zeropoint as zp
from zeropoint.frontend import ModelError

DIGITS = Path(__file__).parent.parent / "examples" / "digits"


@pytest.fixture(scope="module")
def network():
    return zp.load(DIGITS / "digits.onnx")


@pytest.fixture(scope="module")
def calibration():
    return {"image": np.load(DIGITS / "calib.npz")["image"][:8]}


@pytest.fixture(scope="module")
def integers(network, calibration):
    return zp.quantize(network, calibration)


def test_a_quantized_model_is_called_by_input_names_and_agrees_with_the_float_one(network, integers, calibration):
    image = calibration["image"][:1]
    expected, found = network(image=image)["probabilities"], integers(image=image)["probabilities"]
    assert found.shape == (1, 10)
    assert found.dtype == np.float32
    assert expected.argmax() == found.argmax()


def test_a_saved_model_loads_and_gives_the_same_bits(integers, calibration, tmp_path):
    written = integers.save(tmp_path / "digits.mlir")
    assert [path.name for path in written] == ["digits.mlir", "digits.safetensors"]
    again = zp.load(tmp_path / "digits.mlir")
    for image in calibration["image"][:3]:
        assert (again(image=image[None])["probabilities"] == integers(image=image[None])["probabilities"]).all()


def test_comparison_measures_outputs_and_layers(network, integers, calibration):
    result = zp.compare(network, integers, calibration, layers=True)
    assert result.samples == 8
    assert result.outputs[0].name == "probabilities"
    assert result.outputs[0].sqnr > 25
    assert result.outputs[0].top1 == 1.0
    assert {"stem.conv", "block.add", "classifier"} <= {row.name for row in result.layers}
    assert all(row.sqnr > 15 for row in result.layers)


def test_integer_inputs_and_outputs_are_refused_where_a_softmax_computes_in_float(network, calibration):
    with pytest.raises(ValueError, match=r"output 'probabilities': found stablehlo.divide, which computes in float"):
        zp.quantize(network, calibration, io="integer", effort="none")


def test_options_that_do_not_exist_name_those_that_do(network, calibration):
    for options, names in (
        ({"target": "gpu"}, "cpu"),
        ({"profile": "fast"}, "fixed16"),
        ({"observer": "median"}, "minmax"),
        ({"io": "both"}, "float, integer"),
    ):
        with pytest.raises(ValueError, match=names):
            zp.quantize(network, calibration, **options)


def test_a_model_says_what_it_is(integers):
    text = repr(integers)
    assert "image: tensor<1x1x28x28xf32>" in text
    assert "integer ops" in text
    assert "profile fixed16" in text


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(ModelError, match=r"no such file, expected a model file$"):
        zp.load(tmp_path / "nothing.onnx")


SMALL = """func.func @main(%x: tensor<1x4xf32>) -> tensor<1x2xf32> {
  %w = stablehlo.constant dense<[[0.5, -1.0], [2.0, 0.25], [1.5, -0.5], [0.125, 1.0]]> : tensor<4x2xf32> loc("w")
  %m = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<1x4xf32>, tensor<4x2xf32>) -> tensor<1x2xf32>
  %t = stablehlo.tanh %m : tensor<1x2xf32>
  return %t : tensor<1x2xf32>
}"""
ROWS = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 1, 4)


def small(**options):
    return str(zp.quantize(SMALL, ROWS, effort="none", **options).program.module)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("least_sqnr", np.float32(20)),
        ("workers", np.int64(1)),
        ("max_memory", np.int64(1 << 30)),
        ("integer_only", np.bool_(False)),
        ("resume", np.bool_(False)),
        ("progress", np.bool_(False)),
    ],
)
def test_numbers_of_numpy_are_taken_as_options(name, given):
    assert small(**{name: given}) == small(**{name: given.item()})


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ({"name": "m", "range": np.array([-4, 4], np.float32)}, {"name": "m", "range": [-4.0, 4.0]}),
        ({"name": "m", "range": (np.float32(-4), 4)}, {"name": "m", "range": [-4.0, 4.0]}),
        (
            {"name": "m", "scale": np.float32(0.0625), "zero_point": np.int8(3)},
            {"name": "m", "scale": 0.0625, "zero_point": 3},
        ),
        ({"name": "w", "scale": np.full(2, 0.03125, np.float32)}, {"name": "w", "scale": [0.03125] * 2}),
        ({"name": "t", "quantize": np.bool_(False)}, {"name": "t", "quantize": False}),
    ],
)
def test_numbers_and_arrays_of_numpy_are_taken_in_recipes(given, plain):
    assert small(recipe=[given]) == small(recipe=[plain])


def test_numbers_of_numpy_are_taken_as_shapes_and_rounds(integers, calibration):
    shape = np.array(calibration["image"][:1].shape)
    for sizes in (shape, tuple(shape), list(shape)):
        assert zp.load(DIGITS / "digits.onnx", shapes={"image": sizes}).inputs[0].type.get_shape() == (1, 1, 28, 28)
    assert integers.native(threads=np.int64(1), callers=np.int32(1))
    assert integers.profile(calibration["image"][:1], rounds=np.int64(1))
