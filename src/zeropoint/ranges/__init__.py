"""Range analysis: bounds on every integer of a program, and the proof that none overflows its type."""

from zeropoint.ranges.analysis import Ranges
from zeropoint.ranges.control import ops_of
from zeropoint.ranges.interval import EXACT, Interval
from zeropoint.ranges.obligations import OBLIGATIONS, Obligation, bits_of, obligations, pair_sums
from zeropoint.ranges.rules import ranges_of

__all__ = [
    "EXACT",
    "OBLIGATIONS",
    "Interval",
    "Obligation",
    "Ranges",
    "bits_of",
    "obligations",
    "ops_of",
    "pair_sums",
    "ranges_of",
]
