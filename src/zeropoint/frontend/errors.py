"""The error of every frontend."""

from __future__ import annotations


class ModelError(ValueError):
    """A model file that cannot be read or holds something unsupported; its text is one line for the user."""
