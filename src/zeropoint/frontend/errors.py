"""The error of every frontend, and that of a node inside of one."""

from __future__ import annotations

from zeropoint.errors import Error


class ModelError(Error, ValueError):
    """A model file that cannot be read or holds something unsupported.

    Its text is one line for the user, whatever a broken file has in its names. `inputs_to_fix` are inputs of the model
    that would have to be constants, because shapes, axes or the like depend on them.
    """

    def __init__(self, message: str, inputs_to_fix: tuple[str, ...] = ()):
        self.inputs_to_fix = inputs_to_fix
        printable = "".join(letter if letter.isprintable() else " " for letter in message)
        super().__init__(" ".join(printable.split()))


class NodeError(Error, ValueError):
    """What keeps a node from being converted: found, and expected.

    `tensor` is the name of an input that is computed and would have to be constant.
    """

    def __init__(self, message: str = "", tensor: str | None = None):
        self.tensor = tensor
        super().__init__(message)
