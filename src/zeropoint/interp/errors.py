"""Errors of programs that cannot be run, of their runs, and of failed checks."""

from __future__ import annotations

from zeropoint.errors import Error
from zeropoint.ir.arguments import InputError

__all__ = ["CheckFailed", "ExecutionError", "InputError", "TripsExceeded", "UnsupportedError"]


class UnsupportedError(Error, ValueError):
    """The program holds ops that the interpreter has no semantics for; each is named with its location."""


class ExecutionError(Error):
    """A run cannot continue: processes wait for each other, or for a process that does not exist; or a multiplier that
    is computed is out of range."""


class TripsExceeded(ExecutionError):
    """The loops of a run make more trips than the limit."""


class CheckFailed(Error):
    """A program's check failed. The message has the function, the op with its position, found and expected values."""
