"""Materialization: regions with specs to quantized StableHLO."""

from zeropoint.solve.materialize.express_accumulators import express_accumulators
from zeropoint.solve.materialize.insert_casts import insert_casts
from zeropoint.solve.materialize.materialize import materialize
from zeropoint.solve.materialize.transform import transform

__all__ = ["express_accumulators", "insert_casts", "materialize", "transform"]
