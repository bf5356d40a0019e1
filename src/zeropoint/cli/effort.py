"""`--effort`, an option of every command that corrects."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])
EFFORTS = ("none", "fast", "balanced", "best")
"""The names of `zeropoint.correct.methods.PRESETS`, which takes long to import."""


def effort_option(help_: str) -> Callable[[Command], Command]:
    """The option, described for one command."""
    return click.option("--effort", type=click.Choice(EFFORTS), default="balanced", show_default=True, help=help_)
