"""Pipes and devices instead of files, folders that go, limits of the system: refused in a line, or the work is done."""

from __future__ import annotations

import os
import resource
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fuzz.cases import run

PROGRAM = """func.func @main(%x: tensor<1x4xf32> {zeropoint.name = "x"}) -> tensor<1x4xf32> {
  %0 = stablehlo.tanh %x : tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}
"""
QUANTIZE = ["quantize", "m.mlir", "--data", "d.npz", "--effort", "none", "-q", "-o", "q.mlir"]
RUN = ["run", "m.mlir", "--input", "d.npz", "-o", "o.npz"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZEROPOINT_CACHE", str(tmp_path / "cache"))
    Path("m.mlir").write_text(PROGRAM)
    np.savez("d.npz", x=np.ones((4, 4), np.float32))
    return tmp_path


READERS = {
    "a.onnx": ["explain"],
    "a.mlir": ["explain"],
    "a.tflite": ["explain"],
    "b.mlir": ["opt"],
    "a.toml": ["targets"],
    "a.py": ["targets"],
    "a.yaml": [*QUANTIZE, "--recipe"],
    "a.npz": ["run", "m.mlir", "-o", "o.npz", "--input"],
    "v.npz": [*QUANTIZE[:3], "d.npz", "-o", "q.mlir", "--validation"],
    "a.json": ["opt", "m.mlir", "-p"],
}


@pytest.mark.parametrize("kind", ["pipe", "endless device"])
@pytest.mark.parametrize("file", READERS)
def test_a_pipe_or_a_device_is_not_read(file: str, kind: str, folder: Path) -> None:
    os.mkfifo(file) if kind == "pipe" else os.symlink("/dev/zero", file)
    argument = f"state-statistics{{file={file}}}" if file == "a.json" else f"./{file}"
    ended, line = run([*READERS[file], argument])
    assert (ended, "regular file" in line) == ("refused", True), line


@pytest.mark.parametrize("kind", ["pipe", "endless device"])
def test_weights_and_journals_that_are_pipes_or_devices_are_not_read(kind: str, folder: Path) -> None:
    make = os.mkfifo if kind == "pipe" else lambda path: os.symlink("/dev/zero", path)
    make("m.safetensors")
    ended, line = run(RUN)
    assert ended in ("refused", "unreadable"), line
    Path("m.safetensors").unlink()
    make(".q.mlir.journal")
    ended, line = run([*QUANTIZE, "--resume"])
    assert (ended, "regular file" in line) == ("refused", True), line


@pytest.mark.parametrize("suffix", ["", ".parts", ".budget"])
@pytest.mark.parametrize("command", ["quantize", "calibrate"])
def test_a_journal_that_is_a_folder_is_refused_before_any_work(command: str, suffix: str, folder: Path) -> None:
    Path(f".q.mlir.journal{suffix}").mkdir()
    for more in ([], ["--resume"]):
        ended, line = run([command, "m.mlir", "--data", "d.npz", "-o", "q.mlir", *more])
        assert ended == "refused"
        assert line.startswith(f"zeropoint: .q.mlir.journal{suffix}: found a folder, expected a journal or no file")
        assert not Path("q.mlir").exists()


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_a_device_is_not_replaced_by_an_output(kind: str, folder: Path) -> None:
    os.mkfifo("o.npz") if kind == "pipe" else os.symlink("/dev/null", "o.npz")
    ended, line = run(RUN)
    assert (ended, "o.npz: found a pipe or a device, expected the name of a file" in line) == ("refused", True), line
    assert not Path("o.npz").is_file()


def in_child(before: Callable[[], object], arguments: list[str]) -> tuple[str, str]:
    """The command in a child of this process, after `before`."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            before()
            os.write(writing, "\n".join(run(arguments)).encode(errors="replace"))
        finally:
            sys.stdout = sys.stderr = None
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        kind, _, line = pipe.read().partition("\n")
    os.waitpid(child, 0)
    return kind, line


def leave() -> None:
    """Go to a folder and remove it."""
    Path("gone").mkdir()
    os.chdir("gone")
    Path("../gone").rmdir()


def test_work_is_done_in_a_folder_that_is_gone_if_all_paths_are_absolute(folder: Path) -> None:
    absolute = [str(folder / word) if (folder / word).exists() or word == "o.npz" else word for word in RUN]
    run(RUN)  # imports what it needs
    Path("o.npz").unlink()
    assert in_child(leave, absolute) == ("accepted", "")
    assert Path("o.npz").exists()
    kind, line = in_child(leave, RUN)
    assert kind == "refused", line


@pytest.mark.parametrize("engine", ["interp", "native"])
@pytest.mark.parametrize("files", [5, 8, 12, 16])
def test_too_few_open_files_are_refused_or_enough(files: int, engine: str, folder: Path) -> None:
    arguments = [*RUN, "--engine", engine]
    assert run(arguments) == ("accepted", "")
    shutil.rmtree("cache", ignore_errors=True)
    Path("o.npz").unlink()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    kind, line = in_child(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, limit)), arguments)
    assert kind in ("accepted", "refused"), line
    assert Path("o.npz").exists() == (kind == "accepted")
    assert not [path for path in folder.iterdir() if path.name.endswith(".tmp")]


@pytest.mark.parametrize("mask", [0, 0o777])
def test_what_is_written_has_the_rights_that_the_umask_says_and_the_cache_is_private(mask: int, folder: Path) -> None:
    assert run([*RUN, "--engine", "native"]) == ("accepted", "")
    Path("o.npz").unlink()
    os.environ["ZEROPOINT_CACHE"] = str(folder / "a" / "b" / "cache")
    assert in_child(lambda: os.umask(mask), [*RUN, "--engine", "native"]) == ("accepted", "")
    assert Path("o.npz").stat().st_mode & 0o777 == 0o666 & ~mask
    made = [folder / "a", folder / "a" / "b", folder / "a" / "b" / "cache"]
    assert {path.stat().st_mode & 0o077 for path in made if path.exists()} == {0}
