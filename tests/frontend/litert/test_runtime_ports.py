"""LiteRT runs files of others with the ports and shapes that the import gives them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import Builder

from zeropoint.export.litert.builder import ModelBuilder
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.frontend import load_model
from zeropoint.interp import Interpreter
from zeropoint.litert_schema import schema

pytest.importorskip("ai_edge_litert", reason="LiteRT judges")


def tables(size: int) -> Any:
    """y = x + x, of `size` elements, without the exporter's metadata."""
    build = ModelBuilder()
    x, y = (build.tensor(name, (1, size), "float32", None) for name in ("x", "y"))
    build.operator("ADD_N", [x, x], [y], None)
    model = schema().ModelT.InitFromObj(schema().Model.GetRootAs(build.finish({"x": x}, {"y": y}, "", {}), 0))
    model.metadata = []
    return model


def written(model: Any, path: Path) -> Path:
    builder = Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    return path


def test_a_file_without_a_signature_has_the_names_of_tensors(tmp_path: Path) -> None:
    model = tables(4)
    model.signatureDefs = []
    path, x = written(model, tmp_path / "m.tflite"), np.ones((1, 4), np.float32)
    file = LiteRTFile(path)
    assert (file.inputs, file.outputs) == (("x",), ("y",))
    np.testing.assert_array_equal(file({"x": x})["y"], Interpreter(load_model(path))({"x": x})["y"])


@pytest.mark.parametrize("sizes", [[7], [4, 7, 4], [9, 4]])
@pytest.mark.parametrize("is_open", [True, False])
def test_inputs_may_have_other_shapes_than_in_the_file(sizes: Sequence[int], is_open: bool, tmp_path: Path) -> None:
    model = tables(4)
    if is_open:
        model.subgraphs[0].tensors[0].shapeSignature = [1, -1]
    file = LiteRTFile(written(model, tmp_path / "m.tflite"))
    for size in sizes:
        x = np.arange(size, dtype=np.float32)[None]
        np.testing.assert_array_equal(file({"x": x})["y"], x + x)


def test_a_placeholder_that_does_not_fit_is_no_refusal(tmp_path: Path) -> None:
    """The graph is valid for 8 elements only, and has 1 in their place."""
    model = tables(1)
    graph = model.subgraphs[0]
    graph.tensors[0].shapeSignature = [1, -1]
    code, sizes, operator = schema().OperatorCodeT(), schema().TensorT(), graph.operators[0]
    code.builtinCode = code.deprecatedBuiltinCode = schema().BuiltinOperator.RESHAPE
    model.operatorCodes = [code]
    data = schema().BufferT()
    data.data = np.frombuffer(np.array([2, 4], np.int32).tobytes(), np.uint8)
    model.buffers.append(data)
    sizes.name, sizes.shape, sizes.buffer, sizes.type = "sizes", [2], len(model.buffers) - 1, schema().TensorType.INT32
    graph.tensors.append(sizes)
    graph.tensors[1].shape = [2, 4]
    operator.inputs = [0, len(graph.tensors) - 1]
    path, x = written(model, tmp_path / "m.tflite"), np.arange(8, dtype=np.float32)[None]
    np.testing.assert_array_equal(LiteRTFile(path)({"x": x})["y"], x.reshape(2, 4))


def test_of_several_signatures_that_of_the_main_graph_counts(tmp_path: Path) -> None:
    model = tables(4)
    second = schema().ModelT.InitFromObj(
        schema().Model.GetRootAs(written(model, tmp_path / "m.tflite").read_bytes(), 0)
    )
    model.subgraphs.append(second.subgraphs[0])
    other = second.signatureDefs[0]
    other.subgraphIndex, other.signatureKey, other.inputs[0].name = 1, "another", "z"
    model.signatureDefs.insert(0, other)
    path = written(model, tmp_path / "m.tflite")
    assert LiteRTFile(path).inputs == ("x",)
    assert [port.name for port in load_model(path).inputs] == ["x"]
