"""Range analysis: bounds of every integer in a program, and the proof that none overflows its type."""

from zeropoint.ranges.analysis import Ranges
from zeropoint.ranges.interval import EXACT, Interval
from zeropoint.ranges.obligations import Obligation, bits_of, obligations
from zeropoint.ranges.rules import ranges_of

__all__ = ["EXACT", "Interval", "Obligation", "Ranges", "bits_of", "obligations", "ranges_of"]
