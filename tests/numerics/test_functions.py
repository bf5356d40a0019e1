import math
from decimal import Decimal, getcontext
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeropoint.numerics import functions
from zeropoint.numerics.functions import BINARY, COMPARISONS, UNARY, clamp, compare, evaluate, select

FLOATS = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), np.dtype(np.float64)]
MATH = {
    "cbrt": lambda x: math.copysign(abs(x) ** (1 / 3), x) if not hasattr(math, "cbrt") else math.cbrt(x),
    "cosine": math.cos,
    "erf": math.erf,
    "exponential": math.exp,
    "exponential_minus_one": math.expm1,
    "log": math.log,
    "log_plus_one": math.log1p,
    "logistic": lambda x: 1 / (1 + math.exp(-x)),
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "sine": math.sin,
    "sqrt": math.sqrt,
    "tan": math.tan,
    "tanh": math.tanh,
}


IN_F32 = ("erf", "exponential", "logistic")


@pytest.mark.parametrize("name", [name for name in MATH if name not in IN_F32])
def test_f32_results_are_the_f64_ones_rounded_once(name):
    x = np.linspace(0.01, 6.0, 501, dtype=np.float32)
    x = x if name in ("log", "log_plus_one", "rsqrt", "sqrt") else np.concatenate([-x, x])
    expected = np.array([MATH[name](float(v)) for v in x])
    found = UNARY[name](x)
    assert found.dtype == np.float32
    # The steps in f64 are within 4 ulp, which may show at a rounding boundary of f32, once in some 2^26 values.
    assert np.array_equal(found, expected.astype(np.float32))
    assert UNARY[name](x.astype(np.float64)) == pytest.approx(expected, rel=2e-15)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
def test_every_function_keeps_the_dtype_of_its_operands(dtype):
    x = np.array([0.25, 1.0, 2.0], dtype=dtype)
    for name, function in UNARY.items():
        if name != "not":
            assert function(x).dtype == dtype, name
    for name, function in BINARY.items():
        if name not in ("and", "or", "xor"):
            assert function(x, x).dtype == dtype, name


@pytest.mark.parametrize("name", MATH)
def test_results_do_not_depend_on_where_in_an_array_a_value_stands(name):
    """SIMD bodies and scalar tails of the same loop have to agree: one value, 67 places."""
    for value in np.float32([0.1, 0.7, 1.3, 2.9]):
        found = UNARY[name](np.full(67, value, dtype=np.float32))
        assert (found == found[0]).all()
        assert found[0] == UNARY[name](np.asarray(value))


def test_f16_and_bf16_functions_are_correctly_rounded():
    getcontext().prec = 40
    for dtype in FLOATS[:2]:
        every = np.arange(2**16, dtype=np.uint16).view(dtype)
        with np.errstate(invalid="ignore"):
            wide = every.astype(np.float64)
        x = every[(wide > 1e-2) & (wide < 9.0)][::41]
        found = UNARY["exponential"](x).astype(np.float64)
        for value, y in zip(x.astype(np.float64), found, strict=True):
            exact = Decimal(float(value)).exp()
            neighbours = [np.nextafter(np.asarray(y, dtype), np.asarray(d, dtype)) for d in (0.0, 1e4)]
            assert all(abs(Decimal(float(n)) - exact) >= abs(Decimal(float(y)) - exact) for n in neighbours)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize(("name", "chosen"), [("maximum", max), ("minimum", min)])
def test_minus_zero_is_below_zero_and_nan_wins(dtype, name, chosen):
    values = np.array([0, -0.0, 1, -1, np.nan, np.inf, -np.inf], dtype)
    left, right = (part.ravel() for part in np.meshgrid(values, values))
    scalars = [BINARY[name](left[n : n + 1], right[n]) for n in range(left.size)]
    for found in (BINARY[name](left, right), np.concatenate(scalars)):
        for x, y, z in zip(*(array.astype(float).tolist() for array in (left, right, found)), strict=True):
            if math.isnan(x) or math.isnan(y):
                assert math.isnan(z)
            else:
                assert f"{z:g}" == f"{chosen(x, y, key=lambda v: (v, math.copysign(1, v))):g}"


@given(st.floats(-30.0, 30.0))
def test_erf_is_accurate_in_f64(x):
    assert float(UNARY["erf"](np.asarray(x))) == pytest.approx(math.erf(x), rel=7 * 2.0**-52, abs=1e-300)


def test_erf_and_logistic_at_their_ends():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 800.0, -800.0])
    assert UNARY["erf"](x)[[0, 2, 3, 5, 6]].tolist() == [0.0, 1.0, -1.0, 1.0, -1.0]
    assert np.signbit(UNARY["erf"](x)[1])
    assert np.isnan(UNARY["erf"](x)[4])
    assert UNARY["logistic"](x)[[0, 2, 3, 5, 6]].tolist() == [0.5, 1.0, 0.0, 1.0, 0.0]
    assert np.isnan(UNARY["logistic"](x)[4])


