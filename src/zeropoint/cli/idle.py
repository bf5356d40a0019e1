"""Reject options that have no effect beside the other options or inputs, instead of ignoring them silently."""

from __future__ import annotations

import click
from click.core import ParameterSource

from zeropoint.cli.refusals import fail


def is_given(name: str) -> bool:
    """Whether the option is given on the command line."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def refuse_idle(*options: tuple[str, bool, str]) -> None:
    """Exit with status 2 at the first given option that has no effect.

    Each entry is (parameter name, whether it has no effect, the other option or input that causes this).
    """
    context = click.get_current_context()
    spelled = {parameter.name: parameter for parameter in context.command.params}
    for name, idle, beside in options:
        if idle and is_given(name):
            found = spelled[name].opts if context.params.get(name) is not False else spelled[name].secondary_opts
            fail(f"found {found[-1]} with {beside}, where it changes nothing; leave out one of them")
