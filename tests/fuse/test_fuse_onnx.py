"""Each kernel that fusion is to find is one region for every target: from the ONNX importer, and as a composite."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from zeropoint.frontend import load_model
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.fuse import fuse
from zeropoint.ir.annotations import FUNCTION
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.text import parse_program, print_program
from zeropoint.simplify import simplify
from zeropoint.targets import TARGETS, target

IMAGE, ROWS = (1, 4, 8, 8), (2, 6)
Nodes = list[tuple[str, list[str], dict[str, object]]]
W = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray:
    return W.normal(size=shape).astype(np.float32)


CONV = {"w": weights(5, 4, 3, 3), "b": weights(5)}
MODELS: dict[str, tuple[tuple[int, ...], Nodes, Mapping[str, np.ndarray | np.floating]]] = {
    "convolution": (IMAGE, [("Conv", ["x", "w", "b"], {})], CONV),
    "convolution, relu": (IMAGE, [("Conv", ["x", "w", "b"], {}), ("Relu", ["0"], {})], CONV),
    "convolution, relu6": (
        IMAGE,
        [("Conv", ["x", "w", "b"], {}), ("Clip", ["0", "lo", "hi"], {})],
        {**CONV, "lo": np.float32(0), "hi": np.float32(6)},
    ),
    "convolution of one channel": (IMAGE, [("Conv", ["x", "w", "b"], {})], {"w": weights(1, 4, 3, 3), "b": weights(1)}),
    "depthwise_convolution, relu": (
        IMAGE,
        [("Conv", ["x", "w", "b"], {"group": 4}), ("Relu", ["0"], {})],
        {"w": weights(4, 1, 3, 3), "b": weights(4)},
    ),
    "transpose_convolution": (
        IMAGE,
        [("ConvTranspose", ["x", "w", "b"], {"strides": [2, 2]})],
        {"w": weights(4, 5, 2, 2), "b": weights(5)},
    ),
    "fully_connected": (ROWS, [("Gemm", ["x", "w", "b"], {"transB": 1})], {"w": weights(3, 6), "b": weights(3)}),
    "fully_connected, relu": (
        ROWS,
        [("MatMul", ["x", "w"], {}), ("Add", ["0", "b"], {}), ("Relu", ["1"], {})],
        {"w": weights(6, 3), "b": weights(3)},
    ),
    "add, relu": (ROWS, [("Add", ["x", "y"], {}), ("Relu", ["0"], {})], {}),
    "max_pool": (IMAGE, [("MaxPool", ["x"], {"kernel_shape": [2, 2], "strides": [2, 2]})], {}),
    "average_pool": (IMAGE, [("AveragePool", ["x"], {"kernel_shape": [2, 2], "strides": [2, 2]})], {}),
    "mean": (IMAGE, [("GlobalAveragePool", ["x"], {})], {}),
    "mean of rows": (ROWS, [("ReduceMean", ["x"], {"axes": [1], "keepdims": 0})], {}),
    "softmax": (ROWS, [("Softmax", ["x"], {"axis": -1})], {}),
    "log_softmax": (ROWS, [("LogSoftmax", ["x"], {"axis": -1})], {}),
    "layer_norm": (
        ROWS,
        [("LayerNormalization", ["x", "s", "t"], {"axis": -1})],
        {"s": weights(6), "t": weights(6)},
    ),
    "rms_norm": (
        ROWS,
        [
            ("Mul", ["x", "x"], {}),
            ("ReduceMean", ["0"], {"axes": [-1]}),
            ("Add", ["1", "e"], {}),
            ("Sqrt", ["2"], {}),
            ("Div", ["x", "3"], {}),
            ("Mul", ["4", "s"], {}),
        ],
        {"e": np.float32(1e-6), "s": weights(6)},
    ),
    "rms_norm of transformers": (
        ROWS,
        [
            ("Pow", ["x", "p"], {}),
            ("ReduceMean", ["0"], {"axes": [-1]}),
            ("Add", ["1", "e"], {}),
            ("Sqrt", ["2"], {}),
            ("Reciprocal", ["3"], {}),
            ("Mul", ["x", "4"], {}),
            ("Mul", ["s", "5"], {}),
        ],
        {"e": np.float32(1e-6), "s": weights(6), "p": np.float32(2)},
    ),
    "gelu": (
        ROWS,
        [
            ("Div", ["x", "r"], {}),
            ("Erf", ["0"], {}),
            ("Add", ["1", "o"], {}),
            ("Mul", ["x", "2"], {}),
            ("Mul", ["3", "h"], {}),
        ],
        {"r": np.float32(np.sqrt(2)), "o": np.float32(1), "h": np.float32(0.5)},
    ),
    "hard_swish": (ROWS, [("HardSwish", ["x"], {})], {}),
    "hard_sigmoid": (ROWS, [("HardSigmoid", ["x"], {})], {}),
    "logistic": (ROWS, [("Sigmoid", ["x"], {})], {}),
    "tanh": (ROWS, [("Tanh", ["x"], {})], {}),
}
APART = {
    "gelu": {"onnxruntime", "onnxruntime-vnni", "openvino", "openvino-vnni"},
    "hard_sigmoid": {"litert", "litert-16x8"},
    "hard_swish": {"onnxruntime", "onnxruntime-vnni", "openvino", "openvino-vnni"},
    "rms_norm": {"cpu-integer"},
    "rms_norm of transformers": {"cpu-integer"},
}
"""Targets whose table has kernels for the parts of a function only."""


def imported(name: str, folder: Path) -> Program:
    shape, nodes, constants = MODELS[name]
    made = [
        helper.make_node(kind, inputs, [str(index)], name=f"node{index}", **attributes)
        for index, (kind, inputs, attributes) in enumerate(nodes)
    ]
    used = {value for node in made for value in node.input}
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", "y") if n in used]
    output = helper.make_tensor_value_info(str(len(nodes) - 1), TensorProto.FLOAT, None)
    arrays = [numpy_helper.from_array(np.asarray(array), key) for key, array in constants.items()]
    graph = helper.make_graph(made, "g", inputs, [output], arrays)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "model.onnx"
    onnx.save(proto, path)
    return load_model(path)


def names(program: Program) -> list[str]:
    """What is outside constants: the function, or else the kernel, of each region; other ops by their name."""
    found: list[str] = []
    for op in list(program.entry.ops)[:-1]:
        if isinstance(op, QuantizeRegionOp):
            function = op.attributes.get(FUNCTION)
            found.append(op.logical_kernel.data if function is None else function.data)
        elif not isinstance(op, ConstantOp):
            found.append(op.name)
    return found


@pytest.mark.parametrize("name", MODELS)
def test_what_the_importer_leaves_is_one_kernel_for_every_target(name: str, tmp_path: Path) -> None:
    program = simplify(imported(name, tmp_path))
    kernel = name.split(",")[0].split(" of ")[0]
    for made in TARGETS:
        if made not in APART.get(name, ()):
            assert names(fuse(program, target(made))) == [kernel], made


COMPOSITES = ["gelu", "hard_sigmoid", "hard_swish", "layer_norm", "log_softmax", "logistic", "softmax", "tanh"]


@pytest.mark.parametrize("name", COMPOSITES)
def test_a_composite_is_one_kernel_for_every_target(name: str, tmp_path: Path) -> None:
    program = imported(name, tmp_path)
    body = re.sub(r"\s*loc\(.*?\)$|\{zeropoint\.name = .*?\}", "", print_program(program), flags=re.M)
    body = body[body.index("func.func") : body.rindex("}")].replace("@main", "private @body")
    kind = str(program.inputs[0].type)
    text = f"""
