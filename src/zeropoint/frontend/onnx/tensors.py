"""Tensors of an ONNX file as NumPy arrays, without a Python object per element.

External data is memory-mapped and read when it is first used. `raw_data` is not copied.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import cast

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import uses_external_data
from xdsl.dialects.builtin import IntegerType, Signedness, f32
from xdsl.ir import Attribute

from zeropoint.frontend.errors import ModelError
from zeropoint.ir.mapped import map_file
from zeropoint.ir.tensors import Array, dtype_element, element_dtype

WIDE_AND_NARROW_FLOATS = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float64))
"""Floats that a program holds as f32. Quantization starts from f32, and f32 represents every f16 and bf16 number."""
SHORT_INTEGERS = {
    "int2": (2, Signedness.SIGNLESS),
    "int4": (4, Signedness.SIGNLESS),
    "uint2": (2, Signedness.UNSIGNED),
    "uint4": (4, Signedness.UNSIGNED),
}
"""Width and signedness of integers below 8 bits, by dtype name."""


_NOT_HELD = frozenset(
    {TensorProto.UNDEFINED, TensorProto.STRING, TensorProto.FLOAT8E8M0}  # StableHLO has no arithmetic on f8E8M0FNU
)


PACKED = frozenset({*SHORT_INTEGERS, "float4_e2m1fn"})
"""Element types of which a byte of the file holds several."""


def is_held(data_type: int) -> bool:
    """Whether a program can have tensors of ONNX's `data_type`."""
    return data_type in TensorProto.DataType.values() and data_type not in _NOT_HELD


def program_element(data_type: int) -> Attribute:
    """The program's element type for tensors of ONNX's `data_type`: f32 for floats of 16 to 64 bits.

    Raises ModelError for a type that a program cannot hold (strings).
    """
    if not is_held(data_type):
        known = data_type in TensorProto.DataType.values()
        name = TensorProto.DataType.Name(data_type) if known else str(data_type)
        raise ModelError(f"found element type {name}, expected a float, an integer or a boolean")
    return element_of_dtype(helper.tensor_dtype_to_np_dtype(data_type))


def element_of_dtype(dtype: np.dtype[np.generic]) -> Attribute:
    """The program's element type for arrays of a dtype."""
    if dtype in WIDE_AND_NARROW_FLOATS:
        return f32
    if dtype.name in SHORT_INTEGERS:
        width, signedness = SHORT_INTEGERS[dtype.name]
        return IntegerType(width, signedness)
    return dtype_element(dtype)


def as_program_array(array: Array) -> Array:
    """The array in the program's dtype: f32 for floats, 8 bits for integers of 2 and 4 bits."""
    element = element_of_dtype(array.dtype)
    return array.astype(element_dtype(element)) if array.dtype != element_dtype(element) else array


def integer_of(element: Attribute) -> IntegerType | None:
    """The element type if it is an integer type, else None."""
    return cast("IntegerType", element) if isinstance(element, IntegerType) else None


def read_tensor(tensor: TensorProto, folder: Path) -> Array:
    """The array of a tensor in the file's dtype. `folder` contains external data.

    Raises ModelError for data that is missing, too short, or outside the folder.
    """
    if not is_held(tensor.data_type):
        program_element(tensor.data_type)
    if uses_external_data(tensor):
        return _external(tensor, folder)
    dtype, shape = _dtype_and_shape(tensor)
    if min(shape, default=0) < 0:
        raise ModelError(f"tensor '{tensor.name}': found shape {list(shape)}, expected no negative size")
    expected = prod(shape) * dtype.itemsize
    if tensor.HasField("raw_data") and dtype.name not in PACKED:
        data = tensor.raw_data
        if len(data) != expected:
            raise ModelError(
                f"tensor '{tensor.name}': found {len(data)} bytes of data, expected {expected} for shape {list(shape)}"
            )
        return np.frombuffer(data, dtype.newbyteorder("<")).reshape(shape)
    try:
        return numpy_helper.to_array(tensor)
    except ValueError as error:
        raise ModelError(
            f"tensor '{tensor.name}': found data that does not fill shape {list(shape)}, expected as many elements; "
            "save the model again"
        ) from error


