"""Fusion: groups float ops into regions that one kernel covers, and undoes this."""

from zeropoint.fuse.fuse import fuse
from zeropoint.fuse.unfuse import unfuse

__all__ = ["fuse", "unfuse"]
