"""`zeropoint explain` and `zeropoint targets`: print the decisions in a program, and the kernel tables behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zeropoint.cli.files import INPUT_FILE
from zeropoint.cli.idle import refuse_idle
from zeropoint.cli.limits import check_loops, limit_options
from zeropoint.cli.refusals import fail, reports_errors
from zeropoint.cli.shapes import CONSTANT, SHAPE


@click.command()
@click.argument("model", type=INPUT_FILE)
@click.argument("value", required=False)
@click.option(
    "--target",
    default=None,
    show_default="cpu, or the target of a quantized file",
    help="Target to explain a model for; Python code in a target file is run.",
)
@click.option("--ranges", is_flag=True, help="Print bounds, bits and headroom of the values of an integer program.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--native", is_flag=True, help="Print the native kernel of every op, and why no faster one was used.")
@SHAPE
@CONSTANT
@limit_options
@reports_errors
def explain(
    model: Path,
    value: str | None,
    target: str | None,
    ranges: bool,
    as_json: bool,
    native: bool,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    constants: tuple[tuple[str, bool | int | float], ...],
) -> None:
    """Explain why VALUE has its scale, why a rescale is there, or why an op stayed float. Without VALUE: all of MODEL.

    VALUE is a name in the model, as Netron shows it: of an op, a tensor, a weight, an input or an output.

    A quantized file for a runtime is explained as the program that it states.

    With --ranges, print the bounds of each kernel's integers in the channel where they are largest. With --ranges and
    VALUE, print those of every channel, and the reason if the scale of its weights was increased. With --native and
    VALUE, print only the native kernel of that op.
    """
    import json

    refuse_idle(
        ("native", ranges, "--ranges"),
        ("target", ranges or native, "--ranges" if ranges else "--native"),
        *((name, ranges, "--ranges") for name in ("shapes", "constants")),
    )
    from zeropoint.frontend import load_model

    program = load_model(model, dict(shapes), dict(constants))
    check_loops(program)
    if target is not None:
        _check_target(target)
    stated = _stated(model, program, target)
    if ranges:
        _explain_ranges(program if stated is None else stated, value, as_json)
        return
    program = program if stated is None or native else stated
    if native:
        _explain_native(program, value, as_json)
        return
    from zeropoint.model import Model
    from zeropoint.report.tables import folded

    refuse_idle(("target", stated is None and program.profile is not None, "a program that is quantized already"))
    found = Model(program).explain(value, target=(target or "cpu") if program.profile is None else None)
    if as_json:
        click.echo(json.dumps(found.record(), indent=2))
    else:
        click.echo(folded(str(found)))


def _check_target(name: str) -> None:
    from zeropoint.targets import target as named_target

    try:
        named_target(name)
    except ValueError as error:
        fail(str(error))


def _stated(model: Path, program: Any, target: str | None) -> Any:
    """The integer program that a quantized file states; None for other models, and if the file leaves types open."""
    from zeropoint.cli.exported import quantized_stages
    from zeropoint.solve import MissingStatistics

    try:
        made = quantized_stages(model, program, target)
    except MissingStatistics:
        return None
    return None if made is None else made.integer


def _explain_native(program: Any, name: str | None, as_json: bool) -> None:
    """Print the native kernels of a model, or only those of the op or output called `name`.

    A program that was grouped before keeps its kernels. Others are grouped for this processor.
    """
    import json

    from zeropoint.codegen.group import group, noted_isa
    from zeropoint.codegen.llvm.machine import host
    from zeropoint.report.explain import native_kernels, native_table, stands_for

    grouped = program if noted_isa(program) is not None else group(program, isa=host().name)
    wanted = (name,) if name is None else (name, *stands_for(program, name))
    found = [kernel for kernel in native_kernels(grouped) if name is None or kernel.name in wanted]
    if name is not None and not found:
        fail(f"found no kernel of an op called '{name}'; leave out the name to list all kernels")
    click.echo(json.dumps([kernel.record() for kernel in found], indent=2) if as_json else native_table(found))


def _explain_ranges(program: Any, value: str | None, as_json: bool) -> None:
    import json

    from zeropoint.report.explain import IntegerBounds
    from zeropoint.report.tables import folded

    found = IntegerBounds.of(program, value)
    if as_json:
        click.echo(json.dumps(found.record(), indent=2))
    else:
        click.echo(folded(str(found)) if found.of_one else str(found))


@click.command()
@click.argument("name", required=False)
@reports_errors
def targets(name: str | None) -> None:
    """List the targets, or the kernel table of one."""
    from zeropoint.report.tables import NAMES, folded, target_list, target_table
    from zeropoint.targets import target

    try:
        click.echo(folded(target_list(), indent=NAMES) if name is None else target_table(target(name)))
    except ValueError as error:
        fail(str(error))
