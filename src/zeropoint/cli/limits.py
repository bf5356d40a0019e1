"""`--max-memory 8G` and `--max-trips N`: resource limits for a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from zeropoint.errors import OptionError
from zeropoint.limits import bytes_of, limited

if TYPE_CHECKING:
    from zeropoint.ir.program import Program

_TRIPS = "zeropoint.trips"

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


class Bytes(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] (not generic before click 8.2)
    """`512M`, `8G`, or a number of bytes."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of bytes."""
        try:
            return bytes_of(value)
        except OptionError as error:
            self.fail(str(error), param, ctx)


def _memory(context: click.Context, parameter: click.Parameter, value: int | None) -> None:
    if value is not None:
        context.with_resource(limited(memory=value))


def _trips(context: click.Context, parameter: click.Parameter, value: int | None) -> None:
    if value is not None:
        context.meta[_TRIPS] = value
        context.with_resource(limited(trips=value))


_OPTIONS = (
    click.option(
        "--max-memory",
        type=Bytes(),
        metavar="SIZE",
        expose_value=False,
        callback=_memory,
        help="Maximum size of a tensor: 512M, 8G.  [default: half of this machine's memory]",
    ),
    click.option(
        "--max-trips",
        type=click.IntRange(min=1),
        metavar="N",
        expose_value=False,
        callback=_trips,
        help="Maximum number of loop iterations in a run, over all loops.  [default: 1000000]",
    ),
)


def limit_options(command: CommandT) -> CommandT:
    """Add both options to a command; the limits apply while it runs."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def check_loops(*programs: Program) -> None:
    """Reject `--max-trips` for programs without a loop, where it has no effect."""
    from zeropoint.options import check_trips

    check_trips(click.get_current_context().meta.get(_TRIPS), *programs)
