"""Explanation: why a value has its parameters, why a rescale is there, why an op stayed float."""

from zeropoint.report.explain.explanation import ExplanationError, explain
from zeropoint.report.explain.kernels import NativeKernel, native_kernels, native_table
from zeropoint.report.explain.reaches import Reach, range_details, range_table, reaches
from zeropoint.report.explain.records import Explanation, FloatOp, Missing, Rescale, Value
from zeropoint.report.explain.text import details, overview

__all__ = [
    "Explanation",
    "ExplanationError",
    "FloatOp",
    "Missing",
    "NativeKernel",
    "Reach",
    "Rescale",
    "Value",
    "details",
    "explain",
    "native_kernels",
    "native_table",
    "overview",
    "range_details",
    "range_table",
    "reaches",
]
