"""Kernels that undo the different sizes of a concatenation's operands are computed before it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

import zeropoint as zp
from annotated import fused_with_statistics, texts_of_plain_and_annotated
from export.text_networks import text_network
from networks import Network
from solve.uneven_joins import (
    SHAPE,
    a_maximum_pool,
    a_relu,
    a_scatter,
    a_sum_with_another_value,
    a_transpose,
    convolved,
    joined,
    network,
    normalized,
    parts,
    quantized,
    samples,
    sqnr,
    undone,
    uneven_channels,
)
from zeropoint.calibrate import asks_all, collect, instrument, state_ranges
from zeropoint.ir.annotations import BOUNDED
from zeropoint.ir.constants import constant_op
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ClampOp,
    ConvolutionLayout,
    ConvolutionOp,
    DivideOp,
    DotDimensions,
    DotGeneralOp,
    LogisticOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    PadOp,
    ReduceWindowOp,
    ReshapeOp,
    SelectOp,
    SliceOp,
    TransposeOp,
)
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import shape_of, with_shape
from zeropoint.ir.text import print_program
from zeropoint.options import Options
from zeropoint.pipeline import Quantization, quantize
from zeropoint.solve.drop_inner_statistics import drop_inner_statistics
from zeropoint.solve.kernels import left_float
from zeropoint.solve.parts.split_joins import split_joins
from zeropoint.specialize import specialized
from zeropoint.targets import target as named_target


def a_dense_layer(net: Network, value: SSAValue) -> list[SSAValue]:
    both = joined(net, [convolved(net, value, 4, 100.0), convolved(net, value, 4)])
    return [convolved(net, normalized(net, both, (100, 1)), 8)]


def concatenations_of_concatenations(net: Network, value: SSAValue) -> list[SSAValue]:
    """Every layer reads all values before it, and the next concatenation reads the last one."""
    found = convolved(net, value, 4, 100.0)
    sizes: list[float] = [100.0]
    for size in (1.0, 10.0, 0.1):
        found = joined(net, [found, convolved(net, normalized(net, found, sizes), 4, size)])
        sizes.append(size)
    return [convolved(net, normalized(net, found, sizes), 8)]


def a_depthwise_convolution(net: Network, value: SSAValue) -> list[SSAValue]:
    both = joined(net, [convolved(net, value, 4, 100.0), convolved(net, value, 4)])
    net.name = "depthwise"
    weight = net.random.normal(0, 1, (8, 1, 3, 3)) / np.repeat([100.0, 1.0], 4).reshape(-1, 1, 1, 1)
    layout, result = ConvolutionLayout.channels_first(2), with_shape(both, [1, 8, 4, 4])
    made = net.insert(ConvolutionOp(both, net.constant(weight), result, layout, feature_group_count=8))
    return [convolved(net, made, 8)]


def an_average_pool(net: Network, value: SSAValue) -> SSAValue:
    start, result = net.constant(np.array(0.0)), with_shape(value, [*shape_of(value)[:2], 3, 3])
    body = binary_body(AddOp, f32)
    made = net.insert(ReduceWindowOp([value], [start], [result], [1, 1, 2, 2], body, window_strides=[1, 1, 2, 2]))
    return net.insert(DivideOp(made, net.splat(4.0, made)))


def a_hard_swish(net: Network, value: SSAValue) -> SSAValue:
    gate = net.insert(AddOp(value, net.splat(3.0, value)))
    gate = net.insert(ClampOp(net.constant(np.array(0.0)), gate, net.constant(np.array(6.0))))
    return net.insert(DivideOp(net.insert(MultiplyOp(value, gate)), net.splat(6.0, value)))


def a_gate(net: Network, value: SSAValue) -> SSAValue:
    """Squeeze and excite, with a gate that does not depend on the value."""
    return net.insert(MultiplyOp(value, net.insert(LogisticOp(convolved(net, net.values[0], 8)))))


def a_mask(net: Network, value: SSAValue) -> SSAValue:
    """A kernel that no row has: it stays float, and so do its parts."""
    mask = net.insert(constant_op(net.random.random((1, 1, 6, 6)) > 0.3, net.weights))
    mask = net.insert(BroadcastInDimOp(mask, with_shape(mask, shape_of(value)), [0, 1, 2, 3]))
    return net.insert(SelectOp(mask, value, net.splat(0.0, value)))


def a_padding(net: Network, value: SSAValue) -> SSAValue:
    return net.insert(PadOp(value, net.constant(np.array(0.0)), [0, 0, 1, 1], [0, 0, 1, 1], [0] * 4))


def an_interpolation(net: Network, value: SSAValue) -> SSAValue:
    weights = np.clip(1 - np.abs(np.linspace(0, 5, 12)[None] - np.arange(6)[:, None]), 0, 1)
    result = with_shape(value, [*shape_of(value)[:3], 12])
    return net.insert(DotGeneralOp(value, net.constant(weights), result, DotDimensions((), (), (3,), (0,))))


def a_pool_of_a_relu_of_a_pool(net: Network, value: SSAValue) -> SSAValue:
    return a_transpose(net, a_relu(net, an_average_pool(net, value)))


FOLLOWERS = (
    a_maximum_pool,
    an_average_pool,
    a_transpose,
    a_relu,
    a_hard_swish,
    a_gate,
    a_mask,
    a_padding,
    an_interpolation,
    a_pool_of_a_relu_of_a_pool,
)


def behind(follower: Callable[[Network, SSAValue], SSAValue]) -> Callable[[Network, SSAValue], list[SSAValue]]:
    def made(net: Network, value: SSAValue) -> list[SSAValue]:
        both = joined(net, [convolved(net, value, 4, 100.0), convolved(net, value, 4)])
        net.name = "follower"
        return [convolved(net, normalized(net, follower(net, both), (100, 1)), 8)]

    return made


def a_channel_shuffle(net: Network, value: SSAValue) -> list[SSAValue]:
    both = joined(net, [convolved(net, value, 4, 100.0), convolved(net, value, 4)])
    net.name = "shuffle"
    value = net.insert(ReshapeOp(both, with_shape(both, [1, 2, 4, 6, 6])))
    value = net.insert(TransposeOp(value, [0, 2, 1, 3, 4]))
    value = net.insert(ReshapeOp(value, with_shape(both, SHAPE)))
    net.name = "norm"
    value = net.insert(MultiplyOp(value, net.along(np.tile([0.01, 1.0], 4), value, 1)))
    return [convolved(net, value, 8)]


def a_slice_of_both(net: Network, value: SSAValue) -> list[SSAValue]:
    both = joined(net, [convolved(net, value, 8, 100.0), convolved(net, value, 8)])
    net.name = "slice"
    taken = net.insert(SliceOp(both, [0, 4, 0, 0], [1, 12, 6, 6], [1] * 4))
    return [convolved(net, normalized(net, taken, (100, 1)), 8)]


def a_convolution_in_groups(net: Network, value: SSAValue) -> list[SSAValue]:
    both = joined(net, [convolved(net, value, 4, 100.0), convolved(net, value, 4)])
    net.name = "groups"
    weight = net.random.normal(0, 1, (8, 4, 3, 3)) / np.repeat([100.0, 1.0], 4).reshape(-1, 1, 1, 1)
    layout, result = ConvolutionLayout.channels_first(2), with_shape(both, [1, 8, 4, 4])
    made = net.insert(ConvolutionOp(both, net.constant(weight), result, layout, feature_group_count=2))
    return [convolved(net, made, 8)]


def two_readers_of_a_pool(net: Network, value: SSAValue) -> list[SSAValue]:
    both = joined(net, [convolved(net, value, 4, 100.0), convolved(net, value, 4)])
    net.name = "pool"
    both = a_maximum_pool(net, both)
    found = convolved(net, normalized(net, both, (100, 1)), 4)
    return [convolved(net, normalized(net, joined(net, [both, found]), (100, 1, 1)), 8)]


def kernels(result: Quantization) -> list[tuple[str, int]]:
    """The regions by kernel and number of channels."""
    regions = [op for op in result.propagated.entry.ops if isinstance(op, QuantizeRegionOp)]
    return [(op.logical_kernel.data, shape_of(op.outputs[0])[1]) for op in regions]


@pytest.mark.parametrize("target", ["cpu", "litert"])
@pytest.mark.parametrize("make", [a_dense_layer, concatenations_of_concatenations, a_depthwise_convolution])
def test_a_small_operand_of_a_join_keeps_its_precision(
    make: Callable[[Network, SSAValue], list[SSAValue]], target: str
) -> None:
    program = network(make)
    assert sqnr(quantized(program, target), program) > 30


@pytest.mark.parametrize("follower", FOLLOWERS)
def test_what_comes_between_a_join_and_its_reader_is_computed_for_each_part(
    follower: Callable[[Network, SSAValue], SSAValue],
) -> None:
    program = network(behind(follower))
    assert sqnr(quantized(program, "cpu"), program, is_native=False) > 27  # 9 or less with one scale


@pytest.mark.parametrize("make", [a_channel_shuffle, a_slice_of_both, a_convolution_in_groups, two_readers_of_a_pool])
def test_parts_in_other_places_keep_their_precision(make: Callable[[Network, SSAValue], list[SSAValue]]) -> None:
    program = network(make)
    assert sqnr(quantized(program, "cpu"), program) > 27  # 9 or less with one scale


@pytest.mark.parametrize("target", ["cpu", "litert", "onnxruntime", "cpu-integer", "tosa"])
def test_a_convolution_that_is_added_is_computed_for_each_part(target: str) -> None:
    program = network(behind(a_sum_with_another_value))
    result = quantized(program, target)
    assert sqnr(result, program, is_native=False) > 27  # 5 or less with one scale
    assert [channels for kernel, channels in kernels(result) if kernel == "add"][:2] == [4, 4]


def batch_norm(net: Network, value: SSAValue) -> SSAValue:
    return convolved(net, normalized(net, value, (100.0, 1.0)), 8)


@pytest.mark.parametrize("last", [batch_norm, undone])
@pytest.mark.parametrize("move", [a_relu, a_maximum_pool])
def test_an_added_value_with_uneven_channels_is_computed_twice_if_others_read_it(
    move: Callable[[Network, SSAValue], SSAValue], last: Callable[[Network, SSAValue], SSAValue]
) -> None:
    def added(net: Network, value: SSAValue) -> list[SSAValue]:
        both = move(net, joined(net, parts(net, value)))
        other = move(net, uneven_channels(net))
        net.name = "sum"
        return [last(net, net.insert(AddOp(both, other))), convolved(net, other, 8)]

    program = network(added)
    result = quantized(program, "cpu")
    assert sqnr(result, program, is_native=False) > 26  # 7 or less with one scale
    assert not left_float(result.propagated)


def test_what_cannot_be_computed_for_each_part_stays_float() -> None:
    program = network(behind(a_scatter))
    result = quantized(program, "cpu")
    assert sqnr(result, program, is_native=False) > 27  # 5 or less with one scale
    reasons = list(left_float(result.propagated).values())
    assert any("it equalizes the parts that it reads" in reason for reason in reasons)


@pytest.mark.parametrize("follower", [an_average_pool, a_gate])
def test_a_model_with_statistics_after_every_op_is_split_as_the_plain_one(
    follower: Callable[[Network, SSAValue], SSAValue],
) -> None:
    """There are statistics inside of a pool, and of a gate, whose type is fixed."""
    plain, annotated = texts_of_plain_and_annotated(network(behind(follower)), samples(0))
    assert plain == annotated


def test_two_readers_share_the_parts_of_what_they_read() -> None:
    found = kernels(quantized(network(two_readers_of_a_pool), "cpu"))
    assert [channels for kernel, channels in found if kernel == "max_pool"] == [4, 4]


def test_neighbours_of_like_size_stay_joined() -> None:
    def dense(net: Network, value: SSAValue) -> list[SSAValue]:
        sizes = (100.0, 1.0, 1.0, 1.0)
        parts = [convolved(net, value, 4, size) for size in sizes]
        return [convolved(net, normalized(net, joined(net, parts), sizes), 8)]

    found = kernels(quantized(network(dense), "cpu"))
    assert [channels for kernel, channels in found if kernel == "multiply"] == [4, 12]
    assert [channels for kernel, channels in found if kernel == "concatenate"] == [12, 16]


def test_nothing_changes_for_operands_of_one_size_and_for_readers_that_keep_the_sizes() -> None:
    def even(net: Network, value: SSAValue) -> list[SSAValue]:
        parts = [convolved(net, value, 4), convolved(net, value, 4)]
        return [convolved(net, normalized(net, joined(net, parts), (1, 2)), 8)]

    def kept(net: Network, value: SSAValue) -> list[SSAValue]:
        parts = [convolved(net, value, 4, 100.0), convolved(net, value, 4)]
        return [convolved(net, normalized(net, joined(net, parts), (1, 2)), 8)]

    for make in (even, kept):
        found = kernels(quantized(network(make), "cpu"))
        assert [channels for kernel, channels in found if kernel == "multiply"] == [8]


def test_a_clip_behind_a_join_is_not_computed_for_each_part() -> None:
    """It needs a scale half as fine as what it reads, but does not undo sizes."""

    def clipped(net: Network, value: SSAValue) -> list[SSAValue]:
        both = joined(net, [convolved(net, value, 4, 100.0), convolved(net, value, 4)])
        net.name = "clip"
        both = net.insert(TransposeOp(both, [0, 2, 3, 1]))
        return [net.insert(MinimumOp(net.insert(MaximumOp(both, net.splat(0.0, both))), net.splat(20.0, both)))]

    for target in ("cpu", "litert"):
        found = kernels(quantized(network(clipped), target))
        assert [kernel for kernel, _ in found].count("transpose") == 1


def a_mean_and_a_batch_norm(net: Network, value: SSAValue) -> list[SSAValue]:
    """Means of 36 numbers are far within the range of the numbers."""
    both = joined(net, [convolved(net, value, 4, 100.0), convolved(net, value, 4)])
    net.name = "mean"
    found = net.reduced(both, (2, 3))
    found = net.insert(MultiplyOp(found, net.splat(1 / 36, found)))
    return [
        convolved(net, normalized(net, net.insert(ReshapeOp(found, with_shape(both, [1, 8, 1, 1]))), (33, 0.33)), 8)
    ]


def test_the_ranges_of_parts_are_observed() -> None:
    program = network(a_mean_and_a_batch_norm)
    result = quantized(program, "cpu")
    assert not any(BOUNDED in op.attributes for op in result.calibrated.entry.ops)
    assert any(key.startswith("bounded mean") for key in result.calibration.observations)
    # On the samples of calibration: eight others have means beyond these. 30 with bounds.
    assert sqnr(result, program, seed=0) > 34


def test_another_shape_gets_the_observed_ranges_of_parts() -> None:
    program = network(a_mean_and_a_batch_norm)
    result = quantized(program, "cpu")
    again = specialized(result, program, Options(target="cpu", effort="none"))
    assert print_program(again.integer) == print_program(result.integer)


def test_parts_without_samples_are_bounded() -> None:
    program = network(a_mean_and_a_batch_norm)
    asked = instrument(program, asks=asks_all, every_result=True)
    stated = state_ranges(asked, collect(asked, samples(0)))
    result = quantize(stated, None, Options(target="cpu", effort="none"))
    assert any(BOUNDED in op.attributes for op in result.calibrated.entry.ops)
    assert sqnr(result, program) > 15


def test_the_pass_alone_sees_through_statistics_inside_of_kernels() -> None:
    fused = fused_with_statistics(network(behind(an_average_pool)), samples(0))
    dropped = drop_inner_statistics(fused)
    alone = print_program(split_joins(fused, named_target("cpu")))
    assert alone == print_program(split_joins(dropped, named_target("cpu"))) != print_program(dropped)


def test_a_join_whose_reader_returns_only_zeros() -> None:
    """Their range divided by zero."""
    body = "t = Tanh(x)\n c = Concat<axis=1>(t, x)\n y = Sub(c, c)"
    model, given = text_network("(float[2,8] x) => (float[2,16] y)", {}, body)
    assert not zp.quantize(model, given, target="litert", effort="none")(**given[0])["y"].any()
