"""`--mask`, an option of commands that observe or compare values."""

from __future__ import annotations

import click

MASK = click.option(
    "--mask",
    default=None,
    metavar="INPUT",
    help="An input that is 0 at padding, such as attention_mask; padded positions are ignored.",
)