def _dtype_and_shape(tensor: TensorProto) -> tuple[np.dtype[np.generic], tuple[int, ...]]:
    return helper.tensor_dtype_to_np_dtype(tensor.data_type), tuple(tensor.dims)


def _external(tensor: TensorProto, folder: Path) -> Array:
    """The part of a data file that a tensor refers to, memory-mapped."""
    path, start = _external_data(tensor, folder)
    dtype, shape = _dtype_and_shape(tensor)
    if not prod(shape):
        return np.empty(shape, dtype)
    found = path.stat()
    data = _mapped(path, found.st_mtime_ns, found.st_size, found.st_ino)
    return data[start : start + prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


@lru_cache(maxsize=4)
def _mapped(path: Path, *_: int) -> Array:
    """The bytes of a file, mapped once, because a process may have only some ten thousand mappings."""
    return map_file(path)


def check_external(tensor: TensorProto, folder: Path) -> None:
    """Check a tensor's external data reference.

    Raises ModelError for a file that is not in the model's folder or below it, is not a regular file, or is too short.
    """
    if is_held(tensor.data_type):
        _external_data(tensor, folder)


def _external_data(tensor: TensorProto, folder: Path) -> tuple[Path, int]:
    """The data file of a tensor and the offset in bytes. A model may only read files in its folder or below."""
    name = tensor.name
    entries = _external_entries(tensor)
    location, start = entries.get("location", ""), _bytes(entries, "offset", tensor) or 0
    try:
        path = (folder / location).resolve()
        inside, is_file = path.is_relative_to(folder.resolve()), path.is_file()
    except (OSError, RuntimeError, ValueError) as error:  # a cycle of links; too long; a NUL in the name
        shown = f"tensor '{name}': external data {location!r:.60}"
        if isinstance(error, RuntimeError):
            raise ModelError(f"{shown} is a cycle of symbolic links, expected a regular file") from error
        raise ModelError(f"{shown} is not a valid file name, expected the name of a file") from error
    if not inside:
        raise ModelError(
            f"tensor '{name}': external data '{location}' lies outside the model's folder, expected a file inside; "
            "save the model with its data beside it"
        )
    if inside and path.exists() and not is_file:
        raise ModelError(
            f"tensor '{name}': external data '{location}' is a folder, a pipe or a device, expected a regular file"
        )
    if not is_file:
        raise ModelError(
            f"tensor '{name}': found no file '{location}' beside the model, which holds its data; copy it there"
        )
    dtype, shape = _dtype_and_shape(tensor)
    if min(shape, default=0) < 0:
        raise ModelError(f"tensor '{name}': found shape {list(shape)}, expected no negative size")
    size, ends = prod(shape) * dtype.itemsize, path.stat().st_size
    if _bytes(entries, "length", tensor) not in (None, size):
        raise ModelError(
            f"tensor '{name}': found length {entries['length']} of its external data, expected {size} bytes for shape "
            f"{list(shape)}"
        )
    if start + size > ends:
        raise ModelError(f"tensor '{name}': '{location}' ends at byte {ends}, expected {start + size}")
    return path, start


def _external_entries(tensor: TensorProto) -> dict[str, str]:
    """Where a tensor's data is, by key: `location`, `offset`, `length`. Other keys are ignored."""
    found: dict[str, str] = {}
    for entry in tensor.external_data:
        if entry.key in found:
            raise ModelError(
                f"tensor '{tensor.name}': found '{entry.key}' of its external data twice, expected it once"
            )
        found[entry.key] = entry.value
    return found


def _bytes(entries: Mapping[str, str], key: str, tensor: TensorProto) -> int | None:
    """An entry as a number of bytes; None if it is absent or empty."""
    text = entries.get(key, "")
    if text and not re.fullmatch("[0-9]{1,19}", text):
        raise ModelError(
            f"tensor '{tensor.name}': found {key} '{text:.40}' of its external data, expected a number of bytes"
        )
    return int(text) if text else None
