"""The report as data: one record per section, each read from the program or measured by `zeropoint.measure`."""

from zeropoint.report.document.build import Document, ReportParts, document
from zeropoint.report.document.graph import ReportGraph, ReportNode, graph_of
from zeropoint.report.document.measurements import (
    Header,
    Histogram,
    NodeValues,
    Noise,
    RuleTrial,
    SectionNote,
    Time,
    Worst,
)

__all__ = [
    "Document",
    "Header",
    "Histogram",
    "NodeValues",
    "Noise",
    "ReportGraph",
    "ReportNode",
    "ReportParts",
    "RuleTrial",
    "SectionNote",
    "Time",
    "Worst",
    "document",
    "graph_of",
]
