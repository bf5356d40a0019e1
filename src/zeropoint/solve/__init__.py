"""Propagation: choose the quantization parameters of every port from the target's kernel table."""

from zeropoint.solve.bodies import check_bodies, check_body
from zeropoint.solve.check import check_fully_quantized, check_kernels, unquantized_ports, violations
from zeropoint.solve.classes import DEFAULT_RANGES, RANGE_RULES
from zeropoint.solve.coarse_inside import is_coarse_inside
from zeropoint.solve.composed import is_composed, why_not_derived
from zeropoint.solve.constraints import drop_inside
from zeropoint.solve.errors import MissingStatistics, PropagationError
from zeropoint.solve.move_rescales import move_rescales, rescale_count
from zeropoint.solve.propagate import is_quantized, propagate
from zeropoint.solve.rescale import RESCALE_KERNEL, is_rescale
from zeropoint.solve.wanted_statistics import wanted_statistics

__all__ = [
    "DEFAULT_RANGES",
    "RANGE_RULES",
    "RESCALE_KERNEL",
    "MissingStatistics",
    "PropagationError",
    "check_bodies",
    "check_body",
    "check_fully_quantized",
    "check_kernels",
    "drop_inside",
    "is_coarse_inside",
    "is_composed",
    "is_quantized",
    "is_rescale",
    "move_rescales",
    "propagate",
    "rescale_count",
    "unquantized_ports",
    "violations",
    "wanted_statistics",
    "why_not_derived",
]
