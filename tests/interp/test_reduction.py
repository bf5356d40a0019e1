"""reduce and reduce_window: literal cases, attributes against StableHLO's interpreter, general and widening bodies."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f32, i8, i32
from xdsl.ir import Attribute, Operation

from interp.programs import assert_as_upstream, execute, one_op, run_op
from zeropoint.interp import Interpreter, UnsupportedError
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.stablehlo import ReduceOp, ReduceWindowOp
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import Array

BODIES = [hlo.AddOp, hlo.MaximumOp, hlo.MinimumOp, hlo.MultiplyOp]


def _reduce(x: Array, element: Attribute, dims: list[int], body: type[Operation], init: float) -> tuple:
    shape = [n for d, n in enumerate(x.shape) if d not in dims]
    types = [TensorType(element, x.shape), TensorType(element, [])]

    def build(a, i) -> Operation:
        return ReduceOp([a], [i], [TensorType(element, shape)], dims, binary_body(body, element))

    return types, build, np.array(init, x.dtype)


def test_reduce_add_begins_with_the_initial_value():
    x = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    types, build, init = _reduce(x, i32, [1], hlo.AddOp, 100)
    assert run_op(build, types, x, init).tolist() == [106, 115]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("dims", [[0], [1, 2], [2, 0], [0, 1, 2]])
def test_integer_reduce_equals_upstream_and_wraps(body: type[Operation], dims: list[int]):
    x = np.random.default_rng(1).integers(-128, 128, (3, 4, 5)).astype(np.int8)
    types, build, init = _reduce(x, i8, dims, body, 3)
    assert_as_upstream(one_op(types, build), x, init)


@pytest.mark.parametrize("body", BODIES)
def test_float_reduce_is_close_to_upstream(body: type[Operation]):
    x = np.random.default_rng(1).standard_normal((3, 37)).astype(np.float32)
    types, build, init = _reduce(x, f32, [1], body, 0.5)
    assert_as_upstream(one_op(types, build), x, init, relative=1e-5)


def _sum_in_parts(numbers: list[np.float32], start: np.float32) -> np.float32:
    """The schedule of sums, literally."""
    parts = [np.float32(-0.0)] * 16
    for n, number in enumerate(numbers):
        parts[n % 16] = parts[n % 16] + number
    for half in (8, 4, 2, 1):
        parts = [parts[p] + parts[p + half] for p in range(half)]
    return start + parts[0]


@pytest.mark.parametrize("count", [1, 2, 3, 8, 15, 16, 17, 31, 33, 100])
def test_float_sums_are_taken_in_sixteen_parts(count: int):
    random = np.random.default_rng(count)
    x = (random.standard_normal((2, count)) * 10.0 ** random.integers(-4, 5, (2, count))).astype(np.float32)
    types, build, init = _reduce(x, f32, [1], hlo.AddOp, 0.25)
    assert run_op(build, types, x, init).tolist() == [_sum_in_parts([*row], np.float32(0.25)) for row in x]
    types, build, init = _reduce(x.T, f32, [0], hlo.AddOp, 0.25)
    assert run_op(build, types, x.T, init).tolist() == [_sum_in_parts([*row], np.float32(0.25)) for row in x]


def test_sums_past_what_floats_hold_are_infinite_or_nan_without_a_warning():
    x = np.array([[3e38] * 40, [np.inf, -np.inf] * 20, [np.nan] + [0.0] * 39], np.float32)
    types, build, init = _reduce(x, f32, [1], hlo.AddOp, 0)
    assert [f"{v:g}" for v in run_op(build, types, x, init)] == ["inf", "nan", "nan"]


def test_a_sum_over_two_dimensions_runs_over_the_last_one_first():
    x = np.random.default_rng(2).standard_normal((3, 5, 7)).astype(np.float32)
    types, build, init = _reduce(x, f32, [2, 0], hlo.AddOp, 0)
    rows = [x[:, n].reshape(-1) for n in range(5)]
    assert run_op(build, types, x, init).tolist() == [_sum_in_parts([*row], np.float32(0)) for row in rows]


@pytest.mark.parametrize(("body", "sign"), [(hlo.MaximumOp, 0), (hlo.MinimumOp, 1)])
def test_minus_zero_is_below_zero(body: type[Operation], sign: int):
    for row in ([0.0, -0.0, -0.0], [-0.0, -0.0, 0.0], [-0.0] * 20 + [0.0] + [-0.0] * 20):
        x = np.array(row, np.float32)
        types, build, init = _reduce(x, f32, [0], body, -np.inf if sign == 0 else np.inf)
        assert np.signbit(run_op(build, types, x, init)) == sign


def test_reduce_over_nothing_is_the_initial_value():
    x = np.zeros((2, 0), np.float32)
    for body in (hlo.AddOp, hlo.MaximumOp):
        types, build, init = _reduce(x, f32, [1], body, 7)
        assert run_op(build, types, x, init).tolist() == [7, 7]


ARGMAX = """
func.func @main(%x: tensor<2x5xf32>, %i: tensor<2x5xi32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = "stablehlo.reduce"(%x, %i, %low, %zero) <{dimensions = array<i64: 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
      %1 = stablehlo.compare GE, %a, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %2 = stablehlo.select %1, %a, %c : tensor<i1>, tensor<f32>
      %3 = stablehlo.select %1, %b, %d : tensor<i1>, tensor<i32>
      stablehlo.return %2, %3 : tensor<f32>, tensor<i32>
  }) : (tensor<2x5xf32>, tensor<2x5xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
}"""


def test_a_body_of_several_ops_and_operands_keeps_the_order():
    x = np.array([[3, 9, 9, 1, 2], [5, 4, 3, 2, 5]], np.float32)
    values, indices = execute(ARGMAX, x, np.tile(np.arange(5, dtype=np.int32), (2, 1)))
    assert values.tolist() == [9, 5]
    assert indices.tolist() == [1, 0]  # the first of equals


def test_a_body_may_use_constants_from_around_it_and_nothing_else():
    text = """
    func.func @main(%x: tensor<4xi32>, %y: tensor<i32>) -> tensor<i32> {{
      %c = stablehlo.constant dense<10> : tensor<i32>
      %0 = "stablehlo.reduce"(%x, %c) <{{dimensions = array<i64: 0>}}> ({{
        ^bb0(%a: tensor<i32>, %b: tensor<i32>):
          %1 = stablehlo.minimum %b, {around} : tensor<i32>
          %2 = stablehlo.add %a, %1 : tensor<i32>
          stablehlo.return %2 : tensor<i32>
      }}) : (tensor<4xi32>, tensor<i32>) -> tensor<i32>
      return %0 : tensor<i32>
    }}"""
    x = np.array([1, 2, 3, 4], np.int32)
    assert execute(text.format(around="%c"), x, np.int32(0)).item() == 20
    with pytest.raises(UnsupportedError, match="uses a value from outside"):
        execute(text.format(around="%y"), x, np.int32(0))


def test_a_body_in_a_wider_type_accumulates_in_it():
    # The RFC's case (G); with an i8 result the sum wraps once, at the end.
    x, init = np.array([100, 100, 100, -100], np.int8), np.array(0, np.int8)
    for result, expected in ((i32, 200), (i8, 200 - 256)):

        def build(a, i, result=result) -> Operation:
            return ReduceOp([a], [i], [TensorType(result, [])], [0], binary_body(hlo.AddOp, i32))

        program = one_op([TensorType(i8, [4]), TensorType(i8, [])], build, verified=False)
        assert Interpreter(program).run_values([x, init])[0].item() == expected


@pytest.mark.parametrize("seed", range(24))
def test_reduce_window_equals_upstream_for_random_attributes(seed: int):
    rng = np.random.default_rng(seed)
    shape = rng.integers(3, 6, 3).tolist()
    window, strides, base, dilation = (rng.integers(1, high, 3) for high in (4, 4, 3, 3))
    padding = rng.integers(0, 3, (3, 2))
    extent = (np.array(shape) - 1) * base + 1 + padding.sum(axis=1)
    reach = (window - 1) * dilation + 1
    sizes = np.where(extent < reach, 0, (extent - reach) // strides + 1).tolist()
    element, dtype = (f32, np.float32) if seed % 4 == 0 else (i32, np.int32)

    def build(a, i) -> Operation:
        return ReduceWindowOp(
            [a],
            [i],
            [TensorType(element, sizes)],
            window.tolist(),
            binary_body(BODIES[seed % 3], element),
            window_strides=strides.tolist(),
            base_dilations=base.tolist(),
            window_dilations=dilation.tolist(),
            padding=[(int(lo), int(hi)) for lo, hi in padding],
        )

    x = rng.integers(-50, 50, shape).astype(dtype)
    program = one_op([TensorType(element, shape), TensorType(element, [])], build)
    assert_as_upstream(program, x, np.array(2, dtype))


def test_max_pool_with_padding_of_minus_infinity():
    text = """
    func.func @main(%x: tensor<1x1x3x3xf32>) -> tensor<1x1x2x2xf32> {
      %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %0 = "stablehlo.reduce_window"(%x, %low) <{window_dimensions = array<i64: 1, 1, 2, 2>,
          window_strides = array<i64: 1, 1, 2, 2>,
          padding = dense<[[0, 0], [0, 0], [1, 0], [0, 1]]> : tensor<4x2xi64>}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %1 = stablehlo.maximum %a, %b : tensor<f32>
          stablehlo.return %1 : tensor<f32>
      }) : (tensor<1x1x3x3xf32>, tensor<f32>) -> tensor<1x1x2x2xf32>
      return %0 : tensor<1x1x2x2xf32>
    }"""
    x = -np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3)
    assert execute(text, x).reshape(2, 2).tolist() == [[-1, -3], [-4, -6]]
