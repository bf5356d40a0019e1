"""`--observer`, an option of every command that calibrates."""

from __future__ import annotations

import click

OBSERVER = click.option(
    "--observer",
    default="output",
    show_default=True,
    help="How observed values become a range: output, mse, minmax, percentile:99.99, entropy, moving_average.",
)
