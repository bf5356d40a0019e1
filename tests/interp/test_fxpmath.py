"""Ops of the integer program: literal cases, and against numerics."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f32, f64, i8, i16, i32, i64

from interp.programs import one_op, run_op
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.interp.errors import ExecutionError
from zeropoint.ir.fxpmath import RequantizeOp, TableOp, WeightedSumOp
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program
from zeropoint.numerics import CommonScaleSum, Multiplier, RequantizeBehaviour
from zeropoint.numerics.requantize import requantize


def _requantize(acc: Array, m: Multiplier, axis: int | None, element) -> Array:
    constants = [m.multiplier] if m.shift is None else [m.multiplier.astype(np.int32), m.shift.astype(np.int32)]
    constants = [np.atleast_1d(constant) for constant in constants]
    types = [TensorType(i32, acc.shape), *(TensorType(element, constant.shape) for constant in constants)]

    def build(a, multiplier, shift=None):
        result = TensorType(i8, acc.shape)
        return RequantizeOp(
            a,
            multiplier,
            shift,
            result,
            behaviour=m.behaviour.value,
            zero_point=-7,
            storage_min=-128,
            storage_max=100,
            axis=axis,
        )

    return run_op(build, types, acc, *constants)


@pytest.mark.parametrize("behaviour", [b for b in RequantizeBehaviour if b is not RequantizeBehaviour.POT])
@pytest.mark.parametrize("channels", [1, 5])
def test_requantize_computes_as_its_behaviour_does(behaviour: RequantizeBehaviour, channels: int):
    rng = np.random.default_rng(1)
    acc = rng.integers(-200000, 200000, (3, 5, 4)).astype(np.int32)
    m = Multiplier.of(rng.uniform(1e-4, 5e-3, channels), behaviour, 8)
    element = {"float32-rne": f32, "float64-away": f64, "exact": f64}.get(behaviour.value, i32)
    axis = 1 if channels > 1 else None
    expected = requantize(acc, m if channels > 1 else Multiplier.of(m.real[0], behaviour, 8), -7, -128, 100, axis=axis)
    np.testing.assert_array_equal(_requantize(acc, m, axis, element), expected)


def test_requantize_with_constant_parameters_in_text():
    text = """
    func.func @main(%acc: tensor<1x2xi32>) -> tensor<1x2xi8> {
      %m = stablehlo.constant dense<[1073741824, 1610612736]> : tensor<2xi32>
      %s = stablehlo.constant dense<[31, 31]> : tensor<2xi32>
      %y = "fxpmath.requantize"(%acc, %m, %s) {axis = 1 : i64, behaviour = "fixed32", zero_point = 3 : i64,
        storage_min = -128 : i64, storage_max = 127 : i64}
        : (tensor<1x2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x2xi8>
      return %y : tensor<1x2xi8>
    }"""
    interpreter = Interpreter(parse_program(text))
    # Halves, and three quarters: 5 / 2 = 2.5 is rounded up, as -2.5 is.
    assert interpreter.run_values([np.array([[5, 100]], np.int32)])[0].tolist() == [[6, 78]]
    assert interpreter.run_values([np.array([[-5, 1000]], np.int32)])[0].tolist() == [[1, 127]]


def test_weighted_sum_rounds_once():
    def build(a, b):
        return WeightedSumOp(
            [a, b],
            TensorType(i8, [4]),
            CommonScaleSum((3, -2), (1, 0), shift=2, zero_point=10, storage_min=-128, storage_max=12),
        )

    x, y = np.array([1, 2, 5, -100], np.int8), np.array([0, 1, 0, 100], np.int8)
    # (0 + 2) >> 2, (3 - 2 + 2) >> 2, (12 + 2) >> 2, (-303 - 200 + 2) >> 2
    assert run_op(build, [TensorType(i8, [4])] * 2, x, y).tolist() == [10, 10, 12, -116]


@pytest.mark.parametrize("unsigned", [False, True])
def test_table_is_indexed_from_the_least_value_of_the_type(unsigned: bool):
    from xdsl.dialects.builtin import IntegerType, Signedness

    element = IntegerType(8, Signedness.UNSIGNED) if unsigned else i8
    entries = np.random.default_rng(0).permutation(256).astype(np.uint8).view(np.int8)
    x = np.array([0, 255], np.uint8) if unsigned else np.array([-128, 127], np.int8)
    types = [TensorType(element, [2]), TensorType(i8, [256])]
    result = run_op(lambda a, t: TableOp(a, t, TensorType(i8, [2])), types, x, entries)
    assert result.tolist() == entries[[0, 255]].tolist()


def test_accumulators_of_64_bits_never_wrap_around():
    program = one_op(
        [TensorType(i64, [3]), TensorType(i32, [1]), TensorType(i32, [1])],
        lambda a, multiplier, shift: RequantizeOp(
            a,
            multiplier,
            shift,
            TensorType(i16, [3]),
            behaviour="fixed32",
            zero_point=0,
            storage_min=-128,
            storage_max=127,
        ),
    )
    arrays = [np.array([2**62, -(2**62), 5]), np.array([30000], np.int32), np.array([15], np.int32)]
    # 5 * 30000 / 2^15 is 4.58.
    assert Interpreter(program).run_values(arrays)[0].tolist() == [127, -128, 5]


def test_interpolation_between_the_entries_around_a_position():
    text = """
    func.func @main(%x: tensor<6xi16>) -> tensor<6xi16> {
      %t = stablehlo.constant dense<[0, 100, -100, 32767, -32768]> : tensor<5xi16>
      %y = "fxpmath.interpolate"(%x, %t) : (tensor<6xi16>, tensor<5xi16>) -> tensor<6xi16>
      return %y : tensor<6xi16>
    }"""
    x = np.array([-32768, -24576, -16384, -8192, 16384, 32767], np.int16)
    # Positions 0, half-way to 1, 1, half-way to 2, 3, and the last one before 4.
    (found,) = Interpreter(parse_program(text))({"arg0": x}).values()
    assert found.tolist() == [0, 50, 100, 0, 32767, -32764]


@pytest.mark.parametrize(("multiplier", "shift"), [(-5, 10), (2**31 - 1, 99), (2**31 - 1, -1)])
def test_a_computed_multiplier_out_of_range_is_an_error_of_the_run(multiplier: int, shift: int) -> None:
    program = parse_program("""
    func.func @main(%x: tensor<4xi32>, %m: tensor<1xi32>, %s: tensor<1xi32>) -> tensor<4xi8> {
      %r = "fxpmath.requantize"(%x, %m, %s) <{behaviour = "fixed32", zero_point = 0 : i64, storage_min = -128 : i64,
        storage_max = 127 : i64}> : (tensor<4xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi8> loc("q")
      return %r : tensor<4xi8>
    }""")
    arrays = [np.zeros(4, np.int32), np.array([multiplier], np.int32), np.array([shift], np.int32)]
    with pytest.raises(ExecutionError, match=r"'q'.*: found (the|a) (multiplier|shift) .*'fixed32' has"):
        Interpreter(program).run_values(arrays)
    with pytest.raises(CodegenError, match=r"'q'.*: found multipliers that are computed, expected constants"):
        NativeProgram(program)
