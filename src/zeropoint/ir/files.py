"""Programs on disk.

A program is `NAME.mlir` and, if it has large constants, `NAME.safetensors` beside it. Tensors there have the model's
names and shapes; the metadata holds their SHA-256. Constants of 4-bit integers are stored two per byte, the first one
in the low bits; the metadata holds their shapes. With inline weights, a program is one self-contained `.mlir` file that
C++ MLIR reads. Files are written under a temporary name and renamed, so a reader never sees a partial file.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import DenseResourceAttr, IntegerType, Signedness

from zeropoint.errors import Error, UnreadableFile, check_name, check_regular, reading
from zeropoint.ir.mapped import map_file, one_by_one
from zeropoint.ir.outputs import Write, is_stream, write_together
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.tensors import Array, element_of
from zeropoint.ir.text import ResourceArrays, parse_program, print_program
from zeropoint.ir.value_names import Names, handle_names
from zeropoint.ir.weights import Weights

_HEADER_BYTES = 8
NIBBLE = 4
"""Width in bits of integers that are stored two per byte."""
MOST_HEADER = 100_000_000
"""Maximum size of a header in bytes, the limit of the safetensors format."""
_METADATA = "zeropoint"
"""The key of the metadata that marks a file as ours; its text is JSON, with the SHA-256 of each tensor's bytes.

It is the only key: safetensors writes several keys in an order that changes from run to run.
"""
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


SHARED_WEIGHTS = "weights.safetensors"
"""The file with the weights of all programs of a folder that `save_programs` wrote; its metadata says `shared`."""


class WeightsError(Error, ValueError):
    """The file next to a program does not hold its weights."""


def check_weights_file(path: Path) -> None:
    """Check that writing the program's weights would not overwrite a foreign `.safetensors` file, such as a checkpoint.

    `path` is the program's file. Raises WeightsError if the weights file exists and was not written by zeropoint, or if
    the name is not valid for a file.
    """
    check_name(path, WeightsError)
    weights_path = path.with_suffix(".safetensors")
    if not path.exists() and weights_path.exists():
        _check_own(weights_path)


def _check_own(weights_path: Path) -> None:
    """Raise WeightsError for a file that zeropoint did not write."""
    if _metadata(weights_path) is None:
        raise WeightsError(
            f"{weights_path}: found a file that no program of zeropoint wrote, expected none; give the output another "
            f"name"
        )


def _metadata(weights_path: Path) -> dict[str, Any] | None:
    """The metadata of a weights file that zeropoint wrote; None for other files."""
    with suppress(UnreadableFile, ValueError, AttributeError, TypeError), reading(weights_path):
        text = _header(np.memmap(weights_path, np.uint8, mode="r"))[0].get("__metadata__", {}).get(_METADATA)
        return None if text is None else json.loads(text)
    return None


def save_program(program: Program, path: Path, *, inline_weights: bool = False, generic: bool = False) -> list[Path]:
    """Write a program and return the written files: the text and, if there are any, the weights.

    The weights are renamed first, so a text never refers to a handle whose data is not there yet. A pipe or a device
    gets the text with all weights inline.

    Raises OSError, WeightsError if the weights would replace a file that zeropoint did not write, and MissingWeights, a
    ValueError, for a handle without an array.
    """
    if is_stream(path):
        inline_weights = True
    else:
        check_weights_file(path)
    writes: dict[Path, Write] = {}
    held: Mapping[str, Array] = {} if inline_weights else ResourceArrays(program)
    weights_path = path.with_suffix(".safetensors")
    if held:
        names = handle_names(program.module.walk())
        named = {names.get(handle, handle): array for handle, array in held.items()}
        nibbles = {names.get(handle, handle): signed for handle, signed in _four_bit_handles(program).items()}
        writes[weights_path] = lambda temporary: _save_arrays(named, nibbles, temporary)
    text = print_program(program, locations=True, generic=generic, inline_weights=inline_weights, names=True)
    writes[path] = lambda temporary: temporary.write_text(text, encoding="utf-8")
    write_together(writes)
    return [path, *(written for written in writes if written != path)]


def save_programs(programs: Mapping[str, Program], folder: Path) -> list[Path]:
    """Write programs into a folder, `NAME.mlir` each, with their weights in one file; return the written files.

    Arrays with equal bytes are stored once, under the name that the first program has for them. The weights are renamed
    first. Raises OSError, and WeightsError if the weights would replace a file that zeropoint did not write.
    """
    weights_path = folder / SHARED_WEIGHTS
    if weights_path.exists():
        _check_own(weights_path)
    known: dict[bytes, str] = {}
    free = Names()
    stored: dict[str, Array] = {}
    nibbles: dict[str, bool] = {}
    texts: dict[Path, Write] = {}
    for name, program in programs.items():
        narrow, pretty = _four_bit_handles(program), handle_names(program.module.walk())
        handles: dict[str, str] = {}
        for handle, array in ResourceArrays(program).items():
            key = _content(array, narrow.get(handle))
            if key not in known:
                known[key] = free.free(pretty.get(handle, handle))
                stored[known[key]] = array
            handles[handle] = known[key]
            if handle in narrow:
                nibbles[known[key]] = narrow[handle]
        text = print_program(program, locations=True, names=handles)
        texts[folder / f"{name}.mlir"] = partial(_write_text, text)
    weights: dict[Path, Write] = {}
    if stored:
        weights[weights_path] = lambda temporary: _save_arrays(stored, nibbles, temporary, shared=True)
    write_together({**weights, **texts})
    return [*texts, *weights]


def _write_text(text: str, path: Path) -> None:
    path.write_text(text, encoding="utf-8")


def _content(array: Array, signed: bool | None) -> bytes:
    """The identity of a stored array: element type and bytes."""
    digest = hashlib.sha256(f"{array.dtype.name} {signed} ".encode())
    digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.digest()


def _four_bit_handles(program: Program) -> dict[str, bool]:
    """The handles of constants of 4-bit integers, and whether these are signed."""
    found: dict[str, bool] = {}
    for op in program.module.walk():
        value = op.value if isinstance(op, ConstantOp) else None
        if not isinstance(value, DenseResourceAttr):
            continue
        element = element_of(value.type)
        for signedness in (Signedness.SIGNLESS, Signedness.SIGNED, Signedness.UNSIGNED):
            if element == IntegerType(NIBBLE, signedness):
                found[value.resource_handle.data] = signedness is not Signedness.UNSIGNED
    return found


def _packed(array: Array) -> Array:
    """Pack 4-bit integers two per byte, the first one in the low bits."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & 0xF
    even = np.concatenate([flat, np.zeros(flat.size % 2, np.uint8)])
    return even[::2] | (even[1::2] << NIBBLE)


