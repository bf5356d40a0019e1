"""The ordered list of stages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from xdsl.ir import BlockArgument, Operation

from networks import Network
from property_cases import some
from random_networks import Case, cases
from zeropoint.calibrate import CalibrationError
from zeropoint.frontend import ModelError
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import EXPRESSED
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp, StatisticsRefOp
from zeropoint.ir.stablehlo import AddOp, MaximumOp, TanhOp
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program, print_program
from zeropoint.ir.verification import verify
from zeropoint.lower import LoweringError, integer_program
from zeropoint.numerics.affine import dequantize
from zeropoint.pipeline import Options, Quantization, check_options, quantize
from zeropoint.report.counts import count_ops

SAMPLE = {"x0": np.linspace(-1, 1, 6, dtype=np.float32).reshape(1, 6)}


def small() -> Program:
    net = Network([(1, 6)])
    net.layer("sum")
    total = net.insert(AddOp(net.values[0], net.constant(np.arange(6).reshape(1, 6))))
    net.values.append(total)
    net.layer("curve")
    return net.finish([net.insert(TanhOp(net.insert(MaximumOp(total, net.splat(0.0, total)))))])


def count(program: Program, op: type) -> int:
    return sum(isinstance(found, op) for found in program.entry.ops)


def test_each_stage_leaves_what_the_next_one_needs() -> None:
    result = quantize(small(), [SAMPLE])
    assert count(result.fused, QuantizeRegionOp) == 2
    assert count(result.fused, StatisticsRefOp) == 0
    assert count(result.calibrated, StatisticsOp) == 3
    assert count(result.propagated, StatisticsOp) == 0
    assert count(result.quantized, QuantizeRegionOp) == 0
    assert "fxpmath.table" in print_program(result.integer)
    for program in (result.fused, result.calibrated, result.propagated, result.quantized, result.integer):
        verify(program.module)


def test_the_quantized_stage_is_made_when_it_is_asked_for() -> None:
    """The integer program comes from the judged one or from the propagated one, so most callers never need it."""
    result = quantize(small(), [SAMPLE] * 4, Options(effort="balanced"))
    assert "_materialized" not in vars(result)
    assert print_program(integer_program(result.quantized)) == print_program(result.integer)


def test_the_given_program_is_not_changed() -> None:
    program = small()
    before = print_program(program, locations=True, inline_weights=True)
    quantize(program, [SAMPLE])
    assert print_program(program, locations=True, inline_weights=True) == before


def test_samples_are_taken_once_and_one_at_a_time() -> None:
    taken: list[int] = []

    def samples():
        for index in range(3):
            taken.append(index)
            yield SAMPLE

    assert quantize(small(), samples()).calibration.samples == 3
    assert taken == [0, 1, 2]


def test_progress_sees_the_samples() -> None:
    seen: list[str] = []

    def progress(items, description):
        seen.append(description)
        return iter(items)

    quantize(small(), [SAMPLE], progress=progress)
    assert seen.count("calibrate") == 1


def test_no_samples_are_refused() -> None:
    with pytest.raises(CalibrationError, match="found no samples"):
        quantize(small(), [])


def test_a_program_that_is_quantized_already_is_refused() -> None:
    result = quantize(small(), [SAMPLE])
    for program in (result.quantized, result.integer, result.propagated):
        with pytest.raises(ModelError, match="found a program that is quantized already"):
            quantize(program, [SAMPLE])


@pytest.mark.parametrize(
    "options",
    [Options(target="gpu"), Options(profile="nearest"), Options(observer="best"), Options(observer="minmax:3")],
)
def test_options_are_checked_before_any_sample_is_taken(options: Options) -> None:
    def samples():
        raise AssertionError("a sample was taken")
        yield

    with pytest.raises(ValueError, match="found"):
        check_options(options)
    with pytest.raises(ValueError, match="found"):
        quantize(small(), samples(), options)


def with_integer_io(case: Case) -> Quantization | None:
    """None where a float op stands at an edge, which the lowering refuses."""
    try:
        return quantize(case.program, case.calibration, Options(integer_io=True))
    except LoweringError:
        return None


@some(6)
@given(case=cases())
def test_integer_io_computes_what_lies_between_the_casts(case: Case) -> None:
    made = with_integer_io(case)
    assume(made is not None)
    assert made is not None
    stored, quantized = made.integer, made.quantized
    verify(stored.module)
    inputs: dict[str, Array] = {}

    def trace(op: Operation, results: tuple[Array, ...]) -> None:
        if op.name == "stablehlo.uniform_quantize" and isinstance(op.operands[0], BlockArgument):
            inputs[f"x{op.operands[0].index}"] = results[0]

    real = Interpreter(quantized)(case.samples[1], trace=trace)
    assert set(inputs) == {port.name for port in stored.inputs}
    found = Interpreter(stored)(inputs)
    for port, attributes in zip(stored.outputs, stored.main.res_attrs.data, strict=True):
        kind = attributes.data[EXPRESSED]
        values = dequantize(found[port.name], kind.scale, kind.zero_point, np.float32)
        np.testing.assert_array_equal(values, real[port.name])


BATCH_NORM = """func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %s = stablehlo.constant dense<[1.0, 2.0, -0.5]> : tensor<3xf32>
  %v = stablehlo.constant dense<[1.0, 0.5, 2.0]> : tensor<3xf32>
  %y = "stablehlo.batch_norm_inference"(%x, %s, %s, %s, %v) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}>
    : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}"""


def test_a_batch_norm_that_follows_no_contraction_is_integer() -> None:
    program = parse_program(BATCH_NORM)
    samples = [{"arg0": sample} for sample in np.random.default_rng(0).normal(size=(8, 2, 3)).astype(np.float32)]
    result = quantize(program, samples)
    assert count_ops(result.integer).floats == 0
    wanted, given = (Interpreter(one)(samples[0])["result0"] for one in (program, result.integer))
    assert np.abs(given - wanted).max() < 0.06  # about one step of a range of 14.7
