"""Small random float networks for property tests: hypothesis strategies of layers and of networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from hypothesis import strategies as st
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from networks import BIASES, INPUTS, WEIGHTS, Network, Shape, channels_last
from zeropoint.ir.chlo import ErfOp
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    AbsOp,
    AddOp,
    BroadcastInDimOp,
    ClampOp,
    CompareOp,
    ComparisonDirection,
    ConcatenateOp,
    ConvolutionLayout,
    ConvolutionOp,
    CosineOp,
    DivideOp,
    DotDimensions,
    DotGeneralOp,
    ExponentialOp,
    LogisticOp,
    LogOp,
    LogPlusOneOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    PadOp,
    PowerOp,
    ReduceOp,
    ReduceWindowOp,
    ReshapeOp,
    RsqrtOp,
    SelectOp,
    SineOp,
    SliceOp,
    SqrtOp,
    SubtractOp,
    TanhOp,
    TransposeOp,
)
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import Array, shape_of, with_shape
from zeropoint.ir.text import print_program

Draw = Callable[[st.SearchStrategy], object]


def usual(choices: dict[str, object]) -> st.SearchStrategy[str]:
    """A key; the first one most of the time."""
    first, *others = choices
    return st.one_of(st.just(first), st.just(first), st.sampled_from([first, *others]))


# Layers: each takes values that are there, makes one, and returns it; None where no value fits.


def _pick(net: Network, draw: Draw, fits: Callable[[Shape], bool]) -> SSAValue | None:
    """A value whose shape fits, a late one more often than an early one."""
    fitting = [value for value in net.values if fits(shape_of(value))]
    if not fitting:
        return None
    index = draw(st.one_of(st.just(0), st.integers(0, len(fitting) - 1)))
    return fitting[-1 - index]


def _spatial(shape: Shape) -> bool:
    return len(shape) in (3, 4) and prod(shape) > 0


def _bias(net: Network, draw: Draw, value: SSAValue, axis: int) -> SSAValue:
    if not draw(st.booleans()):
        return value
    array = BIASES[draw(usual(BIASES))](net.random, shape_of(value)[axis])
    return net.insert(AddOp(value, net.along(array, value, axis)))


def _bounded(net: Network, draw: Draw, value: SSAValue) -> SSAValue:
    """Relu, relu6, a clip, or nothing."""
    kind = draw(st.sampled_from(["none", "relu", "relu6", "clip", "at most"]))
    if kind == "relu":
        return net.insert(MaximumOp(value, net.splat(0.0, value)))
    if kind in ("relu6", "clip"):
        low, high = (0.0, 6.0) if kind == "relu6" else (-0.3, 0.45)
        return net.insert(ClampOp(net.constant(np.array(low)), value, net.constant(np.array(high))))
    if kind == "at most":
        return net.insert(MinimumOp(value, net.splat(0.25, value)))
    return value


def _arranged(batch: int, features: int, sizes: Sequence[int], last: bool) -> list[int]:
    return [batch, *sizes, features] if last else [batch, features, *sizes]


def convolution(net: Network, draw: Draw) -> SSAValue | None:
    """Grouped or not, strided, dilated, transposed (a dilated input), padded unevenly, channels first or last."""
    value = _pick(net, draw, _spatial)
    if value is None:
        return None
    last = draw(st.sampled_from([False, False, True]))
    batch, *sizes = shape_of(value)
    channels = sizes.pop(-1 if last else 0)
    rank = len(sizes)
    groups = draw(st.sampled_from([g for g in (1, 1, 2, channels) if channels % g == 0]))
    features = groups * draw(st.integers(1, 3))
    kernel = [draw(st.sampled_from([1, 3, 2, 5])) for _ in range(rank)]
    strides = [draw(st.sampled_from([1, 2])) for _ in range(rank)]
    dilations = [draw(st.sampled_from([1, 1, 2])) for _ in range(rank)]
    spread = [draw(st.sampled_from([1, 1, 1, 1, 2])) for _ in range(rank)]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = [(size - 1) * step + 1 for size, step in zip(sizes, spread, strict=True)]
    padding = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(rank)]
    padding = [
        (low, high + max(0, span - size - low - high))
        for (low, high), span, size in zip(padding, spans, sizes, strict=True)
    ]
    outputs = [
        (size + low + high - span) // stride + 1
        for size, (low, high), span, stride in zip(sizes, padding, spans, strides, strict=True)
    ]
    weight = WEIGHTS[draw(usual(WEIGHTS))](net.random, (features, channels // groups, *kernel))
    op = ConvolutionOp(
        value,
        net.constant(np.moveaxis(weight, (1, 0), (-2, -1)) if last else weight),
        with_shape(value, _arranged(batch, features, outputs, last)),
        channels_last(rank) if last else ConvolutionLayout.channels_first(rank),
        window_strides=strides,
        padding=padding,
        lhs_dilation=spread if max(spread) > 1 else None,
        rhs_dilation=dilations,
        window_reversal=draw(st.sampled_from([None, None, None, [True] * rank])),
        feature_group_count=groups,
    )
    return _bounded(net, draw, _bias(net, draw, net.insert(op), rank + 1 if last else 1))


def fully_connected(net: Network, draw: Draw) -> SSAValue | None:
    """By a matrix, transposed or not; of a tensor of rank 3 also over its last two dimensions at once."""
    value = _pick(net, draw, lambda shape: len(shape) in (2, 3))
    if value is None:
        return None
    shape = shape_of(value)
    contracted = draw(st.integers(1, len(shape) - 1))
    rows, terms = shape[: len(shape) - contracted], shape[len(shape) - contracted :]
    features = draw(st.integers(1, 5))
    weight = WEIGHTS[draw(usual(WEIGHTS))](net.random, (features, *terms))
    transposed = draw(st.booleans())
    over = tuple(range(1, 1 + contracted)) if transposed else tuple(range(contracted))
    dims = DotDimensions((), (), tuple(range(len(rows), len(shape))), over)
    constant = net.constant(weight if transposed else np.moveaxis(weight, 0, -1))
    product = net.insert(DotGeneralOp(value, constant, with_shape(value, [*rows, features]), dims))
    return _bounded(net, draw, _bias(net, draw, product, len(rows)))


def batch_matmul(net: Network, draw: Draw) -> SSAValue | None:
    """x transposed(y) of two activations, or of one with itself."""
    value = _pick(net, draw, lambda shape: len(shape) in (2, 3))
    if value is None:
        return None
    *batch, rows, terms = shape_of(value)
    other = _pick(
        net, draw, lambda shape: len(shape) == len(batch) + 2 and shape[-1] == terms and [*shape[:-2]] == batch
    )
    assert other is not None
    batching = tuple(range(len(batch)))
    dims = DotDimensions(batching, batching, (len(batch) + 1,), (len(batch) + 1,))
    result = with_shape(value, [*batch, rows, shape_of(other)[-2]])
    return net.insert(DotGeneralOp(value, other, result, dims))


def unary(net: Network, draw: Draw) -> SSAValue | None:
    value = _pick(net, draw, lambda shape: True)
    assert value is not None
    kind = draw(st.sampled_from(["relu", "leaky relu", "hard swish", "sigmoid", "tanh", "affine"]))
    if kind == "relu":
        return net.insert(MaximumOp(net.splat(0.0, value), value))
    if kind == "leaky relu":
        positive = net.insert(CompareOp(value, net.splat(0.0, value), ComparisonDirection.GE))
        return net.insert(SelectOp(positive, value, net.insert(MultiplyOp(value, net.splat(0.1, value)))))
    if kind == "hard swish":
        line = net.insert(AddOp(net.insert(MultiplyOp(value, net.splat(1 / 6, value))), net.splat(0.5, value)))
        gate = net.insert(ClampOp(net.constant(np.array(0.0)), line, net.constant(np.array(1.0))))
        return net.insert(MultiplyOp(value, gate))
    if kind == "affine":
        return net.insert(SubtractOp(net.splat(1.5, value), net.insert(MultiplyOp(value, net.splat(-2.5, value)))))
    return net.insert(LogisticOp(value) if kind == "sigmoid" else TanhOp(value))


def binary(net: Network, draw: Draw) -> SSAValue | None:
    """A sum, difference or product of two values of one shape, of a value and itself, or of a value and a constant."""
    value = _pick(net, draw, lambda shape: True)
    assert value is not None
    shape = shape_of(value)
    kind = draw(st.sampled_from(["value", "value", "constant", "channels"]))
    if kind == "value":
        other = _pick(net, draw, lambda found: found == shape)
        assert other is not None
    elif kind == "constant" or len(shape) < 2:
        other = net.constant(net.random.normal(0, 1, shape))
    else:
        other = net.along(net.random.normal(0, 1, shape[1]), value, 1)
    operands = (value, other) if draw(st.booleans()) else (other, value)
    op = draw(st.sampled_from([AddOp, AddOp, SubtractOp, MultiplyOp]))
    return _bounded(net, draw, net.insert(op(*operands)))


def concatenation(net: Network, draw: Draw) -> SSAValue | None:
    """Of values that differ in the dimension only, of one with itself, and of constants."""
    value = _pick(net, draw, lambda shape: len(shape) > 0)
    if value is None:
        return None
    shape = shape_of(value)
    axis = draw(st.integers(0, len(shape) - 1))

    def fits(found: Shape) -> bool:
        return len(found) == len(shape) and found[:axis] + found[axis + 1 :] == shape[:axis] + shape[axis + 1 :]

    parts = [value]
    for kind in draw(st.lists(st.sampled_from(["value", "value", "same", "constant"]), min_size=1, max_size=2)):
        if kind == "constant":
            parts.append(net.constant(net.random.uniform(-1, 1, shape)))
        else:
            other = value if kind == "same" else _pick(net, draw, fits)
            assert other is not None
            parts.append(other)
    return net.insert(ConcatenateOp(parts, axis))


def pool(net: Network, draw: Draw) -> SSAValue | None:
    """A maximum, or a mean that counts the padding or not."""
    value = _pick(net, draw, _spatial)
    if value is None:
        return None
    sizes = shape_of(value)[2:]
    window = [min(size, draw(st.integers(1, 3))) for size in sizes]
    strides = [draw(st.integers(1, 2)) for _ in sizes]
    padding = [(draw(st.integers(0, w - 1)), draw(st.integers(0, w - 1))) for w in window]
    outputs = [
        (size + low + high - w) // stride + 1
        for size, (low, high), w, stride in zip(sizes, padding, window, strides, strict=True)
    ]
    kind = draw(st.sampled_from(["max", "mean", "mean without padding"]))
    initial = net.constant(np.array(-np.inf if kind == "max" else 0.0))
    op = ReduceWindowOp(
        [value],
        [initial],
        [with_shape(value, [*shape_of(value)[:2], *outputs])],
        [1, 1, *window],
        binary_body(MaximumOp if kind == "max" else AddOp, f32),
        window_strides=[1, 1, *strides],
        padding=[(0, 0), (0, 0), *padding],
    )
    result = net.insert(op)
    if kind == "max":
        return result
    if kind == "mean":
        return net.insert(DivideOp(result, net.splat(float(prod(window)), result)))
    counts = np.ones(())
    for size, (low, _), w, stride, count in zip(sizes, padding, window, strides, outputs, strict=True):
        taps = np.arange(count)[:, None] * stride - low + np.arange(w)
        counts = np.multiply.outer(counts, ((taps >= 0) & (taps < size)).sum(axis=1))
    return net.insert(DivideOp(result, net.constant(np.broadcast_to(counts, shape_of(result)))))


def mean(net: Network, draw: Draw) -> SSAValue | None:
    """A mean or a sum over some dimensions, which stay with size 1 or go."""
    value = _pick(net, draw, lambda shape: len(shape) > 1)
    if value is None:
        return None
    shape = shape_of(value)
    axes = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1, max_size=len(shape) - 1))
    result = net.reduced(value, sorted(axes))
    if draw(st.booleans()):
        kept = [1 if axis in axes else size for axis, size in enumerate(shape)]
        result = net.insert(ReshapeOp(result, with_shape(value, kept)))
    if draw(st.booleans()):
        result = net.insert(DivideOp(result, net.splat(float(prod(shape[axis] for axis in axes)), result)))
    return result


def movement(net: Network, draw: Draw) -> SSAValue | None:
    """Pad, slice, transpose, reshape, broadcast."""
    value = _pick(net, draw, lambda shape: len(shape) > 0)
    if value is None:
        return None
    shape = shape_of(value)
    kind = draw(st.sampled_from(["pad", "slice", "transpose", "flatten", "broadcast"]))
    if kind == "pad":
        number = draw(st.sampled_from([0.0, 0.0, 1.5, -20.0]))
        low, high = ([draw(st.sampled_from([0, 1, -1] if size > 2 else [0, 1])) for size in shape] for _ in range(2))
        interior = [draw(st.sampled_from([0, 0, 0, 1])) for _ in shape]
        return net.insert(PadOp(value, net.constant(np.array(number)), low, high, interior))
    if kind == "slice":
        start = [draw(st.integers(0, size - 1)) for size in shape]
        limit = [draw(st.integers(begin + 1, size)) for begin, size in zip(start, shape, strict=True)]
        return net.insert(SliceOp(value, start, limit, [draw(st.integers(1, 2)) for _ in shape]))
    if kind == "transpose":
        return net.insert(TransposeOp(value, draw(st.permutations(range(len(shape))))))
    if kind == "flatten":
        return net.insert(ReshapeOp(value, with_shape(value, [shape[0], prod(shape[1:])])))
    if prod(shape) > 200:
        return None
    return net.insert(BroadcastInDimOp(value, with_shape(value, [*shape, 2]), list(range(len(shape)))))


def _row_extreme(net: Network, value: SSAValue, axis: int) -> SSAValue:
    shape = [size for d, size in enumerate(shape_of(value)) if d != axis]
    start = net.constant(np.array(-np.inf))
    return net.insert(ReduceOp([value], [start], [with_shape(value, shape)], [axis], binary_body(MaximumOp, f32)))


def _over_row(net: Network, number: SSAValue, value: SSAValue, axis: int) -> SSAValue:
    kept = [d for d in range(len(shape_of(value))) if d != axis]
    return net.insert(BroadcastInDimOp(number, value.type, kept))


def softmax(net: Network, draw: Draw) -> SSAValue | None:
    """e^(x - max) over its sum, along any dimension."""
    value = _pick(net, draw, lambda shape: len(shape) > 1)
    if value is None:
        return None
    axis = draw(st.sampled_from([-1, -1, 1])) % len(shape_of(value))
    largest = _over_row(net, _row_extreme(net, value, axis), value, axis)
    powers = net.insert(ExponentialOp(net.insert(SubtractOp(value, largest))))
    return net.insert(DivideOp(powers, _over_row(net, net.reduced(powers, [axis]), value, axis)))


def layer_norm(net: Network, draw: Draw) -> SSAValue | None:
    """(x - mean) / sqrt(variance + epsilon) along the last dimension, or another, scaled."""
    value = _pick(net, draw, lambda shape: len(shape) > 1)
    if value is None:
        return None
    axis = draw(st.sampled_from([-1, -1, 1])) % len(shape_of(value))
    size = float(shape_of(value)[axis])

    def mean(of: SSAValue) -> SSAValue:
        total = net.reduced(of, [axis])
        return net.insert(DivideOp(total, net.splat(size, total)))

    centred = net.insert(SubtractOp(value, _over_row(net, mean(value), value, axis)))
    variance = mean(net.insert(MultiplyOp(centred, centred)))
    raised = net.insert(AddOp(variance, net.splat(1e-5, variance)))
    inverse = net.insert(RsqrtOp(raised)) if draw(st.booleans()) else None
    if inverse is not None:
        normal = net.insert(MultiplyOp(centred, _over_row(net, inverse, value, axis)))
    else:
        normal = net.insert(DivideOp(centred, _over_row(net, net.insert(SqrtOp(raised)), value, axis)))
    return net.insert(MultiplyOp(normal, net.along(net.random.normal(1, 0.3, int(size)), value, axis)))


def function(net: Network, draw: Draw) -> SSAValue | None:
    """A function of floats: GELU and SiLU as exporters spell them, a soft plus, a root, an angle, a power."""
    value = _pick(net, draw, lambda shape: True)
    assert value is not None
    kind = draw(st.sampled_from(["gelu", "silu", "softplus", "root", "sine", "power", "log"]))
    magnitude = net.insert(AbsOp(value))
    if kind == "gelu":
        angle = net.insert(ErfOp(net.insert(MultiplyOp(value, net.splat(0.70710677, value)))))
        gate = net.insert(AddOp(angle, net.splat(1.0, value)))
        return net.insert(MultiplyOp(net.insert(MultiplyOp(value, net.splat(0.5, value))), gate))
    if kind == "silu":
        return net.insert(MultiplyOp(value, net.insert(LogisticOp(value))))
    if kind == "softplus":
        return net.insert(LogPlusOneOp(net.insert(ExponentialOp(net.insert(MinimumOp(value, net.splat(9.0, value)))))))
    if kind == "root":
        return net.insert(SqrtOp(magnitude))
    if kind == "sine":
        return net.insert((SineOp if draw(st.booleans()) else CosineOp)(value))
    if kind == "power":
        return net.insert(PowerOp(magnitude, net.splat(draw(st.sampled_from([2.0, 0.5, 1.7])), value)))
    return net.insert(LogOp(net.insert(AddOp(magnitude, net.splat(0.01, value)))))


LAYERS = {
    "convolution": convolution,
    "fully_connected": fully_connected,
    "batch_matmul": batch_matmul,
    "unary": unary,
    "binary": binary,
    "concatenation": concatenation,
    "pool": pool,
    "mean": mean,
    "movement": movement,
}
ISLANDS = {"softmax": softmax, "layer_norm": layer_norm, "function": function}
"""Layers that leave floats between integers, or need tables."""
OFTEN = ["convolution", "convolution", "convolution", "binary", "binary", "binary"]
SHAPES = ((1, 3, 6, 5), (2, 4, 7, 7), (1, 2, 5, 5), (1, 4, 9), (1, 6), (3, 5))


@dataclass(frozen=True, repr=False)
class Case:
    """A float program, samples to calibrate it with, and samples to run, some far beyond those."""

    program: Program
    calibration: list[dict[str, Array]]
    samples: list[dict[str, Array]]

    def __repr__(self) -> str:
        return print_program(self.program, locations=True)

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        printer.text(repr(self))


@st.composite
def cases(draw: Draw, most_layers: int = 8, *, islands: bool = False) -> Case:
    """A network of one or two inputs and a few layers, of `ISLANDS` where asked for, too.

    Its outputs are the last value and some others.
    """
    seed = draw(st.integers(0, 2**16))
    shapes = [draw(st.sampled_from(SHAPES))]
    if draw(st.sampled_from([False, False, True])):
        shapes.append(draw(st.sampled_from([shapes[0], *SHAPES])))
    net = Network(shapes, seed)
    layers = {**LAYERS, **ISLANDS} if islands else LAYERS
    often = OFTEN + sorted(layers) + (sorted(ISLANDS) if islands else [])
    for kind in draw(st.lists(st.sampled_from(often), min_size=2, max_size=most_layers)):
        net.layer(kind)
        made = layers[kind](net, draw)
        if made is not None and 0 < prod(shape_of(made)) < 5000:
            net.values.append(made)
    made = net.values[len(shapes) :]
    outputs = made[-1:] + [value for value in made[:-1] if draw(st.sampled_from([False, False, True]))]
    if not outputs:
        outputs = net.values[:1]
    program = net.finish(outputs)
    styles = [INPUTS[draw(usual(INPUTS))] for _ in shapes]

    def sample(factor: float, offset: float = 0.0) -> dict[str, Array]:
        return {
            f"x{i}": (style(net.random, shape) * factor + offset).astype(np.float32)
            for i, (style, shape) in enumerate(zip(styles, shapes, strict=True))
        }

    calibration = [sample(1.0) for _ in range(2)]
    return Case(program, calibration, [calibration[0], sample(1.0), sample(30.0, -2.0), sample(-1e9)])
