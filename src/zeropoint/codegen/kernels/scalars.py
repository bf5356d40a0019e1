"""Vectors of numbers of any element type: literals, intrinsics, conversions.

Element types are LLVM's (i1, i8, ..., i64, float, double); whether integers are signed is said where it matters.
"""

from __future__ import annotations

import numpy as np

from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, element, lanes, vector

FLOATS = frozenset(("float", "double"))
WIDTHS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i128": 128, "float": 32, "double": 64}
"""Bits of an element type."""


def like(value: Value, type_: str) -> str:
    """A vector type with the same number of elements, of another type."""
    return vector(lanes(value.type), type_)


def literal(type_: str, number: float) -> str:
    """A number as LLVM writes it; floats by the bits of the f64 of the same value."""
    if type_ == "float":
        with np.errstate(over="ignore"):
            number = float(np.float32(number))
    if type_ in FLOATS:
        return f"0x{int(np.float64(number).view(np.uint64)):016X}"
    return str(int(number))


def filled(type_: str, number: float) -> Value:
    """A splat literal of a vector type."""
    return Value(type_, f"splat ({element(type_)} {literal(element(type_), number)})")


def suffix(type_: str) -> str:
    """The suffix of a type in names of intrinsics: v16i32, v8f64."""
    names = {"float": "f32", "double": "f64"}
    name = names.get(element(type_), element(type_))
    return f"v{lanes(type_)}{name}" if type_.startswith("<") else name


def intrinsic(f: Function, name: str, *arguments: Value) -> Value:
    """`llvm.name` of vectors of one type, with a result of that type."""
    type_ = arguments[0].type
    return f.call(type_, f"llvm.{name}.{suffix(type_)}", *arguments)


def compared(f: Function, instruction: str, left: Value, right: Value) -> Value:
    """`icmp slt`, `fcmp oeq`, ...: a vector of i1."""
    return f.let(like(left, "i1"), f"{instruction} {left.type} {left.name}, {right.name}")


def bounded(f: Function, x: Value, low: float, high: float) -> Value:
    """Floats between two numbers; x is not NaN."""
    # Not llvm.maxnum and llvm.minnum: LLVM calls fmaxf of libm for these on machines without such an instruction.
    for instruction, bound in (("fcmp ogt", filled(x.type, low)), ("fcmp olt", filled(x.type, high))):
        x = f.select(compared(f, instruction, x, bound), x, bound)
    return x


def plus_product(f: Function, isa: InstructionSet, a: Value, b: Value, c: Value) -> Value:
    """a b + c, a step of a sum of products: of f32 rounded once, of f64 twice (`zeropoint.numerics.products`)."""
    if element(a.type) == "double":
        return f.binary("fadd", c, f.binary("fmul", a, b))
    return intrinsic(f, "fma", a, b, c) if isa.fused else _fused_in_double(f, a, b, c)


def _fused_in_double(f: Function, a: Value, b: Value, c: Value) -> Value:
    """a b + c of f32, rounded once, for machines without an FMA instruction, on which LLVM would call libm.

    The product is exact in f64. Its sum with c is rounded to odd in f64: of the two neighbours, the one whose last bit
    is 1. Rounding that to f32 gives the correctly rounded exact sum.
    """
    wide, bits = like(a, "double"), like(a, "i64")
    a, b, c = (f.cast("fpext", value, wide) for value in (a, b, c))
    product = f.binary("fmul", a, b)
    total = f.binary("fadd", product, c)
    # The error of a sum (Knuth, TwoSum); NaN where there is an infinity, which is neither below nor above.
    back = f.binary("fsub", total, product)
    error = f.binary("fadd", f.binary("fsub", product, f.binary("fsub", total, back)), f.binary("fsub", c, back))
    zero = Value(wide, "zeroinitializer")
    number = f.bits(total, bits)
    even = compared(f, "icmp eq", f.binary("and", number, filled(bits, 1)), Value(bits, "zeroinitializer"))
    moved = f.binary("and", even, compared(f, "fcmp one", error, zero))
    outwards = f.binary("xor", compared(f, "fcmp olt", error, zero), compared(f, "fcmp ogt", total, zero))
    step = f.select(outwards, filled(bits, 1), filled(bits, -1))
    number = f.binary("add", number, f.select(moved, step, Value(bits, "zeroinitializer")))
    return f.cast("fptrunc", f.bits(number, wide), like(a, "float"))


def converted(f: Function, value: Value, target: str, *, signed: bool, to_signed: bool = True) -> Value:
    """StableHLO's `convert`: integers wrap, floats truncate and saturate, NaN becomes 0, `i1` is "not zero"."""
    source, type_ = element(value.type), like(value, target)
    if source == target:
        return value
    if target == "i1":
        zero = Value(value.type, "zeroinitializer")
        return compared(f, "fcmp une" if source in FLOATS else "icmp ne", value, zero)
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
