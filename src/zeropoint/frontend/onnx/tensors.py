"""Tensors of an ONNX file as NumPy arrays, without a Python object per element.

External data is memory-mapped and read when it is used; `raw_data` is viewed.
"""

from __future__ import annotations

from math import prod
from pathlib import Path

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import ExternalDataInfo, uses_external_data

from zeropoint.frontend.errors import ModelError
from zeropoint.ir.tensors import Array

WIDE_AND_NARROW_FLOATS = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float64))
"""Floats that a program holds as f32: what is quantized is f32, and each f16 and bf16 number is one."""


_HELD = frozenset(
    {
        TensorProto.FLOAT,
        TensorProto.DOUBLE,
        TensorProto.FLOAT16,
        TensorProto.BFLOAT16,
        TensorProto.INT8,
        TensorProto.INT16,
        TensorProto.INT32,
        TensorProto.INT64,
        TensorProto.UINT8,
        TensorProto.UINT16,
        TensorProto.UINT32,
        TensorProto.UINT64,
        TensorProto.BOOL,
    }
)


def program_dtype(data_type: int) -> np.dtype[np.generic]:
    """The dtype in which a program holds tensors of ONNX's `data_type`: f32 for every float.

    Raises ModelError for a type that a program cannot hold (strings, complex numbers, types below 8 bits).
    """
    if data_type not in _HELD:
        known = data_type in TensorProto.DataType.values()
        name = TensorProto.DataType.Name(data_type) if known else str(data_type)
        raise ModelError(f"found element type {name}, expected a float, an integer of 8 to 64 bits, or a boolean")
    dtype = helper.tensor_dtype_to_np_dtype(data_type)
    return np.dtype(np.float32) if dtype in WIDE_AND_NARROW_FLOATS else dtype


def as_program_array(array: Array) -> Array:
    """The array in the dtype in which a program holds it; floats become f32."""
    return array.astype(np.float32) if array.dtype in WIDE_AND_NARROW_FLOATS else array


def read_tensor(tensor: TensorProto, folder: Path) -> Array:
    """The array of a tensor in the file's own dtype; `folder` is where external data lies.

    Raises ModelError for missing, short or foreign data.
    """
    if tensor.data_type not in _HELD:
        program_dtype(tensor.data_type)
    if uses_external_data(tensor):
        return _external(tensor, folder)
    dtype, shape = _dtype_and_shape(tensor)
    expected = prod(shape) * dtype.itemsize
    if tensor.HasField("raw_data"):
        data = tensor.raw_data
        if len(data) != expected:
            raise ModelError(
                f"tensor '{tensor.name}': found {len(data)} bytes of data, expected {expected} for shape {list(shape)}"
            )
        return np.frombuffer(data, dtype.newbyteorder("<")).reshape(shape)
    try:
        return numpy_helper.to_array(tensor)
    except ValueError as error:
        raise ModelError(f"tensor '{tensor.name}': its data does not fill shape {list(shape)}") from error


def _dtype_and_shape(tensor: TensorProto) -> tuple[np.dtype[np.generic], tuple[int, ...]]:
    return helper.tensor_dtype_to_np_dtype(tensor.data_type), tuple(tensor.dims)


def _external(tensor: TensorProto, folder: Path) -> Array:
    """The part of a data file that a tensor points at, memory-mapped.

    The data file has to lie in the model's folder or below it: a model must not read other files.
    """
    info = ExternalDataInfo(tensor)
    path = (folder / info.location).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ModelError(f"tensor '{tensor.name}': external data '{info.location}' lies outside the model's folder")
    if not path.is_file():
        raise ModelError(f"tensor '{tensor.name}': no file '{info.location}' beside the model, which holds its data")
    dtype, shape = _dtype_and_shape(tensor)
    start, size = int(info.offset or 0), prod(shape) * dtype.itemsize
    if start + size > path.stat().st_size:
        raise ModelError(
            f"tensor '{tensor.name}': '{info.location}' ends at byte {path.stat().st_size}, expected {start + size}"
        )
    return np.memmap(path, dtype, mode="r", offset=start, shape=shape) if size else np.empty(shape, dtype)
