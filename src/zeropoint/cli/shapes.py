"""`--shape NAME=1x3x224x224` and `--input NAME=16000`: fix the shapes and the values of inputs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from zeropoint.cli.refusals import fail

MOST_SHAPES = 64
"""Maximum number of shapes that a list may expand to; each shape becomes a program."""


class ShapeParameter(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] (not generic before click 8.2)
    """`NAME=1x3x224x224`."""

    name = "NAME=1x3x224x224"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name and the sizes."""
        name, equals, sizes = str(value).rpartition("=")
        try:
            shape = tuple(int(size) for size in sizes.split("x"))
        except ValueError:
            shape = ()
        if not equals or not name or not shape or min(shape) < 1:
            self.fail(f"found '{value}', expected NAME=1x3x224x224 with positive sizes", param, ctx)
        return name, shape


SHAPE = click.option(
    "--shape",
    "shapes",
    multiple=True,
    type=ShapeParameter(),
    metavar="NAME=1x3x224x224",
    help="Fix the shape of an input; once for each input.",
)


class ShapesParameter(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] (not generic before click 8.2)
    """`NAME=1x128,4x128` or `NAME=1..8x128`: shapes separated by commas. `1..8` means every size from 1 to 8."""

    name = "NAME=SHAPES"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name and the shapes, in order."""
        name, equals, listed = str(value).rpartition("=")
        try:
            shapes = [shape for text in listed.split(",") for shape in _expanded(text)]
        except ValueError as error:
            self.fail(f"found '{value}', {error}", param, ctx)
        if not equals or not name:
            self.fail(f"found '{value}', {_EXPECTED}", param, ctx)
        if len(shapes) > MOST_SHAPES:
            self.fail(f"found '{value}', {len(shapes)} shapes, expected up to {MOST_SHAPES}", param, ctx)
        return name, shapes


_EXPECTED = "expected NAME=1x3x224x224 with positive sizes, a list NAME=1x64,1x128, or a range NAME=1..8x128"


def _expanded(text: str) -> list[tuple[int, ...]]:
    """The shapes that `1..8x128` stands for. Raises ValueError."""
    try:
        bounds = [[int(bound) for bound in size.split("..")] for size in text.split("x")]
    except ValueError:
        raise ValueError(_EXPECTED) from None
    if any(len(size) > 2 or size[0] < 1 or size[-1] < size[0] for size in bounds):
        raise ValueError(_EXPECTED)
    count = 1
    for size in bounds:
        count *= size[-1] - size[0] + 1
    if count > MOST_SHAPES:
        raise ValueError(f"{count} shapes, expected up to {MOST_SHAPES}")
    return list(itertools.product(*(range(size[0], size[-1] + 1) for size in bounds)))


SHAPES = click.option(
    "--shape",
    "shapes",
    multiple=True,
    type=ShapesParameter(),
    metavar="NAME=SHAPES",
    help="Fix the shape of an input, NAME=1x3x224x224; once for each input. A list, NAME=1x64,1x128, or a range, "
    "NAME=1..8x128, makes a folder of programs that share their weights.",
)


def combined(given: Sequence[tuple[str, list[tuple[int, ...]]]]) -> list[dict[str, tuple[int, ...]]]:
    """The shapes of all inputs, for each program. The lists of several inputs are paired in order.

    An input with a single shape has this shape in every program. An option that is repeated for an input adds to its
    list. Exits with status 2 if lists differ in length.
    """
    lists: dict[str, list[tuple[int, ...]]] = {}
    for name, shapes in given:
        lists.setdefault(name, []).extend(shapes)
    counts = {name: len(shapes) for name, shapes in lists.items() if len(shapes) > 1}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{count} for '{name}'" for name, count in counts.items())
        fail(f"--shape: found {found}, expected lists of one length, which are read side by side, or a single shape")
    count = max(counts.values(), default=1)
    return [{name: shapes[at % len(shapes)] for name, shapes in lists.items()} for at in range(count)]


def _number(value: str) -> tuple[str, bool | int | float] | None:
    """The name and the number of `NAME=16000`; None if the text is something else."""
    name, equals, text = value.rpartition("=")
    if not equals or not name:
        return None
    if text in ("true", "false"):
        return name, text == "true"
    for kind in (int, float):
        try:
            return name, kind(text)
        except ValueError:
            continue
    return None


class ConstantParameter(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] (not generic before click 8.2)
    """`NAME=16000`."""

    name = "NAME=NUMBER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name and the number."""
        found = _number(str(value))
        return self.fail(f"found '{value}', expected NAME=NUMBER, or NAME=true", param, ctx) if found is None else found


_CONSTANT: dict[str, Any] = {
    "multiple": True,
    "type": ConstantParameter(),
    "metavar": "NAME=NUMBER",
    "help": "Replace an input by a number; the result does not have this input.",
}
CONSTANT = click.option("--input", "--constant", "constants", **_CONSTANT)
CONSTANT_BESIDE_DATA = click.option("--constant", "constants", **_CONSTANT)
"""For a command whose `--input` names data, and takes numbers as well (`DataParameter`)."""


class DataParameter(click.Path):
    """A file or folder of data, or `NAME=16000` if there is no file of that name."""

    name = "PATH or NAME=NUMBER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, or the name and the number."""
        found = None if Path(value).exists() else _number(str(value))
        return Path(value) if found is None else found
