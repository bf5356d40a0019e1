"""What can be wrong with a program that is to be run, and with the arrays given to it."""

from __future__ import annotations


class InputError(ValueError):
    """The arrays given do not fit the program's inputs: a name, a shape or a dtype."""


class UnsupportedError(ValueError):
    """The program holds ops that the interpreter has no semantics for; each is named with its location."""
