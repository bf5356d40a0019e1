"""Measure what a report shows: outputs and kernels against float, values, times, and the effect of recipe rules."""

from zeropoint.measure.files import SUFFIXES, check_suffix, write_model_explorer, write_report
from zeropoint.measure.report import ReportError, ReportSources, measured_report, saved_stages, stages_of

__all__ = [
    "SUFFIXES",
    "ReportError",
    "ReportSources",
    "check_suffix",
    "measured_report",
    "saved_stages",
    "stages_of",
    "write_model_explorer",
    "write_report",
]
