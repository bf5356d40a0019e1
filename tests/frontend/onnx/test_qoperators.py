"""Operators on integers, of ONNX and of onnxruntime, become the float operator between casts that pin parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

import zeropoint as zp
from frontend.onnx.models import assert_same_as_onnxruntime, model, random, tensor
from oracle.qdq import optimized
from zeropoint.calibrate import samples
from zeropoint.export.onnx.model import onnx_model
from zeropoint.frontend import ModelError, load_model
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeCastOp, QuantizeRegionOp
from zeropoint.pipeline import Options, Quantization, quantize

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
ONNXRUNTIME = Options(target="onnxruntime")

CONSTANTS: dict[str, Any] = {
    "s": np.float32(0.05),
    "z": np.uint8(120),
    "t": np.float32(0.07),
    "y": np.uint8(100),
    "u": np.float32(0.2),
    "v": np.uint8(90),
    "condition": np.random.default_rng(0).random((1, 3, 6, 6)) < 0.5,
}
X, Y, RESULT = ["a", "s", "z"], ["b", "t", "y"], ["u", "v"]
CASES: list[tuple[str, list[str], dict[str, Any]]] = [
    ("QLinearAdd", [*X, *Y, *RESULT], {}),
    ("QLinearMul", [*X, *Y, *RESULT], {}),
    ("QLinearConcat", [*RESULT, *X, *Y], {"axis": 1}),
    ("QLinearWhere", ["condition", *X, *Y, *RESULT], {}),
    ("QLinearAveragePool", [*X, *RESULT], {"kernel_shape": [2, 2]}),
    ("QLinearGlobalAveragePool", [*X, *RESULT], {"channels_last": 0}),
    ("QLinearLeakyRelu", [*X, *RESULT], {"alpha": 0.25}),
    ("QLinearSigmoid", [*X, *RESULT], {}),
    ("QLinearSoftmax", [*X, "u", "z0"], {"axis": -1, "opset": 13}),
]


def contributed(op: str, inputs: list[str], attributes: dict[str, Any]) -> onnx.ModelProto:
    """The operator on inputs that are quantized before and dequantized behind."""
    nodes = [
        helper.make_node("QuantizeLinear", [f"x{end[0]}", *end[1:]], [end[0]], name=f"quantize_{end[0]}")
        for end in (X, Y)
    ]
    nodes.append(helper.make_node(op, inputs, ["q"], name="op", domain="com.microsoft", **attributes))
    zero = "z0" if "z0" in inputs else "v"
    nodes.append(helper.make_node("DequantizeLinear", ["q", "u", zero], ["real"], name="dequantize"))
    given = [tensor(f"x{end[0]}", (1, 3, 6, 6)) for end in (X, Y)]
    constants = {**CONSTANTS, "z0": np.uint8(0)}
    proto = model(nodes, given, [tensor("real", None)], constants)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return proto


@pytest.mark.parametrize(("op", "inputs", "attributes"), CASES, ids=[case[0] for case in CASES])
def test_an_operator_of_onnxruntime_pins_its_parameters(
    op: str, inputs: list[str], attributes: dict[str, Any], tmp_path: Path
) -> None:
    given = {"xa": random(1, 3, 6, 6) * 2, "xb": random(1, 3, 6, 6, seed=1) * 2}
    # A step of the result, where onnxruntime's kernel rounds a tie the other way.
    program = assert_same_as_onnxruntime(contributed(op, inputs, attributes), tmp_path, given, tolerance=0.21)
    kinds = [str(op.results[0].type) for op in program.entry.ops if isinstance(op, QuantizeCastOp)]
    assert any("0.20000000298" in kind for kind in kinds)


@pytest.mark.parametrize(("opset", "axis"), [(13, -1), (13, 1), (12, 1), (12, 2), (12, -1)])
def test_a_softmax_normalizes_the_dimensions_of_its_own_opset(opset: int, axis: int) -> None:
    """Before opset 13, it is the axis and all dimensions behind it, whatever the opset of the model."""
    made = contributed("QLinearSoftmax", [*X, "u", "z0"], {"axis": axis, "opset": opset})
    given = {"xa": random(1, 3, 6, 6) * 6, "xb": random(1, 3, 6, 6, seed=1)}
    made.graph.initializer[4].CopyFrom(onnx.numpy_helper.from_array(np.float32(1 / 256), "u"))
    (expected,) = optimized(made).run(given)
    found = zp.quantize(zp.load(made), target="onnxruntime")(given)["real"]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("transposed", [0, 1])
def test_alpha_scales_the_bias_of_a_product_too(transposed: int) -> None:
    weight = np.random.default_rng(0).integers(-60, 60, (5, 8)).astype(np.int8)
    made = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[3,8] x) => (float[3,5] r) <float s = {{0.05}}, uint8 z = {{120}},
        float[5] t = {{0.02, 0.03, 0.01, 0.05, 0.04}}, int8[5] n = {{0, 0, 0, 0, 0}},
        int32[5] b = {{-300, 500, 0, 900, -1000}}, float u = {{0.07}}, uint8 v = {{90}}>
        {{ q = QuantizeLinear(x, s, z)
        p = com.microsoft.QGemm<alpha=0.375, transB={transposed}>(q, s, z, w, t, n, b, u, v)
        r = DequantizeLinear(p, u, v) }}""")
    made.graph.initializer.append(onnx.numpy_helper.from_array(weight if transposed else weight.T.copy(), "w"))
    (expected,) = optimized(made).run({"x": random(3, 8) * 2})
    found = zp.quantize(zp.load(made), target="onnxruntime")({"x": random(3, 8) * 2})["r"]
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(expected)) > 4


