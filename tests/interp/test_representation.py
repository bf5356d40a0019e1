"""Complex numbers, bits, narrow floats: literal cases, and StableHLO's interpreter on random ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from xdsl.dialects import builtin
from xdsl.dialects.builtin import ComplexType, IntegerType, TensorType, f16, f32, f64, i8

from interp.programs import execute, one_op, run_op, upstream
from zeropoint.interp import Interpreter, UnsupportedError
from zeropoint.ir.stablehlo import BitcastConvertOp, ComplexOp, ImagOp, RealOp, ReducePrecisionOp
from zeropoint.ir.tensors import Array, element_dtype
from zeropoint.ir.text import parse_program

C64, C128 = TensorType(ComplexType(f32), [3]), TensorType(ComplexType(f64), [3])
F8 = [builtin.Float8E5M2Type, builtin.Float8E5M2FNUZType, builtin.Float8E4M3Type, builtin.Float8E4M3FNType]
F8 += [builtin.Float8E4M3FNUZType, builtin.Float8E4M3B11FNUZType, builtin.Float8E3M4Type]
F8 = [float_type() for float_type in F8]


def _unary(op: str, operand: str, result: str | None = None) -> str:
    result = operand if result is None else result
    return f"""
    func.func @main(%x: tensor<{operand}>) -> tensor<{result}> {{
      %0 = "stablehlo.{op}"(%x) : (tensor<{operand}>) -> tensor<{result}>
      return %0 : tensor<{result}>
    }}"""


def _of_parts(op: str, element: str, count: int, arity: int) -> str:
    """A program that takes and returns parts: the oracle's bindings have no complex numbers."""
    real, number = f"tensor<{count}x{element}>", f"tensor<{count}xcomplex<{element}>>"
    names = [f"%x{i}" for i in range(arity)]
    made = "\n".join(f"{name} = stablehlo.complex {name}r, {name}i : {number}" for name in names)
    return f"""
    func.func @main({", ".join(f"{name}{part}: {real}" for name in names for part in "ri")}) -> ({real}, {real}) {{
      {made}
      %0 = stablehlo.{op} {", ".join(names)} : {number}
      %1 = stablehlo.real %0 : ({number}) -> {real}
      %2 = stablehlo.imag %0 : ({number}) -> {real}
      return %1, %2 : {real}, {real}
    }}"""


def _binary(op: str, operand: str) -> str:
    return f"""
    func.func @main(%x: tensor<{operand}>, %y: tensor<{operand}>) -> tensor<{operand}> {{
      %0 = stablehlo.{op} %x, %y : tensor<{operand}>
      return %0 : tensor<{operand}>
    }}"""


def test_parts_of_complex_numbers_and_back():
    x = np.array([1 + 2j, -0.0 - 3j, complex(np.inf, np.nan)], np.complex64)
    real, imaginary = run_op(RealOp, [C64], x), run_op(ImagOp, [C64], x)
    np.testing.assert_array_equal(real, np.array([1, -0.0, np.inf], np.float32))
    np.testing.assert_array_equal(imaginary, np.array([2, -3, np.nan], np.float32))
    parts = [TensorType(f32, [3])] * 2
    assert run_op(ComplexOp, parts, real, imaginary).tobytes() == x.tobytes()


def test_a_real_number_has_no_imaginary_part():
    x = np.array([1, -2, 3], np.float32)
    assert run_op(RealOp, [TensorType(f32, [3])], x).tolist() == [1, -2, 3]
    assert run_op(ImagOp, [TensorType(f32, [3])], x).tolist() == [0, 0, 0]


COMPLEX_UNARY = ["cbrt", "cosine", "exponential", "exponential_minus_one", "log", "log_plus_one", "logistic", "negate"]
COMPLEX_UNARY += ["rsqrt", "sign", "sine", "sqrt", "tan", "tanh"]


@pytest.mark.parametrize("element", [f32, f64], ids=str)
@pytest.mark.parametrize("op", COMPLEX_UNARY)
def test_functions_of_complex_numbers_equal_upstreams(op: str, element):
    parts = np.random.default_rng(1).standard_normal((2, 20)).astype(element_dtype(element))
    text = _of_parts(op, str(element), 20, 1)
    for ours, theirs in zip(execute(text, *parts), upstream(text, *parts), strict=True):
        _assert_close(ours, theirs)


@pytest.mark.parametrize("op", ["add", "atan2", "divide", "maximum", "minimum", "multiply", "power", "subtract"])
def test_operations_on_complex_numbers_equal_upstreams(op: str):
    parts = np.random.default_rng(2).integers(-3, 4, (4, 30)).astype(np.float32) + np.float32(0.5)
    text = _of_parts(op, "f32", 30, 2)
    for ours, theirs in zip(execute(text, *parts), upstream(text, *parts), strict=True):
        _assert_close(ours, theirs)


def test_the_absolute_value_of_complex_numbers_is_real():
    text = _unary("abs", "2xcomplex<f32>", "2xf32")
    assert execute(text, np.array([3 - 4j, 0], np.complex64)).tolist() == [5, 0]


