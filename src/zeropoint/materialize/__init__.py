"""Materialization: rewrites regions with specs to quantized StableHLO."""

from zeropoint.materialize.express_accumulators import express_accumulators, express_results
from zeropoint.materialize.insert_casts import insert_casts
from zeropoint.materialize.materialize import materialize
from zeropoint.materialize.take_types import take_types
from zeropoint.materialize.transform import transform
from zeropoint.materialize.widen_terms import widen_terms

__all__ = [
    "express_accumulators",
    "express_results",
    "insert_casts",
    "materialize",
    "take_types",
    "transform",
    "widen_terms",
]
