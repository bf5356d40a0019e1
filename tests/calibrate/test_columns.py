"""Columns of data read from files."""

from __future__ import annotations

import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from zeropoint.calibrate.columns import DataError, folder_columns, npz_columns


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
