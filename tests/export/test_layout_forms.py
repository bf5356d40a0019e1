"""Forms of networks whose files have no more transposes than the models, with the bits of the prediction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import zeropoint as zp
from oracle.litert import operators
from zeropoint.export.litert.model import litert_model
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.frontend.litert.reader import read_model
from zeropoint.interp import Interpreter
from zeropoint.ir.tensors import Array

SHAPE = (1, 3, 8, 6)


class Net:
    """A model that grows from its input `x`."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[object] = []
        self.constants: list[TensorProto] = []

    def constant(self, array: Array) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(array), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def weights(self, *shape: int) -> str:
        return self.constant(self.random.normal(0, 1 / np.sqrt(np.prod(shape[1:]) or 1), shape).astype(np.float32))

    def op(self, kind: str, *inputs: str, **attributes: object) -> str:
        return self.split(kind, 1, *inputs, **attributes)[0]

    def split(self, kind: str, count: int, *inputs: str, **attributes: object) -> list[str]:
        outputs = [f"{kind.lower()}{len(self.nodes)}.{index}" for index in range(count)]
        self.nodes.append(helper.make_node(kind, inputs, outputs, name=outputs[0], **attributes))
        return outputs

    def conv(self, x: str, given: int, made: int, size: int = 3, **attributes: object) -> str:
        return self.op("Conv", x, self.weights(made, given, size, size), pads=[size // 2] * 4, **attributes)

    def reshape(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.constant(np.array(shape)))

    def transpose(self, x: str, *order: int) -> str:
        return self.op("Transpose", x, perm=list(order))

    def dense(self, x: str, given: int, made: int) -> str:
        return self.op("Gemm", x, self.weights(made, given), transB=1)

    def model(self, *results: str) -> ModelProto:
        ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)]
        outputs = [helper.make_tensor_value_info(result, TensorProto.FLOAT, None) for result in results]
        graph = helper.make_graph(self.nodes, "g", ports, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def shuffled(net: Net, x: str, groups: int) -> str:
    y = net.transpose(net.reshape(x, 1, groups, 12 // groups, 8, 6), 0, 2, 1, 3, 4)
    return net.reshape(y, 1, 12, 8, 6)


def two_shuffles(net: Net) -> str:
    return net.conv(shuffled(net, shuffled(net, net.conv("x", 3, 12), 3), 2), 12, 5)


def shuffles_around_a_function(net: Net) -> str:
    x = net.op("Sigmoid", shuffled(net, net.conv("x", 3, 12), 3))
    return net.conv(shuffled(net, x, 2), 12, 5)


def two_pixel_shuffles(net: Net) -> str:
    x = net.op("DepthToSpace", net.conv("x", 3, 16), blocksize=2, mode="CRD")
    return net.conv(net.op("DepthToSpace", x, blocksize=2, mode="CRD"), 1, 3)


def gate_of_fully_connected_layers(net: Net) -> str:
    x = net.conv("x", 3, 8)
    gate = net.op("Relu", net.dense(net.op("Flatten", net.op("GlobalAveragePool", x)), 8, 4))
    gate = net.reshape(net.op("Sigmoid", net.dense(gate, 4, 8)), 1, 8, 1, 1)
    return net.conv(net.op("Mul", x, gate), 8, 5)


def gate_of_pixels(net: Net) -> str:
    x = net.conv("x", 3, 8)
    parts = [net.op(kind, x, axes=[1], keepdims=1) for kind in ("ReduceMean", "ReduceMax")]
    gate = net.op("Sigmoid", net.conv(net.op("Concat", *parts, axis=1), 2, 1))
    return net.conv(net.op("Mul", x, gate), 8, 5)


def gate_of_rows_and_columns(net: Net) -> str:
    x = net.conv("x", 3, 8)
    rows = net.op("ReduceMean", x, axes=[3], keepdims=1)
    columns = net.transpose(net.op("ReduceMean", x, axes=[2], keepdims=1), 0, 1, 3, 2)
    y = net.op("HardSwish", net.conv(net.op("Concat", rows, columns, axis=2), 8, 4, 1))
    rows, columns = net.split("Split", 2, y, net.constant(np.array([8, 6])), axis=2)
    gates = [net.op("Sigmoid", net.conv(part, 4, 8, 1)) for part in (rows, net.transpose(columns, 0, 1, 3, 2))]
    return net.conv(net.op("Mul", net.op("Mul", x, gates[0]), gates[1]), 8, 5)


def classes_of_pixels(net: Net) -> str:
    return net.op("Cast", net.op("ArgMax", net.conv("x", 3, 8), axis=1, keepdims=0), to=TensorProto.FLOAT)


def selected_channels(net: Net) -> str:
    return net.conv(net.op("Gather", net.conv("x", 3, 8), net.constant(np.array([3, 1, 0, 7])), axis=1), 4, 5)


def distances_of_a_detector(net: Net) -> str:
    """As in YOLOv8: expectations over bins, by a convolution of single pixels, beside scores."""
    levels = [net.conv("x", 3, 8)]
    levels.append(net.conv(levels[0], 8, 8, strides=[2, 2]))
    joined = net.op("Concat", *(net.reshape(net.conv(level, 8, 12, 1), 1, 12, -1) for level in levels), axis=2)
    boxes, scores = net.split("Split", 2, joined, net.constant(np.array([8, 4])), axis=1)
    bins = net.op("Softmax", net.transpose(net.reshape(boxes, 1, 4, 2, 60), 0, 2, 1, 3), axis=1)
    mean = net.op("Conv", bins, net.constant(np.arange(2).reshape(1, 2, 1, 1).astype(np.float32)))
    return net.op("Concat", net.reshape(mean, 1, 4, 60), net.op("Sigmoid", scores), axis=1)


def attention_of_pixels(net: Net) -> str:
    x = net.conv("x", 3, 8)
    queries = net.transpose(net.reshape(net.conv(x, 8, 4, 1), 1, 4, 48), 0, 2, 1)
    keys = net.reshape(net.conv(x, 8, 4, 1), 1, 4, 48)
    values = net.transpose(net.reshape(net.conv(x, 8, 8, 1), 1, 8, 48), 0, 2, 1)
    scores = net.op("Softmax", net.op("MatMul", queries, keys), axis=-1)
    made = net.reshape(net.transpose(net.op("MatMul", scores, values), 0, 2, 1), 1, 8, 8, 6)
    return net.conv(net.op("Add", x, made), 8, 5)


def attention_of_heads(net: Net) -> str:
    x = net.conv("x", 3, 8)
    queries, keys, values = (net.reshape(net.conv(x, 8, 8, 1), 1, 2, 4, 48) for _ in range(3))
    scores = net.op("Softmax", net.op("MatMul", net.transpose(queries, 0, 1, 3, 2), keys), axis=-1)
    made = net.transpose(net.op("MatMul", scores, net.transpose(values, 0, 1, 3, 2)), 0, 1, 3, 2)
    return net.conv(net.op("Add", x, net.reshape(made, 1, 8, 8, 6)), 8, 5)


def attention_of_a_detector(net: Net) -> str:
    """As in YOLO11: queries, keys and values are parts of each head."""
    x = net.conv("x", 3, 8)
    parts = net.reshape(net.conv(x, 8, 16, 1), 1, 2, 8, 48)
    queries, keys, values = net.split("Split", 3, parts, net.constant(np.array([2, 2, 4])), axis=2)
    scores = net.op("MatMul", net.transpose(queries, 0, 1, 3, 2), keys)
    scores = net.op("Softmax", net.op("Mul", scores, net.constant(np.float32(0.7))), axis=-1)
    y = net.reshape(net.op("MatMul", values, net.transpose(scores, 0, 1, 3, 2)), 1, 8, 8, 6)
    places = net.op("Conv", net.reshape(values, 1, 8, 8, 6), net.weights(8, 1, 3, 3), pads=[1] * 4, group=8)
    return net.op("Add", x, net.conv(net.op("Add", y, places), 8, 8, 1))


def attention_of_ten_heads(net: Net) -> str:
    x = net.conv("x", 3, 20)
    queries, keys, values = (net.reshape(net.conv(x, 20, 20, 1), 1, 10, 2, 48) for _ in range(3))
    scores = net.op("Softmax", net.op("MatMul", net.transpose(queries, 0, 1, 3, 2), keys), axis=-1)
    y = net.op("MatMul", values, net.transpose(scores, 0, 1, 3, 2))
    return net.conv(net.op("Add", x, net.reshape(y, 1, 20, 8, 6)), 20, 5)


def rows_of_text(net: Net) -> str:
    """Channels and rows are one dimension, columns are the time."""
    x = net.transpose(net.reshape(net.conv("x", 3, 8), 1, 64, 6), 0, 2, 1)
    return net.op("MatMul", x, net.weights(64, 5))


def patches_and_back(net: Net) -> str:
    """As in MobileViT: six moves in two chains."""
    x = net.conv("x", 3, 8)
    y = net.transpose(net.reshape(x, 32, 2, 3, 2), 0, 2, 1, 3)
    y = net.reshape(net.transpose(net.reshape(y, 1, 8, 12, 4), 0, 3, 2, 1), 4, 12, 8)
    y = net.op("Add", net.op("MatMul", y, net.weights(8, 8)), y)
    y = net.transpose(net.reshape(y, 1, 4, 12, 8), 0, 3, 2, 1)
    y = net.reshape(net.transpose(net.reshape(y, 32, 3, 2, 2), 0, 2, 1, 3), 1, 8, 8, 6)
    return net.conv(net.op("Concat", x, y, axis=1), 16, 5)


def function_after_flatten(net: Net) -> str:
    x = net.op("Tanh", net.op("LeakyRelu", net.op("Flatten", net.conv("x", 3, 8))))
    return net.dense(x, 384, 4)


def factors_after_flatten(net: Net) -> str:
    """As in ArcFace: a batch normalization of every element before the last layer."""
    x = net.op("Mul", net.op("Flatten", net.conv("x", 3, 8)), net.weights(1, 384))
    return net.dense(net.op("Add", net.op("Mul", x, net.op("Sigmoid", x)), net.weights(384)), 384, 4)


def group_normalization(net: Net) -> str:
    """As PyTorch exports it."""
    x = net.reshape(net.conv("x", 3, 8), 1, 2, -1)
    x = net.op("InstanceNormalization", x, net.constant(np.ones(2, np.float32)), net.constant(np.zeros(2, np.float32)))
    x = net.op("Mul", net.reshape(x, 1, 8, 8, 6), net.weights(8, 1, 1))
    return net.conv(net.op("Add", x, net.weights(8, 1, 1)), 8, 5)


def group_normalization_in_parts(net: Net) -> str:
    x = net.reshape(net.conv("x", 3, 8), 1, 2, 4, 8, 6)
    x = net.op("Sub", x, net.op("ReduceMean", x, axes=[2, 3, 4], keepdims=1))
    variance = net.op("ReduceMean", net.op("Mul", x, x), axes=[2, 3, 4], keepdims=1)
    x = net.op("Div", x, net.op("Sqrt", net.op("Add", variance, net.constant(np.float32(1e-5)))))
    return net.conv(net.reshape(x, 1, 8, 8, 6), 8, 5)


def means_of_groups(net: Net) -> str:
    """The means of groups of channels have as many dimensions as their operand, and are repeated."""
    x = net.reshape(net.conv("x", 3, 8), 1, 2, 4, 8, 6)
    x = net.op("Sub", x, net.op("ReduceMean", x, axes=[2, 3, 4], keepdims=1))
    return net.conv(net.reshape(x, 1, 8, 8, 6), 8, 5)


def lengths_of_pixels(net: Net) -> str:
    return net.conv(net.op("LpNormalization", net.conv("x", 3, 8), axis=1, p=2), 8, 5)


def linear_attention(net: Net) -> str:
    """A softmax over the pixels, which a product reads."""
    x = net.transpose(net.reshape(net.conv("x", 3, 8), 1, 8, 48), 0, 2, 1)
    keys = net.op("Softmax", net.op("MatMul", x, net.weights(8, 8)), axis=1)
    return net.op("MatMul", net.transpose(keys, 0, 2, 1), net.op("MatMul", x, net.weights(8, 8)))


def neighbouring_channels(net: Net) -> str:
    """The window over channels is one over the rows of an image that has the model's order."""
    return net.conv(net.op("LRN", net.conv("x", 3, 8), size=3, alpha=0.3), 8, 5)


def greatest_channels(net: Net) -> str:
    return net.conv(net.split("TopK", 2, net.conv("x", 3, 8), net.constant(np.array([3])), axis=1)[0], 3, 5)


def least_channels(net: Net) -> str:
    values, _ = net.split("TopK", 2, net.conv("x", 3, 8), net.constant(np.array([3])), axis=1, largest=0)
    return net.conv(values, 3, 5)


def positions_of_channels(net: Net) -> str:
    values, positions = net.split("TopK", 2, net.conv("x", 3, 8), net.constant(np.array([3])), axis=1)
    return net.op("Add", net.op("Cast", positions, to=TensorProto.FLOAT), net.op("Relu", values))


def greatest_rows(net: Net) -> str:
    """Rows are not last in any layout of images: a transpose before the sort, and one after it."""
    return net.conv(net.split("TopK", 2, net.conv("x", 3, 8), net.constant(np.array([3])), axis=2)[0], 8, 5)


def greatest_tokens(net: Net) -> str:
    """No image: a transpose before the sort, and one after it."""
    x = net.op("Tanh", net.op("MatMul", net.reshape("x", 1, 24, 6), net.weights(6, 4)))
    return net.split("TopK", 2, x, net.constant(np.array([3])), axis=1)[0]


FORMS: dict[Callable[[Net], str], int] = {
    two_shuffles: 1,
    shuffles_around_a_function: 2,
    two_pixel_shuffles: 1,
    gate_of_fully_connected_layers: 0,
    gate_of_pixels: 0,
    gate_of_rows_and_columns: 0,
    classes_of_pixels: 0,
    selected_channels: 0,
    distances_of_a_detector: 0,
    attention_of_pixels: 0,
    attention_of_heads: 0,
    attention_of_a_detector: 0,
    attention_of_ten_heads: 0,
    rows_of_text: 1,
    patches_and_back: 2,
    function_after_flatten: 0,
    factors_after_flatten: 0,
    group_normalization: 0,
    group_normalization_in_parts: 0,
    means_of_groups: 0,
    lengths_of_pixels: 0,
    linear_attention: 1,
    neighbouring_channels: 2,
    greatest_channels: 0,
    least_channels: 0,
    positions_of_channels: 0,
    greatest_rows: 2,
    greatest_tokens: 2,
}
"""The forms, and the transposes in their files."""


@pytest.mark.parametrize("profile", [None, "xnnpack"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_a_file_has_few_transposes_and_the_predicted_bits(
    form: Callable[[Net], str], profile: str | None, tmp_path: Path
) -> None:
    net = Net()
    model = net.model(form(net))
    samples = [{"x": net.random.normal(0, 1, SHAPE).astype(np.float32)} for _ in range(3)]
    options = {} if profile is None else {"profile": profile}
    result = zp.quantize(model, samples, target="litert", effort="none", **options).quantization
    assert result is not None
    content = litert_model(result.propagated)
    assert operators(content).count("TRANSPOSE") == FORMS[form]
    (tmp_path / "model.tflite").write_bytes(content)
    file = LiteRTFile(tmp_path / "model.tflite", reference=profile is None)
    for sample in samples:
        for name, expected in Interpreter(result.quantized)(sample).items():
            np.testing.assert_array_equal(file(sample)[name], expected)


def test_no_reshape_reads_another_one(tmp_path: Path) -> None:
    """LiteRT's reference kernels may overwrite a value between the two that is read later."""
    net = Net()
    x = net.conv("x", 3, 1)
    rows = net.reshape(x, 1, 6, 8)
    scores = net.op("Softmax", net.reshape(net.reshape(rows, 1, 48), 1, 48), axis=1)
    model = net.model(net.op("Add", net.reshape(scores, 1, 6, 8), net.op("Sigmoid", rows)))
    samples = [{"x": net.random.normal(0, 1, SHAPE).astype(np.float32)} for _ in range(3)]
    result = zp.quantize(model, samples, target="litert", effort="none").quantization
    assert result is not None
    (tmp_path / "m.tflite").write_bytes(litert_model(result.propagated))
    read = read_model((tmp_path / "m.tflite").read_bytes())
    reshapes = [operator for operator in read.operators if operator.name == "RESHAPE"]
    made = {operator.outputs[0] for operator in reshapes}
    assert reshapes
    assert not any(operator.inputs[0] in made for operator in reshapes)
    file = LiteRTFile(tmp_path / "m.tflite", reference=True)
    for sample in samples:
        for name, expected in Interpreter(result.quantized)(sample).items():
            np.testing.assert_array_equal(file(sample)[name], expected)


@pytest.mark.parametrize("target", ["litert", "litert-16x8"])
def test_slices_that_cut_a_dimension_into_equal_parts_are_one_operator(target: str, tmp_path: Path) -> None:
    net = Net()
    x = net.conv("x", 3, 6)
    parts = net.split("Split", 3, x, net.constant(np.array([2, 2, 2])), axis=1)
    more = [net.op("Slice", x, *(net.constant(np.array([n])) for n in (start, 4, 1))) for start in (2, 1)]
    model = net.model(net.conv(net.op("Concat", *parts[::-1], *more, axis=1), 11, 4))
    samples = [{"x": net.random.normal(0, 1, SHAPE).astype(np.float32)} for _ in range(3)]
    result = zp.quantize(model, samples, target=target, effort="none").quantization
    assert result is not None
    content = litert_model(result.propagated)
    found = operators(content)
    assert (found.count("SPLIT"), found.count("STRIDED_SLICE")) == (1, 1)
    (tmp_path / "m.tflite").write_bytes(content)
    file = LiteRTFile(tmp_path / "m.tflite", reference=True)
    for name, expected in Interpreter(result.quantized)(samples[0]).items():
        np.testing.assert_array_equal(file(samples[0])[name], expected)
