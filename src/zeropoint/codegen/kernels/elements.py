"""The computation of a loop nest for one element: a list of scalars, each computed from earlier ones by its `what`.

`Elementwise` is the StableHLO op of that name, or one of three other ops. `plus_product` is a b + c in f32 or f64, a
step of a sum of products. `multiply_add` is a b + c in f64, rounded once. `multiply_high` is the upper half of a
product of two i32 (`high_products.py`). Other kinds of scalars have a class each. Unary float functions, except for
sqrt, floor and the like, are computed in f64 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from zeropoint.codegen.kernels.finite import Nearest, Rounded, Truncated, Within, greatest, least, nearest, rounded
from zeropoint.codegen.kernels.functions import DOUBLE_BINARY
from zeropoint.codegen.kernels.functions import DOUBLE_FUNCTIONS as IN_DOUBLE
from zeropoint.codegen.kernels.functions import FLOAT_FUNCTIONS as IN_FLOAT
from zeropoint.codegen.kernels.half_precision import narrowed
from zeropoint.codegen.kernels.integers import BINARY_INTEGERS, UNARY_INTEGERS, float_remainder, multiply_high
from zeropoint.codegen.kernels.quantize import Dequantize, Quantize, dequantized, quantized
from zeropoint.codegen.kernels.quotient import rounded_quotient
from zeropoint.codegen.kernels.rounding import requantized
from zeropoint.codegen.kernels.scalars import bounded, converted
from zeropoint.codegen.kernels.signed_zeros import SignedZeros
from zeropoint.codegen.kernels.word_scalars import (
    EveryOther,
    Interleaved,
    PairProduct,
    PairSum,
    Raised,
    Rebased,
    Saturated,
)
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import FLOATS, WIDTHS, Value, constant, element, lanes, like, splat, vector
from zeropoint.numerics import CommonScaleSum, RequantizeBehaviour
from zeropoint.numerics.division import Division


@dataclass(frozen=True)
class Elementwise:
    """An elementwise op, by its StableHLO name."""

    name: str


@dataclass(frozen=True)
class Read:
    """An element of an operand."""

    operand: int


@dataclass(frozen=True)
class Number(SignedZeros):
    """A constant."""

    number: float


@dataclass(frozen=True)
class Argument:
    """An argument of a region."""

    index: int


@dataclass(frozen=True)
class Total:
    """The result of a nest's reduction. Inside the body of the reduction, the running total."""


@dataclass(frozen=True)
class Reduce(SignedZeros):
    """All elements of a row and the initial value `start`, combined by an elementwise op (`rows.py`)."""

    op: str
    start: float


@dataclass(frozen=True)
class StoredNumber:
    """A number of a row that the kernel also stores (`rows.py`)."""


@dataclass(frozen=True)
class Compare:
    """A comparison `eq`, `ne`, `ge`, `gt`, `le` or `lt`. `total` selects the total order of floats."""

    direction: str
    total: bool = False


@dataclass(frozen=True)
class Narrow:
    """An f32 or f64 rounded to the format `half` or `bfloat`, as f32."""

    form: str


@dataclass(frozen=True)
class LookUp:
    """An entry of an operand with 256 or 65,536 elements, selected by an i8 or i16."""

    operand: int


@dataclass(frozen=True)
class Interpolate:
    """A function of an i16, by linear interpolation in an operand of 2^(16 - shift) + 1 entries of `size` bytes."""

    operand: int
    shift: int
    size: int


@dataclass(frozen=True)
class Index:
    """An index that is read from an operand, its maximum, and its stride in bytes."""

    operand: int
    most: int
    stride: int
    signed: bool = True


@dataclass(frozen=True)
class Gather:
    """An element of an operand at indices that are read at run time."""

    operand: int
    indices: tuple[Index, ...]

    @property
    def operands(self) -> tuple[int, ...]:
        """All operands that are read."""
        return (self.operand, *(index.operand for index in self.indices))


@dataclass(frozen=True)
class Requantize:
    """Requantizes an accumulator. The arguments are accumulator, multiplier and shift (no shift for floats)."""

    behaviour: RequantizeBehaviour
    zero_point: int
    low: int
    high: int


