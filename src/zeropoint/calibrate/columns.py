"""Named arrays of a file or folder, read row by row. `zeropoint.calibrate.data` splits them into samples.

The shape and dtype of a column come from its header. Its rows (slices along the first axis) are read one at a time, so
memory use does not grow with the file. Members of an .npz, compressed or not, are streamed. A .npy is memory-mapped.
"""

from __future__ import annotations

import errno
import io
import math
import os
import struct
import zipfile
import zlib
from collections import deque
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from lzma import LZMAError
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, Protocol, cast
from weakref import ReferenceType, ref

import numpy as np
from numpy.lib import format as npy

from zeropoint.errors import Error
from zeropoint.ir.tensors import Array
from zeropoint.limits import bytes_text


class DataError(Error, ValueError):
    """The data cannot be used. The message is one line that says what was found, what was expected, and the fix."""


class Column(Protocol):
    """A named array."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole array."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of its elements."""
        ...

    def rows(self) -> Iterator[Array]:
        """The slices along the first axis, in order."""
        ...

    def whole(self) -> Array:
        """The whole array."""
        ...


@dataclass(frozen=True, eq=False)
class ArrayColumn:
    """An array in memory or memory-mapped."""

    array: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole array."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of its elements."""
        return self.array.dtype

    def rows(self) -> Iterator[Array]:
        """The slices along the first axis."""
        return iter(self.array)

    def whole(self) -> Array:
        """The whole array."""
        return self.array


MOST_EMPTY = 1_000_000
"""The maximum size in a shape without elements. A file of any size could state a larger one."""


MOST_HEADER = 10_000
"""The maximum size of a .npy header in bytes, which is NumPy's limit."""


class _BadHeader(Exception):
    """A .npy header that NumPy does not write for numbers. The text says why."""


def _bounded(stream: IO[bytes], size: int) -> IO[bytes]:
    """A header and its length of `size` bytes. NumPy itself reads all of it, up to 4 GiB of a compressed member."""
    length = stream.read(size)
    if (found := int.from_bytes(length, "little")) > MOST_HEADER:
        raise _BadHeader(f"a header of {found} bytes, expected up to {MOST_HEADER}")
    return io.BytesIO(length + stream.read(found))


@dataclass(frozen=True)
class ArrayHeader:
    """The header of a .npy."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]

    @staticmethod
    def read(stream: IO[bytes], name: str) -> ArrayHeader:
        """Read the header and leave the stream at the first element.

        Raises DataError for another format or for pickled objects, which are never loaded.
        """
        readers = {(1, 0): (2, npy.read_array_header_1_0), (2, 0): (4, npy.read_array_header_2_0)}
        try:
            version = npy.read_magic(stream)
            if version not in readers:
                raise _BadHeader(f"version {version}")
            size, parsed = readers[version]
            header = ArrayHeader(*parsed(_bounded(stream, size)))
            if min(header.shape, default=0) < 0:
                raise _BadHeader(f"shape {header.shape}")
        except (_BadHeader, ValueError, TokenError) as error:  # NumPy parses the header as Python text
            what = error if isinstance(error, _BadHeader) else "a header that is not the dictionary of an array"
            raise DataError(f"{name}: found no NumPy array, expected one written by numpy.save ({what})") from error
        if header.dtype.hasobject:
            raise DataError(f"{name}: found Python objects, expected numbers; save an array of one shape and dtype")
        if header.bytes == 0 and max(header.shape, default=0) > MOST_EMPTY:
            raise DataError(
                f"{name}: found {header.shape}, a shape without elements, expected sizes up to {MOST_EMPTY}"
            )
        return header

    @property
    def bytes(self) -> int:
        """The size of the elements in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


_MOST_OPEN = 64
"""The number of archives that are open at the same time. Data may be thousands of files."""
_OPEN: deque[ReferenceType[Archive]] = deque()


