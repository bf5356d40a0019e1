"""Random networks of kernels that move and select elements, between values of many sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from networks import Network
from zeropoint.ir.constants import constant_op
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    ClampOp,
    CompareOp,
    ComparisonDirection,
    ConcatenateOp,
    ConvolutionLayout,
    ConvolutionOp,
    GatherDimensions,
    GatherOp,
    MaximumOp,
    MinimumOp,
    PadOp,
    ReduceOp,
    ReduceWindowOp,
    ReshapeOp,
    ReverseOp,
    SelectOp,
    SliceOp,
    TanhOp,
    TransposeOp,
)
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import Array, shape_of, with_shape

SHAPE = (1, 4, 4, 4)
Values = list[SSAValue]


def convolved(net: Network, value: SSAValue, size: float = 1.0) -> SSAValue:
    """Four features of a size."""
    channels = shape_of(value)[1]
    weight = net.random.normal(0, size / np.sqrt(channels), (4, channels, 1, 1))
    made = with_shape(value, [1, 4, *shape_of(value)[2:]])
    return net.insert(ConvolutionOp(value, net.constant(weight), made, ConvolutionLayout.channels_first(2)))


def _cut(net: Network, value: SSAValue) -> SSAValue:
    """To the common shape: the first elements of every dimension, or padded with zeros at the end."""
    shape = shape_of(value)
    if any(have > want for have, want in zip(shape, SHAPE, strict=True)):
        sizes = [min(have, want) for have, want in zip(shape, SHAPE, strict=True)]
        value = net.insert(SliceOp(value, [0] * 4, sizes, [1] * 4))
    more = [want - have for have, want in zip(shape_of(value), SHAPE, strict=True)]
    return net.insert(PadOp(value, net.constant(np.array(0.0)), [0] * 4, more, [0] * 4)) if any(more) else value


def _greatest(net: Network) -> float:
    return float(10 ** net.random.uniform(-2, 2))


def concatenate(net: Network, values: Values) -> SSAValue:
    return net.insert(ConcatenateOp(values[: net.random.integers(2, 4)], int(net.random.integers(1, 4))))


def select(net: Network, values: Values) -> SSAValue:
    first = net.function.body.block.args[0]
    chosen = net.insert(CompareOp(first, net.splat(0.0, first), ComparisonDirection.GT))
    return net.insert(SelectOp(chosen, values[0], values[1]))


def maximum(net: Network, values: Values) -> SSAValue:
    return net.insert(MaximumOp(*values[:2]))


def minimum(net: Network, values: Values) -> SSAValue:
    return net.insert(MinimumOp(*values[:2]))


def pad(net: Network, values: Values) -> SSAValue:
    number = net.random.choice([0.0, _greatest(net), -_greatest(net)])
    return net.insert(PadOp(values[0], net.constant(np.array(number)), [0, 0, 1, 0], [0, 1, 0, 0], [0] * 4))


def clamp(net: Network, values: Values) -> SSAValue:
    low, high = (net.constant(np.array(end)) for end in (-_greatest(net), _greatest(net)))
    return net.insert(ClampOp(low, values[0], high))


def gather(net: Network, values: Values) -> SSAValue:
    indices = constant_op(net.random.integers(0, 4, 4).astype(np.int32), net.weights)
    net.function.body.block.add_op(indices)
    dimensions = GatherDimensions((0, 2, 3), (1,), (), (), (1,), 1)
    return net.insert(GatherOp(values[0], indices.output, dimensions, [1, 1, 4, 4]))


def reshape(net: Network, values: Values) -> SSAValue:
    flat = net.insert(ReshapeOp(values[0], with_shape(values[0], [16, 4])))
    return net.insert(ReshapeOp(flat, with_shape(values[0], SHAPE)))


def transpose(net: Network, values: Values) -> SSAValue:
    return net.insert(TransposeOp(values[0], [0, *(1 + net.random.permutation(3)).tolist()]))


def reverse(net: Network, values: Values) -> SSAValue:
    return net.insert(ReverseOp(values[0], [1, 2]))


def max_pool(net: Network, values: Values) -> SSAValue:
    start, made = net.constant(np.array(-np.inf)), with_shape(values[0], [1, 4, 3, 3])
    return net.insert(ReduceWindowOp([values[0]], [start], [made], [1, 1, 2, 2], binary_body(MaximumOp, f32)))


def greatest(net: Network, values: Values) -> SSAValue:
    start, made = net.constant(np.array(-np.inf)), with_shape(values[0], [1, 4, 4])
    found = net.insert(ReduceOp([values[0]], [start], [made], [3], binary_body(MaximumOp, f32)))
    return net.insert(ReshapeOp(found, with_shape(found, [1, 4, 4, 1])))


SHARING: Sequence[Callable[[Network, Values], SSAValue]] = (
    *(concatenate, select, maximum, minimum, pad, clamp, gather, reshape, transpose, reverse, max_pool, greatest),
)


def joined_network(seed: int) -> tuple[Program, list[dict[str, Array]], set[str]]:
    """A network, its samples, and the kernels that it has.

    Convolutions make values of sizes from 0.01 to 100, and read some of what the other kernels make of them. The caller
    reads the convolutions, and now and then another value.
    """
    net = Network([SHAPE, SHAPE], seed)
    for number in range(4):
        net.name = f"source{number}"
        net.values.append(convolved(net, net.values[number % 2], 10 ** net.random.uniform(-2, 2)))
    outputs, used = Values(), set[str]()
    for number in range(int(net.random.integers(3, 9))):
        make = SHARING[net.random.integers(len(SHARING))]
        used.add(make.__name__)
        net.name = f"{make.__name__}{number}"
        some = [net.values[2 + int(i)] for i in net.random.permutation(len(net.values) - 2)[:3]]
        made = make(net, some)
        kind = net.random.integers(6)
        net.name = f"read{number}"
        if kind < 2:
            outputs.append(convolved(net, made))
        elif kind == 2:
            outputs.append(net.insert(TanhOp(made)))
        elif kind == 3:
            outputs.append(made)
        net.name = f"cut{number}"
        net.values.append(_cut(net, made))
    net.name = "last"
    program = net.finish([*dict.fromkeys(outputs), convolved(net, net.values[-1])])
    random = np.random.default_rng(seed)
    samples = [{f"x{i}": random.normal(size=SHAPE).astype(np.float32) for i in range(2)} for _ in range(4)]
    return program, samples, used


def concatenated_network(seed: int) -> tuple[Program, list[dict[str, Array]]]:
    """A network whose only output is a concatenation of values of sizes from 0.003 to 300, and its samples.

    Kernels that move and select elements come before and after the concatenation.
    """
    net = Network([SHAPE, SHAPE], seed)
    random, values = net.random, Values()
    for number in range(4):
        net.name = f"source{number}"
        values.append(convolved(net, net.values[number % 2], 10 ** random.uniform(-2.5, 2.5)))
    for number in range(int(random.integers(0, 3))):
        make, index = AROUND[random.integers(len(AROUND))], int(random.integers(4))
        net.name = f"{make.__name__}{number}"
        value = make(net, [values[index]])
        net.name = f"cut{number}"
        values[index] = _cut(net, value)
    net.name = "join"
    both = net.insert(ConcatenateOp([values[int(i)] for i in random.permutation(4)[: random.integers(2, 5)]], 1))
    for number in range(int(random.integers(0, 3))):
        net.name = f"after{number}"
        both = _AFTER[random.integers(len(_AFTER))](net, both)
    program, random = net.finish([both]), np.random.default_rng(seed)
    return program, [{f"x{i}": random.normal(size=SHAPE).astype(np.float32) for i in range(2)} for _ in range(16)]


AROUND: Sequence[Callable[[Network, Values], SSAValue]] = (
    *(clamp, gather, reshape, transpose, reverse, max_pool, greatest),
)
_AFTER: Sequence[Callable[[Network, SSAValue], SSAValue]] = (
    lambda net, value: net.insert(TransposeOp(value, [0, 2, 1, 3])),
    lambda net, value: net.insert(ReverseOp(value, [2])),
    lambda net, value: net.insert(ReshapeOp(value, with_shape(value, [*shape_of(value)[::-1]]))),
    lambda net, value: net.insert(ClampOp(net.constant(np.array(-1e6)), value, net.constant(np.array(1e6)))),
)
