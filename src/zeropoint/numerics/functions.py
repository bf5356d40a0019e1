"""The float functions of elementwise ops, by StableHLO name; the interpreter and the 256-entry tables both call them.

Each takes arrays and gives an array in the operands' dtype. Three rules make the result a function of the values alone,
whatever the machine:

- What IEEE 754 rounds correctly (add, subtract, multiply, divide, sqrt, abs, ...) is one NumPy operation in that dtype.
- Complex numbers are computed in f64 and rounded once, but for sums and differences.
- Everything else is evaluated in f64 and rounded once to the dtype. NumPy picks its f32 kernels of exp, log, tanh, ...
  by the SIMD width at hand, and they differ in the last bits from machine to machine; its f64 kernels do too, but by
  an error of some 2^-51, which reaches a rounded f32 in about one value of 2^26, and an f16 or bf16 practically never.
  For f64 operands the result is NumPy's.

Source: StableHLO specification, the ops of these names, and upstream's chlo dialect. Integer operands wrap around in
their dtype, and divide truncates towards zero, as the specification has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from zeropoint.numerics import special
from zeropoint.numerics.arrays import AnyArray, BoolArray, FloatArray
from zeropoint.numerics.rounding import round_half_away

UnaryFunction = Callable[[AnyArray], AnyArray]
BinaryFunction = Callable[[AnyArray, AnyArray], AnyArray]


def _is_float(x: AnyArray) -> bool:
    # ml_dtypes' bfloat16 has kind "V".
    return x.dtype.kind not in "iub"


def is_complex(x: AnyArray) -> bool:
    """Whether the array holds complex numbers."""
    return x.dtype.kind == "c"


def _wide(x: AnyArray) -> AnyArray:
    """In f64; of complex numbers, both parts."""
    return x.astype(np.complex128 if is_complex(x) else np.float64)


def _in_f64(function: UnaryFunction, of_complex: UnaryFunction | None = None) -> UnaryFunction:
    """`function` evaluated in f64 and rounded once to the dtype of the operand."""

    def rounded(x: AnyArray) -> AnyArray:
        chosen = of_complex if of_complex is not None and is_complex(x) else function
        with np.errstate(all="ignore"):
            return np.asarray(chosen(_wide(x))).astype(x.dtype)

    return rounded


def _native(function: Callable[[AnyArray], AnyArray]) -> UnaryFunction:
    def quiet(x: AnyArray) -> AnyArray:
        with np.errstate(all="ignore"):
            return np.asarray(function(x)).astype(x.dtype, copy=False)

    return quiet


def _exact_but_for_complex(function: BinaryFunction) -> BinaryFunction:
    """A function that IEEE 754 rounds correctly; of complex numbers evaluated in f64 and rounded once."""

    def quiet(x: AnyArray, y: AnyArray) -> AnyArray:
        with np.errstate(all="ignore"):
            found = function(_wide(x), _wide(y)) if is_complex(x) else function(x, y)
        return np.asarray(found).astype(x.dtype, copy=False)

    return quiet


def _native_binary(function: Callable[[AnyArray, AnyArray], AnyArray]) -> BinaryFunction:
    def quiet(x: AnyArray, y: AnyArray) -> AnyArray:
        with np.errstate(all="ignore"):
            return np.asarray(function(x, y)).astype(x.dtype, copy=False)

    return quiet


def _logistic(x: FloatArray) -> FloatArray:
    """1 / (1 + exp(-x)), as e / (1 + e) with e = exp(x) where x < 0: exp never overflows, nothing cancels."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1.0 + e)


def _round_half_away(x: AnyArray) -> AnyArray:
    return round_half_away(x)


def _abs(x: AnyArray) -> AnyArray:
    return np.asarray(np.abs(_wide(x))).astype(np.real(x).dtype) if is_complex(x) else np.asarray(np.abs(x))


def _sign(x: AnyArray) -> AnyArray:
    """-1, 0 or 1; a zero keeps its sign and NaN stays, as in the specification. Of a complex number x / |x|."""
    if is_complex(x):
        magnitude = np.abs(_wide(x))
        return np.where(magnitude == 0, x, _wide(x) / np.where(magnitude == 0, 1, magnitude)).astype(x.dtype)
    return np.where((x == 0) | (x != x), x, np.copysign(1, x.astype(np.float64)).astype(x.dtype))


def _sqrt(x: AnyArray) -> AnyArray:
    with np.errstate(all="ignore"):
        return np.asarray(np.sqrt(_wide(x) if is_complex(x) else x)).astype(x.dtype, copy=False)


def _divide(x: AnyArray, y: AnyArray) -> AnyArray:
    if _is_float(x):
        return np.divide(x, y)
    quotient = np.floor_divide(x, y)
    # Python's division rounds down, the specification's towards zero.
    return quotient + ((quotient < 0) & (quotient * y != x)).astype(x.dtype)


def _power(x: AnyArray, y: AnyArray) -> AnyArray:
    if _is_float(x):
        return np.power(_wide(x), _wide(y)).astype(x.dtype)
    # A negative exponent gives 1 / x^|y| truncated: 0, or +-1 for the base +-1.
    negative = np.where(np.abs(x) == 1, np.power(x, np.abs(y) % 2), 0)
    return np.where(y < 0, negative, np.power(x, np.maximum(y, 0)))


