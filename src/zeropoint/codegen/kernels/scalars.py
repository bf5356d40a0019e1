"""Arithmetic on vectors of any element type: bounds, sums of products, conversions.

Element types are LLVM's (i1, i8, ..., i64, float, double). They have no sign, so functions take `signed` where needed.
"""

from __future__ import annotations

from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import FLOATS, WIDTHS, Value, constant, element, like, suffix


def bounded(f: Function, x: Value, low: float, high: float) -> Value:
    """Clamp floats to [low, high]. x must not be NaN."""
    # On machines without such an instruction, LLVM would call fmaxf of libm for llvm.maxnum.
    for predicate, bound in (("ogt", low), ("olt", high)):
        x = f.select(f.compare(predicate, x, bound), x, constant(x.type, bound))
    return x


def plus_product(f: Function, isa: InstructionSet, a: Value, b: Value, c: Value) -> Value:
    """a b + c, a step of a sum of products. f32 is rounded once, f64 twice (`zeropoint.numerics.products`)."""
    if element(a.type) == "double":
        return f.binary("fadd", c, f.binary("fmul", a, b))
    return f.intrinsic("fma", a, b, c) if isa.fused else _fused_in_double(f, a, b, c)


def _fused_in_double(f: Function, a: Value, b: Value, c: Value) -> Value:
    """a b + c of f32, rounded once, for machines without an FMA instruction, where LLVM would call libm.

    The product is exact in f64. The sum with c is rounded to odd in f64: if inexact, to the neighbour whose last bit is
    1. Rounding this to f32 gives the correctly rounded exact sum.
    """
    wide, bits = like(a, "double"), like(a, "i64")
    a, b, c = (f.cast("fpext", value, wide) for value in (a, b, c))
    product = f.binary("fmul", a, b)
    total = f.binary("fadd", product, c)
    # The error of the sum (Knuth's TwoSum). With infinities it is NaN, for which both comparisons below are false.
    back = f.binary("fsub", total, product)
    error = f.binary("fadd", f.binary("fsub", product, f.binary("fsub", total, back)), f.binary("fsub", c, back))
    zero = Value(wide, "zeroinitializer")
    number = f.bits(total, bits)
    even = f.compare("eq", f.binary("and", number, 1), Value(bits, "zeroinitializer"))
    moved = f.binary("and", even, f.compare("one", error, zero))
    outwards = f.binary("xor", f.compare("olt", error, zero), f.compare("ogt", total, zero))
    step = f.select(outwards, constant(bits, 1), constant(bits, -1))
    number = f.binary("add", number, f.select(moved, step, Value(bits, "zeroinitializer")))
    return f.cast("fptrunc", f.bits(number, wide), like(a, "float"))


def converted(f: Function, value: Value, target: str, *, signed: bool, to_signed: bool = True) -> Value:
    """StableHLO's `convert`. Integers wrap; floats truncate and saturate, NaN becomes 0; to `i1` is "not zero"."""
    source, type_ = element(value.type), like(value, target)
    if source == target:
        return value
    if target == "i1":
        zero = Value(value.type, "zeroinitializer")
        return f.compare("une" if source in FLOATS else "ne", value, zero)
    if source in FLOATS and target in FLOATS:
        return f.cast("fpext" if target == "double" else "fptrunc", value, type_)
    signed = signed and source != "i1"
    if target in FLOATS:
        return f.cast("sitofp" if signed else "uitofp", value, type_)
    if source in FLOATS:
        name = "fptosi.sat" if to_signed else "fptoui.sat"
        return f.call(type_, f"llvm.{name}.{suffix(type_)}.{suffix(value.type)}", value)
    if WIDTHS[target] < WIDTHS[source]:
        return f.cast("trunc", value, type_)
    return f.cast("sext" if signed else "zext", value, type_)
