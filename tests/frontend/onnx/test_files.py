"""Where tensors of a file live, and the element types that they have."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

from frontend.onnx.models import assert_same_as_onnxruntime, load, model, one_op, random, tensor
from zeropoint.frontend import ModelError, load_model
from zeropoint.frontend.onnx.tensors import read_tensor
from zeropoint.interp import run


def external(folder: Path) -> Path:
    proto = one_op("Gemm", {"x": (2, 16)}, {"w": random(16, 8), "b": random(8)})
    path = folder / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="model.data", size_threshold=0)
    return path


def test_external_data_is_read(tmp_path: Path) -> None:
    inputs = {"x": random(2, 16, seed=5)}
    found = run(load_model(external(tmp_path)), inputs)["y0"]
    np.testing.assert_allclose(found, inputs["x"] @ random(16, 8) + random(8), rtol=1e-5, atol=1e-5)


def test_external_data_is_memory_mapped(tmp_path: Path) -> None:
    graph = onnx.load(external(tmp_path), load_external_data=False).graph
    assert isinstance(read_tensor(graph.initializer[0], tmp_path), np.memmap)


def test_shapes_in_external_data_are_folded(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[2, 6] x) => (float[A, B] y) <int64[2] rows = {3, 1}, int64[2] columns = {1, 4}>
    { shape = Mul(rows, columns)  y = Reshape(x, shape) }"""
    path = tmp_path / "model.onnx"
    proto = onnx.parser.parse_model(text)
    onnx.save(proto, path, save_as_external_data=True, location="model.data", size_threshold=0)
    assert load_model(path).outputs[0].type.get_shape() == (3, 4)


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (
            lambda data: data.unlink(),
            "found no file 'model.data' beside the model, which holds its data; copy it there",
        ),
        (lambda data: data.write_bytes(b"12"), "'model.data' ends at byte 2, expected "),
    ],
)
def test_external_data_that_is_missing_or_short(break_it, message: str, tmp_path: Path) -> None:
    path = external(tmp_path)
    break_it(tmp_path / "model.data")
    with pytest.raises(ModelError, match=f"tensor '[wb]': {message}"):
        load_model(path)


def test_external_data_outside_the_folder_is_refused(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    path = external(inner)
    (inner / "model.data").rename(tmp_path / "model.data")
    proto = onnx.load(path, load_external_data=False)
    for initializer in proto.graph.initializer:
        next(entry for entry in initializer.external_data if entry.key == "location").value = "../model.data"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match="lies outside the model's folder"):
        load_model(path)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_floats_of_other_widths_become_f32(dtype: type, tmp_path: Path) -> None:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    weight = random(2, 3).astype(dtype)
    node = helper.make_node("Mul", ["x", "w"], ["y"])
    proto = model([node], [tensor("x", (2, 3), element)], [tensor("y", None, element)], {"w": weight})
    program = load(proto, tmp_path)
    assert str(program.inputs[0].type.element_type) == "f32"
    inputs = random(2, 3, seed=2)
    np.testing.assert_array_equal(run(program, {"x": inputs})["y"], inputs * weight.astype(np.float32))


def test_casts_between_floats_vanish_and_integers_are_converted(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (uint8[4] x) => (float[4] y) { a = Cast<to = 10>(x)  y = Cast<to = 1>(a) }"""
    program = assert_same_as_onnxruntime(
        onnx.parser.parse_model(text), tmp_path, {"x": np.array([0, 1, 200, 255], np.uint8)}
    )
    assert [op.name for op in program.entry.ops] == ["stablehlo.convert", "func.return"]


def test_constant_nodes_in_every_form(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x) => (float[N] y)
    {
      a = Constant<value = float[2] {1.0, 2.0}>()
      b = Constant<value_float = 3.5>()
      c = Constant<value_floats = [4.0, 5.0]>()
      axes = Constant<value_ints = [1]>()
      axis = Constant<value_int = 1>()
      s = Sum(x, a, b, c)
      u = Unsqueeze(s, axes)
      p = Pow(u, axis)
      y = Squeeze(p, axes)
    }"""
    assert_same_as_onnxruntime(onnx.parser.parse_model(text), tmp_path)


def test_initializers_among_the_inputs_are_no_inputs(tmp_path: Path) -> None:
    proto = one_op("Add", {"x": (2,)}, {"b": random(2)})
    proto.graph.input.append(tensor("b", (2,)))
    assert [port.name for port in load(proto, tmp_path).inputs] == ["x"]


def test_weights_in_typed_fields_are_read(tmp_path: Path) -> None:
    values = np.arange(70, dtype=np.float32)
    initializer = helper.make_tensor("w", TensorProto.FLOAT, (70,), values.tolist())
    assert not initializer.HasField("raw_data")
    np.testing.assert_array_equal(read_tensor(initializer, tmp_path), values)
    np.testing.assert_array_equal(read_tensor(numpy_helper.from_array(values), tmp_path), values)


def test_model_local_functions_are_inlined(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
    g (float[2] x) => (float[N] y) { y = local.twice(x) }
    <domain: "local", opset_import: ["" : 17]>
    twice (a) => (b) { b = Add(a, a) }"""
    program = assert_same_as_onnxruntime(onnx.parser.parse_model(text), tmp_path)
    assert [op.name for op in program.entry.ops] == ["stablehlo.add", "func.return"]


def test_importing_the_frontend_imports_no_onnx() -> None:
    import subprocess
    import sys

    code = "import sys, zeropoint.frontend; sys.exit('onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
