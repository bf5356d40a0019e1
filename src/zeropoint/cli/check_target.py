"""`zeropoint check-target`: compare the installed runtime with our prediction, row by row."""

from __future__ import annotations

from pathlib import Path

import click

from zeropoint.cli.files import OUTPUT_FILE, check_output
from zeropoint.cli.refusals import reports_errors
from zeropoint.cli.verbosity import progress, say


@click.command("check-target")
@click.argument("target")
@click.option("--kernel", "kernels", multiple=True, help="Only rows of this kernel; may be repeated.")
@click.option("--page", type=OUTPUT_FILE, help="Also write the findings as a page: NAME.md.")
@reports_errors
def check_target(target: str, kernels: tuple[str, ...], page: Path | None) -> None:
    """Run every row of TARGET's table in the installed runtime and compare its bits with the prediction.

    Each row is tested with one-op models: every storage type, per-channel and per-tensor weights, zero points in the
    middle and at the ends. Status 1: there is an unexplained difference.
    """
    from zeropoint.check_target import check_rows, finding_page, finding_table
    from zeropoint.ir.outputs import write_atomically

    if page is not None:
        check_output(page, (".md",), text=True)
    findings = list(progress()(check_rows(target, kernels), "checking"))
    click.echo(finding_table(findings))
    if page is not None:
        write_atomically(page, lambda path: path.write_text(finding_page(target, findings), encoding="utf-8"))
        say(f"wrote {page}")
    if not all(finding.is_explained for finding in findings):
        raise SystemExit(1)
