"""Fusion: float ops into the regions that one kernel covers."""

from zeropoint.solve.fuse.fuse import fuse

__all__ = ["fuse"]