def test_remainder_of_complex_numbers_is_refused():
    with pytest.raises(UnsupportedError, match="expected real numbers"):
        Interpreter(parse_program(_binary("remainder", "2xcomplex<f32>")))


def test_a_sum_of_complex_products():
    text = """
    func.func @main(%x: tensor<2x3xcomplex<f32>>, %y: tensor<3x2xcomplex<f32>>) -> tensor<2x2xcomplex<f32>> {
      %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
        : (tensor<2x3xcomplex<f32>>, tensor<3x2xcomplex<f32>>) -> tensor<2x2xcomplex<f32>>
      return %0 : tensor<2x2xcomplex<f32>>
    }"""
    rng = np.random.default_rng(3)
    x, y = ((rng.standard_normal((3, 2)) + 1j * rng.standard_normal((3, 2))).astype(np.complex64) for _ in range(2))
    _assert_close(execute(text, x.T, y), x.T @ y)


def _assert_close(ours: Array, theirs: Array) -> None:
    assert ours.dtype == theirs.dtype
    tolerance = 4 * float(np.finfo(ours.dtype).eps)
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def test_bits_of_a_float_as_bytes_lowest_first():
    x = np.array([1.0, -2.0, 0.5], np.float32)
    octets = TensorType(i8, [3, 4])
    found = run_op(lambda a: BitcastConvertOp(a, octets), [TensorType(f32, [3])], x)
    assert found.tolist() == [[0, 0, -128, 63], [0, 0, 0, -64], [0, 0, 0, 63]]
    back = run_op(lambda a: BitcastConvertOp(a, TensorType(f32, [3])), [octets], found)
    assert back.tolist() == x.tolist()


def test_bits_of_narrow_integers_extend_their_sign():
    octet = np.array(0b10_01_11_00, np.uint8).view(np.int8)
    pairs = run_op(lambda a: BitcastConvertOp(a, TensorType(IntegerType(2), [4])), [TensorType(i8, [])], octet)
    assert pairs.tolist() == [0, -1, 1, -2]
    back = run_op(lambda a: BitcastConvertOp(a, TensorType(i8, [])), [TensorType(IntegerType(2), [4])], pairs)
    assert back == octet


def test_bits_of_quantized_values_are_their_storage():
    element = "!quant.uniform<i8:f32, 0.5:3>"
    text = _unary("bitcast_convert", f"2x{element}", "2xi8")
    assert execute(text, np.array([5, -7], np.int8)).tolist() == [5, -7]
    narrow = "!quant.uniform<u4:f32, 0.5>"
    assert execute(_unary("bitcast_convert", "i8", f"2x{narrow}"), np.array(-16, np.int8)).tolist() == [0, 15]


BITCASTS = {"f32": 32, "ui8": 8, "i16": 16, "i64": 64, "i4": 4, "ui4": 4, "i2": 2, "f8E5M2": 8, "i1": 1}


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(BITCASTS, 2)))
def test_bitcasts_equal_upstreams(source: str, target: str):
    given, wanted = BITCASTS[source], BITCASTS[target]
    count = 2 * 64 // max(given, wanted)

    def shaped(width: int, element: str) -> str:
        ratio = max(given, wanted) // width
        return f"tensor<{count}x{f'{ratio}x' if ratio > 1 else ''}{element}>"

    flat = f"tensor<2x{64 // given}x{source}>" if given < 64 else f"tensor<2x{source}>"
    text = f"""
    func.func @main(%x: tensor<2xf64>) -> {shaped(wanted, "f64")} {{
      %0 = stablehlo.bitcast_convert %x : (tensor<2xf64>) -> {flat}
      %1 = stablehlo.reshape %0 : ({flat}) -> {shaped(given, source)}
      %2 = stablehlo.bitcast_convert %1 : ({shaped(given, source)}) -> {shaped(wanted, target)}
      %3 = stablehlo.convert %2 : ({shaped(wanted, target)}) -> {shaped(wanted, "f64")}
      return %3 : {shaped(wanted, "f64")}
    }}"""
    x = np.random.default_rng(4).integers(-(2**62), 2**62, 2).view(np.float64)
    np.testing.assert_array_equal(execute(text, x), upstream(text, x)[0])


SAMPLES = [0.0, -0.0, 1.0, -2.5, 0.1, 3.1415, 1e-3, 300.0, 500.0, -65504.0, 65505.0, 65520.0, 1e30, 1e-30, 6e-8, 1e300]
SAMPLES += [np.inf, -np.inf, np.nan, *np.random.default_rng(5).standard_normal(20).tolist()]


@pytest.mark.parametrize("exponent_bits", [1, 4, 5, 8, 11])
@pytest.mark.parametrize("mantissa_bits", [0, 1, 3, 10, 23, 52])
@pytest.mark.parametrize("element", [f16, f32, f64], ids=str)
def test_reduced_precision_equals_upstreams(element, exponent_bits: int, mantissa_bits: int):
    with np.errstate(over="ignore"):
        x = np.array(SAMPLES).astype(element_dtype(element))
    types = [TensorType(element, x.shape)]
    program = one_op(types, lambda a: ReducePrecisionOp(a, exponent_bits, mantissa_bits))
    np.testing.assert_array_equal(Interpreter(program).run_values([x])[0], upstream(program, x)[0])


