"""8-bit weights in .onnx files: i8 where no sum of two products saturates 16 bits, u8 elsewhere, or as asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from oracle.qdq import optimized
from zeropoint.export import export_program
from zeropoint.export.onnx.model import onnx_model
from zeropoint.export.onnx.weight_forms import saturates
from zeropoint.frontend.exported import origin_of
from zeropoint.frontend.onnx import load_onnx, load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.numerics.dot_forms import PAIR_LIMIT, dot_form, greatest_pairs, without_saturation
from zeropoint.pipeline import Options, Quantization, quantize


def network(scale: float = 1.0) -> onnx.ModelProto:
    """Convolutions of three kinds and a fully connected layer, with weights of one sign and images of ones."""
    random = np.random.default_rng(7)
    shapes = {"w0": (16, 3, 3, 3), "w1": (16, 1, 3, 3), "w2": (8, 16, 1, 1), "w3": (128, 10)}
    weights = {name: (random.uniform(0.5, 1, shape) * scale).astype(np.float32) for name, shape in shapes.items()}
    weights["shape"] = np.array([1, 128], np.int64)
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], name="plain"),
        helper.make_node("Conv", ["a", "w1"], ["b"], name="depthwise", group=16),
        helper.make_node("Conv", ["b", "w2"], ["c"], name="pointwise"),
        helper.make_node("Reshape", ["c", "shape"], ["d"]),
        helper.make_node("MatMul", ["d", "w3"], ["y"], name="connected"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 8, 8))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 10))
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def samples() -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(3)
    return [{"x": random.uniform(0.9, 1, (1, 3, 8, 8)).astype(np.float32)} for _ in range(4)]


WHOLE_RANGE = """
name = "whole_range"
extends = "onnxruntime"

[[kernel]]
name = ["convolution", "depthwise_convolution", "fully_connected"]
inputs = ["act u8", "weight i8<-127:127> zp=0 per_channel", "bias i32 zp=0 per_channel"]
output = "act u8"
relation = "multiplier_accumulator_scale"
accumulator = 32
"""
"""onnxruntime's kernels without the limit on pairs."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Quantization:
    path = tmp_path_factory.mktemp("table") / "whole_range.toml"
    path.write_text(WHOLE_RANGE)
    return quantized(str(path))


def quantized(target: str) -> Quantization:
    return quantize(load_onnx_model(network(), {}), samples(), Options(target=target))


def weight_types(model: onnx.ModelProto) -> dict[str, int]:
    """The element type of the weights of each contraction."""
    constants = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    casts = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type == "DequantizeLinear"}
    found = [node for node in model.graph.node if node.op_type in ("Conv", "MatMul", "Gemm")]
    return {node.name: constants[casts[node.input[1]]] for node in found}


