"""The error of every frontend."""

from __future__ import annotations


class ModelError(ValueError):
    """A model file that cannot be read or holds something unsupported.

    Its text is one line for the user, whatever a broken file has in its names.
    """

    def __init__(self, message: str):
        printable = "".join(letter if letter.isprintable() else " " for letter in message)
        super().__init__(" ".join(printable.split()))
