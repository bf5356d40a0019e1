"""Random convolutional networks as ONNX models, with the number of transposes that each one has itself."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper, shape_inference

from zeropoint.ir.tensors import Array

SIZES = (1, 3, 12, 9)
"""The shape of the input."""


@dataclass
class Builder:
    """The nodes, constants and shapes of a model that grows from its input `x`; `transposes` counts its own."""

    random: np.random.Generator
    nodes: list[object] = field(default_factory=list[object])
    constants: list[TensorProto] = field(default_factory=list[TensorProto])
    shapes: dict[str, tuple[int, ...]] = field(default_factory=lambda: {"x": SIZES})
    transposes: int = 0

    def constant(self, array: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def op(self, kind: str, inputs: list[str], shape: tuple[int, ...], **attributes: object) -> str:
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        self.shapes[name] = shape
        return name

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def weights(self, *shape: int) -> str:
        return self.constant(self.random.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape).astype(np.float32))


def conv(net: Builder, x: str, channels: int, size: int = 3, stride: int = 1, groups: int = 1) -> str:
    """A convolution with padding that keeps the size of the image, up to the stride."""
    batch, given, *image = net.shapes[x]
    bias = net.constant(net.random.normal(0, 0.3, channels).astype(np.float32))
    inputs = [x, net.weights(channels, given // groups, size, size), bias]
    sizes = [-(-extent // stride) for extent in image]
    attributes = {"group": groups, "pads": [size // 2] * 4, "strides": [stride] * 2}
    return net.op("Conv", inputs, (batch, channels, *sizes), **attributes)


def activation(net: Builder, x: str) -> str:
    kind = net.random.choice(["Relu", "HardSwish", "LeakyRelu", "Sigmoid", ""])
    return net.op(kind, [x], net.shapes[x]) if kind else x


def plain(net: Builder, x: str) -> str:
    channels, stride = int(net.random.choice([4, 8])), int(net.random.choice([1, 1, 2]))
    return activation(net, conv(net, x, channels, int(net.random.choice([1, 3])), stride))


def depthwise(net: Builder, x: str) -> str:
    return conv(net, activation(net, conv(net, x, net.shapes[x][1], groups=net.shapes[x][1])), 8, 1)


def residual(net: Builder, x: str) -> str:
    return net.op("Add", [activation(net, conv(net, x, net.shapes[x][1])), x], net.shapes[x])


def branches(net: Builder, x: str) -> str:
    left, right = activation(net, conv(net, x, 4, 1)), conv(net, x, 4)
    batch, _, *image = net.shapes[x]
    return net.op("Concat", [left, right], (batch, 8, *image), axis=1)


def pool(net: Builder, x: str) -> str:
    batch, channels, *image = net.shapes[x]
    if min(image) < 4:
        return plain(net, x)
    kind, shape = str(net.random.choice(["MaxPool", "AveragePool"])), (batch, channels, *(n // 2 for n in image))
    return net.op(kind, [x], shape, kernel_shape=[2, 2], strides=[2, 2])


def gate(net: Builder, x: str) -> str:
    shape = (*net.shapes[x][:2], 1, 1)
    inner = net.op("Relu", [conv(net, net.op("GlobalAveragePool", [x], shape), 4, 1)], (shape[0], 4, 1, 1))
    return net.op("Mul", [x, net.op("Sigmoid", [conv(net, inner, shape[1], 1)], shape)], net.shapes[x])


def cropped(net: Builder, x: str) -> str:
    shape = net.shapes[x]
    if shape[2] < 4:
        return plain(net, x)
    limits = [net.constant(np.array([value])) for value in (1, shape[2], 2)]
    return net.op("Slice", [x, *limits], (*shape[:2], shape[2] - 1, shape[3]))


def scaled(net: Builder, x: str) -> str:
    """Per channel, as a batch norm that nothing absorbs."""
    factors = net.constant(net.random.uniform(0.5, 1.5, (net.shapes[x][1], 1, 1)).astype(np.float32))
    return net.op(str(net.random.choice(["Mul", "Add"])), [x, factors], net.shapes[x])


def larger(net: Builder, x: str) -> str:
    batch, channels, *image = net.shapes[x]
    if max(image) > 12:
        return plain(net, x)
    factors = net.constant(np.array([1, 1, 2, 2], np.float32))
    shape = (batch, channels, *(2 * n for n in image))
    return net.op("Resize", [x, "", factors], shape, mode="nearest")


def shuffle(net: Builder, x: str) -> str:
    """A shuffle of channels, which transposes."""
    batch, channels, *image = net.shapes[x]
    if channels % 2:
        return plain(net, x)
    split, joined = (batch, 2, channels // 2, *image), (batch, channels, *image)
    y = net.op("Reshape", [x, net.constant(np.array(split))], split)
    turned = (batch, channels // 2, 2, *image)
    net.transposes += 1
    y = net.op("Transpose", [y], turned, perm=[0, 2, 1, 3, 4])
    return net.op("Reshape", [y, net.constant(np.array(joined))], joined)


BLOCKS = (plain, plain, depthwise, residual, branches, pool, gate, cropped, scaled, larger, shuffle)


def head(net: Builder, x: str) -> str:
    """The image itself, or a fully connected layer on its means or on all of it."""
    kind = net.random.choice(["image", "means", "all"])
    if kind == "image":
        return x
    batch, channels, *image = net.shapes[x]
    if kind == "means":
        x, image = net.op("GlobalAveragePool", [x], (batch, channels, 1, 1)), [1, 1]
    terms = channels * image[0] * image[1]
    flat = net.op("Flatten", [x], (batch, terms))
    return net.op("Gemm", [flat, net.weights(5, terms)], (batch, 5), transB=1)


def network(seed: int) -> tuple[ModelProto, int]:
    """A model, and the number of transposes that it has."""
    net = Builder(np.random.default_rng(seed))
    x = conv(net, "x", 8)
    for index in net.random.integers(0, len(BLOCKS), net.random.integers(2, 6)):
        x = BLOCKS[index](net, x)
    y = head(net, x)
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, net.shapes[name]) for name in ("x", y)]
    graph = helper.make_graph(net.nodes, "g", ports[:1], ports[1:], net.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return shape_inference.infer_shapes(model, strict_mode=True), net.transposes