def stored_weights(model: onnx.ModelProto, name: str) -> np.ndarray:
    """The stored integers of a contraction's weights."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    casts = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type == "DequantizeLinear"}
    [node] = [node for node in model.graph.node if node.name == name]
    return numpy_helper.to_array(constants[casts[node.input[1]]]).astype(np.int64)


@pytest.fixture(scope="module")
def made() -> Quantization:
    return quantized("onnxruntime")


def test_weights_of_the_default_saturate_no_pair_and_are_i8(made: Quantization) -> None:
    model = onnx_model(made.propagated)
    assert set(weight_types(model).values()) == {TensorProto.INT8}


def test_onnxruntime_computes_the_prediction_with_all_products_at_their_greatest(made: Quantization) -> None:
    predict, found = Interpreter(made.quantized), optimized(onnx_model(made.propagated), signed=False)
    for sample in samples():
        np.testing.assert_array_equal(found.run(sample)[0], predict(sample)["y"])


def test_openvino_always_has_i8_weights_which_saturate_no_pair() -> None:
    program = quantized("openvino").propagated
    for form in ("auto", "exact"):
        assert set(weight_types(onnx_model(program, weight_form=form)).values()) == {TensorProto.INT8}


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_weights_for_processors_with_vnni_are_i8_of_the_whole_range_and_closer_to_float(runtime: str) -> None:
    limited, whole = (onnx_model(quantized(name).propagated) for name in (runtime, f"{runtime}-vnni"))
    assert set(weight_types(whole).values()) == {TensorProto.INT8}
    for name in ("plain", "pointwise", "connected"):
        assert np.abs(stored_weights(limited, name)).max() < 80
        assert np.abs(stored_weights(whole, name)).max() == 127


@pytest.mark.parametrize("name", ["onnxruntime-vnni", "openvino-vnni"])
def test_files_for_processors_with_vnni_come_back_as_the_same_program(name: str, tmp_path: Path) -> None:
    made = quantized(name)
    export_program(made.propagated, tmp_path / "made.onnx")
    origin = origin_of(tmp_path / "made.onnx")
    assert origin is not None
    again = quantize(load_onnx(tmp_path / "made.onnx", {}), None, Options(target=origin.target, profile=origin.profile))
    for sample in samples():
        np.testing.assert_array_equal(
            Interpreter(again.quantized)(sample)["y"], Interpreter(made.quantized)(sample)["y"]
        )


def test_weights_of_the_whole_range_are_u8_where_they_saturate(whole: Quantization) -> None:
    assert set(weight_types(onnx_model(whole.propagated, weight_form="i8")).values()) == {TensorProto.INT8}
    found = weight_types(onnx_model(whole.propagated))
    assert found == {
        "plain": TensorProto.UINT8,
        "depthwise": TensorProto.INT8,
        "pointwise": TensorProto.UINT8,
        "connected": TensorProto.UINT8,
    }


def test_both_forms_compute_the_same_where_no_sum_saturates(made: Quantization) -> None:
    signed, unsigned = (onnx_model(made.propagated, weight_form=form) for form in ("i8", "u8"))
    assert set(weight_types(unsigned).values()) == {TensorProto.UINT8}
    for sample in samples():
        results = [optimized(model, signed=False).run(sample)[0] for model in (signed, unsigned)]
        np.testing.assert_array_equal(*results)


def test_exact_weights_of_the_whole_range_compute_the_prediction(whole: Quantization) -> None:
    predict, found = Interpreter(whole.quantized), optimized(onnx_model(whole.propagated), signed=False)
    for sample in samples():
        np.testing.assert_array_equal(found.run(sample)[0], predict(sample)["y"])


def test_the_precise_mode_of_onnxruntime_loads_i8_weights(made: Quantization, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    onnx.save(onnx_model(made.propagated, weight_form="i8"), tmp_path / "m.onnx")
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", options, providers=["CPUExecutionProvider"])
    sample = samples()[0]
    np.testing.assert_array_equal(session.run(None, sample)[0], Interpreter(made.quantized)(sample)["y"])


def test_pairs_saturate_past_the_limit_and_not_at_it() -> None:
    form, bright = dot_form("u8s8_pairs"), np.full((1, 2), 127)
    for sign in (1, -1):
        for greater, exact in ((PAIR_LIMIT - 63, True), (PAIR_LIMIT - 62, False)):
            weights = np.array([[63], [greater]]) * sign
            saturated = form.products(bright, weights) != bright @ weights
            assert bool(saturated.any()) != exact
            assert saturates(weights.T.astype(np.int8), [0, 1]) != exact


def test_weights_of_opposite_signs_are_not_added_up() -> None:
    np.testing.assert_array_equal(greatest_pairs(np.array([[127, -127, 5, 6, 7], [-100, -27, 3, -4, 127]])), [127, 127])


def test_the_greater_weight_of_a_saturating_pair_moves_to_the_limit() -> None:
    fitted = without_saturation(np.array([[127, 3, -100, -30, 64, 64, 127], [1, -127, 2, 2, -2, -127, 9]]))
    np.testing.assert_array_equal(fitted, [[125, 3, -98, -30, 64, 64, 127], [1, -127, 2, 2, -2, -126, 9]])
