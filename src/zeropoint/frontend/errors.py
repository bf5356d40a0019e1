"""Errors of the frontends: for a model, and for a single node."""

from __future__ import annotations

from zeropoint.errors import Error


class ModelError(Error, ValueError):
    """A model file cannot be read or contains something unsupported.

    The text is a single line, even if a broken file has line breaks in its names. `inputs_to_fix` are inputs of the
    model that must be made constants, because shapes, axes or the like depend on them.
    """

    def __init__(self, message: str, inputs_to_fix: tuple[str, ...] = ()):
        self.inputs_to_fix = inputs_to_fix
        printable = "".join(letter if letter.isprintable() else " " for letter in message)
        super().__init__(" ".join(printable.split()))


class NodeError(Error, ValueError):
    """A node cannot be converted. The message says what was found and expected.

    `tensor` is the name of an input that is computed but must be constant.
    """

    def __init__(self, message: str = "", tensor: str | None = None):
        self.tensor = tensor
        super().__init__(message)
