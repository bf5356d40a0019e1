"""The float functions of elementwise ops, by StableHLO name. The interpreter and the 256-entry tables both call them.

Each function takes arrays and returns an array in the operands' dtype. Results depend on the values only, not on the
machine, by three rules:

- Operations that IEEE 754 rounds correctly (add, subtract, multiply, divide, sqrt, abs, ...) are one NumPy operation in
  the dtype.
- Elementary functions are composed of such operations, in the same steps as native code (`approximations`). exp, erf
  and logistic of f32 are in f32, within 2.5 ulp of the exact value. All others are computed in f64, within 4 ulp of f64
  (erf: 7, erfc: 40), and then rounded to the dtype. So all but about one f32 result in 2^26 are correctly rounded.
- Functions without a native form (digamma, erf_inv, lgamma) and complex functions are NumPy's, or series
  (`special`), in f64, rounded once.

Source: the StableHLO specification of the ops of these names, and upstream's chlo dialect. As specified, integer
operations wrap around in their dtype, and integer division truncates towards zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from zeropoint.numerics import special
from zeropoint.numerics.approximations import BINARY as BINARY_IN_DOUBLE
from zeropoint.numerics.approximations import IN_DOUBLE, IN_FLOAT, Approximation
from zeropoint.numerics.arrays import AnyArray, BoolArray
from zeropoint.numerics.rounding import round_half_away
from zeropoint.numerics.steps import ARRAYS

UnaryFunction = Callable[[AnyArray], AnyArray]
BinaryFunction = Callable[[AnyArray, AnyArray], AnyArray]


BLOCK = 1 << 14
"""Number of elements computed at a time."""


def _is_float(x: AnyArray) -> bool:
    # ml_dtypes' bfloat16 has kind "V".
    return x.dtype.kind not in "iub"


def is_complex(x: AnyArray) -> bool:
    """Whether the array holds complex numbers."""
    return x.dtype.kind == "c"


def _wide(x: AnyArray) -> AnyArray:
    """x in f64; complex numbers in complex128."""
    return x.astype(np.complex128 if is_complex(x) else np.float64)


def _in_f64(function: UnaryFunction, of_complex: UnaryFunction | None = None) -> UnaryFunction:
    """`function` evaluated in f64 and rounded once to the dtype of the operand."""

    def rounded(x: AnyArray) -> AnyArray:
        chosen = of_complex if of_complex is not None and is_complex(x) else function
        with np.errstate(all="ignore"):
            return np.asarray(chosen(_wide(x))).astype(x.dtype)

    return rounded


def _in_steps(name: str, of_complex: UnaryFunction | None = None) -> UnaryFunction:
    """The elementary function of this name. `of_complex` computes it for complex numbers, in f64 parts."""
    in_double, in_float = IN_DOUBLE[name], IN_FLOAT.get(name)
    complex_function = None if of_complex is None else _in_f64(of_complex)

    def rounded(x: AnyArray) -> AnyArray:
        if complex_function is not None and is_complex(x):
            return complex_function(x)
        if in_float is not None and x.dtype == np.float32:
            return _by_blocks(in_float, x)
        with np.errstate(over="ignore"):  # overflow gives infinity, as in IEEE 754
            return _by_blocks(in_double, x.astype(np.float64, copy=False)).astype(x.dtype, copy=False)

    return rounded


def _by_blocks(function: Approximation, *operands: AnyArray) -> AnyArray:
    """Evaluate in blocks, so that intermediate results stay in the cache."""
    shape = np.broadcast_shapes(*(x.shape for x in operands))
    flat = [np.broadcast_to(x, shape).reshape(-1) for x in operands]
    found = np.empty(flat[0].shape, operands[0].dtype)
    with np.errstate(all="ignore"):
        for start in range(0, found.size, BLOCK):
            block = slice(start, start + BLOCK)
            found[block] = function(ARRAYS, *(x[block] for x in flat))
    return found.reshape(shape)


def _native(function: Callable[[AnyArray], AnyArray]) -> UnaryFunction:
    def quiet(x: AnyArray) -> AnyArray:
        with np.errstate(all="ignore"):
            return np.asarray(function(x)).astype(x.dtype, copy=False)

    return quiet


def _exact_but_for_complex(function: BinaryFunction) -> BinaryFunction:
    """A function that IEEE 754 rounds correctly. Complex numbers are evaluated in f64 and rounded once."""

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


def _round_half_away(x: AnyArray) -> AnyArray:
    return round_half_away(x)


def _abs(x: AnyArray) -> AnyArray:
    return np.asarray(np.abs(_wide(x))).astype(np.real(x).dtype) if is_complex(x) else np.asarray(np.abs(x))


def _sign(x: AnyArray) -> AnyArray:
    """-1, 0 or 1; zeros keep their sign and NaN stays NaN, as specified. For a complex number, x / |x|."""
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
    # `//` rounds down; the specification rounds towards zero.
    return quotient + ((quotient < 0) & (quotient * y != x)).astype(x.dtype)


def _power(x: AnyArray, y: AnyArray) -> AnyArray:
    if is_complex(x):
        return np.power(_wide(x), _wide(y)).astype(x.dtype)
    if _is_float(x):
        return _by_blocks(BINARY_IN_DOUBLE["power"], _wide(x), _wide(y)).astype(x.dtype)
    # A negative exponent gives 1 / x^|y| truncated: 0, or +-1 for the base +-1.
    negative = np.where(np.abs(x) == 1, np.power(x, np.abs(y) % 2), 0)
    return np.where(y < 0, negative, np.power(x, np.maximum(y, 0)))


def _extreme(function: np.ufunc) -> BinaryFunction:
    """maximum or minimum of IEEE 754-2019: NaN in either operand gives NaN, and -0 is less than +0."""

    def quiet(x: AnyArray, y: AnyArray) -> AnyArray:
        with np.errstate(all="ignore"):
            found = np.asarray(function(x, y))
            if not _is_float(found) or is_complex(found):
                return found
            if any(operand.size == 1 and operand.item() != 0 for operand in (x, y)):
                return found  # the bound is not zero, so the sign of zeros does not matter
            zeros = found == 0
            if not np.any(zeros):
                return found
            # For zeros, NumPy may return either operand. Their sum has the sign of the larger one.
            of_zeros = x + y if function is np.maximum else -(-x - y)
            zeros = zeros & (x == 0) & (y == 0)
            return np.where(zeros, of_zeros, found).astype(found.dtype, copy=False)

    return quiet


_greatest, _least = _extreme(np.maximum), _extreme(np.minimum)


def _atan2(x: AnyArray, y: AnyArray) -> AnyArray:
    if is_complex(x):
        numerator, denominator = _wide(y) + 1j * _wide(x), np.sqrt(_wide(x) ** 2 + _wide(y) ** 2)
        return (-1j * np.log(numerator / denominator)).astype(x.dtype)
    return _by_blocks(BINARY_IN_DOUBLE["atan2"], _wide(x), _wide(y)).astype(x.dtype)


REAL_ONLY = frozenset(("remainder",))
"""Functions without complex semantics, although the op's signature accepts complex types."""

