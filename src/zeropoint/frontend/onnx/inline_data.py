"""Reads a large ONNX file without its large weights, which become external data in the same file.

protobuf holds a file as a whole, once more while it reads it, and the weights a third time as Python's bytes. So the
weights of large files are skipped: where their bytes are is all that is kept, and they are memory-mapped as those of a
data file. The format, https://protobuf.dev/programming-guides/encoding: a message is a list of fields, each with a
varint of its number and its kind; fields of one number are merged, whatever is between them.
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
"""Files of fewer bytes are read as they are."""
LARGE_TENSOR = 1 << 16
"""Bytes of weights that are worth an entry of their own."""
_MODEL_GRAPH, _GRAPH_INITIALIZER, _TENSOR_RAW_DATA = 7, 5, 9
"""Numbers of fields in onnx.proto."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Kinds of fields."""
_LONGEST_VARINT = 10


class _Foreign(Exception):
    """Bytes that are not fields; protobuf says what is wrong with them."""


@dataclass(frozen=True)
class _Field:
    """A field of a message in a file: all of it is from `start` to `end`; `content` is where its value begins."""

    number: int
    kind: int
    start: int
    content: int
    end: int


def model_of(path: Path) -> ModelProto:
    """The model in a file, large weights as references. Raises OSError; DecodeError if the file is not a model."""
    found = large_model(path, path.parent)
    return onnx.load_model_from_string(path.read_bytes(), "protobuf") if found is None else found


def large_model(path: Path, folder: Path) -> ModelProto | None:
    """The model in a large file, with references to its large weights.

    None for a small file, one that is not in `folder` itself, such as a link, and one that is not a model.
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
    """A large initializer, its data in the file `name`; None for any other field of a graph."""
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
    """The fields of a message. Raises _Foreign for bytes that are none."""
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
    """A number of seven bits a byte, the low ones first, and where it ends. Raises _Foreign if it does not."""
    value = 0
    for place in range(start, min(end, start + _LONGEST_VARINT)):
        value |= (data[place] & 0x7F) << (7 * (place - start))
        if data[place] < 0x80:
            return value, place + 1
    raise _Foreign