func.func @main(%x: {kind}) -> {kind} {{
  %0 = stablehlo.composite "aten.{name}.default" %x {{decomposition = @body}} : ({kind}) -> {kind}
  return %0 : {kind}
}}
{body}"""
    composite = simplify(parse_program(text))
    for made in TARGETS:
        if made not in APART.get(name, ()):
            assert names(fuse(composite, target(made))) == [name], made


@pytest.mark.parametrize(
    ("first", "second", "kernels"),
    [
        ("Tanh", "LeakyRelu", ["tanh", "leaky_relu"]),
        ("LeakyRelu", "Gelu", ["leaky_relu", "gelu"]),
        ("Tanh", "Gelu", ["tanh", "gelu"]),
    ],
)
def test_one_function_after_another_is_two_kernels_where_no_table_holds_both(
    first: str, second: str, kernels: list[str]
) -> None:
    nodes = [helper.make_node(first, ["x"], ["0"]), helper.make_node(second, ["0"], ["y"])]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ROWS) for name in "xy"]
    graph = helper.make_graph(nodes, "two", ports[:1], ports[1:])
    program = load_onnx_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), {})
    found = fuse(simplify(program), target("litert")).entry.ops
    assert [op.logical_kernel.data for op in found if isinstance(op, QuantizeRegionOp)] == kernels
