"""Softmax and log_softmax in LiteRT: fixed point in its reference kernels, floats in the other ones of 8 bits."""

from __future__ import annotations

import numpy as np
import pytest

from oracle.litert import evaluate, evaluate_by_default
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.export.litert.model import litert_model
from zeropoint.interp import Interpreter
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program
from zeropoint.pipeline import Options, Quantization, quantize
from zeropoint.report.counts import float_ops

LAST = {
    "softmax": "%y = stablehlo.divide %e, %c",
    "log_softmax": "%l = stablehlo.log %c\n %y = stablehlo.subtract %d, %l",
}


def quantized(
    name: str,
    rows: int,
    terms: int,
    profile: str | None,
    integer_io: bool = False,
    spread: float = 3.0,
    target: str = "litert",
) -> Quantization:
    full, rest = f"tensor<{rows}x{terms}xf32>", f"tensor<{rows}xf32>"
    last = LAST[name].replace("\n", f" : {full}\n")
    program = parse_program(f"""func.func @main(%x: {full}) -> {full} {{
      %n = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %m = stablehlo.reduce(%x init: %n) applies stablehlo.maximum across dimensions = [1]
        : ({full}, tensor<f32>) -> {rest}
      %b = stablehlo.broadcast_in_dim %m, dims = [0] : ({rest}) -> {full}
      %d = stablehlo.subtract %x, %b : {full}
      %e = stablehlo.exponential %d : {full}
      %s = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [1]
        : ({full}, tensor<f32>) -> {rest}
      %c = stablehlo.broadcast_in_dim %s, dims = [0] : ({rest}) -> {full}
      {last} : {full}
      return %y : {full}
    }}""")
    sample = np.random.default_rng(0).normal(0, spread, (rows, terms)).astype(np.float32)
    return quantize(
        program, [{"arg0": sample}], Options(target=target, profile=profile, effort="none", integer_io=integer_io)
    )


def scores(rows: int, terms: int) -> Array:
    """Random rows; in every second one, few numbers occur, so that many results are near the middle of two."""
    random = np.random.default_rng(7)
    drawn = random.normal(0, 3, (rows, terms))
    drawn[::2] = random.integers(-1, 2, (len(drawn[::2]), terms)) * random.uniform(0, 1, (len(drawn[::2]), 1))
    return drawn.astype(np.float32)


@pytest.mark.parametrize("name", sorted(LAST))
@pytest.mark.parametrize("terms", [2, 37, 300])
def test_the_reference_kernels_give_our_bytes(name: str, terms: int) -> None:
    result, x = quantized(name, 600, terms, None), scores(600, terms)
    (found,) = evaluate(litert_model(result.propagated), x)
    (expected,) = Interpreter(result.quantized)({"arg0": x}).values()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", sorted(LAST))
def test_rows_whose_sums_could_have_more_than_31_bits_give_our_bytes(name: str) -> None:
    result = quantized(name, 40, 5000, None)
    x = np.random.default_rng(1).normal(0, 3, (40, 5000)).astype(np.float32)
    (found,) = evaluate(litert_model(result.propagated), x)
    (expected,) = Interpreter(result.quantized)({"arg0": x}).values()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", sorted(LAST))
def test_the_reference_kernels_do_not_round_the_real_function(name: str) -> None:
    """Otherwise, the tests above would compare what any rounded function gives."""
    fixed, floats = (quantized(name, 2000, 300, profile) for profile in (None, "xnnpack"))
    found, rounded = (
        next(iter(Interpreter(one.quantized)({"arg0": scores(2000, 300)}).values())) for one in (fixed, floats)
    )
    assert 0 < np.count_nonzero(found != rounded) < found.size // 1000


@pytest.mark.parametrize("name", sorted(LAST))
@pytest.mark.parametrize("terms", [2, 37, 512])
def test_the_kernels_in_floats_give_our_bytes(name: str, terms: int) -> None:
    """512 equal scores of a softmax are half a step each, which is rounded up."""
    result, x = quantized(name, 600, terms, "xnnpack"), scores(600, terms)
    x[0] = 1.0
    (found,) = evaluate_by_default(litert_model(result.propagated), x)
    (expected,) = Interpreter(result.quantized)({"arg0": x}).values()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", sorted(LAST))
def test_programs_for_the_reference_kernels_are_integers_only(name: str) -> None:
    result = quantized(name, 4, 10, None, integer_io=True)
    kinds = [str(value.type) for op in result.integer.module.walk() for value in op.results]
    assert kinds
    assert not [kind for kind in kinds if "xf32" in kind]


@pytest.mark.parametrize("name", sorted(LAST))
def test_scores_of_a_scale_that_the_fixed_point_does_not_have_stay_floats_inside(name: str) -> None:
    """It was an internal error. LiteRT's kernel ends the process."""
    result = quantized(name, 4, 10, None, spread=1e-9)
    assert {reason for _, reason in float_ops(result.integer)} == {
        f"kernel '{name}' has an integer form only in the target's runtime"
    }


@pytest.mark.parametrize("profile", [None, "xnnpack"])
@pytest.mark.parametrize("name", sorted(LAST))
def test_native_code_gives_the_same_bits(name: str, profile: str | None) -> None:
    result, sample = quantized(name, 70, 37, profile), {"arg0": scores(70, 37)}
    (found,), (expected,) = (
        run(sample).values() for run in (NativeProgram(result.integer), Interpreter(result.quantized))
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("terms", [1, 2, 5])
def test_rows_of_16_bits_whose_greatest_score_has_all_the_weight(terms: int) -> None:
    """The exponential of the greatest score is 32762, not 32767, and the others are at most 1."""
    result = quantized("softmax", 40, terms, None, spread=20.0, target="litert-16x8")
    x = np.random.default_rng(1).normal(0, 20, (40, terms)).astype(np.float32)
    x[::2, 0] = 60
    (found,) = evaluate(litert_model(result.propagated), x)
    (expected,) = Interpreter(result.quantized)({"arg0": x}).values()
    np.testing.assert_array_equal(found, expected)
    (native,) = NativeProgram(result.integer)({"arg0": x}).values()
    np.testing.assert_array_equal(native, expected)
