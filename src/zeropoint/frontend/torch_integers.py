"""Functions of integers that PyTorch's ONNX exporter lacks, with the operations that it has."""

from __future__ import annotations

import importlib
import math
from typing import Any

GOLDEN = (1 + math.sqrt(5)) / 2


def _torch() -> Any:
    return importlib.import_module("torch")


def greatest_common_divisor(a: Any, b: Any) -> Any:
    """Euclid's algorithm, with as many steps as the type may need: those of two Fibonacci numbers (Lamé)."""
    torch = _torch()
    a, b = torch.broadcast_tensors(a, b)
    kind = torch.promote_types(a.dtype, b.dtype)
    a, b = a.to(kind), b.to(kind)
    if torch.iinfo(kind).min:
        a, b = a.abs(), b.abs()
    steps = math.ceil(math.log(torch.iinfo(kind).max, GOLDEN)) + 2
    for _ in range(steps):
        is_done = b == 0
        rest = torch.fmod(a, torch.where(is_done, 1, b))
        a, b = torch.where(is_done, a, b), torch.where(is_done, b, rest)
    return a


def subtracted_from(x: Any, number: Any, alpha: Any = 1) -> Any:
    """`number - alpha * x` of integers and a real number, such as `1.0 - attention_mask`."""
    torch = _torch()
    if x.is_floating_point() or x.is_complex() or not (isinstance(number, float) or isinstance(alpha, float)):
        return NotImplemented
    kind = torch.get_default_dtype()
    return torch.full((), number, dtype=kind) - x.to(kind) * alpha
