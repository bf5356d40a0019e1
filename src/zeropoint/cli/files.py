"""Files named on the command line: parameter types, checks before any work, and reading of program text."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from zeropoint.cli.refusals import fail
from zeropoint.cli.verbosity import summary_beside
from zeropoint.errors import check_regular
from zeropoint.ir.outputs import check_folder, descriptor, is_stream, remove_leftovers


class _Output(click.Path):  # pyright: ignore[reportMissingTypeArgument] (not generic at run time)
    """The path of an output. `-` means standard output and becomes `/dev/stdout`; `./-` is a file called `-`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path. Raises click.BadParameter."""
        is_stream = value == "-"
        if is_stream and not self.file_okay:
            self.fail("found '-', standard output, expected a folder", param, ctx)
        return super().convert("/dev/stdout" if is_stream else value, param, ctx)


INPUT_FILE = click.Path(path_type=Path)
OUTPUT_FILE = _Output(path_type=Path, dir_okay=False)
OUTPUT_FOLDER = _Output(path_type=Path, file_okay=False)
OUTPUT = _Output(path_type=Path)
"""A file, or a folder of programs for several shapes."""
TEXT_SUFFIXES = (".mlir", ".json", ".html", ".md")


def check_output(path: Path, suffixes: tuple[str, ...], *inputs: Path | None, text: bool = False) -> None:
    """Reject an output that cannot be written or is one of the inputs, before any work is done.

    Empty `suffixes` allows any suffix. With `text`, the output may also be a pipe or a device, which needs no suffix.
    Temporary files that killed processes left in the output's folder are removed.
    """
    if text and is_stream(path) and path.suffix in ("", *TEXT_SUFFIXES):
        if path in inputs and descriptor(path) is not None:
            fail(f"{path}: found the stream of another output, expected a file or another stream")
        summary_beside(path)
        return
    if suffixes and not (path.suffix and path.name.endswith(suffixes)):
        fail(f"{path}: found suffix '{path.suffix}', expected {' or '.join(suffixes)}")
    check_folder(path)
    for given in inputs:
        if given is not None and path.exists() and given.exists() and path.samefile(given):
            fail(f"{path}: found the input as the output, expected another name")
        if given is not None and path.exists() and given.suffix.lower() == ".onnx" and _holds_weights(path, given):
            fail(f"{path}: found a file with weights of {given} as the output, expected another name")
    remove_leftovers(path.parent)


def _holds_weights(path: Path, model: Path) -> bool:
    """Whether the existing file `path` holds external data of an ONNX model."""
    from zeropoint.frontend.onnx.external_files import external_files

    named = [model.parent / location for location in external_files(model) if "\0" not in location]
    return any(os.path.exists(each) and path.samefile(each) for each in named)


def program_text(file: Path) -> tuple[str, str]:
    """The text of a file or of standard input, and its name for messages."""
    if str(file) == "-":
        return _standard_input(), "<stdin>"
    # A pipe is allowed only where it is known to end: `<(...)` of a shell, and standard input.
    if not file.is_relative_to("/dev/fd") and file != Path("/dev/stdin"):
        check_regular(file)
    try:
        return file.read_text(encoding="utf-8"), str(file)
    except UnicodeDecodeError:
        fail(f"{file}: found bytes that are not text, expected MLIR")


def _standard_input() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        fail("standard input: found bytes that are not text, expected MLIR")
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard input") from error


def weights_of(file: Path) -> Any:
    """The weights stored next to a program; empty for standard input."""
    from zeropoint.ir.files import weights_beside
    from zeropoint.ir.weights import Weights

    return Weights() if str(file) == "-" else weights_beside(file)
