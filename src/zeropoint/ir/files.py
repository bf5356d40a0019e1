"""Programs on disk.

`NAME.mlir` and, where the program has large constants, `NAME.safetensors` beside it; with inline weights one
self-contained `.mlir` file that C++ MLIR reads. Files are written under a temporary name and renamed, so that a reader
never sees half of one.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from zeropoint.errors import Error, reading
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program, print_program, resource_arrays
from zeropoint.ir.weights import Weights

_HEADER_BYTES = 8
# The dtype names of the safetensors format.
_DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "U16": np.dtype(np.uint16),
    "I16": np.dtype(np.int16),
    "U32": np.dtype(np.uint32),
    "I32": np.dtype(np.int32),
    "U64": np.dtype(np.uint64),
    "I64": np.dtype(np.int64),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
}


class WeightsError(Error, ValueError):
    """A file beside a program that does not hold its weights."""


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then give it its name; on failure nothing is left behind."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(descriptor)
    try:
        write(Path(temporary))
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def save_program(program: Program, path: Path, *, inline_weights: bool = False) -> list[Path]:
    """Write a program and return the files written: the text, and the weights where there are any beside it.

    The weights go first: a text never names a handle whose data is not there yet.

    Raises OSError, and ValueError for a handle without an array.
    """
    written: list[Path] = []
    held = {} if inline_weights else resource_arrays(program)
    weights_path = path.with_suffix(".safetensors")
    if held:
        from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType] (heavy, imported where it is needed)

        arrays = {handle: _storable(np.ascontiguousarray(held[handle])) for handle in sorted(held)}
        write_atomically(weights_path, lambda temporary: save_file(arrays, temporary))
        written.append(weights_path)
    text = print_program(program, locations=True, inline_weights=inline_weights)
    write_atomically(path, lambda temporary: temporary.write_text(text))
    return [path, *written]


def _storable(array: Array) -> Array:
    """The array, or its bytes where the format has no name for its dtype; the text says what they are."""
    return array if array.dtype in _DTYPES.values() else array.view(np.uint8)


def load_program(path: Path) -> Program:
    """Read a program; arrays of a `.safetensors` file beside it stay memory-mapped until they are used.

    Raises OSError, ValueError for a weights file that is no safetensors file, and the parser's and verifier's errors.
    """
    weights_path = path.with_suffix(".safetensors")
    weights = load_weights(weights_path) if weights_path.exists() else Weights()
    return parse_program(path.read_text(), str(path), weights, annotated=True)


def load_weights(path: Path) -> Weights:
    """The arrays of a safetensors file, memory-mapped, read-only.

    Raises WeightsError where the file is truncated or of another format.
    """
    with reading(path):
        return _mapped_weights(path)


def _mapped_weights(path: Path) -> Weights:
    try:
        mapped = np.memmap(path, np.uint8, mode="r")
        size = int.from_bytes(mapped[:_HEADER_BYTES].tobytes(), "little")
        start = _HEADER_BYTES + size
        header: dict[str, Any] = json.loads(mapped[_HEADER_BYTES:start].tobytes())
        header.pop("__metadata__", None)
        return Weights({name: _mapped_array(mapped, start, entry) for name, entry in header.items()})
    except (KeyError, TypeError, UnicodeDecodeError, ValueError) as error:
        raise WeightsError(
            f"{path}: found a truncated or foreign file, expected safetensors; write it again"
        ) from error


def _mapped_array(mapped: Array, start: int, entry: dict[str, Any]) -> Array:
    low, high = entry["data_offsets"]
    dtype = _DTYPES[entry["dtype"]]
    if not 0 <= low <= high or high - low != math.prod(entry["shape"]) * dtype.itemsize:
        raise ValueError(f"data is from byte {low} to {high}, expected shape {entry['shape']} of {dtype}")
    if start + high > mapped.size:
        raise ValueError(f"data ends at byte {mapped.size}, expected {start + high}")
    return mapped[start + low : start + high].view(dtype)