UNARY: dict[str, UnaryFunction] = {
    "abs": _abs,
    "acos": _in_steps("acos", np.arccos),
    "acosh": _in_steps("acosh", np.arccosh),
    "asin": _in_steps("asin", np.arcsin),
    "asinh": _in_steps("asinh", np.arcsinh),
    "atan": _in_steps("atan", np.arctan),
    "atanh": _in_steps("atanh", np.arctanh),
    "cbrt": _in_steps("cbrt", lambda x: np.power(x, 1 / 3)),
    "ceil": _native(np.ceil),
    "cosh": _in_steps("cosh", np.cosh),
    "cosine": _in_steps("cosine", np.cos),
    "digamma": _in_f64(special.digamma),
    "erf": _in_steps("erf"),
    "erf_inv": _in_f64(special.erf_inverse),
    "erfc": _in_steps("erfc"),
    "exponential": _in_steps("exponential", np.exp),
    "exponential_minus_one": _in_steps("exponential_minus_one", np.expm1),
    "floor": _native(np.floor),
    "lgamma": _in_f64(special.log_gamma),
    "log": _in_steps("log", np.log),
    "log_plus_one": _in_steps("log_plus_one", np.log1p),
    "logistic": _in_steps("logistic", lambda x: 1.0 / (1.0 + np.exp(-x))),
    "negate": _native(np.negative),
    "not": _native(np.invert),
    "round_nearest_afz": _native(_round_half_away),
    "round_nearest_even": _native(np.rint),
    "rsqrt": _in_steps("rsqrt", lambda x: 1.0 / np.sqrt(x)),
    "sign": _native(_sign),
    "sine": _in_steps("sine", np.sin),
    "sinh": _in_steps("sinh", np.sinh),
    "sqrt": _sqrt,
    "tan": _in_steps("tan", np.tan),
    "tanh": _in_steps("tanh", np.tanh),
}

BINARY: dict[str, BinaryFunction] = {
    "add": _native_binary(np.add),
    "and": _native_binary(np.bitwise_and),
    "atan2": _native_binary(_atan2),
    "divide": _exact_but_for_complex(_divide),
    "maximum": _greatest,
    "minimum": _least,
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
    """min(max(operand, minimum), maximum), in this order of operands (StableHLO clamp). Bounds broadcast."""
    return _least(_greatest(operand, minimum), maximum)


def compare(lhs: AnyArray, rhs: AnyArray, direction: str) -> BoolArray:
    """Elementwise comparison by StableHLO's direction: EQ, NE, GE, GT, LE, LT."""
    return np.asarray(COMPARISONS[direction](lhs, rhs))


def select(predicate: BoolArray, on_true: AnyArray, on_false: AnyArray) -> AnyArray:
    """on_true where the predicate holds, else on_false. A scalar predicate selects a whole array."""
    return np.where(predicate, on_true, on_false)


def is_known(name: str) -> bool:
    """Whether `evaluate` computes the elementwise op of this name."""
    return name in UNARY or name in BINARY or name in ("clamp", "compare", "select")


def evaluate(name: str, operands: Sequence[AnyArray], direction: str | None = None) -> AnyArray:
    """Evaluate the elementwise op `name` (of StableHLO, without prefix). `direction` is for `compare`.

    Raises ValueError if there is no function of this name, or if the number of operands is wrong.
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
