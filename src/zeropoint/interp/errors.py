"""Errors of programs that cannot run, of runs, and of failed checks."""

from __future__ import annotations

from zeropoint.errors import Error
from zeropoint.ir.arguments import InputError

__all__ = ["CheckFailed", "ExecutionError", "InputError", "TripsExceeded", "UnsupportedError"]


class UnsupportedError(Error, ValueError):
    """The program has ops that the interpreter does not support. The message names each with its location."""


class ExecutionError(Error):
    """A run cannot continue.

    Processes wait for each other or for a process that does not exist, or a computed multiplier is out of range.
    """


class TripsExceeded(ExecutionError):
    """The loops of a run make more trips than the limit."""


class CheckFailed(Error):
    """A program's check failed. The message has the function, the op with its position, found and expected values."""
