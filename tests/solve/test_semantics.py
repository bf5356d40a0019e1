"""Each stage of the solver means what the one before it means."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from networks import quantized
from property_cases import some
from random_networks import Case, cases
from zeropoint.fuse import fuse
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import PROFILE
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.inlining import inline_region
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType, stored_array
from zeropoint.ir.stablehlo import UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensors import Array, element_of, with_element
from zeropoint.ir.weights import Weights
from zeropoint.materialize import materialize
from zeropoint.numerics.affine import dequantize
from zeropoint.simplify import simplify

EVERYTHING = some(12)


def run(program: Program, samples: list[dict[str, Array]]) -> list[Array]:
    interpreter = Interpreter(program)
    return [array for sample in samples for array in interpreter(sample).values()]


@EVERYTHING
@given(case=cases())
def test_a_simplified_program_computes_the_same_but_for_the_rounding_of_folded_constants(case: Case) -> None:
    before, after = (run(program, case.calibration) for program in (case.program, simplify(case.program)))
    for expected, found in zip(before, after, strict=True):
        scale = float(np.abs(expected).max(initial=0.0))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * scale)


@EVERYTHING
@given(case=cases())
def test_a_fused_program_computes_exactly_the_same(case: Case) -> None:
    for expected, found in zip(run(case.program, case.samples), run(fuse(case.program), case.samples), strict=True):
        np.testing.assert_array_equal(found, expected)


def as_stored(array: Array, spec: UniformQuantizedType) -> Array:
    """The real values that the storage integers of a constant stand for."""
    shape = [1] * array.ndim
    if spec.axis is not None:
        shape[spec.axis] = -1
    scales, points = (np.asarray(x).reshape(shape) for x in (spec.scales, spec.zero_points))
    return dequantize(stored_array(array, spec), scales, points, np.float64).astype(np.float32)


def through_storage(value: SSAValue, spec: UniformQuantizedType, before: Operation, weights: Weights) -> SSAValue:
    """The value quantized and dequantized."""
    assert before.parent is not None
    array = constant_array(value, weights)
    if array is not None:
        constant = constant_op(as_stored(array, spec), weights)
        before.parent.insert_op_before(constant, before)
        return constant.output
    quantize = UniformQuantizeOp(value, with_element(value, spec))
    real = UniformDequantizeOp(quantize.result)
    before.parent.insert_ops_before([quantize, real], before)
    return real.result


def with_fake_quantization(propagated: Program) -> Program:
    """The float ops of every region, on operands and to results that went through their storage."""
    program = propagated.clone()
    for region in [op for op in program.entry.ops if isinstance(op, QuantizeRegionOp)]:
        for index, spec in enumerate(region.input_specs):
            assert isinstance(spec, UniformQuantizedType)
            region.operands[index] = through_storage(region.operands[index], spec, region, program.weights)
        output, spec = region.outputs[0], region.output_specs.data[0]
        quantize = UniformQuantizeOp(output, with_element(output, spec))
        real = UniformDequantizeOp(quantize.result)
        program.entry.insert_ops_after([quantize, real], region)
        output.replace_uses_with_if(real.result, lambda use, maker=quantize: use.operation is not maker)
        inline_region(region)
    program.module.attributes[PROFILE] = StringAttr("exact")
    return program


@EVERYTHING
@given(case=cases())
def test_quantized_kernels_compute_what_the_float_ops_do_on_the_same_stored_values(case: Case) -> None:
    """Under exact rounding both round the same real number, which f32 has to within some 2^-20: rarely a step apart."""
    propagated = quantized(case.program, case.calibration, stage="propagated")
    program = materialize(propagated)
    program.module.attributes[PROFILE] = StringAttr("exact")
    steps = [
        element_of(value.owner.operand).scale if isinstance(value.owner, UniformDequantizeOp) else 1.0
        for value in program.entry.last_op.operands
    ] * len(case.samples)
    expected = run(with_fake_quantization(propagated), case.samples)
    for reference, found, step in zip(expected, run(program, case.samples), steps, strict=True):
        apart = np.abs(found.astype(np.float64) - reference) / step
        assert apart.max(initial=0.0) < 2.5
        assert (apart > 0.5).sum() <= 1 + found.size / 100