def test_reduced_precision_rounds_ties_to_even():
    x = np.array([1.25, 1.75, -1.25, 1.26], np.float32)  # one mantissa bit: 1, 1.5, 2
    found = run_op(lambda a: ReducePrecisionOp(a, 8, 1), [TensorType(f32, [4])], x)
    assert found.tolist() == [1.0, 2.0, -1.0, 1.5]


def test_reduced_precision_of_quantized_values_is_that_of_the_real_ones():
    element = "!quant.uniform<i8:f32, 0.25>"
    text = f"""
    func.func @main(%x: tensor<3x{element}>) -> tensor<3x{element}> {{
      %0 = stablehlo.reduce_precision %x, format = e8m1 : tensor<3x{element}>
      return %0 : tensor<3x{element}>
    }}"""
    assert execute(text, np.array([4, 5, 7], np.int8)).tolist() == [4, 4, 8]  # 1, 1.25, 1.75


CONVERTED = ["f32", "f16", "bf16", "f64", "i8", "ui8", "i32", "i1", "i4", "complex<f32>", *map(str, F8)]


@pytest.mark.parametrize("source", ["f32", "f16", "f64", "complex<f64>", *map(str, F8)])
@pytest.mark.parametrize("target", CONVERTED)
def test_conversions_equal_upstreams(source: str, target: str):
    text = f"""
    func.func @main(%x: tensor<{len(SAMPLES)}xf64>) -> tensor<{len(SAMPLES)}xf64> {{
      %0 = stablehlo.convert %x : (tensor<{len(SAMPLES)}xf64>) -> tensor<{len(SAMPLES)}x{source}>
      %1 = stablehlo.convert %0 : (tensor<{len(SAMPLES)}x{source}>) -> tensor<{len(SAMPLES)}x{target}>
      %2 = stablehlo.convert %1 : (tensor<{len(SAMPLES)}x{target}>) -> tensor<{len(SAMPLES)}xf64>
      return %2 : tensor<{len(SAMPLES)}xf64>
    }}"""
    x = np.array(SAMPLES)
    np.testing.assert_array_equal(execute(text, x), upstream(text, x)[0])


@pytest.mark.parametrize("element", F8, ids=str)
@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "divide", "maximum", "minimum", "power"])
def test_operations_on_narrow_floats_equal_upstreams(element, op: str):
    rng = np.random.default_rng(6)
    x, y = rng.standard_normal((2, 40)).astype(element_dtype(element))
    x = np.abs(x) if op == "power" else x  # upstream makes 256 of NaN
    y = np.where(np.abs(y) < 0.25, np.ones_like(y), y)  # upstream overflows f8E3M4 to +inf, whatever the sign
    text = _binary(op, f"{len(x)}x{element}")
    np.testing.assert_array_equal(execute(text, x, y), upstream(text, x, y)[0])


@pytest.mark.parametrize("element", F8, ids=str)
@pytest.mark.parametrize("op", ["exponential", "tanh", "sqrt", "rsqrt", "abs", "negate", "sign", "sine"])
def test_functions_of_narrow_floats_equal_upstreams(element, op: str):
    """logistic is not among them: upstream rounds each of its three steps to the narrow type."""
    x = np.abs(np.random.default_rng(7).standard_normal(40)).astype(element_dtype(element))
    text = _unary(op, f"40x{element}")
    np.testing.assert_array_equal(execute(text, x), upstream(text, x)[0])


def test_floats_of_four_and_six_bits_round_and_saturate():
    text = """
    func.func @main(%x: tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) {
      %0 = stablehlo.convert %x : (tensor<6xf32>) -> tensor<6xf4E2M1FN>
      %1 = stablehlo.convert %x : (tensor<6xf32>) -> tensor<6xf6E2M3FN>
      %2 = stablehlo.convert %x : (tensor<6xf32>) -> tensor<6xf6E3M2FN>
      %3 = stablehlo.convert %0 : (tensor<6xf4E2M1FN>) -> tensor<6xf32>
      %4 = stablehlo.convert %1 : (tensor<6xf6E2M3FN>) -> tensor<6xf32>
      %5 = stablehlo.convert %2 : (tensor<6xf6E3M2FN>) -> tensor<6xf32>
      return %3, %4, %5 : tensor<6xf32>, tensor<6xf32>, tensor<6xf32>
    }"""
    four, six, other = execute(text, np.array([0.25, 0.75, 1.3, -2.6, 7.1, 100.0], np.float32))
    assert four.tolist() == [0.0, 1.0, 1.5, -3.0, 6.0, 6.0]
    assert six.tolist() == [0.25, 0.75, 1.25, -2.5, 7.0, 7.5]
    assert other.tolist() == [0.25, 0.75, 1.25, -2.5, 7.0, 28.0]