class Archive:
    """An .npz that is opened once for all reads of its members.

    It is closed when nothing refers to it any more. It is also closed after many others were opened, and then reopened
    for the next read. Members that are being read stay readable.
    """

    def __init__(self, path: Path):
        self.path = path
        self._opened: tuple[int, zipfile.ZipFile] | None = None

    def open(self) -> zipfile.ZipFile:
        """The open file. A forked process opens its own, so that it does not share the file position with its
        parent."""
        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = os.getpid(), zipfile.ZipFile(self.path)
            _OPEN.append(ref(self))
            if len(_OPEN) > _MOST_OPEN and (oldest := _OPEN.popleft()()) is not None:
                oldest.close()
        return self._opened[1]

    def close(self) -> None:
        """Close the file."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened[1].close()

    def __reduce__(self) -> tuple[type[Archive], tuple[Path]]:
        return Archive, (self.path,)


@dataclass(frozen=True)
class NpzColumn:
    """A member of an .npz that is read as a stream."""

    archive: Archive
    member: str
    header: ArrayHeader

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole array."""
        return self.header.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of its elements."""
        return self.header.dtype

    def rows(self) -> Iterator[Array]:
        """The slices along the first axis, read lazily. A Fortran-ordered array is read as a whole."""
        if self.header.fortran_order:
            yield from self.whole()
            return
        count, *rest = self.shape
        for data in self._read(count, math.prod(rest)):
            yield data.reshape(rest)

    def whole(self) -> Array:
        """The whole array."""
        (data,) = self._read(1, math.prod(self.shape))
        return data.reshape(self.shape, order="F" if self.header.fortran_order else "C")

    def _read(self, count: int, elements: int) -> Iterator[Array]:
        """`count` flat arrays of `elements` elements each. Reads to the end of the member, which checks its CRC."""
        size, path = elements * self.dtype.itemsize, self.archive.path
        with _reading(path), self.archive.open().open(self.member) as stream:
            ArrayHeader.read(stream, f"{path}: {self.member}")
            for _ in range(count):
                data = stream.read(size)
                if len(data) != size:
                    raise _Damage(f"{self.member} ends early")
                yield np.frombuffer(data, self.dtype)
            if stream.read(1):
                raise _Damage(f"{self.member} continues after its last element")


class _Damage(Exception):
    """A member that does not have the length that its header states. The text says which length it has."""


@contextmanager
def _reading(path: Path) -> Generator[None]:
    """Convert the exceptions that `zipfile` raises for damaged or foreign files into DataError."""
    try:
        yield
    except DataError:
        raise
    except (_Damage, zipfile.BadZipFile, zlib.error, LZMAError, EOFError, OSError, RuntimeError, ValueError) as error:
        found = f"found a truncated, damaged or foreign file ({_what(error)})"
        raise DataError(f"{path}: {found}; expected .npz data; write it again") from error


def _what(error: Exception) -> str:
    """The fault of an archive, from the exception that `zipfile` raised."""
    said = str(error)
    if isinstance(error, _Damage):
        return said
    if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
        return error.strerror or "it cannot be read"
    known = (
        (said.startswith("Bad CRC-32"), "a member whose checksum does not match"),
        (said.startswith("File name in directory"), "a member with two names"),
        ("encrypted" in said, "an encrypted member"),
        (isinstance(error, zlib.error | LZMAError | OSError), "compressed bytes or positions that no zip archive has"),
        (isinstance(error, NotImplementedError), "a compression, an encryption or a version that is not supported"),
        (isinstance(error, UnicodeDecodeError), "the name of a member is not UTF-8"),
        (isinstance(error, EOFError), "it ends early"),
    )
    return next((text for found, text in known if found), "no zip archive, or one whose directory is broken")


_LOCAL = struct.Struct("<26x2H")
"""The header of a member. Its last fields are the lengths of the name and of the extra field, which follow it."""
_LZMA = struct.Struct("<5xL")
"""The start of LZMA data in a zip member: version, size of the properties, first property, size of the dictionary."""
_DICTIONARY = 64 << 20
"""The largest dictionary that common tools use. It is allocated at once: a few bytes of a file could request 4 GiB."""


def _check_dictionaries(archive: zipfile.ZipFile) -> None:
    """Raise DataError for an LZMA member that needs more memory than common tools use."""
    for member in archive.infolist():
        if member.compress_type != zipfile.ZIP_LZMA or archive.fp is None:
            continue
        archive.fp.seek(member.header_offset)
        local = archive.fp.read(_LOCAL.size)
        if len(local) < _LOCAL.size:
            continue  # zipfile refuses this member itself
        archive.fp.seek(sum(_LOCAL.unpack(local)), os.SEEK_CUR)
        start = archive.fp.read(_LZMA.size)
        (size,) = _LZMA.unpack(start) if len(start) == _LZMA.size else (0,)
        if size > _DICTIONARY:
            raise DataError(
                f"{archive.filename}: {member.filename}: found an LZMA dictionary of {bytes_text(size)}, expected "
                f"up to {bytes_text(_DICTIONARY)}; write it with numpy.savez"
            )


def _check_regular(path: Path) -> None:
    """Raise DataError for a pipe or a device, because reading it could block forever."""
    if path.exists() and not path.is_file():
        raise DataError(f"{path}: found no regular file; expected .npz or .npy data")


def npz_columns(path: Path) -> dict[str, Column]:
    """The arrays of an .npz by name. Only their headers are read.

    Raises DataError if the file is not an .npz.
    """
    _check_regular(path)
    archive = Archive(path)
    try:
        with _reading(path):
            return _members(archive)
    except DataError:
        archive.close()
        raise


def _members(archive: Archive) -> dict[str, Column]:
    opened = archive.open()
    _check_dictionaries(opened)
    columns: dict[str, Column] = {}
    for member in opened.infolist():
        name = member.filename
        with opened.open(member) as stream:
            header = ArrayHeader.read(stream, f"{archive.path}: {name}")
            if (size := member.file_size - stream.tell()) != header.bytes:
                raise _Damage(f"{name} has {size} bytes of elements, its header says {header.bytes}")
        columns[name.removesuffix(".npy")] = NpzColumn(archive, name, header)
    return columns


def npy_column(path: Path) -> Column:
    """The array of a .npy file, memory-mapped.

    Raises DataError if the file is not a .npy.
    """
    _check_regular(path)
    try:
        with path.open("rb") as stream:
            header = ArrayHeader.read(stream, str(path))
        if math.prod(header.shape) == 0:  # nothing to map
            return ArrayColumn(np.empty(header.shape, header.dtype))
        return ArrayColumn(np.load(path, mmap_mode="r"))
    except DataError:
        raise
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "fewer elements than its header says"
        raise DataError(f"{path}: found a truncated file ({why}); expected .npy data; write it again") from error


def folder_columns(path: Path) -> dict[str, Column]:
    """The .npy files of a folder, by file name without the suffix."""
    return {file.stem: npy_column(file) for file in sorted(path.glob("*.npy"))}


def as_array(value: Any) -> Array:
    """Convert an array, a tensor or nested lists to a NumPy array. A tensor that requires gradients is detached.

    Raises DataError for lists that form no array, and for tensors without data, such as those on PyTorch's device
    "meta".
    """
    if hasattr(value, "detach"):
        try:
            value = value.detach().cpu()
        except RuntimeError as error:
            raise DataError(
                f"data: found a tensor that cannot be copied to the CPU ({error}), expected numbers"
            ) from error
        if str(value.dtype) == "torch.bfloat16":  # NumPy has no bfloat16. f32 represents it exactly.
            value = value.float()
    try:
        array = np.asarray(value)
        return np.asarray(_nested(array)) if array.dtype == object else array
    except ValueError as error:
        found = type(value).__name__
        raise DataError(f"data: found {found} that is not an array, expected rows of numbers of one shape") from error


def _nested(value: Any) -> Any:
    """Convert arrays whose elements are arrays, such as in data frames with rows of several dimensions, to lists."""
    listed = cast("Array", value).tolist() if isinstance(value, np.ndarray) else value
    return [_nested(part) for part in cast("list[Any]", listed)] if isinstance(listed, list) else listed


def array_columns(arrays: Mapping[Any, Any], inputs: Collection[str]) -> dict[str, Column]:
    """Columns of in-memory arrays, tensors or lists, by name, without entries that are neither arrays nor `inputs`.

    Raises DataError for a key that is not a string, and for an input that is not an array.
    """
    for name in arrays:
        if not isinstance(name, str):
            raise DataError(f"data: found the key {name!r}, expected strings; name each array after its input")
        if hasattr(arrays[name], "column_names"):
            known = ", ".join(f"'{key}'" for key in arrays)
            raise DataError(f"data: found a dict of datasets ({known}), expected one of them: data['{name}']")
    found: dict[str, Column] = {}
    for name, array in arrays.items():
        with nullcontext() if name in inputs else suppress(DataError):
            found[name] = ArrayColumn(as_array(array))
    return found
