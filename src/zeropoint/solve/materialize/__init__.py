"""Materialization: regions with specs to quantized StableHLO."""

from zeropoint.solve.materialize.materialize import materialize

__all__ = ["materialize"]