What = (
    Elementwise | Read | Number | Argument | Total | Reduce | StoredNumber | PairSum | EveryOther | PairProduct
    | Interleaved | Rebased | Saturated | Raised | Compare | Narrow | LookUp | Interpolate | Gather | Requantize
    | Quantize | Dequantize | CommonScaleSum | Division | Nearest | Rounded | Truncated
    | Within
)  # fmt: skip


@dataclass(frozen=True)
class Scalar:
    """A scalar value. `type` is its LLVM type, and `signed` says whether it is a signed integer."""

    what: What
    type: str
    arguments: tuple[int, ...] = ()
    signed: bool = True

    @property
    def name(self) -> str:
        """The name of an elementwise op; "" for other kinds."""
        return self.what.name if isinstance(self.what, Elementwise) else ""


Scalars = tuple[Scalar, ...]
"""Scalars in order. The last one is the result."""


def _sign(f: Function, x: Value) -> Value:
    # StableHLO's sign keeps zeros with their sign and NaN, so both are returned as they are (`ueq` is true for them).
    unit = f.intrinsic("copysign", constant(x.type, 1.0), x)
    return f.select(f.compare("ueq", x, 0.0), x, unit)


_INTEGER = {"add": "add", "subtract": "sub", "multiply": "mul", "and": "and", "or": "or", "xor": "xor"}
# StableHLO defines + and * of i1 as `or` and `and`; LLVM's add of i1 would be `xor`.
_BOOLEAN = {"add": "or", "and": "and", "multiply": "and", "or": "or", "xor": "xor"}
_FLOAT = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
UNARY_FLOATS: dict[str, Callable[[Function, Value], Value]] = {
    "abs": lambda f, x: f.intrinsic("fabs", x),
    "ceil": lambda f, x: f.intrinsic("ceil", x),
    "floor": lambda f, x: f.intrinsic("floor", x),
    "is_finite": lambda f, x: f.compare("olt", f.intrinsic("fabs", x), math.inf),
    "negate": lambda f, x: f.let(x.type, f"fneg {x}"),
    "round_nearest_afz": lambda f, x: f.intrinsic("round", x),
    "round_nearest_even": lambda f, x: f.intrinsic("roundeven", x),
    "sign": _sign,
    "sqrt": lambda f, x: f.intrinsic("sqrt", x),
}
"""Unary float functions that are single operations, which are exact or rounded once."""

BINARY_IN_DOUBLE = {**DOUBLE_BINARY, "remainder": float_remainder}
"""Binary float functions that are computed in f64."""

UNARY = frozenset((*UNARY_FLOATS, *IN_DOUBLE, *UNARY_INTEGERS))
BINARY = frozenset((*_INTEGER, *_FLOAT, *BINARY_IN_DOUBLE, *BINARY_INTEGERS, "maximum", "minimum"))
FLOAT_ONLY = frozenset((*UNARY_FLOATS, *IN_DOUBLE, "atan2")) - {*UNARY_INTEGERS}
"""Ops without an integer form."""


def width_inside(scalar: Scalar) -> int:
    """The width in bits of the widest type that is used to compute a scalar."""
    if scalar.type in FLOATS:
        if scalar.name in IN_FLOAT and scalar.type == "float":
            return WIDTHS["float"]
        if scalar.name in IN_DOUBLE or scalar.name in BINARY_IN_DOUBLE:
            return WIDTHS["double"]
    if isinstance(scalar.what, Division):
        return WIDTHS["i64"]
    # These compute in 32 bits even from 8-bit operands, so they decide how many lanes fit a register. A sum of bytes
    # has a form of its own in 16 bits.
    wide = isinstance(scalar.what, Interpolate | Requantize) or (
        isinstance(scalar.what, CommonScaleSum) and scalar.type != "i8"
    )
    return max(WIDTHS[scalar.type], 32 if wide else 0)


@dataclass(frozen=True)
class Region:
    """A body with arguments of its own. Some of its scalars are the results."""

    body: Scalars
    results: tuple[int, ...]

    def computed(
        self, f: Function, arguments: Sequence[Value], look_up: Callable[[Scalar, Value], Value] | None = None
    ) -> list[Value]:
        """The results for some arguments, which are vectors of the same length. `look_up` reads entries of tables."""
        count = lanes(arguments[0].type)
        values: list[Value] = []
        for i in self.body:
            if isinstance(i.what, Argument):
                values.append(arguments[i.what.index])
            elif isinstance(i.what, Number):
                values.append(splat(vector(count, i.type), i.what.number))
            elif isinstance(i.what, LookUp):
                assert look_up is not None
                values.append(look_up(i, values[i.arguments[0]]))
            else:
                values.append(apply(f, i, [self.body[n] for n in i.arguments], [values[n] for n in i.arguments]))
        return [values[n] for n in self.results]


