"""Options that change nothing with the others that were given: an error, so that nobody believes they did."""

from __future__ import annotations

import click
from click.core import ParameterSource

from zeropoint.cli.refusals import fail


def refuse_idle(*options: tuple[str, bool, str]) -> None:
    """Leave with status 2 for the first option that was given and changes nothing.

    Each is a parameter of the command, whether it changes nothing, and beside which other option or input that is so.
    """
    context = click.get_current_context()
    spelled = {parameter.name: parameter.opts[-1] for parameter in context.command.params}
    for name, idle, beside in options:
        if idle and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            fail(f"found {spelled[name]} with {beside}, where it changes nothing; leave out one of them")
