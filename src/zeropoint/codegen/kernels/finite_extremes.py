"""Rewrite the greatest and the least float of a row to comparisons, where no element is NaN or -0.

    maximum(x, y)  =  x if x > y else y        finite, without -0

The maximum of IEEE 754-2019 is NaN if an operand is, and orders the zeros. That takes six instructions on x86, and a
comparison takes one. Dequantized integers are finite and never -0, nor are their sums: the scores of a softmax.
"""

from __future__ import annotations

import math
from dataclasses import replace

from zeropoint.codegen.kernels.elements import Dequantize, Number, Reduce, Scalar, Scalars
from zeropoint.codegen.kernels.known_scalars import known_of
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.types import FLOATS

_COMPARED = {"maximum": "greatest", "minimum": "least"}
"""The reductions that become comparisons."""


def with_finite_extremes(body: Scalars, isa: InstructionSet) -> Scalars:
    """The body with comparisons where they have the same bits."""
    candidates = [n for n, i in enumerate(body) if isinstance(i.what, Reduce) and _is_extreme(i, i.what)]
    if not candidates:
        return body
    known, negative, made = known_of(body, isa, {}), _negative_zeros(body), list(body)
    for n in candidates:
        i, (of,) = body[n], body[n].arguments
        if isinstance(i.what, Reduce) and known[of] is not None and not negative[of]:
            made[n] = replace(i, what=replace(i.what, op=_COMPARED[i.what.op]))
    return tuple(made)


def _is_extreme(i: Scalar, by: Reduce) -> bool:
    # A start at the identity never takes part.
    identity = {"maximum": -math.inf, "minimum": math.inf}
    return i.type in FLOATS and by.start == identity.get(by.op)


def _negative_zeros(body: Scalars) -> list[bool]:
    """Which scalars may be -0."""
    may: list[bool] = []
    for i in body:
        operands = [may[n] for n in i.arguments]
        may.append(i.type in FLOATS and _may_be_negative_zero(i, operands, body))
    return may


def _may_be_negative_zero(i: Scalar, operands: list[bool], body: Scalars) -> bool:
    if isinstance(i.what, Number):
        return i.what.number == 0 and math.copysign(1, i.what.number) < 0
    if isinstance(i.what, Dequantize):
        # (q - z) s is +0 for q = z, because integers have one zero.
        return i.what.scale < 0
    if i.name == "add":
        # -0 + 0 is +0.
        return all(operands)
    if i.name == "subtract":
        # Only -0 - 0 is -0.
        return operands[0]
    if i.name == "convert":
        return body[i.arguments[0]].type in FLOATS and operands[0]
    return True
