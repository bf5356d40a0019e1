"""ONNX files with stored integers at their inputs and outputs: quantized without data, exported, and imported again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from ai_edge_litert import interpreter
from onnx import ModelProto, TensorProto, helper, numpy_helper

import zeropoint as zp
from zeropoint.export import ExportError
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import print_program

DTYPES = (np.uint8, np.int8)
SHAPE = (1, 3, 6, 6)


def network(dtype: type[np.integer]) -> ModelProto:
    """A convolution, a sigmoid and their product between casts; input and output are stored integers."""
    random, middle = np.random.default_rng(0), int(np.iinfo(dtype).min) + 128
    constants = {
        "weight": random.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8),
        "bias": random.integers(-500, 500, 4).astype(np.int32),
        "zero": np.int8(0),
        "wide": np.int32(0),
        "zero_x": dtype(middle - 7),
        "zero_y": dtype(middle + 3),
        "scale_x": np.float32(0.02),
        "scale_w": np.float32(0.004),
        "scale_b": np.float32(np.float32(0.02) * np.float32(0.004)),
        "scale_y": np.float32(0.05),
    }
    x, y = ["scale_x", "zero_x"], ["scale_y", "zero_y"]
    nodes = [
        helper.make_node("DequantizeLinear", ["x", *x], ["real"]),
        helper.make_node("DequantizeLinear", ["weight", "scale_w", "zero"], ["weights"]),
        helper.make_node("DequantizeLinear", ["bias", "scale_b", "wide"], ["biases"]),
        helper.make_node("Conv", ["real", "weights", "biases"], ["sums"], pads=[1, 1, 1, 1]),
        helper.make_node("QuantizeLinear", ["sums", *y], ["stored"]),
        helper.make_node("DequantizeLinear", ["stored", *y], ["made"]),
        helper.make_node("Sigmoid", ["made"], ["gate"]),
        helper.make_node("QuantizeLinear", ["gate", *x], ["stored_gate"]),
        helper.make_node("DequantizeLinear", ["stored_gate", *x], ["real_gate"]),
        helper.make_node("Mul", ["made", "real_gate"], ["product"]),
        helper.make_node("QuantizeLinear", ["product", *y], ["y"]),
    ]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, SHAPE)],
        [helper.make_tensor_value_info("y", kind, (1, 4, 6, 6))],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def samples(dtype: type[np.integer]) -> list[Array]:
    info, random = np.iinfo(dtype), np.random.default_rng(1)
    return [random.integers(info.min, info.max + 1, SHAPE).astype(dtype) for _ in range(4)]


def theirs(model: bytes, x: Array) -> Array:
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")  # else i8 activations are floats on x64
    return np.asarray(onnxruntime.InferenceSession(model, options).run(None, {"x": x})[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_such_a_file_needs_no_data_and_has_onnxruntimes_bits(dtype: type[np.integer]) -> None:
    model = network(dtype)
    program = zp.quantize(model, target="onnxruntime")
    native = program.native()
    for x in samples(dtype):
        expected = theirs(model.SerializeToString(), x)
        for run in (program, native):
            found = run(x=x)["y"]
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_our_own_targets_have_integers_only(dtype: type[np.integer]) -> None:
    model = network(dtype)
    program = zp.quantize(model, target="cpu", integer_only=True)
    native = program.native()
    for x in samples(dtype):
        found = program(x=x)["y"]
        np.testing.assert_array_equal(native(x=x)["y"], found)
        assert np.abs(found.astype(int) - theirs(model.SerializeToString(), x)).max() <= 2


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_onnx_file_keeps_its_ports(dtype: type[np.integer], form: str, tmp_path: Path) -> None:
    program = zp.quantize(network(dtype), target="onnxruntime")
    path, again = tmp_path / "m.onnx", tmp_path / "again.onnx"
    program.export(path, onnx_format=form)
    for x in samples(dtype):
        np.testing.assert_array_equal(theirs(path.read_bytes(), x), program(x=x)["y"])
    zp.quantize(path, target="onnxruntime").export(again, onnx_format=form)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tflite_file_keeps_its_ports(dtype: type[np.integer], tmp_path: Path) -> None:
    program, path = zp.quantize(network(dtype), target="litert"), tmp_path / "m.tflite"
    program.export(path)
    kinds = interpreter.OpResolverType.BUILTIN_REF
    run = interpreter.Interpreter(str(path), experimental_op_resolver_type=kinds).get_signature_runner()
    assert run.get_input_details()["x"]["dtype"] is dtype
    for x in samples(dtype):
        found, expected = run(x=x)["y"], program(x=x)["y"]
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_stablehlo_has_signed_integers_inside(dtype: type[np.integer], tmp_path: Path) -> None:
    """The bits of u8 were taken for those of i8 with another zero point."""
    program, path = zp.quantize(network(dtype), target="stablehlo"), tmp_path / "m.stablehlo.mlir"
    program.export(path)
    assert "uniform<u8" not in path.read_text()
    imported = zp.load(path)
    for x in samples(dtype):
        np.testing.assert_array_equal(imported(x=x)["y"], program(x=x)["y"])


def test_tosa_refuses_the_bits_of_u8_in_one_line(tmp_path: Path) -> None:
    program = zp.quantize(network(np.uint8), target="tosa")
    with pytest.raises(ExportError, match=r"found stablehlo\.bitcast_convert, expected an op that TOSA has"):
        program.export(tmp_path / "m.tosa.mlir")
    assert not list(tmp_path.iterdir())


def test_other_integers_of_an_input_are_read_as_they_are() -> None:
    """An input that is dequantized and also read as integers."""
    model = network(np.uint8)
    model.graph.node.append(helper.make_node("Cast", ["x"], ["z"], to=TensorProto.INT32))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.INT32, SHAPE))
    program = zp.quantize(model, target="onnxruntime")
    (x, *_) = samples(np.uint8)
    np.testing.assert_array_equal(program(x=x)["z"], x)
    np.testing.assert_array_equal(program(x=x)["y"], theirs(model.SerializeToString(), x))


def with_output(dtype: type[np.integer], operator: str, value: str, kind: int, shape: tuple[int, ...]) -> ModelProto:
    """The network with one more output: what a Cast or an Identity makes of a stored value."""
    model = network(dtype)
    attributes = {"to": kind} if operator == "Cast" else {}
    model.graph.node.append(helper.make_node(operator, [value], ["z"], **attributes))
    model.graph.output.append(helper.make_tensor_value_info("z", kind, shape))
    return model


@pytest.mark.parametrize("operator", ["Cast", "Identity"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tflite_file_reads_the_integers_of_an_input_twice(
    dtype: type[np.integer], operator: str, tmp_path: Path
) -> None:
    """As a quantized value, and as what they are. The export was an error."""
    kind = TensorProto.INT32 if operator == "Cast" else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    program, path = zp.quantize(with_output(dtype, operator, "x", kind, SHAPE), target="litert"), tmp_path / "m.tflite"
    program.export(path)
    assert_same_in_litert(program, path, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tflite_file_reads_an_input_with_two_scales(dtype: type[np.integer], tmp_path: Path) -> None:
    """The export was an error."""
    model = network(dtype)
    first = next(index for index, node in enumerate(model.graph.node) if node.op_type == "Mul")
    model.graph.node.insert(first, helper.make_node("DequantizeLinear", ["x", "scale_y", "zero_y"], ["other"]))
    model.graph.node.append(helper.make_node("Sigmoid", ["other"], ["wave"]))
    model.graph.node.append(helper.make_node("QuantizeLinear", ["wave", "scale_x", "zero_x"], ["z"]))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model.graph.output.append(helper.make_tensor_value_info("z", kind, SHAPE))
    program, path = zp.quantize(model, target="litert"), tmp_path / "m.tflite"
    program.export(path)
    assert_same_in_litert(program, path, dtype)


@pytest.mark.parametrize("target", ["cpu", "onnxruntime"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_output_that_is_also_read_needs_no_data(dtype: type[np.integer], target: str, tmp_path: Path) -> None:
    """Its integers are read by a Cast. There was no range for the value before the QuantizeLinear."""
    program = zp.quantize(with_output(dtype, "Cast", "y", TensorProto.INT32, (1, 4, 6, 6)), target=target)
    for x in samples(dtype):
        found = program(x=x)
        np.testing.assert_array_equal(found["z"], found["y"])
        if target == "onnxruntime":
            np.testing.assert_array_equal(found["y"], theirs(network(dtype).SerializeToString(), x))
    if target == "onnxruntime":
        path = tmp_path / "m.onnx"
        program.export(path)
        assert_same_in_onnxruntime(program, path, dtype)


@pytest.mark.parametrize("target", ["litert", "onnxruntime"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_output_that_is_dequantized_has_its_integers_once(
    dtype: type[np.integer], target: str, tmp_path: Path
) -> None:
    """It was computed in float a second time, with an operator that LiteRT's reference kernels do not have."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    program = zp.quantize(with_output(dtype, "Identity", "stored", kind, (1, 4, 6, 6)), target=target)
    assert target != "litert" or "stablehlo.round_nearest_even" not in print_program(program.program)
    path = tmp_path / ("m.tflite" if target == "litert" else "m.onnx")
    program.export(path)
    same = assert_same_in_litert if target == "litert" else assert_same_in_onnxruntime
    same(program, path, dtype)


