"""`--workers` and `--resume`, options of commands that calibrate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from zeropoint.cli.refusals import fail
from zeropoint.ir.outputs import is_stream
from zeropoint.workers import MOST_WORKERS

RESUME = click.option("--resume", is_flag=True, help="Continue an interrupted calibration.")


def workers_option(what: str) -> Callable[[Any], Any]:
    """The option `--workers`. `what` completes its help text: "Number of processes ..."."""
    return click.option(
        "--workers",
        type=click.IntRange(-1, MOST_WORKERS),
        default=1,
        show_default=True,
        help=f"Number of processes {what}; -1 for one per processor. The result is the same.",
    )


def check_workers(workers: int) -> None:
    """Exit with status 2 for 0 workers."""
    if not workers:
        fail("found --workers 0, expected one or more, or -1 for all processors")


def work_for(output: Path, workers: int, resume: bool) -> Any:
    """How calibration is distributed over processes. The journal is a hidden file beside the output, if that is a file.

    Exits with status 2 for 0 workers, and for `resume` if the output is not a file.
    """
    from zeropoint.calibrate import Work

    check_workers(workers)
    if is_stream(output):
        if resume:
            fail(f"found --resume with {output}, which has no journal beside it, expected the name of a file")
        return Work(workers)
    journal = output.with_name(f".{output.name}.journal")
    if journal.is_file() and not resume:
        click.echo(f"{journal}: found the journal of an interrupted calibration; --resume continues from it", err=True)
    return Work(workers, journal, resume)
