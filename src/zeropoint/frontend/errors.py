"""The errors of frontends: for a model, and for a single node."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from zeropoint.errors import Error

LONG = 400
"""The letters from which the names in a message are shortened, and the rest of a list of problems is counted."""
LONG_NAME = re.compile("'([^']{28})[^']{5,}([^']{28})'")
"""A quoted name of more than 60 letters, and its ends."""


def listed(problems: Sequence[str]) -> str:
    """The first problems, at least one, and how many others there are."""
    shown, letters = 0, 0
    while shown < len(problems) and (not shown or letters + len(problems[shown]) <= LONG):
        letters += len(problems[shown])
        shown += 1
    rest = [f"and {len(problems) - shown} more"] if shown < len(problems) else []
    return "; ".join([*problems[:shown], *rest])


class ModelError(Error, ValueError):
    """A model file cannot be read or contains something unsupported.

    The text is a single line, even if names in a broken file have line breaks. Long names in a long text show their
    ends only, unless `names_whole`. `inputs_to_fix` names inputs of the model that must be made constants, because
    shapes or axes depend on them.
    """

    def __init__(self, message: str, inputs_to_fix: tuple[str, ...] = (), *, names_whole: bool = False):
        self.inputs_to_fix = inputs_to_fix
        printable = "".join(letter if letter.isprintable() else " " for letter in message)
        line = " ".join(printable.split())
        is_long = len(line) > LONG and not names_whole
        super().__init__(LONG_NAME.sub(r"'\1...\2'", line) if is_long else line)


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
        super().__init__(f"{found}; give the shape, for example: {flags} (in Python shapes={shapes})", names_whole=True)


IMAGE_SIDE, LENGTH = 224, 128
"""Usual sizes of a picture and of a sequence, for examples."""


def _example(sizes: Sequence[int | None] | None, seen: Sequence[int] | None) -> tuple[int, ...]:
    """A shape for an input. Dynamic sizes are those of the data, or usual ones. The first axis of the data counts
    samples."""
    if sizes is None:
        return (1, 3, IMAGE_SIDE, IMAGE_SIDE) if seen is None else (1, *seen[1:])
    found = [1] * len(sizes)
    if seen is not None and len(sizes) - len(seen) in (0, 1):
        found[1:] = seen[len(seen) - len(sizes) + 1 :]
    elif seen is None:
        found = _usual(sizes)
    return tuple(size if own is None else own for own, size in zip(sizes, found, strict=True))


def _usual(sizes: Sequence[int | None]) -> list[int]:
    """One sample of a picture if there are four dimensions, otherwise of a sequence.

    The samples are along the first dimension, or along the first dynamic one if that is the layers of a state.
    """
    found = [IMAGE_SIDE if len(sizes) == 4 else LENGTH] * len(sizes)
    if len(sizes) == 4 and all(size is None for size in sizes[1:]):
        found[1] = 3
    is_state = bool(sizes) and sizes[0] not in (None, 1)
    batch = next((axis for axis, size in enumerate(sizes) if size is None), 0) if is_state else 0
    if sizes:
        found[batch] = 1
    return found


class NodeError(Error, ValueError):
    """A node cannot be converted. The message says what was found and what was expected.

    `tensor` is the name of an input that is computed but must be constant.
    """

    def __init__(self, message: str = "", tensor: str | None = None):
        self.tensor = tensor
        super().__init__(message)