MOVES = {
    "Reshape": ({"first": np.array((1, 3, 6, 6)), "last": np.array((1, 144))}, {}, {}, (1, 108), (1, 144)),
    "Transpose": ({}, {"perm": (0, 3, 1, 2)}, {"perm": (0, 2, 3, 1)}, (1, 6, 6, 3), (1, 6, 6, 4)),
}
"""The constants and the attributes of the movements before and behind a network, and the shapes of its ports."""


def moved_network(dtype: type[np.integer], operator: str) -> tuple[ModelProto, tuple[int, ...]]:
    """The network behind and before a movement of its stored integers, and the shape of its input."""
    model = network(dtype)
    graph = model.graph
    constants, before, behind, given, made = MOVES[operator]
    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    graph.node[0].input[0] = "inner"
    graph.node.insert(0, helper.make_node(operator, ["x", *list(constants)[:1]], ["inner"], **before))
    graph.node[-1].output[0] = "result"
    graph.node.append(helper.make_node(operator, ["result", *list(constants)[1:]], ["y"], **behind))
    for port, shape in ((graph.input[0], given), (graph.output[0], made)):
        port.CopyFrom(helper.make_tensor_value_info(port.name, port.type.tensor_type.elem_type, shape))
    return model, given


@pytest.mark.parametrize("operator", MOVES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_integers_that_are_moved_at_the_ports_need_no_data(
    dtype: type[np.integer], operator: str, tmp_path: Path
) -> None:
    """There was no range for the input of the convolution, nor for its result."""
    model, shape = moved_network(dtype, operator)
    program, path, lite = zp.quantize(model, target="onnxruntime"), tmp_path / "m.onnx", tmp_path / "m.tflite"
    program.export(path)
    again = zp.quantize(model, target="litert")
    again.export(lite)
    kinds = interpreter.OpResolverType.BUILTIN_REF
    run = interpreter.Interpreter(str(lite), experimental_op_resolver_type=kinds).get_signature_runner()
    for sample in samples(dtype):
        x = sample.reshape(shape)
        expected = theirs(model.SerializeToString(), x)
        np.testing.assert_array_equal(program(x=x)["y"], expected)
        np.testing.assert_array_equal(theirs(path.read_bytes(), x), expected)
        np.testing.assert_array_equal(run(x=x)["y"], again(x=x)["y"])


def assert_same_in_litert(program: zp.Model, path: Path, dtype: type[np.integer]) -> None:
    kinds = interpreter.OpResolverType.BUILTIN_REF
    run = interpreter.Interpreter(str(path), experimental_op_resolver_type=kinds).get_signature_runner()
    for x in samples(dtype):
        found, expected = run(x=x), program(x=x)
        for name in ("y", "z"):
            assert found[name].dtype == expected[name].dtype
            np.testing.assert_array_equal(found[name], expected[name])


def assert_same_in_onnxruntime(program: zp.Model, path: Path, dtype: type[np.integer]) -> None:
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    session = onnxruntime.InferenceSession(path, options)
    for x in samples(dtype):
        found, expected = session.run(["y", "z"], {"x": x}), program(x=x)
        for name, array in zip(("y", "z"), found, strict=True):
            assert array.dtype == expected[name].dtype
            np.testing.assert_array_equal(array, expected[name])
