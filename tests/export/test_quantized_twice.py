"""An input that two kernels quantize with different scales: exported, and imported again as the same program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import zeropoint as zp
from export.quantized_graphs import Graph, Type
from zeropoint.export import ExportOptions, export_program
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.frontend import load_model
from zeropoint.interp import Interpreter
from zeropoint.pipeline import Options, quantize


def network() -> onnx.ModelProto:
    """A concatenation of an image and a convolution of it, which has other values, and a convolution of both."""
    random = np.random.default_rng(0)
    weights = {"w": (4, 3, 3, 3), "v": (2, 7, 1, 1)}
    held = [numpy_helper.from_array(random.normal(0, 1, shape).astype(np.float32), n) for n, shape in weights.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Concat", ["a", "x"], ["b"], axis=1),
        helper.make_node("Conv", ["b", "v"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, c, 6, 6]) for n, c in (("x", 3), ("y", 2))]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


@pytest.mark.parametrize(
    ("target", "suffix", "channels_last"),
    [("litert", ".tflite", True), ("litert", ".tflite", False), ("onnxruntime", ".onnx", True)],
)
def test_it_comes_back_with_both_types(target: str, suffix: str, channels_last: bool, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    samples = [{"x": random.normal(0, 1, (1, 3, 6, 6)).astype(np.float32)} for _ in range(3)]
    model = zp.load(network()).program
    first = quantize(model, samples, Options(target=target))
    path = tmp_path / f"model{suffix}"
    export_program(first.propagated, path, ExportOptions(channels_last=channels_last))
    run = LiteRTFile(path, reference=True) if suffix == ".tflite" else None
    again = quantize(load_model(path), [], Options(target=target))
    for sample in samples:
        expected = Interpreter(first.quantized)(sample)["y"]
        if run is not None:
            np.testing.assert_array_equal(run(sample)["y"], expected)
        np.testing.assert_array_equal(Interpreter(again.quantized)(sample)["y"], expected)


def test_a_float_result_comes_back_with_the_types_of_both_readers(tmp_path: Path) -> None:
    """onnxruntime has no kernel for a difference. Its second reader read a rescale of what the first one reads."""
    random = np.random.default_rng(0)
    weights = random.normal(0, 1, (2, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Sub", ["x", "z"], ["d"]),
        helper.make_node("Slice", ["d", "from", "to", "axis"], ["s"]),
        helper.make_node("Conv", ["d", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Concat", ["c", "s"], ["y"], axis=1),
    ]
    places = [numpy_helper.from_array(np.array([n]), name) for name, n in (("from", 1), ("to", 2), ("axis", 1))]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 3, 6, 6]) for n in ("x", "z", "y")]
    graph = helper.make_graph(nodes, "g", ports[:2], ports[2:], [*places, numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    samples = [{name: random.normal(0, 1, (1, 3, 6, 6)).astype(np.float32) for name in "xz"} for _ in range(3)]
    first = quantize(zp.load(model).program, samples, Options(target="onnxruntime"))
    export_program(first.propagated, tmp_path / "m.onnx", ExportOptions())
    again = quantize(load_model(tmp_path / "m.onnx"), [], Options(target="onnxruntime"))
    for sample in samples:
        expected = Interpreter(first.quantized)(sample)["y"]
        np.testing.assert_array_equal(Interpreter(again.quantized)(sample)["y"], expected)


@pytest.mark.parametrize("is_first", [True, False])
def test_integers_and_floats_of_two_types_are_those_of_one_convolution(is_first: bool, tmp_path: Path) -> None:
    """The import was an error: found two pinned types."""
    graph, path = Graph(), tmp_path / "m.onnx"
    weights = graph.stored((3, 4, 3, 3), (0.01, 0), np.int8)
    value = graph.node("Conv", graph.stored_input((1, 4, 6, 6), (0.02, 128)), weights)
    kinds: list[Type] = [(0.05, 193), (0.1, 0)]
    made = [graph.cast(value, kinds[0]), graph.stored_output(value, kinds[1])]
    model = graph.model_of(made if is_first else made[::-1])
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), options)
    program = zp.quantize(model, target="onnxruntime")
    program.export(path)
    ours = onnxruntime.InferenceSession(path)
    for _ in range(3):
        sample = graph.sample()
        expected = program(**sample)
        for session in (theirs, ours):
            for name, array in zip(expected, session.run(list(expected), sample), strict=True):
                np.testing.assert_array_equal(array, expected[name])


def test_a_dequantized_value_that_is_stored_in_another_type_is_rescaled(tmp_path: Path) -> None:
    """Our own file of a pool with such an output could not be imported: found two pinned types."""
    graph, path = Graph(), tmp_path / "m.onnx"
    value = graph.node("MaxPool", graph.input((1, 3, 6, 6), (0.05, 120)), kernel_shape=[3, 3])
    model = graph.model_of([graph.stored_output(value, (0.04, 100))])
    program = zp.quantize(model, target="onnxruntime")
    program.export(path)
    again = zp.quantize(path, target="onnxruntime")
    for _ in range(3):
        sample = graph.sample()
        (expected,), (found,) = program(**sample).values(), again(**sample).values()
        np.testing.assert_array_equal(found, expected)
        for file in (model.SerializeToString(), path):
            (theirs,) = onnxruntime.InferenceSession(file).run(None, sample)
            np.testing.assert_array_equal(np.asarray(theirs), expected)


IMAGE = (1, 3, 8, 8)
TWO: list[Type] = [(0.03, 120), (0.023, 100)]


def convolved(graph: Graph, value: str) -> str:
    return graph.node("Conv", value, graph.stored((3, 3, 1, 1), (0.01, 0), np.int8))


def pooled(graph: Graph, value: str) -> str:
    return graph.node("MaxPool", value, kernel_shape=[2, 2])


def added(graph: Graph, value: str) -> str:
    return graph.node("Add", value, graph.input(IMAGE, (0.04, 100)))


def joined(graph: Graph, value: str) -> str:
    return graph.node("Concat", value, graph.input(IMAGE, (0.04, 100)), axis=1)


def curved(graph: Graph, value: str) -> str:
    return graph.node("Sigmoid", value)


def transposed(graph: Graph, value: str) -> str:
    return graph.node("Transpose", convolved(graph, value), perm=[0, 2, 3, 1])


def pooled_and_transposed(graph: Graph, value: str) -> str:
    return graph.node("Transpose", pooled(graph, convolved(graph, value)), perm=[0, 2, 3, 1])


MAKERS = [convolved, pooled, added, joined, curved, transposed, pooled_and_transposed]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_each_of_two_casts_reads_the_unrounded_result(make: Callable[[Graph, str], str], tmp_path: Path) -> None:
    """onnxruntime computes a kernel with two casts behind it in floats. The second was made of the first one's
    integers: 8 to 22 % of its values were a step off, and our own files with a pool could not be imported."""
    graph, path = Graph(), tmp_path / "m.onnx"
    value = make(graph, graph.input(IMAGE, (0.05, 120)))
    first, second = (graph.cast(value, kind) for kind in TWO)
    model = graph.model_of([first, graph.cast(convolved(graph, second), (0.05, 128)) if make is convolved else second])
    program = zp.quantize(model, target="onnxruntime")
    program.export(path)
    again = zp.quantize(path, target="onnxruntime")
    for _ in range(4):
        sample = graph.sample()
        expected = program(**sample)
        for name, array in again(**sample).items():
            np.testing.assert_array_equal(array, expected[name])
        for file in (model.SerializeToString(), path):
            found = onnxruntime.InferenceSession(file).run(list(expected), sample)
            for name, array in zip(expected, found, strict=True):
                np.testing.assert_array_equal(array, expected[name])


def test_a_product_that_is_written_between_reshapes_is_read_again(tmp_path: Path) -> None:
    """The reshape after it has the two types. The second was made of the first one's integers: a quarter of its values
    were a step off. All sums are exact in f32."""
    graph, path = Graph(), tmp_path / "m.onnx"
    product = graph.node("MatMul", graph.input(IMAGE, (0.0625, 120)), graph.stored((8, 8), (0.0078125, 0), np.int8))
    model = graph.model_of([graph.cast(product, kind) for kind in TWO])
    program = zp.quantize(model, target="onnxruntime")
    program.export(path)
    sample = graph.sample()
    expected, again = program(**sample), zp.quantize(path, target="onnxruntime")(**sample)
    for file in (model.SerializeToString(), path):
        found = onnxruntime.InferenceSession(file).run(list(expected), sample)
        for name, array in zip(expected, found, strict=True):
            np.testing.assert_array_equal(array, expected[name])
            np.testing.assert_array_equal(again[name], expected[name])
