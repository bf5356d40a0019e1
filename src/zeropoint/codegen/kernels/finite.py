"""Scalars of finite floats, in fewer instructions than others; `known_scalars.py` puts them into a body."""

from __future__ import annotations

from dataclasses import dataclass

from zeropoint.codegen.kernels.quantize import MAGIC, MAGIC_BITS
from zeropoint.codegen.kernels.scalars import bounded
from zeropoint.codegen.kernels.signed_zeros import SignedZeros
from zeropoint.codegen.llvm.text import Function
from zeropoint.codegen.llvm.types import Value, like


@dataclass(frozen=True)
class Nearest:
    """A float of at most 2^22, rounded to even, as i32."""


@dataclass(frozen=True)
class Truncated:
    """A float within the range of i32, truncated to i32."""


@dataclass(frozen=True)
class Within(SignedZeros):
    """A float clamped to two numbers."""

    low: float
    high: float


@dataclass(frozen=True)
class Rounded:
    """A float clamped to two numbers of at most 2^22, rounded to even, plus an integer, as a float. It is never -0."""

    low: float
    high: float
    plus: int


def nearest(f: Function, x: Value) -> Value:
    """The i32 of `Nearest`."""
    # The sum has no fraction bits: its last bits are the integer.
    return f.add(f.bits(f.binary("fadd", x, MAGIC), like(x, "i32")), -MAGIC_BITS)


def rounded(f: Function, by: Rounded, x: Value) -> Value:
    """The float of `Rounded`."""
    # The sum has no fraction bits, so the difference is exact.
    return f.binary("fsub", f.binary("fadd", bounded(f, x, by.low, by.high), MAGIC), MAGIC - by.plus)


def greatest(f: Function, left: Value, right: Value) -> Value:
    """The greater of two finite floats, which are not zeros of different signs."""
    return f.select(f.compare("ogt", left, right), left, right)


def least(f: Function, left: Value, right: Value) -> Value:
    """The smaller of two finite floats, which are not zeros of different signs."""
    return f.select(f.compare("olt", left, right), left, right)
