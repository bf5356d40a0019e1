"""Passes on the quant dialect's own ops and types."""

from zeropoint.lower.quant_ops.lower_quant_ops import lower_quant_ops

__all__ = ["lower_quant_ops"]
