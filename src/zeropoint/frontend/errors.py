"""The errors of frontends: for a model, and for a single node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zeropoint.errors import Error


class ModelError(Error, ValueError):
    """A model file cannot be read or contains something unsupported.

    The text is a single line, even if names in a broken file have line breaks. `inputs_to_fix` names inputs of the
    model that must be made constants, because shapes or axes depend on them.
    """

    def __init__(self, message: str, inputs_to_fix: tuple[str, ...] = ()):
        self.inputs_to_fix = inputs_to_fix
        printable = "".join(letter if letter.isprintable() else " " for letter in message)
        super().__init__(" ".join(printable.split()))


class DynamicShapes(ModelError):
    """The model has inputs with dynamic dimensions.

    `inputs` has the sizes of these inputs, with None for a dynamic one; None instead of sizes if the rank is unknown.
    `seen` has the shapes of the user's data, for the example in the message.
    """

    def __init__(
        self,
        found: str,
        inputs: Mapping[str, Sequence[int | None] | None],
        seen: Mapping[str, Sequence[int]] | None = None,
    ):
        self.found, self.inputs = found, inputs
        shapes = {name: _example(sizes, (seen or {}).get(name)) for name, sizes in inputs.items()}
        flags = " ".join(f"--shape {name}={'x'.join(map(str, shape))}" for name, shape in shapes.items())
        super().__init__(f"{found}; give the shape, for example: {flags} (in Python shapes={shapes})")


def _example(sizes: Sequence[int | None] | None, seen: Sequence[int] | None) -> tuple[int, ...]:
    """A shape for an input. Dynamic sizes are those of the data, or 1. The first axis of the data counts samples."""
    if sizes is None:
        return (1, 3, 224, 224) if seen is None else (1, *seen[1:])
    found = [1] * len(sizes)
    if seen is not None and len(sizes) - len(seen) in (0, 1):
        found[1:] = seen[len(seen) - len(sizes) + 1 :]
    return tuple(size if own is None else own for own, size in zip(sizes, found, strict=True))


class NodeError(Error, ValueError):
    """A node cannot be converted. The message says what was found and what was expected.

    `tensor` is the name of an input that is computed but must be constant.
    """

    def __init__(self, message: str = "", tensor: str | None = None):
        self.tensor = tensor
        super().__init__(message)
