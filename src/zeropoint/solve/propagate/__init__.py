"""Propagation: the parameters of every port, by the target's table."""

from zeropoint.solve.propagate.check import check_fully_quantized, check_kernels, unquantized_ports, violations
from zeropoint.solve.propagate.classes import DEFAULT_RANGES, RANGE_RULES
from zeropoint.solve.propagate.errors import MissingStatistics, PropagationError
from zeropoint.solve.propagate.motion import move_rescales, rescale_count
from zeropoint.solve.propagate.propagate import is_quantized, propagate
from zeropoint.solve.propagate.questions import wanted_statistics
from zeropoint.solve.propagate.rescale import RESCALE_KERNEL, is_rescale

__all__ = [
    "DEFAULT_RANGES",
    "RANGE_RULES",
    "RESCALE_KERNEL",
    "MissingStatistics",
    "PropagationError",
    "check_fully_quantized",
    "check_kernels",
    "is_quantized",
    "is_rescale",
    "move_rescales",
    "propagate",
    "rescale_count",
    "unquantized_ports",
    "violations",
    "wanted_statistics",
]
