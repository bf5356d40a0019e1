"""Quantized programs in the files of other runtimes. The suffix says which."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from zeropoint.export.errors import ExportError
from zeropoint.ir.annotations import TARGET
from zeropoint.ir.files import write_atomically
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp

__all__ = ["FORMATS", "ExportError", "ExportOptions", "export_program"]


@dataclass(frozen=True)
class ExportOptions:
    """What a file is to look like.

    `integer_io` makes inputs and outputs storage integers instead of floats. `channels_last` lets images at inputs and
    outputs be [batch, height, width, channels], where the format wants that order inside.
    """

    integer_io: bool = False
    channels_last: bool = True


@dataclass(frozen=True)
class Format:
    """A file format: the targets whose kernels its runtime has, and what makes the bytes of a file."""

    name: str
    targets: tuple[str, ...]
    encode: Callable[[Program, ExportOptions], bytes]


def _tflite(program: Program, options: ExportOptions) -> bytes:
    from zeropoint.export.litert.model import litert_model  # imports flatbuffers, and only needed here

    return litert_model(program, integer_io=options.integer_io, channels_last=options.channels_last)


FORMATS: Mapping[str, Format] = {".tflite": Format("LiteRT", ("litert", "litert-16x8"), _tflite)}
"""By suffix."""


def export_program(program: Program, path: Path, options: ExportOptions | None = None) -> None:
    """Write a program of decided regions (`propagate`) to a file.

    Raises ExportError for a suffix without a format, a program of another stage or target, and for what the format has
    no operator for; nothing is written then.
    """
    found = FORMATS.get(path.suffix)
    if found is None:
        raise ExportError(f"{path}: found suffix '{path.suffix}', expected one of: {', '.join(FORMATS)}")
    _check_stage(program, found)
    data = found.encode(program, options or ExportOptions())
    write_atomically(path, lambda file: file.write_bytes(data))


def _check_stage(program: Program, wanted: Format) -> None:
    target = getattr(program.module.attributes.get(TARGET), "data", None)
    if target not in wanted.targets:
        raise ExportError(
            f"found a program for target {target!r}, expected one for {' or '.join(wanted.targets)}; "
            f"quantize with --target {wanted.targets[0]}"
        )
    if not any(isinstance(op, QuantizeRegionOp) for op in program.entry.ops):
        raise ExportError(
            "found a program without kernels, expected one with regions; write it with quantize --emit kernels"
        )
