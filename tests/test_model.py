"""The Python API: load, quantize, call, save, compare."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import zeropoint as zp
from zeropoint.calibrate import DataError
from zeropoint.correct import SampleParts
from zeropoint.frontend import ModelError
from zeropoint.interp import InputError
from zeropoint.ir.tensors import Array
from zeropoint.model import Model, stacked
from zeropoint.report.agreement import ComparisonError

RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.normal(0, 1, (20, 6)).astype(np.float32)
SAMPLES = RANDOM.uniform(-1, 1, (8, 6)).astype(np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """model.onnx: relu(W x); dynamic.onnx, the same with any batch."""
    path = tmp_path_factory.mktemp("model")
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["a"], name="dense", transB=1),
        helper.make_node("Relu", ["a"], ["y"], name="relu"),
    ]
    for name, batch in (("model", 1), ("dynamic", "n")):
        graph = helper.make_graph(
            nodes,
            "graph",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 6])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 20])],
            [numpy_helper.from_array(WEIGHT, "w")],
        )
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path / f"{name}.onnx"
        )
    np.savez(path / "data.npz", x=SAMPLES)
    return path


@pytest.fixture(scope="module")
def network(folder: Path) -> Model:
    return zp.load(folder / "model.onnx")


@pytest.fixture(scope="module")
def integers(network: Model) -> Model:
    return zp.quantize(network, {"x": SAMPLES})


def expected(samples: Array) -> Array:
    return np.maximum(samples @ WEIGHT.T, 0)


def test_a_loaded_model_is_called_by_the_names_of_its_inputs(network: Model) -> None:
    assert [port.name for port in network.inputs] == ["x"]
    assert [port.name for port in network.outputs] == ["y"]
    result = network(x=SAMPLES[:1])
    assert list(result) == ["y"]
    np.testing.assert_allclose(result["y"], expected(SAMPLES[:1]), rtol=1e-5, atol=1e-6)


def test_an_input_may_have_the_name_of_a_parameter() -> None:
    network = zp.load("""func.func @main(%a: tensor<2xf32> {zeropoint.name = "self"}) -> tensor<2xf32> {
      %0 = stablehlo.negate %a : tensor<2xf32>
      return %0 : tensor<2xf32>
    }""")
    (found,) = network(**{"self": np.ones(2, np.float32)}).values()
    assert found.tolist() == [-1, -1]


def test_a_path_may_be_a_string_and_shapes_fix_dynamic_dimensions(folder: Path) -> None:
    model = zp.load(str(folder / "dynamic.onnx"), shapes={"x": (2, 6)})
    np.testing.assert_allclose(model(x=SAMPLES[:2])["y"], expected(SAMPLES[:2]), rtol=1e-5, atol=1e-6)
    with pytest.raises(ModelError, match="has a dynamic dimension 0"):
        zp.load(folder / "dynamic.onnx")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": SAMPLES[0, :5]}, r"input x: found shape 5, expected 1x6 \(tensor<1x6xf32>\)"),
        ({"x": SAMPLES[:1].astype(np.int64)}, "input x: found dtype int64, expected float32"),
        ({"z": SAMPLES[:1]}, "found inputs z; expected x: tensor<1x6xf32>"),
        ({}, "found no inputs; expected x"),
    ],
)
def test_arrays_that_do_not_fit_the_inputs_are_refused(network: Model, given: dict[str, Array], message: str) -> None:
    with pytest.raises(InputError, match=message):
        network(**given)


def test_numbers_of_lists_have_the_dtype_of_the_input(network: Model) -> None:
    sample = np.array([[1, 0.5, 2, -3, 0.25, 4]], np.float32)
    wanted = network(x=sample)["y"]
    np.testing.assert_array_equal(network(x=sample.tolist())["y"], wanted)
    np.testing.assert_array_equal(network(sample.tolist() * 2)["y"], np.repeat(wanted, 2, 0))
    whole = network(x=[[1, 2, 3, 4, 5, 6]])["y"]
    np.testing.assert_array_equal(whole, network(x=np.arange(1, 7, dtype=np.float32)[None])["y"])
    with pytest.raises(InputError, match="found shape 1x5, expected 1x6"):
        network(x=[[1, 2, 3, 4, 5]])


def one_by_one() -> Iterator[dict[str, Array]]:
    yield from ({"x": sample[None]} for sample in SAMPLES)


def test_calibration_data_is_a_file_arrays_or_samples_and_gives_the_same_program(
    network: Model, integers: Model, folder: Path
) -> None:
    for data in (folder / "data.npz", str(folder / "data.npz"), list(one_by_one()), one_by_one()):
        again = zp.quantize(network, data)
        np.testing.assert_array_equal(again(x=SAMPLES[:1])["y"], integers(x=SAMPLES[:1])["y"])


def test_the_integer_program_is_near_the_float_one(network: Model, integers: Model) -> None:
    found = np.concatenate([integers(x=sample[None])["y"] for sample in SAMPLES])
    assert np.abs(found - expected(SAMPLES)).max() < expected(SAMPLES).max() / 100
    comparison = zp.compare(network, integers, {"x": SAMPLES})
    assert comparison.samples == 8
    assert comparison.outputs[0].sqnr > 35
    assert comparison.layers == []


def test_a_comparison_by_layer_names_the_layers_of_the_model(network: Model, integers: Model, folder: Path) -> None:
    comparison = zp.compare(network, integers, folder / "data.npz", layers=True)
    assert [row.name for row in comparison.layers] == ["dense"]
    assert comparison.layers[0].sqnr == pytest.approx(comparison.outputs[0].sqnr)


def test_the_result_holds_the_stages(integers: Model) -> None:
    assert integers.quantization is not None
    assert integers.quantization.quantized.profile == "fixed16"
    assert "x" in integers.quantization.calibration.observations
    assert zp.load.__doc__


def test_options_choose_profile_observer_and_io(network: Model) -> None:
    data = {"x": SAMPLES}
    assert zp.quantize(network, data, profile="fixed32-double").program.profile == "fixed32-double"
    assert zp.quantize(network, data, observer="percentile:99").quantization is not None
    stored = zp.quantize(network, data, io="integer")
    assert str(stored.inputs[0].type) == "tensor<1x6xi8>"
    assert stored(x=np.zeros((1, 6), np.int8))["y"].dtype == np.int8


def test_corrections_are_judged_on_data_of_the_user_or_on_a_part_that_is_held_back(folder: Path) -> None:
    digits = Path(__file__).parents[1] / "examples" / "digits"
    network = zp.load(digits / "digits.onnx")
    data = {"image": np.load(digits / "calib.npz")["image"][:4]}
    made = zp.quantize(network, data, effort="fast")
    held = made.quantization
    given = zp.quantize(network, data, corrections=["analytic_bias"], validation=data).quantization
    assert held is not None
    assert given is not None
    assert "analytic_bias" in held.corrections.summary()
    assert "1 sample held back" in held.corrections.summary()
    assert held.corrections.summary().startswith("worst output ")
    assert str(made).splitlines()[-1] == held.corrections.summary()
    assert "4 samples of the validation data" in given.corrections.summary()
    plain = zp.quantize(network, data, effort="none").quantization
    assert plain is not None
    assert plain.corrections.attempts == ()


TWO_OUTPUTS = """func.func @main(%x: tensor<1x6xf32> {zeropoint.name = "x"})
    -> (tensor<1x4xf32> {zeropoint.name = "wide"}, tensor<1x4xf32> {zeropoint.name = "narrow"}) {
  %w = stablehlo.constant dense<[[1.0, -0.3, 0.2, 0.11], [0.7, -0.5, 0.01, 0.4], [0.35, 0.25, -0.13, 0.9],
      [-0.6, 0.3, 0.77, 0.2], [0.1, 0.2, 0.3, 0.4], [0.5, -0.9, 0.66, -0.25]]> : tensor<6x4xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<1x6xf32>, tensor<6x4xf32>)
      -> tensor<1x4xf32>
  %z = stablehlo.constant dense<1.1> : tensor<1x4xf32>
  %u = stablehlo.constant dense<1.2> : tensor<1x4xf32>
  %1 = stablehlo.clamp %z, %0, %u : tensor<1x4xf32>
  %2 = stablehlo.subtract %1, %z : tensor<1x4xf32>
  return %0, %2 : tensor<1x4xf32>, tensor<1x4xf32>
}"""


def test_every_figure_of_a_summary_is_the_least_output_that_compare_shows() -> None:
    rows = np.random.default_rng(3).normal(0, 1, (24, 6)).astype(np.float32)
    model = zp.quantize(TWO_OUTPUTS, rows, target="litert", least_sqnr=10)
    made = model.quantization
    assert made is not None
    assert made.widths is not None

    def least(part: list[Array]) -> float:
        return min(row.sqnr for row in zp.compare(TWO_OUTPUTS, model, np.stack(part)).outputs)

    parts = SampleParts.of([{"x": row} for row in rows])
    held, fitted = ([sample["x"] for sample in part] for part in (parts.held, parts.fitted))
    assert (len(held), len(fitted)) == (6, 18)
    after = made.corrections.after
    assert after is not None
    assert after.held == pytest.approx(least(held), abs=1e-6)
    assert after.calibration == pytest.approx(least(fitted), abs=1e-6)
    assert made.widths.verified == pytest.approx(least(list(rows)), abs=1e-6)
    shown = f"worst output {after.held:.1f} dB on 6 samples held back ("
    assert made.corrections.summary().startswith(shown)
    assert f"), {after.calibration:.1f} dB on the 18 that were fitted (" in made.corrections.summary()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "gpu"}, "found target 'gpu', expected one of: cpu"),
        ({"profile": "nearest"}, "found the numerics profile 'nearest'; expected one of fixed16"),
        ({"observer": "best"}, "found observer 'best'; expected one of: entropy, minmax"),
        ({"effort": "most"}, "found effort 'most', expected one of: none, fast, balanced, best"),
        ({"corrections": ["luck"]}, "found correction 'luck', expected one of: equalize"),
        ({"io": "both"}, "found io 'both', expected one of: float, integer"),
    ],
)
def test_options_that_do_not_exist_are_refused(network: Model, options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        zp.quantize(network, {"x": SAMPLES}, **options)


def test_bad_data_and_bad_models_raise_errors_of_one_line(network: Model, integers: Model, folder: Path) -> None:
    with pytest.raises(DataError, match="found 'z', 'y'; expected 'x'"):
        zp.quantize(network, {"z": SAMPLES, "y": SAMPLES})
    with pytest.raises(DataError, match="found no samples"):
        zp.quantize(network, [])
    with pytest.raises(ModelError, match="no such file"):
        zp.load(folder / "missing.onnx")
    with pytest.raises(ModelError, match="found a program that is quantized already, with profile 'fixed16'"):
        zp.quantize(integers, {"x": SAMPLES})
    stored = zp.quantize(network, {"x": SAMPLES}, io="integer")
    with pytest.raises(ComparisonError, match="inputs 'x': found tensor<1x6xf32> and tensor<1x6xi8>"):
        zp.compare(network, stored, {"x": SAMPLES})
    with pytest.raises(DataError, match="found no samples"):
        zp.compare(network, integers, iter([]))


def test_a_saved_program_loads_as_the_same_program(integers: Model, tmp_path: Path) -> None:
    beside, inline = tmp_path / "beside.mlir", tmp_path / "inline.mlir"
    assert integers.save(beside) == [beside, tmp_path / "beside.safetensors"]
    assert integers.save(str(inline), inline_weights=True) == [inline]
    for path in (beside, inline):
        loaded = zp.load(path)
        assert loaded.program.profile == "fixed16"
        for sample in SAMPLES:
            np.testing.assert_array_equal(loaded(x=sample[None])["y"], integers(x=sample[None])["y"])


def test_a_program_is_not_saved_under_a_suffix_of_another_format(integers: Model, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"found suffix '\.onnx', expected \.mlir"):
        integers.save(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_many_samples_are_run_to_stacked_outputs(network: Model) -> None:
    outputs = network.run_samples(one_by_one())
    np.testing.assert_allclose(outputs["y"], expected(SAMPLES), rtol=1e-5, atol=1e-6)


def test_a_batch_of_one_gives_way_to_the_sample_axis_and_any_other_axis_stays() -> None:
    assert stacked([np.zeros((1, 3)), np.ones((1, 3))]).shape == (2, 3)
    assert stacked([np.zeros((2, 3)), np.ones((2, 3))]).shape == (2, 2, 3)
    assert stacked([np.zeros(()), np.ones(())]).shape == (2,)


def test_a_model_shows_its_ports_and_how_much_of_it_is_integer(network: Model, integers: Model) -> None:
    assert repr(network) == (
        "Model((x: tensor<1x6xf32>) -> (y: tensor<1x20xf32>): 0 integer ops, 2 float ops, 484 B of constants)"
    )
    assert "0 float ops" in repr(integers)
    assert "profile fixed16" in repr(integers)
