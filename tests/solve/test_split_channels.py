"""Channels that need a much finer scale than the others are computed by kernels of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.ir import SSAValue

from networks import Network
from zeropoint.codegen.runtime.native import NativeEngine
from zeropoint.interp import Interpreter
from zeropoint.ir.constants import constant_op
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    AddOp,
    ConvolutionLayout,
    ConvolutionOp,
    DotDimensions,
    DotGeneralOp,
    GatherDimensions,
    GatherOp,
    MultiplyOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
)
from zeropoint.ir.tensors import Array, shape_of, with_shape
from zeropoint.pipeline import Options, Quantization, quantize
from zeropoint.report.counts import count_ops
from zeropoint.solve.parts.cuts import Cut, reshaped_cut

SHAPE = (1, 8, 6, 6)
LOUD = np.array([300.0] + [1.0] * 7)


def convolved(net: Network, value: SSAValue, features: int = 4, scales: Array | float = 1.0) -> SSAValue:
    net.name = f"conv{len(list(net.function.body.block.ops))}"
    weight = net.random.normal(0, 1, (features, shape_of(value)[1], 1, 1)) * np.reshape(scales, (-1, 1, 1, 1))
    result = with_shape(value, [1, features, *shape_of(value)[2:]])
    made = net.insert(ConvolutionOp(value, net.constant(weight), result, ConvolutionLayout.channels_first(2)))
    return net.insert(AddOp(made, net.along(net.random.normal(0, 0.1, features), made, 1)))


def sliced(net: Network, value: SSAValue, first: int, last: int) -> SSAValue:
    net.name = f"slice{first}"
    size = [1, last, *shape_of(value)[2:]]
    return net.insert(SliceOp(value, [0, first, 0, 0], size, [1] * 4))


def gathered(net: Network, value: SSAValue, channels: Sequence[int]) -> SSAValue:
    net.name = "gather"
    indices = net.insert(constant_op(np.array(channels, np.int32), net.weights))
    _, _, *size = shape_of(value)
    return net.insert(GatherOp(value, indices, GatherDimensions((0, 2, 3), (1,), (), (), (1,), 1), [1, 1, *size]))


def both_parts(net: Network, value: SSAValue) -> list[SSAValue]:
    value = convolved(net, value, 8, LOUD)
    return [convolved(net, sliced(net, value, 0, 1)), convolved(net, sliced(net, value, 1, 8))]


def a_part_and_all(net: Network, value: SSAValue) -> list[SSAValue]:
    value = convolved(net, value, 8, LOUD)
    return [convolved(net, gathered(net, value, [3, 2, 5, 1])), convolved(net, value)]


def parts_of_a_scaled_sum(net: Network, value: SSAValue) -> list[SSAValue]:
    """The constant is cut with the operand."""
    value = net.insert(AddOp(convolved(net, value, 8), convolved(net, value, 8)))
    net.name = "scaled"
    value = net.insert(MultiplyOp(value, net.along(LOUD, value, 1)))
    return [convolved(net, sliced(net, value, 1, 8)), convolved(net, value)]


def parts_of_a_product(net: Network, value: SSAValue) -> list[SSAValue]:
    """Queries, keys and values of one matrix product."""
    net.name = "dot"
    weight = net.constant(net.random.normal(0, 1, (6, 12)) * np.repeat([30.0, 1.0, 10.0], 4))
    product = DotDimensions((), (), (3,), (0,))
    value = net.insert(DotGeneralOp(value, weight, with_shape(value, [1, 8, 6, 12]), product))
    cuts = [net.insert(SliceOp(value, [0, 0, 0, i], [1, 8, 6, i + 4], [1] * 4)) for i in (0, 4, 8)]
    return [convolved(net, cut) for cut in cuts]


def parts_behind_moves(net: Network, value: SSAValue) -> list[SSAValue]:
    """Two halves of the channels, moved to the first dimension and taken apart there, as queries and keys often are."""
    value = convolved(net, value, 8, np.repeat([300.0, 1.0], 4))
    net.name = "halves"
    value = net.insert(ReshapeOp(value, with_shape(value, [1, 2, 4, 6, 6])))
    value = net.insert(TransposeOp(value, [1, 0, 2, 3, 4]))
    cuts = [net.insert(SliceOp(value, [i, 0, 0, 0, 0], [i + 1, 1, 4, 6, 6], [1] * 5)) for i in (0, 1)]
    return [convolved(net, net.insert(ReshapeOp(cut, with_shape(cut, [1, 4, 6, 6])))) for cut in cuts]


def a_part_and_all_behind_a_transpose(net: Network, value: SSAValue) -> list[SSAValue]:
    value = convolved(net, value, 8, LOUD)
    net.name = "last"
    value = net.insert(TransposeOp(value, [0, 2, 3, 1]))
    part = net.insert(SliceOp(value, [0, 0, 0, 1], [1, 6, 6, 8], [1] * 4))
    return [convolved(net, part), convolved(net, value)]


def parts_of_a_depthwise_convolution(net: Network, value: SSAValue) -> list[SSAValue]:
    net.name = "depthwise"
    weight = net.constant(net.random.normal(0, 1, (8, 1, 1, 1)) * np.repeat([300.0, 1.0], 4).reshape(-1, 1, 1, 1))
    layout = ConvolutionLayout.channels_first(2)
    value = net.insert(ConvolutionOp(value, weight, value.type, layout, feature_group_count=8))
    return [convolved(net, sliced(net, value, first, first + 4)) for first in (0, 4)]


def network(make: Callable[[Network, SSAValue], list[SSAValue]]) -> Program:
    net = Network([SHAPE])
    return net.finish(make(net, net.values[0]))


def samples(seed: int) -> list[dict[str, Array]]:
    return [{"x0": x} for x in np.random.default_rng(seed).normal(0, 1, (8, *SHAPE)).astype(np.float32)]


def sqnr(result: Quantization, program: Program) -> list[float]:
    exact, integers, native = Interpreter(program), Interpreter(result.integer), NativeEngine().prepare(result.integer)
    found = {port.name: [0.0, 0.0] for port in program.outputs}
    for sample in samples(1):
        wanted, given, compiled = exact(sample), integers(sample), native(sample)
        for name, sums in found.items():
            np.testing.assert_array_equal(given[name], compiled[name])
            sums[0] += float((wanted[name] ** 2).sum())
            sums[1] += float(((wanted[name] - given[name]) ** 2).sum())
    return [10 * float(np.log10(signal / noise)) for signal, noise in found.values()]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (both_parts, "cpu"),
        (both_parts, "litert"),
        (both_parts, "onnxruntime"),
        (a_part_and_all, "cpu"),
        (parts_of_a_scaled_sum, "cpu"),
        (parts_of_a_product, "cpu"),
        (parts_behind_moves, "cpu"),
        (parts_behind_moves, "onnxruntime"),
        (a_part_and_all_behind_a_transpose, "litert"),
        (parts_of_a_depthwise_convolution, "cpu"),
        (parts_of_a_depthwise_convolution, "onnxruntime"),
    ],
)
def test_quiet_channels_of_a_loud_value_keep_their_precision(
    make: Callable[[Network, SSAValue], list[SSAValue]], name: str
) -> None:
    program = network(make)
    result = quantize(program, samples(0), Options(name))
    assert min(sqnr(result, program)) > 26  # 10 or less with one scale
    assert count_ops(result.integer).floats == 0


@given(data=st.data())
def test_parts_before_a_reshape_are_those_of_its_result(data: st.DataObject) -> None:
    """Reshaping the part that was found gives the part of the reshaped array."""
    before = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    after = tuple(data.draw(factors(before)))
    axis = data.draw(st.integers(0, len(after) - 1))
    chosen = np.array(data.draw(st.lists(st.integers(0, after[axis] - 1), min_size=1, max_size=4, unique=True)))
    found = reshaped_cut(before, after, Cut(axis, chosen))
    if found is not None:
        array = np.arange(np.prod(before)).reshape(before)
        shape = [*after[:axis], chosen.size, *after[axis + 1 :]]
        moved = np.take(array, found.chosen, found.axis).reshape(shape)
        np.testing.assert_array_equal(moved, np.take(array.reshape(after), chosen, axis))
    elif before == after:
        assert after[axis] == 1


@st.composite
def factors(draw: st.DrawFn, before: tuple[int, ...]) -> list[int]:
    """A shape with as many elements: dimensions are divided, merged, or kept."""
    primes = [factor for size in before for factor in ([2, 2] if size == 4 else [2, 3] if size == 6 else [size])]
    shape: list[int] = []
    for factor in primes:
        if shape and draw(st.booleans()):
            shape[-1] *= factor
        else:
            shape.append(factor)
    return shape


def test_parts_that_do_not_overlap_replace_the_whole() -> None:
    program = network(both_parts)
    kernels = [op.name for op in quantize(program, samples(0)).calibrated.entry.ops]
    assert kernels.count("quant.region") == 4  # two parts of the first convolution, and their readers


def test_channels_of_one_size_are_not_split() -> None:
    def even(net: Network, value: SSAValue) -> list[SSAValue]:
        value = convolved(net, value, 8)
        return [convolved(net, sliced(net, value, 1, 8)), convolved(net, value)]

    regions = [op for op in quantize(network(even), samples(0)).calibrated.entry.ops if op.name == "quant.region"]
    assert len(regions) == 4  # the convolution, the slice and both readers
    assert [region.logical_kernel.data for region in regions].count("slice") == 1