@given(st.floats(-700.0, 700.0))
def test_logistic_is_symmetric_and_cancels_nothing(x):
    down, up = (float(UNARY["logistic"](np.asarray(v))) for v in (-abs(x), abs(x)))
    assert down == pytest.approx(math.exp(-abs(x)) / (1 + math.exp(-abs(x))), rel=1e-15)
    assert up == pytest.approx(1 - down, rel=1e-15)


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        ("round_nearest_even", [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], [-2, -2, 0, 0, 2, 2]),
        ("round_nearest_afz", [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], [-3, -2, -1, 1, 2, 3]),
        ("sign", [-3.0, 0.0, 2.0], [-1, 0, 1]),
        ("abs", [-3.0, 3.0], [3, 3]),
        ("negate", [-3.0, 3.0], [3, -3]),
        ("floor", [-1.5, 1.5], [-2, 1]),
        ("ceil", [-1.5, 1.5], [-1, 2]),
        ("log", [0.0, -1.0], [-np.inf, np.nan]),
        ("rsqrt", [0.0, 4.0], [np.inf, 0.5]),
        ("exponential", [1000.0, -1000.0], [np.inf, 0.0]),
    ],
)
def test_unary_functions_at_literal_values(name, x, expected):
    assert np.array_equal(UNARY[name](np.array(x, dtype=np.float32)), np.float32(expected), equal_nan=True)


@pytest.mark.parametrize(
    ("name", "x", "y", "expected"),
    [
        ("add", 1.5, 2.25, 3.75),
        ("subtract", 1.5, 2.25, -0.75),
        ("multiply", 1.5, 2.25, 3.375),
        ("divide", 1.0, 3.0, np.float32(1) / np.float32(3)),
        ("divide", 1.0, 0.0, np.inf),
        ("maximum", 1.0, np.nan, np.nan),
        ("minimum", np.nan, 1.0, np.nan),
        ("power", 2.0, 0.5, np.sqrt(np.float32(2))),
        ("power", -2.0, 3.0, -8.0),
        ("remainder", -7.0, 3.0, -1.0),
        ("remainder", 7.0, -3.0, 1.0),
        ("atan2", 1.0, -1.0, np.float32(3 * np.pi / 4)),
    ],
)
def test_binary_functions_at_literal_values(name, x, y, expected):
    found = BINARY[name](np.float32([x]), np.float32([y]))
    assert np.array_equal(found, np.float32([expected]), equal_nan=True)


@given(st.integers(-128, 127), st.integers(-128, 127).filter(bool))
def test_integer_division_truncates_and_the_remainder_has_the_sign_of_the_dividend(x, y):
    if (x, y) != (-128, -1):
        quotient, remainder = (int(BINARY[n](np.int8([x]), np.int8([y]))[0]) for n in ("divide", "remainder"))
        assert quotient == int(Fraction(x, y))
        assert remainder == x - y * quotient


def test_integer_arithmetic_wraps_around():
    assert BINARY["add"](np.int8([127]), np.int8([1])).tolist() == [-128]
    assert BINARY["multiply"](np.int8([100]), np.int8([2])).tolist() == [-56]
    assert UNARY["negate"](np.int8([-128])).tolist() == [-128]
    assert BINARY["power"](np.int32([2, -1, 3, -1]), np.int32([10, -3, -1, -2])).tolist() == [1024, -1, 0, 1]
    assert UNARY["sign"](np.int8([-5, 0, 5])).tolist() == [-1, 0, 1]


@pytest.mark.parametrize("direction", COMPARISONS)
def test_comparisons(direction):
    x, y = np.float32([1, 2, 3, np.nan]), np.float32([2, 2, 2, np.nan])
    expected = {
        "EQ": [False, True, False, False],
        "NE": [True, False, True, True],
        "GE": [False, True, True, False],
        "GT": [False, False, True, False],
        "LE": [True, True, False, False],
        "LT": [True, False, False, False],
    }
    assert compare(x, y, direction).tolist() == expected[direction]
    assert evaluate("compare", [x, y], direction).tolist() == expected[direction]


def test_clamp_and_select():
    x = np.float32([-1.0, 0.5, 7.0])
    assert clamp(np.float32(0), x, np.float32(6)).tolist() == [0.0, 0.5, 6.0]
    assert evaluate("clamp", [np.float32(0), x, np.float32(6)]).tolist() == [0.0, 0.5, 6.0]
    assert select(np.array([True, False, True]), x, -x).tolist() == [-1.0, -0.5, 7.0]
    assert evaluate("select", [np.array(False), x, -x]).tolist() == (-x).tolist()
    assert clamp(np.float32(0), x, np.float32(6)).dtype == np.float32


def test_evaluate_calls_by_name():
    x = np.float32([0.5])
    assert evaluate("tanh", [x]) == functions.UNARY["tanh"](x)
    assert evaluate("add", [x, x]) == 1.0


@pytest.mark.parametrize(
    ("name", "count", "message"),
    [
        ("relu", 1, "found the function 'relu'"),
        ("add", 1, "found 1 operands of 'add'; expected 2"),
        ("compare", 2, "compare with a direction"),
    ],
)
def test_evaluate_says_what_it_does_not_know(name, count, message):
    with pytest.raises(ValueError, match=message):
        evaluate(name, [np.float32([1.0])] * count)