def _unpacked(array: Array, signed: bool, shape: tuple[int, ...]) -> Array:
    """Unpack 4-bit integers. Raises ValueError if the number of bytes does not match the shape."""
    count = math.prod(shape)
    if array.dtype != np.uint8 or array.size != (count + 1) // 2 or min(shape, default=0) < 0:
        raise ValueError(f"{array.size} bytes of 4-bit integers, expected those of shape {shape}")
    flat = np.stack([array & 0xF, array >> NIBBLE], axis=1).reshape(-1)[:count]
    # The shift to the left and the arithmetic one to the right extend the sign.
    return (flat << NIBBLE).view(np.int8) >> NIBBLE if signed else flat


def _save_arrays(named: Mapping[str, Array], nibbles: Mapping[str, bool], path: Path, *, shared: bool = False) -> None:
    """Write named arrays. `nibbles` maps the names of arrays of 4-bit integers to whether these are signed."""
    from safetensors import SafetensorError  # heavy: imported only when weights are written
    from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType] (safetensors has no types here)

    arrays = {
        name: _packed(named[name]) if name in nibbles else _storable(np.ascontiguousarray(named[name]))
        for name in sorted(named)
    }
    shapes = {name: [int(signed), *map(int, named[name].shape)] for name, signed in nibbles.items()}
    try:
        digests = {name: _digest(array) for name, array in one_by_one(arrays.items())}
        metadata = {
            "sha256": digests,
            **({"four_bits": shapes} if shapes else {}),
            **({"shared": True} if shared else {}),
        }
        save_file(arrays, path, {_METADATA: json.dumps(metadata, sort_keys=True)})
    except SafetensorError as error:  # safetensors hides the system's error, usually a full disk
        raise OSError(errno.EIO, f"cannot be written ({error})", str(path)) from error


