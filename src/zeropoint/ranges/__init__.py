"""Ranges: what every integer of a program can be, and whether what computes it holds it."""

from zeropoint.ranges.analysis import Ranges
from zeropoint.ranges.interval import Interval
from zeropoint.ranges.obligations import Obligation, bits_of, obligations
from zeropoint.ranges.rules import ranges_of

__all__ = ["Interval", "Obligation", "Ranges", "bits_of", "obligations", "ranges_of"]
