"""`--shape NAME=1x3x224x224`, `--constant NAME=16000`: fixing the shapes and the values of inputs."""

from __future__ import annotations

from typing import Any

import click


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


class ConstantParameter(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] (not generic before click 8.2)
    """`NAME=16000`."""

    name = "NAME=NUMBER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name and the number."""
        name, equals, text = str(value).rpartition("=")
        if equals and name and text in ("true", "false"):
            return name, text == "true"
        for kind in (int, float):
            try:
                if equals and name:
                    return name, kind(text)
            except ValueError:
                continue
        return self.fail(f"found '{value}', expected NAME=NUMBER, or NAME=true", param, ctx)


CONSTANT = click.option(
    "--constant",
    "constants",
    multiple=True,
    type=ConstantParameter(),
    metavar="NAME=NUMBER",
    help="Replace an input by a number; the result does not have this input.",
)
