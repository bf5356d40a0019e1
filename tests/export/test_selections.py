"""Models that select, sort or reduce, in every runtime: they compute what we predict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from zeropoint.export import export_program
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.export.onnx.runtime import OnnxFile
from zeropoint.export.tosa.runtime import TosaFile, tools
from zeropoint.frontend.litert.reader import read_model
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.fuse import fuse
from zeropoint.interp import Interpreter
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.pipeline import Options, quantize
from zeropoint.simplify import simplify
from zeropoint.targets import target

SHAPE = (2, 3, 5)
RUNTIMES: Mapping[str, tuple[str, Callable[[Path], Any]]] = {
    "litert": (".tflite", lambda path: LiteRTFile(path, reference=True)),
    "onnxruntime": (".onnx", OnnxFile),
    "tosa": (".tosa.mlir", TosaFile),
}


def model(*nodes: onnx.NodeProto, results: str = "y", **constants: Any) -> onnx.ModelProto:
    """A model on x and z; results named i... are positions."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in "xz"]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64 if name.startswith("i") else TensorProto.FLOAT, None)
        for name in results.split()
    ]
    initializers = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


WHERE = model(node("Greater", "x z", "c"), node("Where", "c x z", "y"))
MASK = model(node("Add", "x z", "s"), node("Where", "c s t", "y"), c=np.eye(3, 5) > 0, t=np.float32(-1e9))
TOP = model(node("Add", "x z", "s"), node("TopK", "s k", "y i", axis=1, largest=0), results="y i", k=np.array([2]))
CASES = {
    "select": WHERE,
    "mask": MASK,
    "top-k": model(node("Add", "x z", "s"), node("TopK", "s k", "y i"), results="y i", k=np.array([3])),
    "least-k": TOP,
    "arg-max": model(node("Add", "x z", "s"), node("ArgMax", "s", "i", axis=1), results="i"),
    "arg-min": model(node("Add", "x z", "s"), node("ArgMin", "s", "i", axis=2, keepdims=0), results="i"),
    "softplus": model(node("Add", "x z", "s"), node("Softplus", "s", "y")),
}


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", CASES)
def test_the_runtime_computes_what_we_predict(name: str, runtime: str, tmp_path: Path) -> None:
    if runtime == "tosa" and (tools() is None or name.endswith("-k")):
        pytest.skip("tosa-tools are not installed, or TOSA has no sort")
    pytest.importorskip({"litert": "ai_edge_litert", "onnxruntime": "onnxruntime", "tosa": "numpy"}[runtime])
    random = np.random.default_rng(0)
    samples = [{key: random.normal(0, 1, SHAPE).astype(np.float32) for key in "xz"} for _ in range(4)]
    result = quantize(load_onnx_model(CASES[name], {}), samples, Options(target=runtime))
    suffix, opened = RUNTIMES[runtime]
    path = tmp_path / f"model{suffix}"
    export_program(result.propagated, path)
    found, expected = opened(path)(samples[0]), Interpreter(result.quantized)(samples[0])
    for key, array in expected.items():
        np.testing.assert_array_equal(found[key], array)


INTEGER = {
    "arg-max": ({"QUANTIZE", "ADD", "ARG_MAX", "RESHAPE"}, {"QuantizeLinear", "QLinearAdd", "ArgMax", "Reshape"}),
    "arg-min": ({"QUANTIZE", "ADD", "ARG_MIN"}, {"QuantizeLinear", "QLinearAdd", "ArgMin"}),
}


@pytest.mark.parametrize("name", INTEGER)
def test_positions_of_stored_integers_are_found_by_an_integer_operator(name: str, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    runtime = pytest.importorskip("onnxruntime")
    random = np.random.default_rng(0)
    samples = [{key: random.normal(0, 1, SHAPE).astype(np.float32) for key in "xz"} for _ in range(4)]
    litert, ort = (
        quantize(load_onnx_model(CASES[name], {}), samples, Options(target=key)) for key in ("litert", "onnxruntime")
    )
    export_program(litert.propagated, tmp_path / "model.tflite")
    export_program(ort.propagated, tmp_path / "model.onnx")
    operators = read_model((tmp_path / "model.tflite").read_bytes()).operators
    options = runtime.SessionOptions()
    options.log_severity_level, options.optimized_model_filepath = 4, str(tmp_path / "optimized.onnx")
    runtime.InferenceSession(str(tmp_path / "model.onnx"), options, providers=["CPUExecutionProvider"])
    nodes = onnx.load(tmp_path / "optimized.onnx").graph.node
    assert ({op.name for op in operators}, {op.op_type for op in nodes}) == INTEGER[name]


@pytest.mark.parametrize("runtime", ["litert", "onnxruntime"])
def test_the_greatest_of_stored_integers_are_sorted_as_integers(runtime: str, tmp_path: Path) -> None:
    pytest.importorskip({"litert": "ai_edge_litert", "onnxruntime": "onnxruntime"}[runtime])
    random = np.random.default_rng(0)
    samples = [{key: random.normal(0, 1, SHAPE).astype(np.float32) for key in "xz"} for _ in range(4)]
    result = quantize(load_onnx_model(CASES["top-k"], {}), samples, Options(target=runtime))
    path = tmp_path / f"model{RUNTIMES[runtime][0]}"
    export_program(result.propagated, path)
    if runtime == "litert":
        read = read_model(path.read_bytes())
        (sort,) = [op for op in read.operators if op.name == "TOPK_V2"]
        assert read.tensors[sort.inputs[0]].dtype == np.int8
    else:
        nodes = onnx.load(path).graph.node
        (sort,) = [op for op in nodes if op.op_type == "TopK"]
        (maker,) = [op for op in nodes if sort.input[0] in op.output]
        assert maker.op_type == "QuantizeLinear"


@pytest.mark.parametrize("target_name", ["cpu", "litert", "onnxruntime", "tosa"])
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_positions_in_a_float_are_those_of_the_float_model(op: str, target_name: str) -> None:
    # The extreme of x was rounded and x was not, so that no element equalled it.
    random = np.random.default_rng(0)
    samples = [{key: random.normal(0, 1, SHAPE).astype(np.float32) for key in "xz"} for _ in range(4)]
    program = load_onnx_model(model(node(op, "x", "i", axis=1), results="i"), {})
    result = quantize(program, samples, Options(target=target_name))
    for sample in samples:
        np.testing.assert_array_equal(Interpreter(result.integer)(sample)["i"], Interpreter(program)(sample)["i"])


def kernels(proto: onnx.ModelProto, name: str) -> list[str]:
    program = fuse(simplify(load_onnx_model(proto, {})), target(name))
    return [op.logical_kernel.data for op in program.entry.ops if isinstance(op, QuantizeRegionOp)]


def test_a_selection_of_two_activations_is_a_kernel_where_the_target_has_it() -> None:
    assert kernels(WHERE, "litert") == ["select"]
    assert kernels(WHERE, "cpu") == ["compare", "select"]
    assert kernels(WHERE, "stablehlo") == []  # without a kernel `select`, the selection stays float


def test_a_mask_with_a_constant_is_left_in_float() -> None:
    assert kernels(MASK, "litert") == ["add"]
