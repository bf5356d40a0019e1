"""Propagation: the parameters of every port, by the target's table."""

from zeropoint.solve.propagate.classes import MissingStatistics
from zeropoint.solve.propagate.propagate import FACTS, FLOAT_REASON, RESCALE, is_quantized, propagate

__all__ = ["FACTS", "FLOAT_REASON", "RESCALE", "MissingStatistics", "is_quantized", "propagate"]
