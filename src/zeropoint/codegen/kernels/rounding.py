"""Requantization of vectors of accumulators by every behaviour of `zeropoint.numerics.requantize`.

These forms work for every vector width and machine. `requantize.py` has faster forms of fixed16 and fixed32.
"""

from __future__ import annotations

from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, constant, like, suffix
from zeropoint.numerics import RequantizeBehaviour
from zeropoint.numerics.behaviours import EXACT_LIMIT
from zeropoint.numerics.rounding import INT32_MAX, INT32_MIN

FLOAT_ROUNDINGS = {RequantizeBehaviour.FLOAT32_RNE: "roundeven", RequantizeBehaviour.FLOAT64_AWAY: "round"}
"""LLVM's rounding of the product, for the behaviours that multiply in floats."""
SATURATED = (-(1 << 33), 1 << 33)
"""Results beyond these bounds stay beyond 32 bits with every zero point."""


def requantized(
    f: Function,
    behaviour: RequantizeBehaviour,
    acc: Value,
    multiplier: Value,
    shift: Value | None,
    zero: Value,
    *,
    past_words: bool = False,
) -> Value:
    """round(acc * m) + zero point, as i32. Clamped to storage of at most 16 bits, it equals the exact result.

    `acc` is a vector of i32 or i64, `shift` and `zero` are i32, and `multiplier` is i32, float (float32-rne) or double
    (float64-away, exact). `past_words` must be set if the storage has 32 bits and a zero point: the zero point can
    bring a product beyond 32 bits back into range. i64 accumulators saturate as in `numerics.requantize`, so that no
    step wraps.
    """
    wide, narrow = like(acc, "i64"), like(acc, "i32")
    if behaviour is RequantizeBehaviour.FIXED16:
        assert shift is not None
        parts = [f.cast("sext", part, acc.type) for part in (multiplier, shift, zero)]
        return f.cast("trunc", _fixed16(f, acc, *parts), narrow)
    if behaviour in FLOAT_ROUNDINGS:
        product = f.binary("fmul", f.cast("sitofp", acc, multiplier.type), multiplier)
        rounded = f.intrinsic(FLOAT_ROUNDINGS[behaviour], product)
        # Narrower storage clamps all values beyond i32 to the same bound, so saturation to i32 is exact.
        word = wide if past_words else narrow
        integers = f.call(word, f"llvm.fptosi.sat.{suffix(word)}.{suffix(product.type)}", rounded)
        result = f.clamp(integers, *SATURATED) if past_words else f.cast("sext", integers, wide)
    elif behaviour is RequantizeBehaviour.EXACT:
        saturated = f.clamp(acc, -EXACT_LIMIT, EXACT_LIMIT) if acc.type == wide else acc
        result = _exact(f, saturated, multiplier)
    else:
        assert shift is not None
        parts = [f.cast("sext", part, wide) for part in (acc, multiplier, shift)]
        result = (_OF_64_BITS if acc.type == wide else _FORMS)[behaviour](f, *parts)
    total = f.add(result, f.cast("sext", zero, wide))
    # The sum with the zero point may slightly exceed i32. The clamp to storage follows.
    return f.cast("trunc", f.clamp(total, INT32_MIN, INT32_MAX), narrow)


def _fixed16(f: Function, acc: Value, m: Value, shift: Value, zero: Value) -> Value:
    one, none = constant(acc.type, 1), constant(acc.type, 0)
    right = f.intrinsic("smax", f.binary("sub", shift, one), none)
    left = f.intrinsic("smax", f.binary("sub", one, shift), none)
    # The bounds are twice the 16-bit range, because the rounding step below halves.
    a = f.clamp(f.binary("ashr", acc, right), -65536, 65534)
    a = f.clamp(f.binary("shl", a, left), -65536, 65534)
    a = f.binary("ashr", f.binary("add", a, one), one)
    product = f.add(f.binary("mul", a, m), 1 << 14)
    scaled = f.binary("ashr", product, 15)
    offset = f.add(f.mul(zero, 64), 32)
    return f.binary("ashr", f.binary("add", scaled, offset), 6)


def _positive(f: Function, shift: Value) -> tuple[Value, Value]:
    """(max(shift, 0), max(-shift, 0))."""
    none = constant(shift.type, 0)
    return f.intrinsic("smax", shift, none), f.intrinsic("smax", f.binary("sub", none, shift), none)


def _fixed32(f: Function, acc: Value, m: Value, shift: Value) -> Value:
    right, left = _positive(f, shift)
    one = constant(acc.type, 1)
    rounding = f.binary("lshr", f.binary("shl", one, right), one)
    product = f.binary("mul", acc, f.binary("shl", m, left))
    return f.binary("ashr", f.binary("add", product, rounding), right)


def _fixed32_of_64_bits(f: Function, acc: Value, m: Value, shift: Value) -> Value:
    """`_fixed32` for i64 accumulators, whose products have up to 95 bits."""
    long = like(acc, "i128")
    acc, m, shift = (f.cast("sext", value, long) for value in (acc, m, shift))
    result = f.clamp(_fixed32(f, acc, m, shift), *SATURATED)
    return f.cast("trunc", result, like(acc, "i64"))


