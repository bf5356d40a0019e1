"""`--data` and `--preprocess`: the source of samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

PREPROCESS = click.option(
    "--preprocess",
    default=None,
    metavar="STEPS",
    help="For data that is a folder of images: 'resize=256 crop=224 mean=0.5,0.5,0.5 std=0.5 layout=nchw'.",
)


def data_source(path: Path, preprocess: str | None) -> Any:
    """The data at a path; with `preprocess`, the images of a folder. Raises DataError."""
    if preprocess is None:
        return path
    from zeropoint.calibrate import DataError, Images

    if not path.is_dir():
        raise DataError(f"{path}: found --preprocess with a file, expected a folder of images")
    return Images(path, preprocess)
