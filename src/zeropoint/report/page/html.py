"""Puts the page together: template, style, libraries, scripts and the document, all in one file.

The document is JSON in a script element that is not executed. Text of the model reaches the page only through it, and
the scripts insert it as text, so that markup in a name has no effect. The page's content security policy forbids every
request.
"""

from __future__ import annotations

import html
import re
from importlib.resources import files

from zeropoint.report.document import Document

LIBRARIES = ("d3.min.js", "dagre.min.js", "plot.umd.min.js")
"""The files of `vendor/`, in the order of their dependencies."""
SCRIPTS = ("format", "data", "theme", "graph", "charts", "detail", "table", "summary", "export", "main")
"""The files of `scripts/`, in order. They become one script."""
_HOLE = re.compile(r"\{\{(\w+)\}\}")
_SOURCE_MAP = re.compile(r"^//# sourceMappingURL=.*$", re.MULTILINE)
"""The source map comment is removed, because developer tools would request the file that it names."""


def page(document: Document) -> str:
    """The HTML text of a report."""
    parts = {
        "title": f"{html.escape(document.header.model)} · zeropoint report",
        "style": _read("style.css"),
        "data": document.json().replace("<", "\\u003c"),  # no text can end the element
        "scripts": "\n".join(map(_script, (*map(_library, LIBRARIES), _own()))),
    }
    return _HOLE.sub(lambda hole: parts[hole[1]], _read("page.html"))


def _read(*names: str) -> str:
    return files("zeropoint.report.page").joinpath(*names).read_text(encoding="utf-8")


def _library(name: str) -> str:
    """A library with its licence, which the licence requires in every copy."""
    licence = _read("vendor", f"{name.partition('.')[0]}.LICENSE").replace("*/", "* /")
    return f"/*!\n{licence}*/\n{_SOURCE_MAP.sub('', _read('vendor', name))}"


def _own() -> str:
    inner = "\n".join(_read("scripts", f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{inner}\n}})();'


def _script(text: str) -> str:
    closed = text.replace("</script", r"<\/script")
    return f"<script>\n{closed}\n</script>"
