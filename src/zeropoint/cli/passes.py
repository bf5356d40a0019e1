"""`zeropoint opt`: passes on program text."""

from __future__ import annotations

from pathlib import Path

import click

from zeropoint.cli.files import INPUT_FILE, OUTPUT_FILE, check_output, program_text, weights_of
from zeropoint.cli.limits import limit_options
from zeropoint.cli.refusals import reports_errors


def _list_passes(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        click.echo(_listing())
        context.exit()


def _listing() -> str:
    from zeropoint.passes import listing

    return listing()


class _WithPasses(click.Command):
    """A command whose help ends with the list of passes."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(f"\n{_listing()}\n")


@click.command(cls=_WithPasses)
@click.argument("file", type=INPUT_FILE)
@click.option("-p", "--passes", default="", help="Passes in order: 'simplify,fuse,propagate{target=litert}'.")
@click.option("-o", "--output", type=OUTPUT_FILE, default=None, help="Where to write; default: the terminal.")
@click.option("--split-input-file", is_flag=True, help="Treat the parts between '// -----' lines one by one.")
@click.option("--verify-diagnostics", is_flag=True, help="Check the errors that expected-error comments announce.")
@click.option("--allow-unregistered-dialect", is_flag=True, help="Take ops of other dialects, in the generic form.")
@click.option("--generic", is_flag=True, help="Print ops in the generic form.")
@click.option("--locations", is_flag=True, help="Print locations.")
@click.option("--inline-weights", is_flag=True, help="Print large constants as a resource section.")
@click.option("--list-passes", is_flag=True, is_eager=True, expose_value=False, callback=_list_passes)
@limit_options
@reports_errors
def opt(
    file: Path,
    passes: str,
    output: Path | None,
    split_input_file: bool,
    verify_diagnostics: bool,
    allow_unregistered_dialect: bool,
    generic: bool,
    locations: bool,
    inline_weights: bool,
) -> None:
    """Run passes on the program text in FILE ('-' is the standard input), as mlir-opt does."""
    from zeropoint import opt as optimizer
    from zeropoint.ir.outputs import write_atomically

    if output is not None:
        check_output(output, (), file)
    chain = optimizer.parse_passes(passes)
    text, name = program_text(file)
    if verify_diagnostics:
        problems = optimizer.verify_diagnostics(
            text, chain, name=name, split=split_input_file, allow_unregistered=allow_unregistered_dialect
        )
        for problem in problems:
            click.echo(problem, err=True)
        raise SystemExit(1 if problems else 0)
    weights = weights_of(file)
    printed = optimizer.optimize(
        text,
        chain,
        name=name,
        weights=weights,
        split=split_input_file,
        allow_unregistered=allow_unregistered_dialect,
        generic=generic,
        locations=locations,
        inline_weights=inline_weights,
    )
    if output is None:
        click.echo(printed, nl=False)
    else:
        write_atomically(output, lambda temporary: temporary.write_text(printed))
