"""The report as data: one record per section, each read from the program or measured by `zeropoint.measured`."""

from zeropoint.report.document.build import Document, Parts, document
from zeropoint.report.document.graph import Graph, Node, graph_of
from zeropoint.report.document.measurements import Header, Histogram, Noise, SectionNote, Time, Trial, Values, Worst

__all__ = [
    "Document",
    "Graph",
    "Header",
    "Histogram",
    "Node",
    "Noise",
    "Parts",
    "SectionNote",
    "Time",
    "Trial",
    "Values",
    "Worst",
    "document",
    "graph_of",
]
