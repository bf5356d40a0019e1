"""Killed, without room, without rights: no partial file under its final name, nothing left behind, a rerun works.

`make faults` kills each command at 300 moments; `FAULT_MOMENTS` says how many.
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from faults.commands import COMMANDS, FLOAT, contents, into, killed, length_of, prepare, start, status_of
from fuzz.cases import run

MOMENTS = int(os.environ.get("FAULT_MOMENTS", "4"))


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("faults")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("ZEROPOINT_CACHE", str(folder / "cache"))
        prepare()
        yield folder


def temporaries() -> list[str]:
    return [path.name for path in Path.cwd().iterdir() if path.name.endswith(".tmp")]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_killed_leaves_old_files_or_new_ones_and_runs_again(name: str, workplace: Path) -> None:
    arguments, files = COMMANDS[name]
    length = length_of(arguments)
    whole = contents(files)
    choose, ends = random.Random(f"faults {name}"), Counter[int]()
    for moment in range(MOMENTS):
        if fresh := bool(moment % 2):  # there is no old file in one half of the moments
            for file in files:
                Path(file).unlink()
        ends[killed(arguments, length, choose)] += 1
        for file, data in contents(files).items():
            missing = fresh or (len(files) > 1 and file == files[-1])  # see zeropoint.ir.outputs: between two renames
            assert data == whole[file] or (missing and data is None), f"{file} after moment {moment}"
        assert status_of(start(arguments)) == 0, f"the rerun after moment {moment}"
        assert contents(files) == whole
        assert not temporaries()
    if "FAULT_MOMENTS" in os.environ:
        print(f"\n{name}: {MOMENTS} moments of {length}; ended by {dict(ends)}")
    assert ends[0] <= max(4, MOMENTS // 5), f"found {ends[0]} moments after the end of the command"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_leaves_the_old_files_and_nothing_else(name: str, workplace: Path) -> None:
    arguments, files = COMMANDS[name]
    old = {file: b"old" for file in files if file.endswith((".npz", ".tflite", ".o", ".h", ".html"))}
    for file, data in old.items():
        Path(file).write_bytes(data)
    before = contents(files)
    room = 64  # bytes that a file may have: less than any output
    assert status_of(start(arguments, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)))) == 2
    assert contents(files) == before
    assert not temporaries()
    assert status_of(start(arguments)) == 0
    assert all(contents(files)[file] != data for file, data in old.items())


FULL_DISK = """
mount -t tmpfs -o size=64k none small 2>/dev/null || exit 77
for file in $FILES; do printf old > small/$file; done
rm -f small/*.safetensors
dd if=/dev/zero of=small/filler bs=4096 2>/dev/null
"$@" 2>&1 | grep -q 'No space left on device' || exit 78
ls -A small
"""


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.skipif("FAULT_MOMENTS" not in os.environ, reason="five new processes: part of `make faults`")
def test_a_full_file_system_keeps_the_old_files_and_nothing_else(name: str, workplace: Path) -> None:
    arguments, files = into("small", COMMANDS[name])
    Path("small").mkdir(exist_ok=True)
    command = ["unshare", "-m", "sh", "-c", FULL_DISK, "sh", sys.executable, "-m", "zeropoint", *arguments]
    names = [Path(file).name for file in files]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "FILES": " ".join(names)})
    if done.returncode in (1, 77):
        pytest.skip("this system mounts nothing for us")
    assert done.returncode == 0
    assert sorted(done.stdout.split()) == sorted(["filler", *(n for n in names if not n.endswith(".safetensors"))])


def as_nobody() -> None:
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_folder_that_may_not_be_written_is_refused_and_stays_as_it_is(name: str, workplace: Path) -> None:
    folder = workplace / "closed"
    folder.mkdir(mode=0o555, exist_ok=True)
    workplace.chmod(0o755)
    arguments, _ = into("closed", COMMANDS[name])
    assert status_of(start(arguments, as_nobody if os.geteuid() == 0 else None)) == 2
    assert list(folder.iterdir()) == []


def test_what_a_killed_process_left_goes_and_what_a_living_one_writes_stays(workplace: Path) -> None:
    from zeropoint.ir.outputs import _prefix  # pyright: ignore[reportPrivateUsage] (the name of what it leaves behind)

    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    mine = _prefix(Path("outputs.npz"))
    left = Path(mine.replace(f".{os.getpid()}.", f".{gone.pid}.") + "abc.tmp")
    other = Path(left.name.replace("outputs.npz", "another.mlir"))
    alive, foreign = Path(mine + "abc.tmp"), Path(f".outputs.npz.elsewhere.{gone.pid}.abc.tmp")
    for path in (left, other, alive, foreign):
        path.write_bytes(b"")
    assert run(COMMANDS["run"][0]) == ("accepted", "")
    assert [path.exists() for path in (left, other, alive, foreign)] == [False, False, True, True]
    alive.unlink()
    foreign.unlink()


@pytest.mark.parametrize(
    "arguments",
    [
        ["quantize", "same.mlir", "--data", "data.npz", "-o", "same.mlir"],
        ["run", "same.mlir", "--input", "data.npz", "-o", "./data.npz"],
    ],
)
def test_an_input_as_the_output_is_refused(arguments: list[str], workplace: Path) -> None:
    Path("same.mlir").write_text(FLOAT)
    before = contents(["same.mlir", "data.npz"])
    kind, line = run(arguments)
    assert (kind, "found the input as the output, expected another name" in line) == ("refused", True)
    assert contents(["same.mlir", "data.npz"]) == before


def test_a_safetensors_file_of_others_is_not_written_over(workplace: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"a": np.ones(3, np.float32)}, "network.safetensors")
    kind, line = run(["quantize", "float.mlir", "--data", "data.npz", "-o", "network.mlir"])
    assert kind == "refused"
    assert "found a file that no program of zeropoint wrote" in line
    assert not Path("network.mlir").exists()


def test_a_reader_that_leaves_ends_the_command_without_a_traceback(workplace: Path) -> None:
    command = [sys.executable, "-m", "zeropoint", "opt", "float.mlir", "--inline-weights"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert "Traceback" not in said
    assert "internal error" not in said
