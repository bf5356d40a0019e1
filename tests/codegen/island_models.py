"""Random ONNX models whose layers alternate with islands of floats: softmax, norms, logarithms, sums and products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper

from frontend.onnx.models import model, tensor

Shape = tuple[int, ...]
SHAPES: list[Shape] = [
    *((1, 3, 9, 7), (2, 5, 6, 6), (1, 17, 33), (3, 40), (1, 8, 3, 130)),
    *((5, 1, 19), (1, 129), (2, 3, 1037), (1, 4, 33, 65), (7, 771)),
]


class IslandModel:
    """A model under construction."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, array: object, dtype: type = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array, dtype)
        return name

    def op(self, kind: str, *inputs: str, **attributes: object) -> str:
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def reduced(self, kind: str, value: str, axis: int, *, keep: bool = True) -> str:
        return self.op(kind, value, self.constant([axis], np.int64), keepdims=int(keep))

    def above_zero(self, value: str, least: float) -> str:
        return self.op("Add", self.op("Abs", value), self.constant(least))


Island = Callable[[IslandModel, str, int, int], str]
"""An island behind a value, along an axis of a size."""


def layer_norm(net: IslandModel, value: str, axis: int, size: int) -> str:
    centred = net.op("Sub", value, net.reduced("ReduceMean", value, axis))
    variance = net.reduced("ReduceMean", net.op("Mul", centred, centred), axis)
    return net.op("Div", centred, net.op("Sqrt", net.op("Add", variance, net.constant(1e-5))))


def scaled_norm(net: IslandModel, value: str, axis: int, size: int) -> str:
    scale, bias = net.random.normal(1, 0.3, size), net.random.normal(0, 0.3, size)
    moved = net.op("LayerNormalization", value, net.constant(scale), net.constant(bias), axis=-1, epsilon=1e-5)
    return moved if axis == -1 else net.op("Softmax", value, axis=axis)


def unit_norm(net: IslandModel, value: str, axis: int, size: int) -> str:
    squares = net.op("Add", net.reduced("ReduceSumSquare", value, axis), net.constant(1e-6))
    return net.op("Mul", value, net.op("Reciprocal", net.op("Sqrt", squares)))


def share(net: IslandModel, value: str, axis: int, size: int) -> str:
    total = net.reduced("ReduceSum", net.op("Abs", value), axis)
    return net.op("Div", value, net.op("Add", total, net.constant(1e-3)))


def gate(net: IslandModel, value: str, axis: int, size: int) -> str:
    return net.op("Mul", net.op("Sin", value), net.op("Erf", value))


def power(net: IslandModel, value: str, axis: int, size: int) -> str:
    exponent = net.constant(net.random.choice([0.3, -0.5, 1.7]))
    return net.op("Pow", net.above_zero(value, 1e-3), exponent)


ISLANDS: list[Island] = [
    *(layer_norm, scaled_norm, unit_norm, share, gate, power),
    lambda net, value, axis, size: net.op("Softmax", value, axis=axis),
    lambda net, value, axis, size: net.op("LogSoftmax", value, axis=axis),
    lambda net, value, axis, size: net.op("Log", net.above_zero(value, float(net.random.choice([1e-6, 1e-3, 0.5])))),
    lambda net, value, axis, size: net.op("Mul", value, net.reduced("ReduceLogSumExp", value, axis)),
    lambda net, value, axis, size: net.op("Sub", value, net.reduced("ReduceMean", value, axis)),
    lambda net, value, axis, size: net.op("CumSum", value, net.constant(axis, np.int64)),
    lambda net, value, axis, size: net.op("Exp", net.op("Neg", net.op("Abs", value))),
    lambda net, value, axis, size: net.op(str(net.random.choice(["Mish", "Softplus"])), value),
    lambda net, value, axis, size: net.op("Add", value, net.reduced("ReduceProd", net.op("Tanh", value), axis)),
    lambda net, value, axis, size: net.op(
        "Div", value, net.op("Add", net.reduced("ReduceL2", value, axis), net.constant(1e-4))
    ),
]


def contraction(net: IslandModel, value: str, shape: Shape) -> tuple[str, Shape]:
    """A convolution of an image, a matrix product of anything else."""
    if len(shape) == 4:
        features, size = int(net.random.integers(2, 20)), int(net.random.choice([1, 3]))
        weights = net.random.normal(size=(features, shape[1], size, size)) * np.sqrt(1.5 / (shape[1] * size**2))
        bias = net.constant(net.random.normal(0, 0.2, features))
        made = net.op("Conv", value, net.constant(weights), bias, pads=[size // 2] * 4)
        return made, (shape[0], features, *shape[2:])
    features = int(net.random.integers(2, 70))
    weights = net.random.normal(size=(shape[-1], features)) * np.sqrt(1.5 / shape[-1])
    return net.op("MatMul", value, net.constant(weights)), (*shape[:-1], features)


def island_model(seed: int) -> tuple[onnx.ModelProto, Shape]:
    """Two to four contractions with one or two islands behind each, and the shape of the input."""
    net = IslandModel(seed)
    random = net.random
    first = shape = SHAPES[random.integers(len(SHAPES))]
    value, outputs = "x", dict[str, Shape]()
    for _ in range(int(random.integers(2, 5))):
        value, shape = contraction(net, value, shape)
        if random.integers(3) == 0:
            value = net.op("Relu", value)
        for _ in range(int(random.integers(1, 3))):
            axis = int(random.choice([-1, 1] if len(shape) > 2 else [-1]))
            value = ISLANDS[random.integers(len(ISLANDS))](net, value, axis, shape[-1])
        if random.integers(3) == 0:
            outputs[value] = shape
    end = random.integers(3)
    if end == 0:
        value, shape = contraction(net, value, shape)
    elif end == 1:
        value = net.reduced(str(random.choice(["ReduceSum", "ReduceMean"])), value, -1, keep=False)
        shape = shape[:-1]
    outputs[value] = shape
    made = [tensor(name, size) for name, size in outputs.items()]
    return model(net.nodes, [tensor("x", first)], made, net.constants, opset=18), first
