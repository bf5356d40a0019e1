"""Contractions of an uneven concatenation that nothing can scale are computed for each part."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.ir import SSAValue

from annotated import texts_of_plain_and_annotated
from networks import Network
from solve.uneven_joins import (
    a_relu,
    a_scatter,
    convolved,
    joined,
    network,
    normalized,
    parts,
    quantized,
    samples,
    sqnr,
    undone,
)
from zeropoint.interp import Interpreter
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import (
    AddOp,
    ClampOp,
    ConvolutionLayout,
    ConvolutionOp,
    DotDimensions,
    DotGeneralOp,
    LogisticOp,
    MultiplyOp,
    ReshapeOp,
)
from zeropoint.ir.tensors import shape_of, with_shape
from zeropoint.pipeline import Options, Quantization, quantize
from zeropoint.solve.kernels import left_float

Make = Callable[[Network, SSAValue], list[SSAValue]]


def beside_a_relu(net: Network, value: SSAValue) -> list[SSAValue]:
    both = joined(net, parts(net, value))
    return [undone(net, both), a_relu(net, both)]


def beside_a_batch_norm(net: Network, value: SSAValue) -> list[SSAValue]:
    both = joined(net, parts(net, value))
    return [undone(net, both), convolved(net, normalized(net, both, (100, 1)), 8)]


def beside_a_sigmoid(net: Network, value: SSAValue) -> list[SSAValue]:
    both = joined(net, parts(net, value))
    found = undone(net, both)
    net.name = "sigmoid"
    return [found, convolved(net, net.insert(LogisticOp(both)), 8)]


def beside_the_caller(net: Network, value: SSAValue) -> list[SSAValue]:
    both = joined(net, parts(net, value))
    return [undone(net, both), both]


def of_sums(net: Network, value: SSAValue) -> list[SSAValue]:
    """Residual sums have no weights to scale."""
    made: list[SSAValue] = []
    for size in (100.0, 1.0):
        first, second = convolved(net, value, 4, size), convolved(net, value, 4, size)
        net.name = f"sum{size:g}"
        made.append(net.insert(AddOp(first, second)))
    return [undone(net, joined(net, made))]


def with_a_bias_and_a_clip(net: Network, value: SSAValue) -> list[SSAValue]:
    both = joined(net, parts(net, value))
    found = undone(net, both)
    found = net.insert(AddOp(found, net.along(np.linspace(-1, 1, 8), found, 1)))
    found = net.insert(ClampOp(net.constant(np.array(0.0)), found, net.constant(np.array(6.0))))
    return [found, both]


def of_three_sizes(net: Network, value: SSAValue) -> list[SSAValue]:
    sizes = (100.0, 1.0, 10.0, 1.0)
    both = joined(net, [convolved(net, value, 4, size) for size in sizes])
    net.name = "undone"
    weight = net.random.normal(0, 0.3, (8, 16, 3, 3)) / np.repeat(sizes, 4).reshape(1, -1, 1, 1)
    layout = ConvolutionLayout.channels_first(2)
    return [net.insert(ConvolutionOp(both, net.constant(weight), with_shape(both, [1, 8, 4, 4]), layout)), both]


def in_groups(net: Network, value: SSAValue) -> list[SSAValue]:
    """The second of three groups reads channels of both parts."""
    both = joined(net, [convolved(net, value, 6, 100.0), convolved(net, value, 6)])
    net.name = "groups"
    sizes = np.repeat([100.0, 1.0], 6).reshape(3, 1, 4, 1, 1)
    weight = (net.random.normal(0, 1, (3, 4, 4, 1, 1)) / sizes).reshape(12, 4, 1, 1)
    layout = ConvolutionLayout.channels_first(2)
    made = net.insert(ConvolutionOp(both, net.constant(weight), both.type, layout, feature_group_count=3))
    return [convolved(net, made, 8)]


CASES = (
    beside_a_relu,
    beside_a_batch_norm,
    beside_a_sigmoid,
    beside_the_caller,
    of_sums,
    with_a_bias_and_a_clip,
    of_three_sizes,
    in_groups,
)


@pytest.mark.parametrize("make", CASES)
def test_a_contraction_reads_the_parts_of_a_concatenation_at_their_own_scales(make: Make) -> None:
    program = network(make)
    is_native = make in (of_three_sizes, in_groups)
    assert sqnr(quantized(program, "cpu"), program, is_native=is_native) > 26  # 9 or less with one scale


@pytest.mark.parametrize("target", ["litert", "onnxruntime", "cpu-integer", "tosa"])
def test_every_target_keeps_the_small_part(target: str) -> None:
    program = network(of_sums)
    assert sqnr(quantized(program, target), program, is_native=False) > 26


def of_means(net: Network, value: SSAValue) -> list[SSAValue]:
    both = joined(net, parts(net, value))
    net.name = "mean"
    found = net.reduced(both, (2, 3))
    found = net.insert(ReshapeOp(net.insert(MultiplyOp(found, net.splat(1 / 36, found))), with_shape(both, [1, 8])))
    net.name = "classes"
    weight = net.random.normal(0, 1, (8, 10)) / np.repeat([100.0, 1.0], 4).reshape(8, 1)
    dimensions = DotDimensions((), (), (1,), (0,))
    return [net.insert(DotGeneralOp(found, net.constant(weight), with_shape(found, [1, 10]), dimensions)), both]


def test_a_classifier_of_means_reads_the_means_of_each_part() -> None:
    program = network(of_means)
    # On the samples of calibration: eight others have means beyond these. 5 with one scale.
    assert sqnr(quantized(program, "cpu"), program, is_native=False, seed=0) > 30


def test_the_float_program_computes_the_same_numbers() -> None:
    for make in CASES:
        program = network(make)
        (sample,) = samples(3)[:1]
        before, after = Interpreter(program)(sample), Interpreter(quantized(program, "cpu").calibrated)(sample)
        for name, wanted in before.items():
            np.testing.assert_allclose(after[name], wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def contractions(result: Quantization) -> list[int]:
    """The input channels of the contractions of eight channels."""
    regions = [op for op in result.propagated.entry.ops if isinstance(op, QuantizeRegionOp)]
    return [
        shape_of(op.inputs[0])[1]
        for op in regions
        if op.logical_kernel.data == "convolution" and shape_of(op.outputs[0])[1] == 8
    ]


def test_parts_of_one_size_stay_together() -> None:
    assert contractions(quantized(network(of_three_sizes), "cpu")) == [8, 4, 4]


def test_a_contraction_that_does_not_undo_the_sizes_stays_one() -> None:
    def kept(net: Network, value: SSAValue) -> list[SSAValue]:
        both = joined(net, parts(net, value))
        return [undone(net, both, 1.0), a_relu(net, both)]

    assert contractions(quantized(network(kept), "cpu")) == [8]


def test_a_contraction_whose_parts_cannot_be_computed_alone_stays_float() -> None:
    def behind(net: Network, value: SSAValue) -> list[SSAValue]:
        return [undone(net, a_scatter(net, joined(net, parts(net, value))))]

    program = network(behind)
    result = quantized(program, "cpu")
    assert sqnr(result, program, is_native=False) > 26  # 5 or less with one scale
    assert any("cannot be computed apart" in reason for reason in left_float(result.propagated).values())


def over_two_dimensions(net: Network, value: SSAValue) -> list[SSAValue]:
    both = joined(net, parts(net, value))
    weight = net.random.normal(0, 0.3, (8, 6, 5)) / np.repeat([100.0, 1.0], 4).reshape(-1, 1, 1)
    dimensions = DotDimensions((), (), (1, 2), (0, 1))
    return [net.insert(DotGeneralOp(both, net.constant(weight), with_shape(both, [1, 6, 5]), dimensions))]


def with_weights_first(net: Network, value: SSAValue) -> list[SSAValue]:
    both = joined(net, parts(net, value))
    weight = net.constant(net.random.normal(0, 0.3, (5, 8)) / np.repeat([100.0, 1.0], 4))
    dimensions = DotDimensions((), (), (1,), (1,))
    return [net.insert(DotGeneralOp(weight, both, with_shape(both, [5, 1, 6, 6]), dimensions))]


@pytest.mark.parametrize("make", [over_two_dimensions, with_weights_first])
def test_products_in_other_forms_stay_float(make: Make) -> None:
    program = network(make)
    result = quantized(program, "cpu")
    assert sqnr(result, program, is_native=False) > 26  # 5 or less with one scale
    assert any("cannot be computed apart" in reason for reason in left_float(result.propagated).values())


@pytest.mark.parametrize("make", [of_sums, in_groups])
def test_a_model_with_statistics_after_every_op_is_split_as_the_plain_one(make: Make) -> None:
    plain, annotated = texts_of_plain_and_annotated(network(make), samples(0))
    assert plain == annotated


def test_corrections_take_the_parts() -> None:
    program = network(of_sums)
    result = quantize(program, samples(0), Options(target="cpu", effort="balanced"))
    assert sqnr(result, program, is_native=False) > 26
