"""Fusion: float ops into the regions that one kernel covers, and back."""

from zeropoint.solve.fuse.fuse import fuse
from zeropoint.solve.fuse.unfuse import unfuse

__all__ = ["fuse", "unfuse"]
