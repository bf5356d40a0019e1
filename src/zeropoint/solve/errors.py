"""The errors of propagation."""

from __future__ import annotations

from xdsl.ir import Operation

from zeropoint.errors import Error


class PropagationError(Error, ValueError):
    """Parameters cannot be decided. The message names the value or kernel, and `op` gives its location."""

    def __init__(self, message: str, op: Operation | None = None):
        super().__init__(message)
        self.op = op


class MissingStatistics(PropagationError):
    """A value that needs parameters has no calibration statistics."""
