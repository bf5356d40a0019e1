"""The upper halves of products of 32-bit integers, as in integer layer normalization and in requantization by fixed32:
(i64(a) * i64(b)) >> 32.

x86 multiplies the 32-bit numbers in the even elements of a vector to 64 bits. For products in the order of elements,
LLVM widens, narrows and moves every vector, which takes twice as many instructions. So even and odd elements are
multiplied separately, and every upper half stays in its place. AArch64 has instructions for the order of elements.
"""

from __future__ import annotations

from dataclasses import replace

from zeropoint.codegen.kernels.bodies import needed
from zeropoint.codegen.kernels.elements import Elementwise, Number, Scalar, Scalars
from zeropoint.codegen.kernels.integers import multiply_high
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, like


def has_form(isa: InstructionSet) -> bool:
    """Whether `multiply_high` takes fewer instructions than a product in 64 bits."""
    return isa.triple.startswith("x86_64")


def upper_half(f: Function, isa: InstructionSet, x: Value, y: Value) -> Value:
    """The upper halves of the products of signed i32, in the form that takes fewer instructions."""
    if has_form(isa):
        return multiply_high(f, x, y)
    wide = like(x, "i64")
    product = f.binary("mul", f.cast("sext", x, wide), f.cast("sext", y, wide))
    return f.cast("trunc", f.binary("lshr", product, 32), x.type)


def with_high_products(body: Scalars) -> Scalars:
    """A body in which upper halves of products are `multiply_high`. Scalars that become unused are removed."""
    return needed([_high_product(i, body) or i for i in body])


def _high_product(i: Scalar, body: Scalars) -> Scalar | None:
    """`multiply_high` of two i32 if a scalar is i32(i64(a) * i64(b) >> 32), else None."""
    shift = _argument(i, body) if i.name == "convert" and i.type == "i32" else None
    if shift is None or shift.name != "shift_right_arithmetic" or shift.type != "i64":
        return None
    product, amount = (body[n] for n in shift.arguments)
    if product.name != "multiply" or amount.what != Number(32):
        return None
    factors = [body[n] for n in product.arguments]
    if not all(factor.name == "convert" and _is_signed_word(_argument(factor, body)) for factor in factors):
        return None
    return replace(i, what=Elementwise("multiply_high"), arguments=tuple(factor.arguments[0] for factor in factors))


def _argument(i: Scalar, body: Scalars) -> Scalar:
    return body[i.arguments[0]]


def _is_signed_word(i: Scalar) -> bool:
    return i.type == "i32" and i.signed
