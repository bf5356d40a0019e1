"""What the solver decides obeys the kernel table, for any network."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from networks import Network, quantized
from property_cases import some
from random_networks import Case, cases
from zeropoint.calibrate import instrument
from zeropoint.fuse import fuse
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import FACTS, FLOAT_REASON, RESCALE
from zeropoint.ir.constants import constant_array
from zeropoint.ir.contractions import weight_channel_axis
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ConvolutionLayout,
    ConvolutionOp,
    DotDimensions,
    DotGeneralOp,
    LogisticOp,
    TransposeOp,
)
from zeropoint.ir.tensors import Array, element_of, with_shape
from zeropoint.lower import integer_program
from zeropoint.numerics.accumulator import accumulator_bound
from zeropoint.pipeline import quantize
from zeropoint.solve import RESCALE_KERNEL, MissingStatistics, propagate
from zeropoint.targets import FixedScale, KernelRow, MultiplierAccumulatorScale, PortRule, Role, SameScale, target

CPU = target("cpu")
LIMIT = 2**30 - 1
EVERYTHING = some(12)


def regions(program: Program) -> list[QuantizeRegionOp]:
    return [op for op in program.entry.ops if isinstance(op, QuantizeRegionOp)]


def stays_float(region: QuantizeRegionOp) -> bool:
    """Whether the solver left a region float, as `least_sqnr` of the target asks; the region has to say why."""
    if any(isinstance(spec, UniformQuantizedType) for spec in (*region.input_specs, *region.output_specs)):
        return False
    assert CPU.least_sqnr
    assert region.attributes[FLOAT_REASON].data
    return True


def assert_obeys(spec: UniformQuantizedType, rule: PortRule) -> None:
    assert spec.storage == rule.storage
    assert spec.is_per_channel == rule.per_channel
    if rule.zero_point is not None:
        assert not (spec.zero_points - rule.zero_point).any()


def assert_obeys_relation(region: QuantizeRegionOp, row: KernelRow) -> None:
    inputs, output = region.input_specs.data, region.output_specs.data[0]
    assert isinstance(output, UniformQuantizedType)
    if isinstance(row.relation, SameScale):
        assert set(inputs) == {output}
    elif isinstance(row.relation, FixedScale):
        assert (output.scale, output.zero_point) == (row.relation.scale, row.relation.zero_point)
    elif isinstance(row.relation, MultiplierAccumulatorScale) and len(inputs) > 2:
        given_type, weight, bias = inputs
        assert isinstance(given_type, UniformQuantizedType)
        assert isinstance(weight, UniformQuantizedType)
        assert isinstance(bias, UniformQuantizedType)
        assert (bias.scales == given_type.scale * weight.scales).all()


@EVERYTHING
@given(case=cases())
def test_every_port_obeys_the_kernel_table(case: Case) -> None:
    for region in regions(quantized(case.program, case.calibration, stage="propagated")):
        if region.logical_kernel.data == RESCALE_KERNEL or stays_float(region):
            continue
        row = CPU.row(region.logical_kernel.data)
        assert row is not None
        for index, spec in enumerate(region.input_specs):
            assert isinstance(spec, UniformQuantizedType)
            assert_obeys(spec, row.input_rule(index))
        assert_obeys(region.output_specs.data[0], row.output)
        assert_obeys_relation(region, row)


@EVERYTHING
@given(case=cases())
def test_a_value_has_one_type_wherever_it_is_read_and_every_rescale_changes_it_for_a_reason(case: Case) -> None:
    program = quantized(case.program, case.calibration, stage="propagated")
    found = regions(program)
    types = {region.outputs[0]: region.output_specs.data[0] for region in found}
    for region in found:
        if stays_float(region):
            continue
        for value, spec in zip(region.inputs, region.input_specs, strict=True):
            if constant_array(value, program.weights) is None:
                assert types.get(value, spec) == spec  # a float value is quantized by each reader
        if region.logical_kernel.data == RESCALE_KERNEL:
            assert region.attributes[RESCALE].data
            assert region.input_specs != region.output_specs
        else:
            assert FACTS in region.attributes


def stored_weights(op: ConvolutionOp | DotGeneralOp, program: Program) -> Array | None:
    """The weights of a contraction, channels first, one row a channel; None for a product of two activations."""
    weight = constant_array(op.rhs, program.weights)
    axis = None if weight is None else weight_channel_axis(op)
    return None if weight is None or axis is None else np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1)


def stored_bias(op: ConvolutionOp | DotGeneralOp, program: Program) -> Array | int:
    """The bias that is added to a contraction."""
    use = op.result.get_unique_use()
    if use is not None and isinstance(use.operation, AddOp):
        broadcast = use.operation.rhs.owner
        assert isinstance(broadcast, BroadcastInDimOp)
        bias = constant_array(broadcast.operand, program.weights)
        assert bias is not None
        return bias
    return 0


@EVERYTHING
@given(case=cases())
def test_no_input_takes_an_accumulator_out_of_its_bits(case: Case) -> None:
    program = quantized(case.program, case.calibration)
    for op in program.entry.ops:
        if not isinstance(op, ConvolutionOp | DotGeneralOp):
            continue
        weight = stored_weights(op, program)
        if weight is None or element_of(op.rhs).storage != CPU.row("convolution").inputs[1].storage:
            continue
        assert np.abs(weight.astype(np.int32)).max(initial=0) <= 127
        given_type = element_of(op.lhs)
        bound = accumulator_bound(
            weight,
            given_type.storage.minimum,
            given_type.storage.maximum,
            given_type.zero_point,
            stored_bias(op, program),
        )
        assert bound.max(initial=0) <= LIMIT


def test_weights_shared_by_two_convolutions_keep_their_scale_and_the_biases_take_their_own() -> None:
    random = np.random.default_rng(0)
    net = Network([(1, 2, 4, 4), (1, 2, 4, 4)])
    weight, bias = net.constant(random.normal(0, 1, (3, 2, 1, 1))), net.constant(np.array([1.0, -2.0, 3.0]))
    outputs = []
    for value in net.values[:2]:
        net.layer("convolution")
        result = with_shape(value, [1, 3, 4, 4])
        product = net.insert(ConvolutionOp(value, weight, result, ConvolutionLayout.channels_first(2)))
        outputs.append(net.insert(AddOp(product, net.insert(BroadcastInDimOp(bias, result, [1])))))
        net.values.append(outputs[-1])
    sample = {f"x{i}": random.uniform(-s, s, (1, 2, 4, 4)).astype(np.float32) for i, s in enumerate((1.0, 50.0))}
    program = net.finish(outputs)
    first, second = regions(quantized(program, [sample], stage="propagated"))
    assert first.input_specs.data[1] == second.input_specs.data[1]
    ratio = second.input_specs.data[2].scales / first.input_specs.data[2].scales
    np.testing.assert_allclose(ratio, second.input_specs.data[0].scale / first.input_specs.data[0].scale)
    reference = quantized(program, [sample])
    expected, found = Interpreter(reference)(sample), Interpreter(integer_program(reference))(sample)
    exact = Interpreter(program)(sample)
    for name in expected:
        np.testing.assert_array_equal(expected[name], found[name])
        np.testing.assert_allclose(found[name], exact[name], atol=np.abs(exact[name]).max() * 0.02)


def test_a_channel_of_zeros_gives_exactly_its_bias() -> None:
    net = Network([(1, 2, 3, 3)])
    result = with_shape(net.values[0], [1, 2, 3, 3])
    weight = net.constant(np.zeros((2, 2, 1, 1)))
    product = net.insert(ConvolutionOp(net.values[0], weight, result, ConvolutionLayout.channels_first(2)))
    program = net.finish([net.insert(AddOp(product, net.along(np.array([2.55, 0.0]), product, 1)))])
    sample = {"x0": np.random.default_rng(0).uniform(-1, 1, (1, 2, 3, 3)).astype(np.float32)}
    found = Interpreter(integer_program(quantized(program, [sample])))({"x0": sample["x0"] * 100})["y0"]
    np.testing.assert_allclose(found[0, 0], 2.55, rtol=1e-6)
    assert not found[0, 1].any()


def test_a_value_that_nobody_observed_is_named() -> None:
    net = Network([(1, 4)])
    net.layer("the sum")
    program = net.finish([net.insert(AddOp(net.values[0], net.values[0]))])
    with pytest.raises(MissingStatistics, match="found no statistics for 'x0'"):
        propagate(instrument(fuse(program)), CPU)


def test_a_value_moved_from_a_fixed_range_needs_no_statistics() -> None:
    """x @ transpose(sigmoid(x)): the sigmoid's range is known, and a product wants zero point 0 on its right."""
    net = Network([(4, 6)])
    moved = net.insert(TransposeOp(net.insert(LogisticOp(net.values[0])), [1, 0]))
    product = DotGeneralOp(net.values[0], moved, with_shape(moved, [4, 4]), DotDimensions((), (), (1,), (0,)))
    program = net.finish([net.insert(product)])
    sample = {"x0": np.random.default_rng(0).uniform(-1, 1, (4, 6)).astype(np.float32)}
    found = Interpreter(quantize(program, [sample]).integer)(sample)["y0"]
    np.testing.assert_allclose(found, Interpreter(program)(sample)["y0"], atol=0.05)


def test_the_table_has_the_roles_that_the_constraints_speak_of() -> None:
    row = CPU.row("convolution")
    assert row is not None
    assert [rule.role for rule in row.inputs] == [Role.ACTIVATION, Role.WEIGHT, Role.BIAS]
    assert row.accumulator_bits == 32