def is_function(scalar: Scalar) -> bool:
    """Whether a scalar is an elementary function, which takes many instructions."""
    return scalar.name in IN_DOUBLE or scalar.name in BINARY_IN_DOUBLE


def apply(f: Function, scalar: Scalar, operands: Sequence[Scalar], values: Sequence[Value]) -> Value:
    """The value of a scalar that depends only on its arguments."""
    # Before the tables of plain ops: these need more than the values, such as the signedness of operands.
    special = _SPECIAL.get(scalar.name or type(scalar.what))
    if special is not None:
        return special(f, scalar.what, scalar, operands, values)
    op, kind = scalar.name, element(values[0].type)
    # i1 is compared as unsigned: as a signed number, true would be -1 and below false.
    if op in ("maximum", "minimum"):
        return _extreme(f, op[:3], operands[0].signed and operands[0].type != "i1", *values)
    if kind in FLOATS:
        return _of_floats(f, scalar, values)
    if op in BINARY_INTEGERS:
        left, right = values
        return BINARY_INTEGERS[op](f, left, right, scalar.signed)
    if op in UNARY_INTEGERS:
        return UNARY_INTEGERS[op](f, *values)
    return f.binary((_BOOLEAN if kind == "i1" else _INTEGER)[op], *values)


def _of_floats(f: Function, scalar: Scalar, values: Sequence[Value]) -> Value:
    op = scalar.name
    if op in IN_FLOAT and element(values[0].type) == "float":
        return IN_FLOAT[op](f, *values)
    if op in IN_DOUBLE or op in BINARY_IN_DOUBLE:
        # Computed in f64 and rounded once: nearly always the correctly rounded f32, and the same bits on all machines.
        wide = [converted(f, value, "double", signed=True) for value in values]
        result = IN_DOUBLE[op](f, *wide) if op in IN_DOUBLE else BINARY_IN_DOUBLE[op](f, *wide)
        return converted(f, result, scalar.type, signed=True)
    if op in UNARY_FLOATS:
        return UNARY_FLOATS[op](f, *values)
    return f.binary(_FLOAT[op], *values)


def _extreme(f: Function, name: str, signed: bool, left: Value, right: Value) -> Value:
    """maximum or minimum. For floats as in IEEE 754-2019: NaN in either operand gives NaN, and -0 is less than +0."""
    if element(left.type) in FLOATS:
        # llvm.maximum, not llvm.maxnum: maxnum returns the other operand for NaN, and either zero for -0 and +0.
        return f.intrinsic(f"{name}imum", left, right)
    if element(left.type) == "i1":
        return f.binary("or" if name == "max" else "and", left, right)
    return f.intrinsic(f"{'s' if signed else 'u'}{name}", left, right)


Special = Callable[[Function, Any, Scalar, Sequence[Scalar], Sequence[Value]], Value]
"""The value of a scalar: (f, its `what`, the scalar, its operands, their values)."""


def _compare(f: Function, by: Compare, _: Scalar, operands: Sequence[Scalar], values: Sequence[Value]) -> Value:
    direction, total, of = by.direction, by.total, operands[0]
    if of.type in FLOATS and not total:
        # Ordered comparisons are false for NaN. Only `ne` must be true, because it is the negation of `eq`.
        return f.compare("une" if direction == "ne" else "o" + direction, *values)
    values = [_total_order(f, value) for value in values] if total else values
    sign = "s" if total or (of.signed and of.type != "i1") else "u"
    return f.compare(direction if direction in ("eq", "ne") else sign + direction, *values)


