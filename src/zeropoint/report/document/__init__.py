"""The report as data: one record per section, each read from the program or measured by `zeropoint.measured`."""

from zeropoint.report.document.build import Document, Parts, document
from zeropoint.report.document.graph import Graph, Node, graph_of
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
    "Graph",
    "Header",
    "Histogram",
    "Node",
    "NodeValues",
    "Noise",
    "Parts",
    "RuleTrial",
    "SectionNote",
    "Time",
    "Worst",
    "document",
    "graph_of",
]
