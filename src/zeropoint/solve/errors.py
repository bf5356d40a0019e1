"""The errors of propagation."""

from __future__ import annotations

from xdsl.ir import Operation

from zeropoint.errors import Error


class PropagationError(Error, ValueError):
    """Parameters that cannot be decided, with the name and place of the value or kernel. `op` says the place."""

    def __init__(self, message: str, op: Operation | None = None):
        super().__init__(message)
        self.op = op


class MissingStatistics(PropagationError):
    """Parameters have to be decided for a value that nobody observed."""
