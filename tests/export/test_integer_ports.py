"""Integer inputs and outputs of networks that also take or return other integers: token ids and positions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from ai_edge_litert import interpreter
from click.testing import CliRunner
from onnx import numpy_helper, parser

import zeropoint as zp
from zeropoint.cli import main
from zeropoint.export.onnx.openvino import OpenVinoEngine
from zeropoint.export.onnx.runtime import OnnxEngine, OnnxFile

TARGETS = [("litert", "m.tflite"), ("onnxruntime", "m.onnx")]


def network(text: str) -> onnx.ModelProto:
    random = np.random.default_rng(0)
    made = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    for name, shape in (("w", (5, 4)), ("v", (20, 4))):
        made.graph.initializer.append(numpy_helper.from_array(random.normal(0, 1, shape).astype(np.float32), name))
    return made


def stored(path: Path, sample: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of LiteRT's reference kernels, as integers."""
    kinds = interpreter.OpResolverType.BUILTIN_REF
    runner = interpreter.Interpreter(str(path), experimental_op_resolver_type=kinds)
    return runner.get_signature_runner()(**sample)


@pytest.mark.parametrize(("target", "name"), TARGETS)
def test_positions_stay_beside_integer_outputs(target: str, name: str, tmp_path: Path) -> None:
    """The network was refused, because a position 'computes in float'."""
    model = network(
        "g (float[3,5] x) => (float[3,4] y, int64[3] best) { y = MatMul(x, w) best = ArgMax<axis=1, keepdims=0>(y) }"
    )
    data = {"x": np.random.default_rng(1).normal(0, 1, (4, 3, 5)).astype(np.float32)}
    program = zp.quantize(model, data, target=target, io="integer")
    assert [str(port.type) for port in program.outputs] == ["tensor<3x4xi8>", "tensor<3xi64>"]
    program.export(tmp_path / name, io="integer")
    x = np.random.default_rng(2).integers(-128, 128, (3, 5)).astype(np.int8)
    expected = program(x=x)
    np.testing.assert_array_equal(program.native()(x=x)["best"], expected["best"])
    if name.endswith(".onnx"):
        found = OnnxFile(tmp_path / name)({"x": (x.astype(np.int16) + 128).astype(np.uint8)})
        np.testing.assert_array_equal(found["y"].astype(np.int16) - 128, expected["y"])
    else:
        found = stored(tmp_path / name, {"x": x})
        np.testing.assert_array_equal(found["y"], expected["y"])
    np.testing.assert_array_equal(found["best"], expected["best"])


def test_token_ids_stay_beside_integer_inputs(tmp_path: Path) -> None:
    """The network was refused, because ids are not quantized."""
    model = network(
        "g (int64[1,7] ids, float[1,7,5] x) => (float y) { a = Gather(v, ids) b = MatMul(x, w) y = Add(a, b) }"
    )
    random = np.random.default_rng(1)
    data = {"ids": random.integers(0, 20, (4, 1, 7)), "x": random.normal(0, 1, (4, 1, 7, 5)).astype(np.float32)}
    program = zp.quantize(model, data, target="litert", io="integer")
    assert [str(port.type) for port in program.inputs] == ["tensor<1x7xi64>", "tensor<1x7x5xi8>"]
    program.export(tmp_path / "m.tflite", io="integer")
    sample = {"ids": data["ids"][0], "x": random.integers(-128, 128, (1, 7, 5)).astype(np.int8)}
    found = stored(tmp_path / "m.tflite", sample)
    np.testing.assert_array_equal(found["y"], program(sample)["y"])


IMAGES = """g (float[1,3,6,6] x, float[1,3,1,1] g) => (float y, float z)
    { a = Conv(x, u) z = Add(a, g) b = Mul(a, g) y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(b) }"""
FORMS = [("onnxruntime", "qdq"), ("onnxruntime", "qoperator"), ("openvino", "qdq")]


