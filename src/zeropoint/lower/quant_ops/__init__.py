"""Passes on the quant dialect's own ops and types."""

from zeropoint.lower.quant_ops.canonicalize_quant import canonicalize_quant
from zeropoint.lower.quant_ops.convert_fake_quant import convert_fake_quant
from zeropoint.lower.quant_ops.lower_quant_ops import lower_quant_ops
from zeropoint.lower.quant_ops.normalize_quant_types import normalize_quant_types
from zeropoint.lower.quant_ops.strip_func_quant_types import strip_func_quant_types

__all__ = [
    "canonicalize_quant",
    "convert_fake_quant",
    "lower_quant_ops",
    "normalize_quant_types",
    "strip_func_quant_types",
]
