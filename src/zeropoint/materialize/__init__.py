"""Materialization: rewrites regions with specs to quantized StableHLO."""

from zeropoint.materialize.cast_kernels import cast_kernels
from zeropoint.materialize.express_accumulators import express_accumulators
from zeropoint.materialize.insert_casts import insert_casts
from zeropoint.materialize.join_functions import join_functions
from zeropoint.materialize.materialize import materialize
from zeropoint.materialize.transform import transform

__all__ = ["cast_kernels", "express_accumulators", "insert_casts", "join_functions", "materialize", "transform"]