def test_channels_last_is_refused(tmp_path: Path) -> None:
    proto = contributed("QLinearGlobalAveragePool", [*X, *RESULT], {"channels_last": 1})
    onnx.save(proto, tmp_path / "model.onnx")
    with pytest.raises(ModelError, match=r"'op' \(com\.microsoft::QLinearGlobalAveragePool\)"):
        load_model(tmp_path / "model.onnx")


def test_dynamic_quantization_is_spelled_out(tmp_path: Path) -> None:
    weight = np.random.default_rng(0).integers(-60, 60, (5, 4)).astype(np.int8)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"], name="dynamic"),
        helper.make_node("MatMulInteger", ["q", "w", "zero", "wz"], ["sums"], name="matmul"),
        helper.make_node("Cast", ["sums"], ["real"], to=TensorProto.FLOAT, name="cast"),
        helper.make_node("Mul", ["scale", "ws"], ["factor"], name="factor"),
        helper.make_node("Mul", ["real", "factor"], ["y"], name="mul"),
    ]
    constants = {"w": weight, "wz": np.int8(0), "ws": np.float32(0.02)}
    proto = model(nodes, [tensor("x", (3, 5))], [tensor("y", None)], constants)
    assert_same_as_onnxruntime(proto, tmp_path, {"x": random(3, 5)})


