"""Propagation: the parameters of every port, by the target's table."""

from zeropoint.solve.propagate.classes import RANGE_RULES
from zeropoint.solve.propagate.errors import MissingStatistics, PropagationError
from zeropoint.solve.propagate.propagate import is_quantized, propagate
from zeropoint.solve.propagate.rescale import RESCALE_KERNEL, is_rescale

__all__ = [
    "RANGE_RULES",
    "RESCALE_KERNEL",
    "MissingStatistics",
    "PropagationError",
    "is_quantized",
    "is_rescale",
    "propagate",
]
