"""The error of every exporter."""

from __future__ import annotations

from xdsl.ir import Operation

from zeropoint.errors import Error
from zeropoint.ir.locations import describe


class ExportError(Error, ValueError):
    """A program that a format cannot represent. The message says what was found, what the format has, and the fix."""

    def __init__(self, message: str, op: Operation | None = None):
        super().__init__(message if op is None else f"{describe(op)}: {message}")
        self.op = op
