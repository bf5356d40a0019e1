"""Columns of data read from files."""

from __future__ import annotations

import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from zeropoint.calibrate.columns import DataError, array_columns, as_array, folder_columns, npy_column, npz_columns


@pytest.mark.parametrize("name", ["x.npz", "x.npy"])
def test_a_pipe_is_refused_and_not_waited_for(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    read, path = (npz_columns, tmp_path / name) if name == "x.npz" else (folder_columns, tmp_path)
    with pytest.raises(DataError, match=r"found no regular file; expected \.npz or \.npy data"):
        read(path)


@pytest.mark.parametrize("size", [8 << 20, 64 << 20, (64 << 20) + 1, 0xFFFFFFFF])
def test_a_small_file_cannot_ask_for_gigabytes_by_the_size_of_its_dictionary(size: int, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((5, 4), np.float32))
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.write(tmp_path / "x.npy", "x.npy")
    data = bytearray(path.read_bytes())
    begin = 30 + len("x.npy") + 5  # behind the local header, the name, the version, the length and the first property
    assert struct.unpack_from("<L", data, begin) == (8 << 20,)
    struct.pack_into("<L", data, begin, size)
    path.write_bytes(data)
    if size <= 64 << 20:
        assert npz_columns(path)["x"].whole().sum() == 20
    else:
        with pytest.raises(DataError, match=r"x\.npy: found an LZMA dictionary of .*, expected up to 64 MiB"):
            npz_columns(path)


@pytest.mark.parametrize("rows", [4, 6, 10**12])
def test_a_member_of_another_size_than_its_header_says_is_refused_before_a_row_is_read(
    rows: int, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", np.ones((5, 4), np.float32))
    data = (tmp_path / "x.npy").read_bytes().replace(b"(5, 4), }" + b" " * 12, f"({rows}, 4), }}".ljust(21).encode())
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", data)
    with pytest.raises(DataError, match=rf"x\.npy has 80 bytes of elements, its header says {16 * rows}\)"):
        npz_columns(tmp_path / "x.npz")


def test_samples_without_elements_have_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.empty((1_000_000, 0), np.float32))
    assert npy_column(path).shape == (1_000_000, 0)
    np.save(path, np.empty((10**15, 0), np.float32))
    with pytest.raises(DataError, match="a shape without elements, expected sizes up to 1000000"):
        npy_column(path)


def test_lists_that_are_no_array_are_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    for value in ([[1, 2], [3]], endless):
        with pytest.raises(DataError, match="data: found list that is not an array, expected rows of numbers"):
            array_columns({"x": value}, ("x",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"(" * 60_000, "a header of 60000 bytes, expected up to 10000"),
        (b"{'descr': __import__('os'), 'fortran_order': False, 'shape': ()}", "a header that is not the dictionary"),
        (b"{'descr': '<f9', 'fortran_order': False, 'shape': ()}", "a header that is not the dictionary"),
    ],
)
def test_a_header_that_numpy_does_not_parse_is_refused_in_our_words(text: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text)
    expected = rf"found no NumPy array, expected one written by numpy\.save \({message}"
    with pytest.raises(DataError, match=expected):
        npy_column(tmp_path / "x.npy")


def test_a_small_file_cannot_ask_for_gigabytes_by_the_length_of_a_header(tmp_path: Path) -> None:
    header = b"\x93NUMPY\x02\x00" + struct.pack("<I", 100_000) + b" " * 100_000
    with zipfile.ZipFile(tmp_path / "d.npz", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x.npy", header)
    with pytest.raises(DataError, match="a header of 100000 bytes, expected up to 10000"):
        npz_columns(tmp_path / "d.npz")


def npz_of(tmp_path: Path, compression: int = zipfile.ZIP_DEFLATED) -> bytearray:
    with zipfile.ZipFile(tmp_path / "d.npz", "w", compression) as file, file.open("x.npy", "w") as member:
        np.lib.format.write_array(member, np.arange(64, dtype=np.float32))
    return bytearray((tmp_path / "d.npz").read_bytes())


def said_of(content: bytes | bytearray, tmp_path: Path) -> str:
    (tmp_path / "d.npz").write_bytes(content)
    with pytest.raises(DataError, match="found a truncated, damaged or foreign file") as caught:
        [list(column.rows()) for column in npz_columns(tmp_path / "d.npz").values()]
    return str(caught.value).partition("file (")[2].partition(");")[0]


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_damaged_archive_is_refused_in_our_words(compression: int, tmp_path: Path) -> None:
    ours = (
        "a member",
        "an encrypted",
        "compressed",
        "a compression",
        "it ends",
        "no zip",
        "the name of",
        "x.npy has",
        "x.npy ends",
    )
    whole = npz_of(tmp_path, compression)
    found = set[str]()
    for position in range(len(whole)):
        damaged = whole.copy()
        damaged[position] ^= 0xFF
        try:
            found.add(said_of(damaged, tmp_path))
        except (DataError, AssertionError, pytest.fail.Exception):  # refused elsewhere, or a byte without effect
            continue
    assert found
    assert [text for text in found if not text.startswith(ours)] == []


class WithoutData:
    """A tensor of PyTorch's device "meta"."""

    def detach(self) -> WithoutData:
        return self

    def cpu(self) -> WithoutData:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")


def test_a_tensor_without_data_is_refused() -> None:
    with pytest.raises(DataError, match=r"found a tensor that cannot be copied to the CPU \(Cannot copy out of meta"):
        as_array(WithoutData())
