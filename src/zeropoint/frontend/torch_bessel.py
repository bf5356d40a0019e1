"""Bessel's function I0 and derivatives of the digamma function, which PyTorch's ONNX exporter lacks, in arithmetic.

Sources: Abramowitz and Stegun, 9.8.1 and 9.8.2 (I0, relative error 2e-7), 6.4.10 (derivatives as a sum) and 23.2.9 (the
rest of the sum, by Euler and Maclaurin).
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

from zeropoint.frontend.torch_special_functions import digamma

_BOUND = 3.75
_NEAR = (0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0)
_FAR = (
    *(0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565),
    *(0.00225319, 0.01328592, 0.39894228),
)
TERMS = 24
"""How many terms of the sum are added one by one."""
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30)


def _torch() -> Any:
    return importlib.import_module("torch")


def _float(x: Any) -> Any:
    return x if x.is_floating_point() else x.to(_torch().float32)


def _polynomial(x: Any, factors: Sequence[float]) -> Any:
    found = factors[0]
    for factor in factors[1:]:
        found = found * x + factor
    return found


def bessel_i0(x: Any) -> Any:
    """The modified Bessel function of order 0."""
    torch, size = _torch(), _float(x).abs()
    is_near = size <= _BOUND
    part = torch.where(is_near, size, 0.0) / _BOUND
    near = _polynomial(part * part, _NEAR)
    large = torch.where(is_near, _BOUND, size)
    half = (large / 2).exp()  # e^x would be infinite before the quotient is
    far = half / large.sqrt() * _polynomial(_BOUND / large, _FAR) * half
    # PyTorch has NaN at infinity.
    return torch.where(is_near, near, torch.where(size == math.inf, math.nan, far))


def polygamma(order: int, x: Any) -> Any:
    """The derivative of a given order of the digamma function, as PyTorch has it.

    That is (-1)^(n + 1) n! times the sum of 1 / (x + k)^(n + 1). At or below -TERMS + 1, where more terms would be
    negative, orders above 1 are NaN; the first order is reflected.
    """
    torch, x = _torch(), _float(x)
    if order == 0:
        return digamma(x)
    if order == 1:
        mirrored = x < 0.5
        found = _sum_of_powers(2, torch.where(mirrored, 1 - x, x))
        part = x - x.round()
        sine = (part * math.pi).sin()
        return torch.where(mirrored, math.pi**2 / (sine * sine) - found, found)
    found = math.factorial(order) * _sum_of_powers(order + 1, x)
    found = torch.where(x <= 1 - TERMS, math.nan, found)
    return found if order % 2 else -found


def _sum_of_powers(power: int, x: Any) -> Any:
    """The sum of 1 / (x + k)^power over all k from 0."""
    total = 0.0
    for term in range(TERMS):
        total = total + 1 / _power(x + term, power)
    z = x + TERMS
    rest = z / (power - 1) + 0.5
    factor = 1.0
    for index, number in enumerate(_BERNOULLI):
        factor = (
            factor * (power + 2 * index - 1 if index else 1) * (power + 2 * index) / ((2 * index + 1) * (2 * index + 2))
        )
        rest = rest + number * factor / _power(z, 2 * index + 1)
    return total + rest / _power(z, power)


def _power(x: Any, exponent: int) -> Any:
    """A power by products, which keep the sign."""
    found = x
    for _ in range(exponent - 1):
        found = found * x
    return found
