"""Columns of data read from files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zeropoint.calibrate.columns import DataError, folder_columns, npz_columns


@pytest.mark.parametrize("name", ["x.npz", "x.npy"])
def test_a_pipe_is_refused_and_not_waited_for(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    read, path = (npz_columns, tmp_path / name) if name == "x.npz" else (folder_columns, tmp_path)
    with pytest.raises(DataError, match=r"found no regular file; expected \.npz or \.npy data"):
        read(path)
