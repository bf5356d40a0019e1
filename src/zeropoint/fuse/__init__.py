"""Fusion: float ops into the regions that one kernel covers, and back."""

from zeropoint.fuse.fuse import fuse
from zeropoint.fuse.unfuse import unfuse

__all__ = ["fuse", "unfuse"]
