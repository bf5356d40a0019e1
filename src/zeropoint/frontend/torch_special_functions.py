"""Special functions that PyTorch's ONNX exporter lacks, with the operations that it has. f32 is accurate enough.

Sources: Abramowitz and Stegun, 6.1 and 6.3 (the gamma function and its derivative); M. Giles, "Approximating the erfinv
function" (2010).
"""

from __future__ import annotations

import importlib
import math
from typing import Any

_SHIFT = 8
"""How far the argument of the gamma function is moved to where its series is accurate."""


def _torch() -> Any:
    return importlib.import_module("torch")


def _float(x: Any) -> Any:
    return x if x.is_floating_point() else x.to(_torch().float32)


def log_gamma(x: Any) -> Any:
    """The logarithm of the absolute value of the gamma function: Stirling's series, and a reflection below 1/2."""
    torch, x = _torch(), _float(x)
    mirrored = x < 0.5
    positive = torch.where(mirrored, 1 - x, x)
    small = positive < _SHIFT
    z = torch.where(small, positive + _SHIFT, positive)
    product = torch.ones_like(x)
    for step in range(_SHIFT):
        product = product * (torch.where(small, positive, 1.0) + step)
    inverse = 1 / z
    square = inverse * inverse
    series = inverse * (1 / 12 + square * (-1 / 360 + square / 1260))
    half = z - 0.5
    found = half * (z.log() - 1) - 0.5 + 0.5 * math.log(2 * math.pi) + series
    found = torch.where(small, found - product.log(), found)
    part = (x - x.floor()) * math.pi
    found = torch.where(mirrored, math.log(math.pi) - part.sin().abs().log() - found, found)
    return torch.where(positive == math.inf, math.inf, found)


def digamma(x: Any) -> Any:
    """The derivative of the logarithm of the gamma function. It has no value at negative integers."""
    torch, x = _torch(), _float(x)
    mirrored = x < 0.5
    positive = torch.where(mirrored, 1 - x, x)
    z, below = positive + _SHIFT, torch.zeros_like(x)
    for step in range(_SHIFT):
        below = below + 1 / (positive + step)
    square = 1 / (z * z)
    found = z.log() - 0.5 / z - square * (1 / 12 - square * (1 / 120 - square / 252)) - below
    part = x - x.round()
    mirror = found - math.pi / (part * math.pi).tan()
    mirror = torch.where((part == 0) & (x < 0), math.nan, mirror)
    return torch.where(mirrored, torch.where(x == 0, -1 / x, mirror), found)


_NEAR = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_FAR = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)


def inverse_error_function(x: Any) -> Any:
    """The number whose error function is x."""
    torch, x = _torch(), _float(x)
    w = -((1 - x) * (1 + x)).log()
    is_near = w < 5
    found = _polynomial(torch.where(is_near, w - 2.5, 0.0), _NEAR)
    far = _polynomial(torch.where(is_near, 0.0, w.sqrt() - 3), _FAR)
    return torch.where(x.abs() == 1, x * math.inf, torch.where(is_near, found, far) * x)


def _polynomial(x: Any, factors: tuple[float, ...]) -> Any:
    first, *rest = factors
    found = first * x + rest[0]
    for factor in rest[1:]:
        found = found * x + factor
    return found


def sign_bit(x: Any) -> Any:
    """Whether a number is negative. Of zeros, the inverse tells them apart."""
    if not x.is_floating_point():
        return x < 0
    return _torch().where(x == 0, 1 / x, x) < 0


def with_sign(x: Any, sign: Any) -> Any:
    """The absolute value of x with the sign of another number."""
    torch, x = _torch(), _float(x)
    if not isinstance(sign, torch.Tensor):
        return -x.abs() if math.copysign(1, sign) < 0 else x.abs()
    return torch.where(sign_bit(sign), -x.abs(), x.abs())


def hypotenuse(a: Any, b: Any) -> Any:
    """The root of a * a + b * b, whose squares may be too large or too small for f32."""
    torch = _torch()
    a, b = a.abs(), b.abs()
    long, short = torch.maximum(a, b), torch.minimum(a, b)
    part = torch.where(long == 0, 0.0, short / long)
    return torch.where((a == math.inf) | (b == math.inf), math.inf, long * (1 + part * part).sqrt())


def greater_number(a: Any, b: Any) -> Any:
    """The greater of two numbers, or the one that is not NaN."""
    return _number(a, b, _torch().maximum(a, b))


def less_number(a: Any, b: Any) -> Any:
    """The less of two numbers, or the one that is not NaN."""
    return _number(a, b, _torch().minimum(a, b))


def _number(a: Any, b: Any, chosen: Any) -> Any:
    torch = _torch()
    return torch.where(a.isnan(), b, torch.where(b.isnan(), a, chosen))
