"""Propagation: the parameters of every port, by the target's table."""

from zeropoint.solve.propagate.classes import MissingStatistics, PropagationError
from zeropoint.solve.propagate.propagate import RESCALE_KERNEL, is_quantized, propagate

__all__ = ["RESCALE_KERNEL", "MissingStatistics", "PropagationError", "is_quantized", "propagate"]
