"""`--data` and `--preprocess`: the source of samples."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from zeropoint.ir.program import Program

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


def data_sources(preprocess: str | None, *paths: Path | None) -> list[Any]:
    """The data at each path. `preprocess` applies to folders of images, if there are any. Raises DataError."""
    some_folder = any(path is not None and path.is_dir() for path in paths)
    return [
        None if path is None else data_source(path, preprocess if path.is_dir() or not some_folder else None)
        for path in paths
    ]


def loaded(
    model: Path, shapes: dict[str, tuple[int, ...]], source: Any, constants: dict[str, bool | int | float] | None = None
) -> Program:
    """The float program of a model. An error about dynamic shapes suggests those of the data. Raises ModelError."""
    from zeropoint.calibrate import shapes_in
    from zeropoint.frontend import DynamicShapes, load_model

    try:
        return load_model(model, shapes, constants)
    except DynamicShapes as error:
        raise DynamicShapes(error.found, error.inputs, shapes_in(source, list(error.inputs))) from None