def _divided_by_power(f: Function, x: Value, k: Value) -> Value:
    """x / 2^k, rounded to nearest, ties away from zero (RDivByPOT)."""
    one, none = constant(x.type, 1), constant(x.type, 0)
    mask = f.binary("sub", f.binary("shl", one, k), one)
    negative = f.cast("zext", f.compare("slt", x, none), x.type)
    # A tie of a negative number must not round up, so its threshold is larger by one.
    threshold = f.binary("add", f.binary("lshr", mask, one), negative)
    above = f.cast("zext", f.compare("sgt", f.binary("and", x, mask), threshold), x.type)
    return f.binary("add", f.binary("ashr", x, k), above)


def _fixed32_double(f: Function, acc: Value, m: Value, exponent: Value) -> Value:
    left, right = _positive(f, exponent)
    inside = f.clamp(acc, INT32_MIN, INT32_MAX)
    shifted = f.clamp(f.binary("shl", inside, left), INT32_MIN, INT32_MAX)
    product = f.binary("mul", shifted, m)
    high = f.binary("ashr", f.add(product, 1 << 30), 31)
    return _divided_by_power(f, f.intrinsic("smin", high, INT32_MAX), right)


def _tosa_double(f: Function, acc: Value, m: Value, shift: Value) -> Value:
    one, none = constant(acc.type, 1), constant(acc.type, 0)
    rounding = f.binary("shl", one, f.binary("sub", shift, one))
    sign = f.compare("sge", acc, none)
    # TOSA's first rounding step, away from zero. The term is added before the single shift.
    half = f.select(sign, constant(acc.type, 1 << 30), constant(acc.type, -(1 << 30)))
    long = f.compare("sgt", shift, 31)
    rounding = f.binary("add", rounding, f.select(long, half, none))
    return f.binary("ashr", f.binary("add", f.binary("mul", acc, m), rounding), shift)


def _pot(f: Function, acc: Value, m: Value, shift: Value) -> Value:
    del m
    right, left = _positive(f, shift)
    return _divided_by_power(f, f.binary("shl", acc, left), right)


_FORMS = {
    RequantizeBehaviour.FIXED32: _fixed32,
    RequantizeBehaviour.FIXED32_DOUBLE: _fixed32_double,
    RequantizeBehaviour.TOSA_DOUBLE: _tosa_double,
    RequantizeBehaviour.POT: _pot,
}


def _tosa_double_of_64_bits(f: Function, acc: Value, m: Value, shift: Value) -> Value:
    return _tosa_double(f, f.clamp(acc, INT32_MIN, INT32_MAX), m, shift)


def _pot_of_64_bits(f: Function, acc: Value, m: Value, shift: Value) -> Value:
    """`_pot` of i64 accumulators. They saturate before the left shift, and results before the zero point is added."""
    _, left = _positive(f, shift)
    most = f.binary("ashr", constant(acc.type, (1 << 63) - 1), left)
    least = f.binary("sub", constant(acc.type, 0), most)
    inside = f.intrinsic("smax", f.intrinsic("smin", acc, most), least)
    return f.clamp(_pot(f, inside, m, shift), *SATURATED)


_OF_64_BITS = {
    RequantizeBehaviour.FIXED32: _fixed32_of_64_bits,
    RequantizeBehaviour.FIXED32_DOUBLE: _fixed32_double,
    RequantizeBehaviour.TOSA_DOUBLE: _tosa_double_of_64_bits,
    RequantizeBehaviour.POT: _pot_of_64_bits,
}
"""The forms for i64 accumulators of any magnitude."""


def _exact(f: Function, acc: Value, m: Value) -> Value:
    """acc * Q / 2^k in 128 bits, rounded half to even, for 0 <= m = Q / 2^k <= 2^16 and Q of 53 bits."""
    wide, long = like(acc, "i128"), like(acc, "i64")
    bits = f.bits(m, long)
    field = f.binary("lshr", bits, 52)
    fraction = f.binary("and", bits, (1 << 52) - 1)
    normal = f.compare("ne", field, 0)
    integer = f.select(normal, f.binary("or", fraction, 1 << 52), fraction)
    # m = Q * 2^(field - 1075). From k = 98 on, |acc * m| < 1/2 rounds to 0, so k is clamped to 98.
    k = f.intrinsic("smin", f.binary("sub", constant(long, 1075), field), 98)
    k = f.cast("zext", k, wide)
    product = f.binary("mul", f.cast("sext", acc, wide), f.cast("zext", integer, wide))
    y = f.binary("ashr", product, k)
    one = constant(wide, 1)
    twice = f.binary("shl", f.binary("sub", product, f.binary("shl", y, k)), one)
    unit = f.binary("shl", one, k)
    odd = f.cast("trunc", y, like(acc, "i1"))
    tie = f.binary("and", f.compare("eq", twice, unit), odd)
    above = f.binary("or", f.compare("sgt", twice, unit), tie)
    return f.cast("trunc", f.binary("add", y, f.cast("zext", above, wide)), long)
