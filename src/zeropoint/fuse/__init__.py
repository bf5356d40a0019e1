"""Fusion: group float ops into regions that one kernel covers, and undo it."""

from zeropoint.fuse.fuse import fuse
from zeropoint.fuse.unfuse import unfuse

__all__ = ["fuse", "unfuse"]
