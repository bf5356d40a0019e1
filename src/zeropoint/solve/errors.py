"""The errors of propagation."""

from __future__ import annotations

from zeropoint.errors import Error


class PropagationError(Error, ValueError):
    """Parameters that cannot be decided, with the name and place of the value or kernel."""


class MissingStatistics(PropagationError):
    """Parameters have to be decided for a value that nobody observed."""
