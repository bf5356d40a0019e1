"""Explain why a value has its parameters, why a rescale exists, and why an op stays float."""

from zeropoint.report.explain.explanation import Explanation
from zeropoint.report.explain.kernels import NativeKernel, native_kernels, native_table
from zeropoint.report.explain.reaches import IntegerBounds, Reach, reaches, reaches_by_op
from zeropoint.report.explain.read import ExplanationError, explain, stands_for
from zeropoint.report.explain.records import ExplainedOutput, ExplainedValue, FloatOp, Missing, Rescale

__all__ = [
    "ExplainedOutput",
    "ExplainedValue",
    "Explanation",
    "ExplanationError",
    "FloatOp",
    "IntegerBounds",
    "Missing",
    "NativeKernel",
    "Reach",
    "Rescale",
    "explain",
    "native_kernels",
    "native_table",
    "reaches",
    "reaches_by_op",
    "stands_for",
]
