"""Writes a report: the page, or the document behind it."""

from __future__ import annotations

from pathlib import Path

from zeropoint.ir.outputs import write_atomically
from zeropoint.report.document import Document
from zeropoint.report.page import page

SUFFIXES = (".html", ".json")
"""The page for people, the document for tools."""


def check_suffix(path: Path) -> None:
    """Raise ValueError for a path that is neither `NAME.html` nor `NAME.json`."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path}: found suffix '{path.suffix}', expected {' or '.join(SUFFIXES)}")


def write_report(document: Document, path: Path) -> None:
    """Write `NAME.html` or `NAME.json`. Raises ValueError for any other suffix, OSError."""
    check_suffix(path)
    text = page(document) if path.suffix == ".html" else document.json()
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