def _storable(array: Array) -> Array:
    """The array, or its bytes if safetensors has no name for its dtype. The program's text gives the element type."""
    return array if array.dtype in _DTYPES.values() else array.reshape(-1).view(np.uint8)


def _digest(array: Array) -> str:
    """The SHA-256 of an array's bytes, as they are in the file."""
    return hashlib.sha256(array.reshape(-1).view(np.uint8).data).hexdigest()


def load_program(path: Path) -> Program:
    """Read a program. Arrays of a `.safetensors` file beside it stay memory-mapped until they are used.

    Raises OSError, UnreadableFile for a pipe or a device, ValueError for an invalid safetensors file, and the parser's
    and verifier's errors.
    """
    check_regular(path)
    return parse_program(path.read_text(encoding="utf-8"), str(path), weights_beside(path), annotated=True)


def weights_beside(path: Path) -> Weights:
    """The weights in the `.safetensors` file beside a program, or else those that the programs of its folder share.

    Empty if there is neither file.

    Raises WeightsError as `load_weights` does, if the file is not a regular one (reading a pipe would block), and if it
    is a link to a file outside of the program's folder.
    """
    found = path.with_suffix(".safetensors")
    if not os.path.lexists(found):
        found = path.parent / SHARED_WEIGHTS
        if not found.is_file() or not (_metadata(found) or {}).get("shared"):
            return Weights(file=path.with_suffix(".safetensors"))
    if not found.is_file():
        raise WeightsError(f"{found}: found no regular file, expected safetensors")
    folders = {path.parent.resolve(), path.resolve().parent}
    if not any(found.resolve().is_relative_to(folder) for folder in folders):
        raise WeightsError(f"{found}: found a link out of the program's folder, expected the file itself")
    return load_weights(found)


def load_weights(path: Path) -> Weights:
    """The arrays of a safetensors file, memory-mapped and read-only.

    Raises WeightsError if the file is truncated or not in the safetensors format.
    """
    with reading(path):
        return _mapped_weights(path)


def _mapped_weights(path: Path) -> Weights:
    try:
        mapped = map_file(path)
        header, start = _header(mapped)
        metadata = json.loads(header.pop("__metadata__", {}).get(_METADATA, "{}"))
        arrays = {name: _mapped_array(mapped, start, entry) for name, entry in header.items()}
        for name, (signed, *shape) in metadata.get("four_bits", {}).items():
            arrays[name] = _unpacked(arrays[name], bool(signed), tuple(map(int, shape)))
        return Weights(arrays, path)
    except (AttributeError, KeyError, TypeError, UnicodeDecodeError, ValueError) as error:
        raise WeightsError(
            f"{path}: found a truncated or foreign file, expected safetensors; write it again"
        ) from error


def _header(mapped: Array) -> tuple[dict[str, Any], int]:
    """The JSON header of a safetensors file and the offset of its data in bytes. Raises ValueError if it is invalid."""
    size = int.from_bytes(mapped[:_HEADER_BYTES].tobytes(), "little")
    if size > min(mapped.size, MOST_HEADER):
        raise ValueError(f"header of {size} bytes in a file of {mapped.size}, expected up to {MOST_HEADER}")
    header: Any = json.loads(mapped[_HEADER_BYTES : _HEADER_BYTES + size].tobytes())
    if not isinstance(header, dict):
        raise ValueError("header without names, expected some")
    return cast("dict[str, Any]", header), _HEADER_BYTES + size


def _mapped_array(mapped: Array, start: int, entry: dict[str, Any]) -> Array:
    low, high = entry["data_offsets"]
    dtype = _DTYPES[entry["dtype"]]
    if (
        not 0 <= low <= high
        or min(entry["shape"], default=0) < 0
        or high - low != math.prod(entry["shape"]) * dtype.itemsize
    ):
        raise ValueError(f"data is from byte {low} to {high}, expected shape {entry['shape']} of {dtype}")
    if start + high > mapped.size:
        raise ValueError(f"data ends at byte {mapped.size}, expected {start + high}")
    return mapped[start + low : start + high].view(dtype)