def test_dynamic_scales_are_the_bits_of_onnxruntime(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"], name="dynamic")]
    proto = model(nodes, [tensor("x", (7, 3))], [tensor("q", None), tensor("scale", None), tensor("zero", None)], {})
    for output, kind in zip(proto.graph.output, (TensorProto.UINT8, TensorProto.FLOAT, TensorProto.UINT8), strict=True):
        output.type.tensor_type.elem_type = kind
    onnx.save(proto, tmp_path / "model.onnx")
    session = runtime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    interpret = Interpreter(load_model(tmp_path / "model.onnx"))
    made = np.random.default_rng(5)
    drawn = [made.normal(made.normal(0, 2), 1, (7, 3)) * 10 ** made.uniform(-6, 6) for _ in range(200)]
    halves = np.linspace(-20, 235, 21).reshape(7, 3).round() + np.tile([0.0, 0.5, 0.0], (7, 1))  # scale 1: ties
    edges = [halves, *(np.full((7, 3), value) for value in (0.0, -3.0, 1e-40, 3e38))]
    for x in (each.astype(np.float32) for each in (*drawn, *edges)):
        expected, found = session.run(None, {"x": x}), interpret({"x": x})
        for name, array in zip(("q", "scale", "zero"), expected, strict=True):
            assert found[name].dtype == array.dtype
            assert np.array_equal(found[name], array), (name, x)


QAT: dict[str, Any] = {
    "s": np.float32(0.04),
    "z": np.int8(0),
    "u": np.float32(0.05),
    "low": np.int8(-127),
    "high": np.int8(127),
    "w": random(4, 3, 3, 3, seed=1) * 0.2,
    "b": random(4, seed=2),
    "ws": np.full(4, 0.02, np.float32),
    "wz": np.zeros(4, np.int8),
    "least": np.int8(-7),
    "most": np.int8(7),
}


def trained(*, clipped: bool) -> onnx.ModelProto:
    """What quantization-aware training exports: casts around everything, weights too, with Clip between or without."""

    def cast(name: str, scale: str, zero: str, bounds: list[str], axis: int | None) -> list[onnx.NodeProto]:
        along = {} if axis is None else {"axis": axis}
        made = [helper.make_node("QuantizeLinear", [name, scale, zero], [f"{name}q"], **along)]
        made += [helper.make_node("Clip", [f"{name}q", *bounds], [f"{name}c"])] if clipped else []
        stored = made[-1].output[0]
        return [*made, helper.make_node("DequantizeLinear", [stored, scale, zero], [f"{name}r"], **along)]

    nodes = [
        *cast("x", "s", "z", ["low", "high"], None),
        *cast("w", "ws", "wz", ["least", "most"], 0),
        helper.make_node("Conv", ["xr", "wr", "b"], ["c"], name="conv"),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        *cast("r", "u", "z", ["low", "high"], None),
        helper.make_node("Identity", ["rr"], ["y"]),
    ]
    return model(nodes, [tensor("x", (1, 3, 6, 6))], [tensor("y", None)], QAT)


@pytest.mark.parametrize(
    ("clipped", "expected"), [(False, ("i8", "i8<-127:127>")), (True, ("i8<-127:127>", "i8<-7:7>"))]
)
def test_exports_of_quantization_aware_training_need_no_data(
    clipped: bool, expected: tuple[str, str], tmp_path: Path
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    proto = trained(clipped=clipped)
    onnx.save(proto, tmp_path / "model.onnx")
    result = quantize(load_model(tmp_path / "model.onnx"), None, ONNXRUNTIME)
    ((_, ports, _),) = regions(result)
    assert f"!quant.uniform<{expected[0]}:f32, 0.03" in ports
    assert f"!quant.uniform<{expected[1]}:f32:0, " in ports
    exported = onnx_model(result.propagated)
    onnx.checker.check_model(exported, full_check=True)
    sessions = [
        runtime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"])
        for each in (proto, exported)
    ]
    for seed in range(3):
        x = {"x": random(1, 3, 6, 6, seed=seed) * 4}
        (predicted,) = Interpreter(result.quantized)(x).values()
        for session in sessions:
            np.testing.assert_array_equal(session.run(None, x)[0], predicted)


def blockwise(dtype: str) -> onnx.ModelProto:
    """A product with weights of 4 bits that have a scale for every 16 rows, beside quantized activations."""
    draw = np.random.default_rng(0)
    low = -8 if dtype == "int4" else 0
    zero = np.zeros((2, 6)) if dtype == "int4" else draw.integers(4, 12, (2, 6))
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["r"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wr"], axis=0, block_size=16),
        helper.make_node("MatMul", ["r", "wr"], ["y"], name="matmul"),
    ]
    constants = {
        "s": np.float32(0.04),
        "z": np.uint8(120),
        "w": draw.integers(low, low + 16, (32, 6)).astype(dtype),
        "ws": draw.uniform(0.01, 0.03, (2, 6)).astype(np.float32),
        "wz": zero.astype(dtype),
    }
    return model(nodes, [tensor("x", (3, 32))], [tensor("y", None)], constants, 21)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_weights_of_4_bits_need_no_zero_points(dtype: str, tmp_path: Path) -> None:
    proto = blockwise(dtype)
    proto.graph.node[2].input.pop()
    assert_same_as_onnxruntime(proto, tmp_path, {"x": random(3, 32)})
    del proto.graph.node[2].attribute[:]
    proto.graph.node[2].attribute.append(helper.make_attribute("axis", 1))
    proto.graph.initializer[3].CopyFrom(onnx.numpy_helper.from_array(np.full(6, 0.02, np.float32), "ws"))
    assert_same_as_onnxruntime(proto, tmp_path, {"x": random(3, 32)})


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_weights_in_blocks_stay_float_and_are_exported_in_blocks(dtype: str, tmp_path: Path) -> None:
    proto = blockwise(dtype)
    program = assert_same_as_onnxruntime(proto, tmp_path, {"x": random(3, 32)})
    onnx.save(proto, tmp_path / "model.onnx")
    result = quantize(program, None, ONNXRUNTIME)
    (region,) = [op for op in result.propagated.entry.ops if isinstance(op, QuantizeRegionOp)]
    assert not region.is_quantized
    exported = onnx_model(result.propagated)
    onnx.checker.check_model(exported, full_check=True)
    assert exported.opset_import[0].version == 21
    (dequantize,) = [node for node in exported.graph.node if any(a.name == "block_size" for a in node.attribute)]
    stored = {each.name: each for each in exported.graph.initializer}[dequantize.input[0]]
    assert stored.data_type == TensorProto.INT4
    assert_same_as_onnxruntime(exported, tmp_path, {"x": random(3, 32)})
    onnx.save(exported, tmp_path / "exported.onnx")
    again = quantize(load_model(tmp_path / "exported.onnx"), None, ONNXRUNTIME)
    x = {"x": random(3, 32, seed=3)}
    for found, expected in zip(
        Interpreter(again.quantized)(x).values(), Interpreter(result.quantized)(x).values(), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("dtype", "zero"), [("int4", 0), ("uint4", 8)])
@pytest.mark.parametrize("target", ["cpu", "onnxruntime"])
def test_weights_of_four_bits_are_part_of_a_byte(dtype: str, zero: int, target: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    low = -8 if dtype == "int4" else 0
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["r"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wr"], axis=0),
        helper.make_node("Conv", ["r", "wr"], ["c"], name="conv"),
        helper.make_node("QuantizeLinear", ["c", "u", "z"], ["cq"]),
        helper.make_node("DequantizeLinear", ["cq", "u", "z"], ["y"]),
    ]
    constants = {
        "s": np.float32(0.04),
        "z": np.uint8(120),
        "u": np.float32(0.05),
        "w": np.random.default_rng(0).integers(low, low + 16, (4, 3, 3, 3)).astype(dtype),
        "ws": np.float32([0.02, 0.03, 0.01, 0.04]),
        "wz": np.full(4, zero).astype(dtype),
    }
    proto = model(nodes, [tensor("x", (1, 3, 6, 6))], [tensor("y", None)], constants, 21)
    onnx.save(proto, tmp_path / "model.onnx")
    result = quantize(load_model(tmp_path / "model.onnx"), None, Options(target=target, profile="onnxruntime"))
    ((_, ports, _),) = regions(result)
    assert "!quant.uniform<i8<-8:7>:f32:0, {" in ports
    session = runtime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    x = {"x": random(1, 3, 6, 6) * 2}
    (predicted,) = Interpreter(result.quantized)(x).values()
    np.testing.assert_array_equal(session.run(None, x)[0], predicted)


def regions(result: Quantization) -> list[tuple[str, str, str]]:
    """Every kernel with the types of its ports."""
    return [
        (op.logical_kernel.data, str(op.input_specs), str(op.output_specs))
        for op in result.propagated.entry.ops
        if isinstance(op, QuantizeRegionOp)
    ]


def digits() -> tuple[Program, list[dict[str, np.ndarray]], list[dict[str, np.ndarray]]]:
    program = load_model(DIGITS / "digits.onnx")
    calibration, tests = (
        [dict(sample) for sample in list(samples(DIGITS / name, program.inputs))[:count]]
        for name, count in (("calib.npz", 16), ("test.npz", 5))
    )
    return program, calibration, tests


@pytest.mark.parametrize("qoperators", [False, True], ids=["qdq", "qoperator"])
def test_our_export_imported_again_is_the_same_program(qoperators: bool, tmp_path: Path) -> None:
    program, calibration, tests = digits()
    first = quantize(program, calibration, ONNXRUNTIME)
    onnx.save(onnx_model(first.propagated, qoperators=qoperators), tmp_path / "exported.onnx")
    again = quantize(load_model(tmp_path / "exported.onnx"), None, ONNXRUNTIME)
    assert regions(again) == regions(first)
    for sample in tests:
        (expected,), (found,) = (Interpreter(each.quantized)(sample).values() for each in (first, again))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("form", "weights", "per_channel"),
    [("QDQ", "QUInt8", False), ("QDQ", "QInt8", True), ("QOperator", "QUInt8", False), ("QOperator", "QInt8", True)],
)
def test_what_onnxruntime_quantized_gives_its_bytes(form: str, weights: str, per_channel: bool, tmp_path: Path) -> None:
    """Weights of i8 have 7 bits, so that no product saturates on processors without VNNI."""
    runtime, tools = pytest.importorskip("onnxruntime"), pytest.importorskip("onnxruntime.quantization")
    _, calibration, tests = digits()

    class Reader(tools.CalibrationDataReader):
        def __init__(self) -> None:
            self.samples = iter(calibration)

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.samples, None)

    path = tmp_path / "quantized.onnx"
    prepared = str(tmp_path / "prepared.onnx")
    tools.quant_pre_process(str(DIGITS / "digits.onnx"), prepared, skip_symbolic_shape=True)
    tools.quantize_static(
        prepared,
        str(path),
        Reader(),
        quant_format=tools.QuantFormat[form],
        activation_type=tools.QuantType.QUInt8,
        weight_type=tools.QuantType[weights],
        per_channel=per_channel,
        reduce_range=weights == "QInt8",
    )
    result = quantize(load_model(path), None, ONNXRUNTIME)
    assert all("quant.uniform" in output for _, _, output in regions(result))
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    predict = Interpreter(result.quantized)
    for sample in tests:
        np.testing.assert_array_equal(next(iter(predict(sample).values())), session.run(None, sample)[0])