def _total_order(f: Function, x: Value) -> Value:
    """Map floats to integers that have the order -NaN, -inf, ..., -0, +0, ..., +inf, +NaN."""
    bits = f.bits(x, like(x, f"i{WIDTHS[element(x.type)]}"))
    negative = f.compare("slt", bits, 0)
    # Negative floats decrease as their bits increase, so all bits but the sign are flipped.
    turned = f.binary("xor", bits, (1 << WIDTHS[element(x.type)] - 1) - 1)
    return f.select(negative, turned, bits)


def _clamp(f: Function, signed: bool, low: Value, x: Value, high: Value) -> Value:
    # StableHLO defines min(max(x, low), high). If low > high, this is `high`, in which LLVM's clamp idioms differ.
    return _extreme(f, "min", signed, _extreme(f, "max", signed, x, low), high)


def _requantize(f: Function, by: Requantize, i: Scalar, _: Sequence[Scalar], values: Sequence[Value]) -> Value:
    acc, multiplier, *shift = values
    zero = constant(like(acc, "i32"), by.zero_point)
    past = by.zero_point != 0 and i.type == "i32"
    total = requantized(f, by.behaviour, acc, multiplier, shift[0] if shift else None, zero, past_words=past)
    return converted(f, f.clamp(total, by.low, by.high), i.type, signed=True)


def _weighted_sum(f: Function, by: CommonScaleSum, i: Scalar, _: Sequence[Scalar], values: Sequence[Value]) -> Value:
    """clamp(zp + (sum_i (x_i - z_i) A_i + 2^(N-1)) >> N), in i32."""
    total = None
    for x, factor, z in zip(values, by.multipliers, by.zero_points, strict=True):
        term = f.mul(f.add(converted(f, x, "i32", signed=True), -z), factor)
        total = term if total is None else f.binary("add", total, term)
    assert total is not None
    # For N = 0 this adds 0, because nothing is rounded.
    total = f.add(total, 1 << by.shift >> 1)
    shifted = f.add(f.binary("ashr", total, by.shift), by.zero_point)
    return converted(f, f.clamp(shifted, by.storage_min, by.storage_max), i.type, signed=True)


def _quotient(f: Function, by: Division, i: Scalar, operands: Sequence[Scalar], values: Sequence[Value]) -> Value:
    centred = [
        f.add(converted(f, value, "i32", signed=True), -zero)
        for value, zero in zip(values, by.zero_points, strict=True)
    ]
    # |q - z| is at most the range of the storage. These bounds decide whether the quotient may be computed in f64.
    first, second = ((1 << WIDTHS[operand.type]) - 1 for operand in operands)
    found = f.add(rounded_quotient(f, by, centred[0], centred[1], (first, second)), by.zero_point)
    return converted(f, f.clamp(found, by.storage_min, by.storage_max), i.type, signed=True)


_SPECIAL: dict[str | type[What], Special] = {
    "bitcast_convert": lambda f, by, i, of, values: f.bits(values[0], like(values[0], i.type)),
    "clamp": lambda f, by, i, of, values: _clamp(f, i.signed, *values),
    Compare: _compare,
    "convert": lambda f, by, i, of, values: converted(f, values[0], i.type, signed=of[0].signed, to_signed=i.signed),
    Dequantize: lambda f, by, i, of, values: dequantized(f, by, i.type, values[0], signed=of[0].signed),
    Division: _quotient,
    "greatest": lambda f, by, i, of, values: greatest(f, *values),
    "least": lambda f, by, i, of, values: least(f, *values),
    "multiply_add": lambda f, by, i, of, values: f.intrinsic("fma", *values),
    "multiply_high": lambda f, by, i, of, values: multiply_high(f, *values),
    StoredNumber: lambda f, by, i, of, values: values[0],
    Narrow: lambda f, by, i, of, values: narrowed(f, values[0], by.form),
    Nearest: lambda f, by, i, of, values: nearest(f, values[0]),
    Quantize: lambda f, by, i, of, values: quantized(f, by, i.type, *values),
    Requantize: _requantize,
    "select": lambda f, by, i, of, values: f.select(*values),
    CommonScaleSum: _weighted_sum,
    Truncated: lambda f, by, i, of, values: f.cast("fptosi", values[0], like(values[0], "i32")),
    Rounded: lambda f, by, i, of, values: rounded(f, by, values[0]),
    Within: lambda f, by, i, of, values: bounded(f, values[0], by.low, by.high),
}
"""The scalars that need more than the values of their arguments, and those of this project."""