def _atan2(x: AnyArray, y: AnyArray) -> AnyArray:
    if is_complex(x):
        numerator, denominator = _wide(y) + 1j * _wide(x), np.sqrt(_wide(x) ** 2 + _wide(y) ** 2)
        return (-1j * np.log(numerator / denominator)).astype(x.dtype)
    return np.arctan2(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)


REAL_ONLY = frozenset(("remainder",))
"""Functions that complex numbers do not have, though the op's signature has complex types."""

UNARY: dict[str, UnaryFunction] = {
    "abs": _abs,
    "acos": _in_f64(np.arccos),
    "acosh": _in_f64(np.arccosh),
    "asin": _in_f64(np.arcsin),
    "asinh": _in_f64(np.arcsinh),
    "atan": _in_f64(np.arctan),
    "atanh": _in_f64(np.arctanh),
    "cbrt": _in_f64(np.cbrt, lambda x: np.power(x, 1 / 3)),
    "ceil": _native(np.ceil),
    "cosh": _in_f64(np.cosh),
    "cosine": _in_f64(np.cos),
    "digamma": _in_f64(special.digamma),
    "erf": _in_f64(special.erf),
    "erf_inv": _in_f64(special.erf_inverse),
    "erfc": _in_f64(special.erfc),
    "exponential": _in_f64(np.exp),
    "exponential_minus_one": _in_f64(np.expm1),
    "floor": _native(np.floor),
    "lgamma": _in_f64(special.log_gamma),
    "log": _in_f64(np.log),
    "log_plus_one": _in_f64(np.log1p),
    "logistic": _in_f64(_logistic, lambda x: 1.0 / (1.0 + np.exp(-x))),
    "negate": _native(np.negative),
    "not": _native(np.invert),
    "round_nearest_afz": _native(_round_half_away),
    "round_nearest_even": _native(np.rint),
    # 1 / sqrt(x) rounds twice in f64, which is far below one rounding to f32.
    "rsqrt": _in_f64(lambda x: 1.0 / np.sqrt(x)),
    "sign": _native(_sign),
    "sine": _in_f64(np.sin),
    "sinh": _in_f64(np.sinh),
    "sqrt": _sqrt,
    "tan": _in_f64(np.tan),
    "tanh": _in_f64(np.tanh),
}

BINARY: dict[str, BinaryFunction] = {
    "add": _native_binary(np.add),
    "and": _native_binary(np.bitwise_and),
    "atan2": _native_binary(_atan2),
    "divide": _exact_but_for_complex(_divide),
    # NaN in either operand gives NaN (IEEE 754 maximum and minimum).
    "maximum": _native_binary(np.maximum),
    "minimum": _native_binary(np.minimum),
    "multiply": _exact_but_for_complex(np.multiply),
    "next_after": _native_binary(np.nextafter),
    "or": _native_binary(np.bitwise_or),
    "power": _native_binary(_power),
    # The sign of the dividend, as in C.
    "remainder": _native_binary(np.fmod),
    "subtract": _native_binary(np.subtract),
    "xor": _native_binary(np.bitwise_xor),
}

COMPARISONS: dict[str, Callable[[AnyArray, AnyArray], BoolArray]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}


def clamp(minimum: AnyArray, operand: AnyArray, maximum: AnyArray) -> AnyArray:
    """min(max(operand, minimum), maximum), in this order of operands (StableHLO clamp); bounds broadcast."""
    return np.minimum(np.maximum(operand, minimum), maximum)


def compare(lhs: AnyArray, rhs: AnyArray, direction: str) -> BoolArray:
    """Elementwise comparison by StableHLO's direction: EQ, NE, GE, GT, LE, LT."""
    return np.asarray(COMPARISONS[direction](lhs, rhs))


def select(predicate: BoolArray, on_true: AnyArray, on_false: AnyArray) -> AnyArray:
    """on_true where the predicate holds, else on_false; a scalar predicate chooses the whole."""
    return np.where(predicate, on_true, on_false)


def is_known(name: str) -> bool:
    """Whether `evaluate` computes the elementwise op of that name."""
    return name in UNARY or name in BINARY or name in ("clamp", "compare", "select")


def evaluate(name: str, operands: Sequence[AnyArray], direction: str | None = None) -> AnyArray:
    """The elementwise op `name` (StableHLO's, without its prefix) on its operands; `direction` is compare's.

    Raises ValueError where there is no function of that name, or the number of operands is wrong.
    """
    functions: dict[str, tuple[int, Callable[..., AnyArray]]] = {"clamp": (3, clamp), "select": (3, select)}
    if name in UNARY:
        functions[name] = (1, UNARY[name])
    elif name in BINARY:
        functions[name] = (2, BINARY[name])
    elif name == "compare" and direction in COMPARISONS:
        functions[name] = (2, COMPARISONS[direction])
    if name not in functions:
        known = ", ".join(sorted([*UNARY, *BINARY, "clamp", "compare with a direction", "select"]))
        raise ValueError(f"found the function '{name}'; expected one of {known}")
    count, function = functions[name]
    if len(operands) != count:
        raise ValueError(f"found {len(operands)} operands of '{name}'; expected {count}")
    return np.asarray(function(*operands))