def images(target: str, form: str, path: Path) -> tuple[zp.Model, dict[str, np.ndarray], onnx.ModelProto]:
    """A network exported with integer ports, data for it, and the float model."""
    random, model = np.random.default_rng(0), parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {IMAGES}')
    model.graph.initializer.append(numpy_helper.from_array(random.normal(0, 1, (3, 3, 1, 1)).astype(np.float32), "u"))
    shapes = {"x": (8, 1, 3, 6, 6), "g": (8, 1, 3, 1, 1)}
    data = {name: random.normal(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    program = zp.quantize(model, data, target=target, effort="none")
    program.export(path, io="integer", onnx_format=form)
    return program, data, model


@pytest.mark.parametrize(("target", "form"), FORMS)
def test_a_file_with_integer_ports_is_the_same_program_after_an_import(target: str, form: str, tmp_path: Path) -> None:
    """Its ports were integers without a scale, and the pool at the end could not be exported again."""
    program, data, _ = images(target, form, tmp_path / "first.onnx")
    again = zp.quantize(tmp_path / "first.onnx", target=target)
    for row in range(8):
        sample = {name: array[row] for name, array in data.items()}
        found, expected = again.interpreted()(**sample), program.interpreted()(**sample)
        for name in "yz":
            np.testing.assert_array_equal(found[name], expected[name])
    again.export(tmp_path / "second.onnx", io="integer", onnx_format=form)
    first, second = (onnx.load(tmp_path / f"{name}.onnx") for name in ("first", "second"))
    assert [node.op_type for node in first.graph.node] == [node.op_type for node in second.graph.node]
    assert first.metadata_props == second.metadata_props


@pytest.mark.parametrize(("target", "form"), FORMS)
def test_a_file_with_integer_ports_is_compared_on_real_numbers(target: str, form: str, tmp_path: Path) -> None:
    """It was refused: 'found float32, expected uint8'."""
    if target == "openvino":
        pytest.importorskip("openvino", reason="needs OpenVINO, an extra")
    program, data, model = images(target, form, tmp_path / "m.onnx")
    onnx.save(model, tmp_path / "float.onnx")
    np.savez(tmp_path / "data.npz", **{name: array[:, 0] for name, array in data.items()})
    arguments = ["compare", tmp_path / "float.onnx", tmp_path / "m.onnx", "--data", tmp_path / "data.npz"]
    answer = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert answer.exit_code == 0, answer.output
    engine = (OnnxEngine if target == "onnxruntime" else OpenVinoEngine)(tmp_path / "m.onnx")
    run = engine.prepare(program.program)
    for row in range(8):
        sample = {name: array[row] for name, array in data.items()}
        found, expected = run(sample), program.interpreted()(**sample)
        for name in "yz":
            np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize("point", ["1e3", "true", "70000", "-70000", "1" + "0" * 30])
def test_zero_points_of_edited_metadata_are_those_of_ports(point: str, tmp_path: Path) -> None:
    """`compare` ended with an internal error, "Python int too large to convert to C long"."""
    path, data = tmp_path / "m.onnx", {"x": np.random.default_rng(1).normal(0, 1, (4, 3, 5)).astype(np.float32)}
    model = network("g (float[3,5] x) => (float[3,4] y) { y = MatMul(x, w) }")
    zp.quantize(model, data, target="onnxruntime", io="integer").export(path, io="integer")
    onnx.save(model, tmp_path / "float.onnx")
    np.savez(tmp_path / "d.npz", **data)
    edited = onnx.load(path)
    (held,) = edited.metadata_props
    metadata = json.loads(held.value)
    metadata["quantization"]["x"]["zero_point"] = json.loads(point)
    held.value = json.dumps(metadata)
    onnx.save(edited, path)
    ran = CliRunner().invoke(
        main, ["compare", str(tmp_path / "float.onnx"), str(path), "--data", str(tmp_path / "d.npz")]
    )
    assert ran.exit_code == 2
    assert "input 'x': found float32, expected uint8" in ran.output
