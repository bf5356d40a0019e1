"""`--effort`, an option of every command that corrects."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])
EFFORTS = ("none", "fast", "balanced", "best")
"""The names of `zeropoint.correct.methods.PRESETS`, repeated here because that module is slow to import."""


def effort_option(help_: str) -> Callable[[Command], Command]:
    """The option `--effort` with the help text of one command."""
    return click.option("--effort", type=click.Choice(EFFORTS), default="balanced", show_default=True, help=help_)
