"""`--max-memory 8G` and `--max-trips N`: resource limits for a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from zeropoint.limits import limited

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Bytes(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] (not generic before click 8.2)
    """`512M`, `8G`, or a number of bytes."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of bytes."""
        text = str(value).upper().removesuffix("B").removesuffix("I")
        unit = text[-1:] if text[-1:] in _UNITS else ""
        try:
            found = int(float(text.removesuffix(unit)) * _UNITS[unit])
        except (OverflowError, ValueError):
            found = 0
        if found < 1:
            self.fail(f"found '{value}', expected a size such as 512M or 8G", param, ctx)
        return found


def _memory(context: click.Context, parameter: click.Parameter, value: int | None) -> None:
    if value is not None:
        context.with_resource(limited(memory=value))


def _trips(context: click.Context, parameter: click.Parameter, value: int | None) -> None:
    if value is not None:
        context.with_resource(limited(trips=value))


_OPTIONS = (
    click.option(
        "--max-memory",
        type=Bytes(),
        metavar="SIZE",
        expose_value=False,
        callback=_memory,
        help="Size of the largest tensor allowed: 512M, 8G.  [default: half of this machine's memory]",
    ),
    click.option(
        "--max-trips",
        type=click.IntRange(min=1),
        metavar="N",
        expose_value=False,
        callback=_trips,
        help="Largest number of iterations of a `while`.  [default: 1000000]",
    ),
)


def limit_options(command: CommandT) -> CommandT:
    """Add both options to a command; the limits apply while it runs."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
