"""Contractions as matrices, against the interpreter; constants that come back as the integers that were chosen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import booleans, integers

from networks import Network, quantized
from property_cases import some
from random_networks import Case, cases
from zeropoint.bit_widths import least_output_sqnr
from zeropoint.correct import rows
from zeropoint.correct.contractions import ContractionKernel, contraction_kernel, give_biases
from zeropoint.correct.lock_step import OFFSET, as_read
from zeropoint.correct.rows import Chosen, products
from zeropoint.correct.walk import WalkValue
from zeropoint.interp import Interpreter
from zeropoint.ir.isolation import activations, float_form
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, stored_array
from zeropoint.ir.stablehlo import ConstantOp, ConvolutionLayout, ConvolutionOp
from zeropoint.ir.tensors import shape_of, with_shape
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import verify
from zeropoint.lower import integer_program
from zeropoint.materialize import materialize
from zeropoint.pipeline import Options, quantize
from zeropoint.report.counts import float_ops
from zeropoint.targets import target

RANDOM = np.random.default_rng(5)


def kernels(program: Program) -> list[ContractionKernel]:
    regions = [op for op in program.entry.ops if isinstance(op, QuantizeRegionOp)]
    found = (contraction_kernel(region, program.weights, target("cpu")) for region in regions)
    return [kernel for kernel in found if kernel is not None]


@some(10)
@given(case=cases(most_layers=4))
def test_rows_times_weights_are_what_the_float_kernel_computes(case: Case) -> None:
    program = quantized(case.program, case.calibration, stage="propagated")
    for kernel in kernels(program):
        alone = float_form(program, kernel.region)
        (value,) = activations(kernel.region)
        x = RANDOM.normal(0, 1, shape_of(value)).astype(np.float32)
        (y,) = Interpreter(alone)({"0": x}).values()
        every = kernel.geometry.positions(y.shape)
        assert every * kernel.channels == y.size
        positions = np.arange(every)[:: max(1, every // 7)]
        chosen = kernel.geometry.rows(x, positions)
        for axis in range(x.ndim):  # each dimension in turn has adjacent elements
            stored = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, axis, -1)), -1, axis)
            # Of two inputs, the second one negative.
            found = kernel.geometry.terms([stored, -stored], [positions, positions[1:]])
            expected = np.concatenate([chosen, -chosen[:, 1:]], axis=1)
            np.testing.assert_array_equal(found, expected.transpose(1, 2, 0))
        sums = products(chosen, kernel.float_weight).T
        found = np.clip(sums + kernel.float_bias.astype(np.float32), kernel.bounds.low, kernel.bounds.high)
        expected = kernel.geometry.results(y, positions)
        scale = np.abs(kernel.float_weight).sum(axis=2).reshape(-1) * np.abs(x).max() + np.abs(kernel.float_bias)
        assert (np.abs(found - expected) <= 1e-4 * scale + 1e-30).all()


@some(6)
@given(case=cases(most_layers=4), block=integers(1, 50), unsigned=booleans())
def test_sums_of_integers_are_exact(case: Case, block: int, unsigned: bool) -> None:
    program = quantized(case.program, case.calibration, stage="propagated")
    for kernel in kernels(program):
        (value,) = activations(kernel.region)
        kind, shape = kernel.input_type, shape_of(value)
        bounds = kind.storage.minimum, kind.storage.maximum + 1
        stored = [RANDOM.integers(*bounds, shape).astype(np.int8) for _ in range(3)]
        if unsigned:  # as native code has them in memory
            stored = [(array.astype(np.int16) + OFFSET).astype(np.uint8) for array in stored]
            kind = as_read(kind, stored)
        every = np.arange(kernel.geometry.positions(tuple(shape_of(kernel.region.results[0]))))
        chosen = Chosen((every, every[::2], every))
        point, weight = kind.zero_point, kernel.integers()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rows, "BLOCK", block)
            found = rows.quantized_sums(kernel, WalkValue(stored, stored, kind), chosen)
        rows_read = np.concatenate([kernel.geometry.rows(stored[n], taken, point) for n, taken in chosen], axis=1)
        exact = np.matmul(weight, rows_read.swapaxes(1, 2).astype(np.int64) - point).reshape(kernel.channels, -1)
        scales = (kind.scale * kernel.weight_scales).reshape(-1, 1).astype(np.float32)
        np.testing.assert_array_equal(found, exact.astype(np.float32) * scales)


@some(6)
@given(case=cases(most_layers=4))
def test_a_weight_and_its_matrix_are_the_same_numbers(case: Case) -> None:
    for kernel in kernels(quantized(case.program, case.calibration, stage="propagated")):
        weight = kernel._array(1)
        np.testing.assert_array_equal(kernel.geometry.weight(kernel.geometry.matrix(weight), weight), weight)


@some(6)
@given(case=cases(most_layers=4))
def test_constants_that_are_set_are_stored_as_the_integers_that_were_chosen(case: Case) -> None:
    program = quantized(case.program, case.calibration, stage="propagated")
    for kernel in kernels(program):
        shape = kernel.float_weight.shape
        chosen = RANDOM.integers(-127, 128, shape).astype(np.float64)
        kind = kernel.types_for(chosen, kernel.float_bias)
        kernel.set_weight(chosen, kind)
        stored = stored_array(kernel._array(1).astype(np.float32), kernel.weight_type)
        np.testing.assert_array_equal(kernel.geometry.matrix(stored), chosen)
        steps = RANDOM.integers(-1000, 1000, kernel.channels).astype(np.float64)
        if kernel.set_bias(steps * kernel.bias_type.scales) == 0:
            bias = stored_array(kernel._array(2).astype(np.float32), kernel.bias_type)
            np.testing.assert_array_equal(bias, steps)


@some(6)
@given(case=cases(most_layers=4))
def test_a_bias_of_zeros_changes_nothing(case: Case) -> None:
    program = quantized(case.program, case.calibration, stage="propagated")
    made = program.clone()
    give_biases(made, target("cpu"))
    verify(made.module)
    runs = [Interpreter(integer_program(materialize(found))) for found in (program, made)]
    for sample in case.samples:
        for one, other in zip(*(run(sample).values() for run in runs), strict=True):
            np.testing.assert_array_equal(one, other)


STARTS_FROM_A_CONSTANT = """
func.func @main(%x: tensor<1x4xf32> {zeropoint.name = "x"}) -> tensor<1x3xf32> {
  %h = stablehlo.constant dense<0.5> : tensor<1x5xf32>
  %w = stablehlo.constant dense<0.25> : tensor<5x4xf32>
  %v = stablehlo.constant dense<0.125> : tensor<4x3xf32>
  %b = stablehlo.constant dense<0.1> : tensor<4xf32>
  %bias = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
  %0 = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0]
    : (tensor<1x5xf32>, tensor<5x4xf32>) -> tensor<1x4xf32>
  %1 = stablehlo.add %0, %bias : tensor<1x4xf32>
  %2 = stablehlo.add %1, %x : tensor<1x4xf32>
  %3 = stablehlo.dot_general %2, %v, contracting_dims = [1] x [0]
    : (tensor<1x4xf32>, tensor<4x3xf32>) -> tensor<1x3xf32>
  return %3 : tensor<1x3xf32>
}
"""


def test_a_contraction_of_constants_only_is_not_corrected() -> None:
    """The first step of a recurrent network multiplies a constant state."""
    program = parse_program(STARTS_FROM_A_CONSTANT)
    samples = [{"x": RANDOM.normal(0, 1, (1, 4)).astype(np.float32)} for _ in range(8)]
    made = quantize(program, samples, Options("litert"))
    exact, integers = Interpreter(program), Interpreter(made.integer)
    assert not float_ops(made.integer)
    assert least_output_sqnr((exact(sample), integers(sample)) for sample in samples) > 30


def test_a_large_weight_that_is_set_is_kept_as_integers() -> None:
    net = Network([(1, 512, 2, 2)])
    kernel = net.constant(net.random.normal(0, 0.1, (640, 512, 1, 1)))
    image = net.values[0]
    made = net.insert(
        ConvolutionOp(image, kernel, with_shape(image, (1, 640, 2, 2)), ConvolutionLayout.channels_first(2))
    )
    samples = [{"x0": RANDOM.normal(0, 1, (1, 512, 2, 2)).astype(np.float32)} for _ in range(2)]
    program = quantized(net.finish([made]), samples, stage="propagated")
    give_biases(program, target("cpu"))
    (found,) = kernels(program)
    chosen = RANDOM.integers(-127, 128, found.float_weight.shape).astype(np.float64)
    found.set_weight(chosen, found.types_for(chosen, found.float_bias))
    constant = found.region.inputs[1].owner
    assert isinstance(constant, ConstantOp)
    assert found.weights.computed_bytes(constant.value) == 640 * 512 * 4
    stored = stored_array(found._array(1).astype(np.float32), found.weight_type)
    np.testing.assert_array_equal(found.geometry.matrix(stored), chosen)


WEIGHT = ", ".join(f"[{', '.join(f'[{number:.3f}]' for number in row)}]" for row in RANDOM.normal(0, 1, (4, 3)))


@pytest.mark.parametrize("name", ["cpu", "cpu-integer", "onnxruntime"])
def test_a_product_with_channels_in_several_dimensions_is_not_corrected(name: str) -> None:
    """Heads times features, as in XLNet: once, its positions were counted wrongly, and calibration failed."""
    text = f"""
    func.func @main(%x: tensor<6x1x4xf32>) -> tensor<6x1x3x1xf32> {{
      %w = stablehlo.constant dense<[{WEIGHT}]> : tensor<4x3x1xf32>
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [2] x [0]
        : (tensor<6x1x4xf32>, tensor<4x3x1xf32>) -> tensor<6x1x3x1xf32>
      return %0 : tensor<6x1x3x1xf32>
    }}"""
    samples = [{"arg0": RANDOM.normal(0, 1, (6, 1, 4)).astype(np.float32)} for _ in range(4)]
    program = parse_program(text)
    found = quantize(program, samples, Options(target=name, effort="fast")).integer
    (expected,), (given,) = Interpreter(program)(samples[0]).values(), Interpreter(found)(samples[0]).values()
    assert np.abs(expected - given).max() < 0.05 * np.abs(expected).max()
