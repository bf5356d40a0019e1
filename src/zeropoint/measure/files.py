"""Write a report: the page, the document behind it, or files for Model Explorer."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from zeropoint.errors import OptionError
from zeropoint.ir.outputs import is_stream, made_folder, write_atomically, write_together
from zeropoint.ir.program import Program
from zeropoint.report.document import Document
from zeropoint.report.model_explorer import files
from zeropoint.report.page import page

SUFFIXES = (".html", ".json")
"""The page for people, and the document for tools."""


def check_suffix(path: Path) -> None:
    """Raise OptionError for a path that is not `NAME.html`, `NAME.json`, a pipe or a device."""
    if path.suffix not in SUFFIXES and not (is_stream(path) and not path.suffix):
        raise OptionError(f"{path}: found suffix '{path.suffix}', expected {' or '.join(SUFFIXES)}")


def write_report(document: Document, path: Path) -> None:
    """Write `NAME.html` or `NAME.json`. A pipe or a device without a suffix gets the page.

    Raises OptionError for any other suffix. Passes on OSError.
    """
    check_suffix(path)
    text = document.json() if path.suffix == ".json" else page(document)
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_model_explorer(document: Document, program: Program, folder: Path) -> list[Path]:
    """Write the graph of the program and its node data for Model Explorer, and return the paths. Passes on OSError."""
    made_folder(folder)
    texts = {folder / name: text for name, text in files(document, program).items()}
    write_together({path: partial(_write, text=text) for path, text in texts.items()})
    return list(texts)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
