"""The metadata of files that zeropoint exported: the target and the profile that they were quantized for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import DictionaryAttr, StringAttr

from zeropoint.errors import json_object, reading
from zeropoint.frontend.errors import ModelError
from zeropoint.ir.annotations import ORIGIN
from zeropoint.ir.program import Program

KEY = "zeropoint"
"""The key of the metadata, whose value is JSON."""


@dataclass(frozen=True)
class Origin:
    """The target and the profile of an exported program."""

    target: str
    profile: str


def origin_of(path: Path) -> Origin | None:
    """The origin of a .onnx or .tflite file; None for a file that zeropoint did not export.

    Raises ModelError for a .tflite file whose tables are broken, and if the file cannot be read.
    """
    try:
        with reading(path, ModelError):
            found = _metadata(path)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ModelError as error:
        raise error if str(error).startswith(str(path)) else ModelError(f"{path}: {error}") from error
    target, profile = found.get("target"), found.get("profile")
    return Origin(target, profile) if isinstance(target, str) and isinstance(profile, str) else None


def origin_in(program: Program) -> Origin | None:
    """The origin of a program from a StableHLO file; None if zeropoint did not export it."""
    stated = program.module.attributes.get(ORIGIN)
    if not isinstance(stated, DictionaryAttr):
        return None
    target, profile = stated.data.get("target"), stated.data.get("profile")
    return (
        Origin(target.data, profile.data)
        if isinstance(target, StringAttr) and isinstance(profile, StringAttr)
        else None
    )


def _metadata(path: Path) -> Mapping[str, Any]:
    if path.suffix == ".tflite":
        from zeropoint.frontend.litert.reader import read_model  # imports flatbuffers, needed only here

        return read_model(path.read_bytes()).metadata
    if path.suffix != ".onnx":
        return {}
    from google.protobuf.message import DecodeError

    from zeropoint.frontend.onnx.inline_data import model_of  # imports onnx, needed only here

    try:
        properties = model_of(path).metadata_props
    except DecodeError:
        return {}
    return metadata_among(properties)


def metadata_among(properties: Iterable[Any]) -> Mapping[str, Any]:
    """The metadata among the properties of an ONNX model; empty for a file that zeropoint did not export."""
    return next((json_object(entry.value) for entry in properties if entry.key == KEY), dict[str, Any]())
