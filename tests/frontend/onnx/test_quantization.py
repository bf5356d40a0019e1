"""Models that are quantized already: QuantizeLinear and DequantizeLinear become casts that pin parameters."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from frontend.onnx.models import assert_same_as_onnxruntime, load, model, random, tensor
from zeropoint.frontend import ModelError, load_model
from zeropoint.ir import weights
from zeropoint.ir.annotations import PINNED
from zeropoint.ir.constants import elements
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.simplify import simplify

SCALE, INPUT = np.float32(0.05), np.float32(np.linspace(-9, 9, 24)).reshape(2, 3, 4)


def pair(dtype: str, zero: int | None, opset: int = 17) -> onnx.ModelProto:
    """x, quantized and dequantized."""
    points = [] if zero is None else ["zero"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", *points], ["q"], name="quantize"),
        helper.make_node("DequantizeLinear", ["q", "scale", *points], ["y"], name="dequantize"),
    ]
    constants = {"scale": SCALE} | ({} if zero is None else {"zero": np.array(zero, dtype)})
    return model(nodes, [tensor("x", (2, 3, 4))], [tensor("y", None)], constants, opset)


@pytest.mark.parametrize(
    ("dtype", "zero", "opset", "expected"),
    [
        ("int8", 3, 13, "!quant.uniform<i8:f32, 0.05000000074505806:3>"),
        ("uint8", 128, 13, "!quant.uniform<u8:f32, 0.05000000074505806:128>"),
        ("uint8", None, 13, "!quant.uniform<u8:f32, 0.05000000074505806>"),
        ("int16", 0, 21, "!quant.uniform<i16:f32, 0.05000000074505806>"),
        ("uint16", 30000, 21, "!quant.uniform<u16:f32, 0.05000000074505806:30000>"),
    ],
)
def test_a_pair_is_a_cast_to_the_type_it_says_and_back(
    dtype: str, zero: int | None, opset: int, expected: str, tmp_path: Path
) -> None:
    program = assert_same_as_onnxruntime(pair(dtype, zero, opset), tmp_path, {"x": INPUT})
    quantize, dequantize, _ = program.entry.ops
    assert isinstance(quantize, QuantizeCastOp)
    assert isinstance(dequantize, DequantizeCastOp)
    assert str(quantize.result.type) == f"tensor<2x3x4x{expected}>"


def weighted(
    weight: np.ndarray, scale: np.ndarray, zero: np.ndarray, opset: int = 17, **attributes: int
) -> onnx.ModelProto:
    """A convolution of x with a constant of integers."""
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["w"], name="weight", **attributes),
        helper.make_node("Conv", ["x", "w"], ["y"], name="conv"),
    ]
    constants = {"q": weight, "scale": scale, "zero": zero}
    return model(nodes, [tensor("x", (1, 3, 5, 5))], [tensor("y", None)], constants, opset)


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_a_constant_of_integers_becomes_real_numbers_whose_parameters_are_pinned(opset: int, tmp_path: Path) -> None:
    weight = np.random.default_rng(0).integers(-127, 128, (2, 3, 3, 3)).astype(np.int8)
    proto = weighted(weight, np.float32([0.5, 0.25]), np.int8([0, 0]), opset, axis=0)
    program = assert_same_as_onnxruntime(proto, tmp_path, {"x": random(1, 3, 5, 5)})
    cast = next(op for op in program.entry.ops if isinstance(op, StorageCastOp))
    assert str(cast.result.type) == "tensor<2x3x3x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>"


def test_a_quantized_model_that_onnxruntime_made_runs_to_the_same_values(tmp_path: Path) -> None:
    quantization = pytest.importorskip("onnxruntime.quantization")
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["a"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["y"], name="relu"),
    ]
    constants = {"w": random(4, 3, 3, 3), "b": random(4)}
    float_model = model(nodes, [tensor("x", (1, 3, 6, 6))], [tensor("y", (1, 4, 6, 6))], constants)
    onnx.save(float_model, tmp_path / "float.onnx")

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.samples = iter([{"x": random(1, 3, 6, 6, seed=seed)} for seed in range(4)])

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.samples, None)

    quantization.quantize_static(
        str(tmp_path / "float.onnx"), str(tmp_path / "qdq.onnx"), Reader(), per_channel=True, reduce_range=False
    )
    # One step of the output where onnxruntime rounds a sum of products in another order.
    assert_same_as_onnxruntime(onnx.load(tmp_path / "qdq.onnx"), tmp_path, {"x": random(1, 3, 6, 6)}, tolerance=0.15)


def refused(proto: onnx.ModelProto, folder: Path) -> str:
    with pytest.raises(ModelError) as raised:
        load(proto, folder)
    return str(raised.value)


def test_integers_that_are_only_moved_keep_their_parameters(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], name="quantize"),
        helper.make_node("Clip", ["q", "low", "high"], ["c"], name="clip"),
        helper.make_node("Pad", ["c", "pads"], ["p"], name="pad"),
        helper.make_node("Reshape", ["p", "shape"], ["r"], name="reshape"),
        helper.make_node("DequantizeLinear", ["r", "scale", "zero"], ["y"], name="dequantize"),
    ]
    constants = {
        "scale": SCALE,
        "zero": np.uint8(100),
        "low": np.uint8(30),
        "high": np.uint8(200),
        "pads": np.array([0, 0, 1, 0, 0, 1], np.int64),
        "shape": np.array([4, 9], np.int64),
    }
    proto = model(nodes, [tensor("x", (2, 3, 4))], [tensor("y", None)], constants)
    program = assert_same_as_onnxruntime(proto, tmp_path)
    kinds = {str(op.results[0].type) for op in program.entry.ops if isinstance(op, QuantizeCastOp)}
    assert all("u8:f32, 0.05000000074505806:100" in kind for kind in kinds)
    assert len(kinds) == 3


def test_integers_that_another_op_reads_are_spelled_out(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale"], ["q"], name="quantize"),
        helper.make_node("Reshape", ["q", "shape"], ["r"], name="reshape"),
        helper.make_node("Cast", ["r"], ["i"], to=TensorProto.INT32, name="cast"),
        helper.make_node("Cast", ["i"], ["y"], to=TensorProto.FLOAT, name="float"),
    ]
    constants = {"scale": SCALE, "shape": np.array([4, 6], np.int64)}
    proto = model(nodes, [tensor("x", (2, 3, 4))], [tensor("y", None)], constants)
    program = assert_same_as_onnxruntime(proto, tmp_path)
    assert not any(op.name.startswith("quant.") for op in program.entry.ops)


def test_a_dequantization_by_other_parameters_is_spelled_out(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], name="quantize"),
        helper.make_node("DequantizeLinear", ["q", "other", "zero"], ["y"], name="dequantize"),
    ]
    constants = {"scale": SCALE, "other": np.float32(0.5), "zero": np.int8(3)}
    assert_same_as_onnxruntime(model(nodes, [tensor("x", (2, 3))], [tensor("y", None)], constants), tmp_path)


def test_a_quantized_output_is_integers(tmp_path: Path) -> None:
    node = helper.make_node("QuantizeLinear", ["x", "scale"], ["q"], name="quantize")
    proto = model([node], [tensor("x", (2, 3))], [tensor("q", None, TensorProto.UINT8)], {"scale": SCALE})
    assert_same_as_onnxruntime(proto, tmp_path)


@pytest.mark.parametrize(
    ("scale", "zero", "axis", "message"),
    [
        ([0.5, 0.25, 0.5], [0, 0, 0], 0, "found 3 scales and 3 zero points, expected 2, the size of axis 0"),
        ([0.5, 0.25], [0, 0], 7, "found axis 7, expected -4 to 3"),
        ([0.0], [0], 0, "found scale 0 of "),
    ],
)
def test_parameters_that_do_not_fit_are_refused(
    scale: list[float], zero: list[int], axis: int, message: str, tmp_path: Path
) -> None:
    weight = np.zeros((2, 3, 3, 3), np.int8)
    assert message in refused(weighted(weight, np.float32(scale), np.int8(zero), axis=axis), tmp_path)


@pytest.mark.parametrize(("dtype", "zero"), [("int8", 3), ("uint8", 100), ("int8", None)])
def test_a_pair_with_a_negative_scale_gives_the_same_values(dtype: str, zero: int | None, tmp_path: Path) -> None:
    proto = pair("uint8" if zero is None else dtype, zero)
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(-SCALE, "scale"))
    program = assert_same_as_onnxruntime(proto, tmp_path, {"x": INPUT})
    assert any(isinstance(op, QuantizeCastOp) for op in program.entry.ops)


@pytest.mark.parametrize("least", [-127, -128])
@pytest.mark.parametrize("scales", [[0.01, -0.02, 0.03, -0.04], [-0.01]])
def test_weights_with_negative_scales_are_pinned(least: int, scales: list[float], tmp_path: Path) -> None:
    """Without -128, weights keep zero point 0."""
    weight = np.random.default_rng(0).integers(-100, 100, (4, 3, 3, 3)).astype(np.int8)
    weight[:, 0, 0, 0] = least
    scale = np.array(scales, np.float32)
    proto = weighted(weight, scale, np.zeros(len(scales), np.int8), axis=0)
    program = assert_same_as_onnxruntime(proto, tmp_path)
    (cast,) = [op for op in program.entry.ops if isinstance(op, StorageCastOp)]
    assert "-0.0" not in str(cast.result.type)
    assert (":-1" in str(cast.result.type)) == (least == -128)


@pytest.mark.parametrize("op_type", ["MaxPool", "Clip"])
def test_integers_of_a_negative_scale_are_compared_as_integers(op_type: str, tmp_path: Path) -> None:
    between = {
        "MaxPool": helper.make_node("MaxPool", ["q"], ["r"], name="pool", kernel_shape=[2]),
        "Clip": helper.make_node("Clip", ["q", "low", "high"], ["r"], name="clip"),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], name="quantize"),
        between[op_type],
        helper.make_node("DequantizeLinear", ["r", "scale", "zero"], ["y"], name="dequantize"),
    ]
    constants = {"scale": -SCALE, "zero": np.int8(7), "low": np.int8(-20), "high": np.int8(50)}
    assert_same_as_onnxruntime(model(nodes, [tensor("x", (2, 3, 4))], [tensor("y", None)], constants), tmp_path)


def test_quantized_weights_are_held_as_integers_until_their_reals_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "RECENT_ARRAYS", weights.RecentArrays(1 << 20))
    count, size = 6, 768
    nodes, constants = [], {"scale": np.full(size, 0.01, np.float32), "zero": np.zeros(size, np.int8)}
    for n in range(count):
        constants[f"q{n}"] = np.random.default_rng(n).integers(-127, 128, (size, size), dtype=np.int8)
        nodes.append(helper.make_node("DequantizeLinear", [f"q{n}", "scale", "zero"], [f"w{n}"], axis=1))
        nodes.append(helper.make_node("MatMul", [f"x{n}", f"w{n}"], [f"x{n + 1}"]))
    proto = model(nodes, [tensor("x0", (1, size))], [tensor(f"x{count}", (1, size))], constants)
    onnx.save(proto, tmp_path / "model.onnx")
    del proto, nodes, constants
    load_model(tmp_path / "model.onnx")  # modules are imported
    integers = count * size**2
    tracemalloc.start()
    try:
        pinned = simplify(load_model(tmp_path / "model.onnx"))
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1.5 * integers
    assert peak < 4 * integers
    first = next(op for op in pinned.entry.ops if isinstance(op, ConstantOp) and PINNED in op.attributes)
    expected = np.random.default_rng(0).integers(-127, 128, (size, size), dtype=np.int8)
    real = expected * np.float64(np.float32(0.01))
    np.testing.assert_array_equal(elements(first, pinned.weights), real.astype(np.float32))
