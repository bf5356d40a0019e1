"""Read a large ONNX file without its large weights, which become external data in the same file.

protobuf holds the bytes of the whole file, a second copy while it parses them, and a third copy of the weights as
Python bytes. So the large weights of large files are skipped when the file is parsed. Only their positions are kept,
and they are memory-mapped like external data.

Source: https://protobuf.dev/programming-guides/encoding. A message is a list of fields. Each begins with a varint of
its number and kind. Messages of one field number are merged, even if other fields are between them.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, helper

from zeropoint.frontend.onnx.tensors import PACKED, is_held

LARGE_FILE = 64 << 20
"""The size in bytes from which a file is read in this way."""
LARGE_TENSOR = 1 << 16
"""The size in bytes from which weights are skipped."""
_MODEL_GRAPH, _GRAPH_INITIALIZER, _TENSOR_RAW_DATA = 7, 5, 9
"""Numbers of fields in onnx.proto."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Kinds of fields."""
_LONGEST_VARINT = 10


class _Foreign(Exception):
    """Bytes that are not fields. The file is then parsed by protobuf, which reports the error."""


@dataclass(frozen=True)
class _Field:
    """A field of a message in a file. It spans the bytes from `start` to `end`; its value begins at `content`."""

    number: int
    kind: int
    start: int
    content: int
    end: int


def model_of(path: Path) -> ModelProto:
    """The model in a file, with references to its large weights.

    Raises OSError if the file cannot be read, and DecodeError if it is not a model.
    """
    found = large_model(path, path.parent)
    return onnx.load_model_from_string(path.read_bytes(), "protobuf") if found is None else found


def large_model(path: Path, folder: Path) -> ModelProto | None:
    """The model in a large file, with references to its large weights.

    None for a small file, for a file that is not a model, and for a link to a file outside of `folder`.
    """
    if path.stat().st_size < LARGE_FILE or path.resolve().parent != folder.resolve():
        return None
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return _model(data, path.resolve().name)
        except (_Foreign, DecodeError, UnicodeDecodeError, ValueError):
            return None


def _model(data: mmap.mmap, name: str) -> ModelProto:
    model = ModelProto()
    for field in _fields(data, 0, len(data)):
        if field.number != _MODEL_GRAPH or field.kind != _BYTES:
            model.MergeFromString(data[field.start : field.end])
            continue
        model.graph.SetInParent()
        begin = field.content
        for part in _fields(data, field.content, field.end):
            if (tensor := _reference(data, part, name)) is not None:
                model.graph.MergeFromString(data[begin : part.start])
                model.graph.initializer.append(tensor)
                begin = part.end
        model.graph.MergeFromString(data[begin : field.end])
    return model


def _reference(data: mmap.mmap, field: _Field, name: str) -> TensorProto | None:
    """A large initializer that refers to its data in the file `name`; None for any other field of a graph."""
    if field.number != _GRAPH_INITIALIZER or field.kind != _BYTES or field.end - field.content < LARGE_TENSOR:
        return None
    inside = [*_fields(data, field.content, field.end)]
    raw = [part for part in inside if part.number == _TENSOR_RAW_DATA]
    if len(raw) != 1 or raw[0].kind != _BYTES or (size := raw[0].end - raw[0].content) < LARGE_TENSOR:
        return None
    tensor = TensorProto()
    tensor.MergeFromString(b"".join(data[part.start : part.end] for part in inside if part is not raw[0]))
    if not is_held(tensor.data_type) or tensor.external_data or tensor.data_location:
        return None
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    if dtype.name in PACKED or min(tensor.dims, default=0) < 0 or size != prod(tensor.dims) * dtype.itemsize:
        return None
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", name), ("offset", raw[0].content), ("length", size)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def _fields(data: mmap.mmap, start: int, end: int) -> Iterator[_Field]:
    """The fields of a message. Raises _Foreign for bytes that are not fields."""
    while start < end:
        tag, content = _varint(data, start, end)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            stop = _varint(data, content, end)[1]
        elif kind == _BYTES:
            size, content = _varint(data, content, end)
            stop = content + size
        elif kind in (_FIXED64, _FIXED32):
            stop = content + (8 if kind == _FIXED64 else 4)
        else:
            raise _Foreign
        if stop > end:
            raise _Foreign
        yield _Field(number, kind, start, content, stop)
        start = stop


def _varint(data: mmap.mmap, start: int, end: int) -> tuple[int, int]:
    """A varint (7 bits per byte, the low bits first), and the position after it. Raises _Foreign if it does not end."""
    value = 0
    for place in range(start, min(end, start + _LONGEST_VARINT)):
        value |= (data[place] & 0x7F) << (7 * (place - start))
        if data[place] < 0x80:
            return value, place + 1
    raise _Foreign
