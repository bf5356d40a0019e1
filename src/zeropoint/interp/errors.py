"""What can be wrong with a program that is to be run, with the arrays given to it, and with what it computes."""

from __future__ import annotations

from zeropoint.errors import Error
from zeropoint.ir.arguments import InputError

__all__ = ["CheckFailed", "ExecutionError", "InputError", "UnsupportedError"]


class UnsupportedError(Error, ValueError):
    """The program holds ops that the interpreter has no semantics for; each is named with its location."""


class ExecutionError(Error):
    """A run cannot go on: processes wait for each other, or for one that there is not."""


class CheckFailed(Error):
    """What a program says of a value does not hold: the function, the op with its place, found and expected."""
