"""`quantization_annotation` of a model: the type of a float tensor that the model does not round."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.ir.text import print_program


def annotated_model(scale: np.ndarray, zero_point: np.ndarray, tensor: str = "n", keys: tuple[str, ...] = ()) -> str:
    """The program of abs(neg(x)), in which `tensor` is annotated."""
    nodes = [helper.make_node("Neg", ["x"], ["n"], "neg"), helper.make_node("Abs", ["n"], ["y"], "abs")]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", "y")]
    constants = [numpy_helper.from_array(scale, "scale"), numpy_helper.from_array(zero_point, "point")]
    graph = helper.make_graph(nodes, "graph", ports[:1], ports[1:], constants)
    annotation = graph.quantization_annotation.add(tensor_name=tensor)
    for key, value in zip(keys or ("SCALE_TENSOR", "ZERO_POINT_TENSOR"), ("scale", "point"), strict=False):
        annotation.quant_parameter_tensor_names.add(key=key, value=value)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return print_program(load_onnx_model(model, {}))


def test_an_annotated_tensor_has_casts_that_say_so() -> None:
    text = annotated_model(np.float32(0.5), np.uint8(128))
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("%")]
    assert [line.split()[2] for line in lines] == ["stablehlo.negate", "quant.qcast", "quant.dcast", "stablehlo.abs"]
    assert "!quant.uniform<u8:f32, 5.000000e-01:128>" in lines[1]
    assert "{zeropoint.annotated}" in lines[2]


@pytest.mark.parametrize(
    ("scale", "zero_point", "keys"),
    [
        (np.float32([0.5, 0.25]), np.uint8([128, 3]), ()),
        (np.float32(0.5), np.int64(128), ()),
        (np.float32(np.nan), np.uint8(128), ()),
        (np.float64(1e-60), np.uint8(128), ()),
        (np.float32(0.5), np.uint8(128), ("SCALE_TENSOR",)),
        (np.float32(0.5), np.uint8(128), ("MINIMUM", "MAXIMUM")),
    ],
)
def test_annotations_without_one_scale_and_one_zero_point_are_not_read(
    scale: np.ndarray, zero_point: np.ndarray, keys: tuple[str, ...]
) -> None:
    assert "quant." not in annotated_model(scale, zero_point, keys=keys)


def test_an_annotation_of_an_input_is_not_read() -> None:
    assert "quant." not in annotated_model(np.float32(0.5), np.uint8(128), "x")
