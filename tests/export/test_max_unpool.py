"""Max pools with positions, and the scatter at computed positions that undoes them, in ONNX files."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from oracle.qdq import optimized
from zeropoint.export import ExportError
from zeropoint.export.litert.model import litert_model
from zeropoint.export.onnx.model import onnx_model
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program
from zeropoint.pipeline import Options, quantize


def unpooled(*, storage_order: int = 0) -> onnx.ModelProto:
    """A convolution, a max pool with its positions, which are an output, too, and a max unpool."""
    weight = np.random.default_rng(0).normal(0, 0.3, (8, 4, 3, 3)).astype(np.float32)
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4),
        helper.make_node("MaxPool", ["a"], ["p", "i"], storage_order=storage_order, **window),
        *([] if storage_order else [helper.make_node("MaxUnpool", ["p", "i"], ["y"], **window)]),
    ]
    ports = {"x": (1, 4, 8, 8), "i": (1, 8, 4, 4), "p": (1, 8, 4, 4)} if storage_order else {}
    ports = ports or {"x": (1, 4, 8, 8), "i": (1, 8, 4, 4), "y": (1, 8, 8, 8)}
    typed = [
        helper.make_tensor_value_info(name, TensorProto.INT64 if name == "i" else TensorProto.FLOAT, shape)
        for name, shape in ports.items()
    ]
    graph = helper.make_graph(nodes, "g", typed[:1], typed[1:], [numpy_helper.from_array(weight, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize("order", [0, 1])
def test_a_pool_with_positions_and_its_inverse_are_predicted(order: int) -> None:
    random = np.random.default_rng(1)
    data = [{"x": random.normal(0, 1, (1, 4, 8, 8)).astype(np.float32)} for _ in range(3)]
    made = quantize(load_onnx_model(unpooled(storage_order=order), {}), data, Options(target="onnxruntime"))
    exported = onnx_model(made.propagated)
    assert [node.attribute[-1].i for node in exported.graph.node if node.op_type == "MaxPool"] == [order]
    run = optimized(exported)
    for sample in data:
        expected = Interpreter(made.quantized)(sample)
        for found, array in zip(run.run(sample), expected.values(), strict=True):
            np.testing.assert_array_equal(found, array)


def test_positions_out_of_range_are_skipped() -> None:
    program = parsed(
        """stablehlo.scatter"(%x, %i, %z) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
      inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        stablehlo.return %b : tensor<f32>
    }) : (tensor<4x2xf32>, tensor<3x1xi32>, tensor<3x2xf32>) -> tensor<4x2xf32>"""
    )
    x, z = np.arange(8, dtype=np.float32).reshape(4, 2), -np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    sample = {"x": x, "z": z, "i": np.array([[2], [4], [-1]], np.int32)}
    (found,) = optimized(onnx_model(program)).run(sample)
    np.testing.assert_array_equal(found, Interpreter(program)(sample)["y"])


def parsed(op: str) -> Program:
    return parse_program(
        f"""func.func @main(%x: tensor<4x2xf32> {{zeropoint.name = "x"}}, %z: tensor<3x2xf32> {{zeropoint.name = "z"}},
      %i: tensor<3x1xi32> {{zeropoint.name = "i"}}) -> (tensor<4x2xf32> {{zeropoint.name = "y"}}) {{
    %y = "{op}
    return %y : tensor<4x2xf32>
  }}"""
    )


def test_formats_without_positions_of_maxima_name_one_that_has_them() -> None:
    random = np.random.default_rng(1)
    data = [{"x": random.normal(0, 1, (1, 4, 8, 8)).astype(np.float32)}]
    made = quantize(load_onnx_model(unpooled(), {}), data, Options(target="litert"))
    with pytest.raises(ExportError, match=r"found stablehlo.reduce_window.*use --target onnxruntime -o model.onnx"):
        litert_model(made.propagated)
