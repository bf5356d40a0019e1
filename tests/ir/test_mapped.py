"""Pages of mapped weights that were read are given back."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zeropoint.budget.journal import SearchJournal
from zeropoint.interp import Interpreter
from zeropoint.ir.mapped import ChangedFile, RecentPages, map_file, mapping, result_of
from zeropoint.ir.text import parse_program
from zeropoint.ir.weights import RecentArrays, Weights

SMAPS = Path("/proc/self/smaps")
MIB = 1 << 20


@pytest.fixture
def mapped(tmp_path: Path) -> np.memmap:
    path = tmp_path / "weights.data"
    path.write_bytes(np.arange(8 * MIB, dtype=np.uint8).tobytes())
    return np.memmap(path, np.uint8, mode="r")


def resident(mapped: np.memmap) -> int:
    """The bytes of the mapping in memory."""
    found = re.search(rf"{re.escape(str(mapped.filename))}\n.*?Rss: +(\d+) kB", SMAPS.read_text(), re.DOTALL)
    assert found is not None
    return 1024 * int(found[1])


@pytest.mark.skipif(not SMAPS.exists(), reason="counts pages by /proc")
def test_only_the_arrays_that_were_read_last_stay_in_memory(mapped: np.memmap) -> None:
    pages, sums = RecentPages(2 * MIB), []
    for start in range(0, 8 * MIB, MIB):
        part = mapped[start : start + MIB].view(np.float32)
        pages.read(part)
        sums.append(int(part.view(np.uint8).sum()))
    assert resident(mapped) <= 5 * MIB  # the system maps some pages around each read
    assert sum(sums) == int(mapped.sum())
    assert resident(mapped) == 8 * MIB
    pages.release()
    assert resident(mapped) == 0
    assert int(mapped[5 * MIB + 7]) == 7


@pytest.mark.skipif(not SMAPS.exists(), reason="counts pages by /proc")
def test_weights_note_what_they_give_out(mapped: np.memmap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zeropoint.ir.weights.RECENT_PAGES", RecentPages(MIB))
    weights = Weights({str(n): mapped[n * MIB : (n + 1) * MIB] for n in range(8)})
    for name in weights:
        weights[name].sum()
    assert resident(mapped) <= 4 * MIB  # the system maps some pages around each read


def eight_megabytes(folder: Path) -> np.memmap[Any, Any]:
    """A mapped file of numbers."""
    path = folder / "weights.data"
    path.write_bytes(np.arange(2 * MIB, dtype=np.float32).tobytes())
    return np.memmap(path, np.uint8, mode="r")


@pytest.mark.skipif(not SMAPS.exists(), reason="counts pages by /proc")
def test_a_run_gives_back_the_pages_of_weights_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mapped, pages = eight_megabytes(tmp_path), RecentPages(MIB)
    for module in ("zeropoint.ir.weights", "zeropoint.interp.plan_steps"):
        monkeypatch.setattr(f"{module}.RECENT_PAGES", pages)
    weights, wide = Weights(), "tensor<512x512xf32>"
    lines = ["func.func @main(%x0: tensor<1x512xf32>) -> tensor<1x512xf32> {"]
    for n in range(8):
        array = mapped[n * MIB : (n + 1) * MIB].view(np.float32).reshape(512, 512)
        lines += [
            f"%w{n} = stablehlo.constant dense_resource<{weights.add(array)}> : {wide}",
            f"%y{n} = stablehlo.dot_general %x{n}, %w{n}, contracting_dims = [1] x [0]"
            f" : (tensor<1x512xf32>, {wide}) -> tensor<1x512xf32>",
            f"%x{n + 1} = stablehlo.tanh %y{n} : tensor<1x512xf32>",
        ]
    made = Interpreter(parse_program("\n".join([*lines, "return %x8 : tensor<1x512xf32>", "}"]), weights=weights))
    pages.release()
    most: list[int] = []
    x = {"arg0": np.ones((1, 512), np.float32)}
    for _ in range(2):
        made(x, trace=lambda *_: most.append(resident(mapped)))
    assert len(most) == 32
    assert max(most) <= 4 * MIB  # the system maps some pages around each read


@pytest.mark.skipif(not SMAPS.exists(), reason="counts pages by /proc")
def test_the_identity_of_a_journal_gives_back_the_pages_that_it_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped, pages = eight_megabytes(tmp_path), RecentPages(MIB)
    for module in ("zeropoint.ir.weights", "zeropoint.ir.mapped"):
        monkeypatch.setattr(f"{module}.RECENT_PAGES", pages)
    weights, wide = Weights(), "tensor<512x512xf32>"
    parts = [mapped[n * MIB : (n + 1) * MIB].view(np.float32).reshape(512, 512) for n in range(8)]
    lines = [f"%w{n} = stablehlo.constant dense_resource<{weights.add(part)}> : {wide}" for n, part in enumerate(parts)]
    body = "\n".join(["func.func @main() -> () {", *lines, "return", "}"])
    program = parse_program(body, weights=weights)
    pages.release()
    SearchJournal(tmp_path / "journal", program, "options", resume=False)
    assert 0 < resident(mapped) <= 4 * MIB  # the system maps some pages around each read


def test_arrays_in_memory_and_mappings_that_may_be_written_are_not_given_back(tmp_path: Path) -> None:
    path = tmp_path / "weights.data"
    path.write_bytes(bytes(100))
    assert mapping(np.zeros(3)) is None
    assert mapping(np.memmap(path, np.uint8, mode="c")[3:]) is None
    read = np.memmap(path, np.uint8, mode="r")
    assert mapping(read[8:].view(np.int32).reshape(-1)) is read


@pytest.mark.parametrize("change", [lambda path: os.truncate(path, MIB), lambda path: path.write_bytes(bytes(8 * MIB))])
def test_a_file_that_changed_in_place_is_refused_at_the_next_read(change: Any, tmp_path: Path) -> None:
    path = tmp_path / "weights.data"
    path.write_bytes(np.arange(8 * MIB, dtype=np.uint8).tobytes())
    weights = Weights({"early": map_file(path)[:8], "late": map_file(path)[2 * MIB : 3 * MIB]})
    assert weights["early"].tolist() == [*range(8)]
    os.utime(path, (1, 1))  # a file system may count time in steps
    weights = Weights({"late": map_file(path)[2 * MIB : 3 * MIB]})
    change(path)
    with pytest.raises(
        ChangedFile, match=r"weights\.data: found .* written after it was loaded, expected .*; load it again"
    ):
        weights["late"]


def test_a_file_that_another_one_replaces_or_that_is_gone_is_read_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "weights.data"
    path.write_bytes(bytes(range(100)))
    weights = Weights({"all": map_file(path)})
    (tmp_path / "new").write_bytes(b"x")
    (tmp_path / "new").replace(path)
    assert weights["all"].tolist() == [*range(100)]
    path.unlink()
    assert weights["all"].tolist() == [*range(100)]


LOST = """
import os, sys
from pathlib import Path
from zeropoint.cli.lost_pages import report_lost_pages
from zeropoint.ir.mapped import map_file
report_lost_pages()
weights = map_file(Path("weights.data"))
os.truncate("weights.data", 5000)
weights.sum()
"""


@pytest.mark.skipif(not SMAPS.exists(), reason="the system lists no mappings")
def test_a_file_that_is_cut_while_it_is_read_ends_the_command_with_a_line(tmp_path: Path) -> None:
    (tmp_path / "weights.data").write_bytes(bytes(8 * MIB))
    done = subprocess.run([sys.executable, "-c", LOST], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        f"zeropoint: {tmp_path.resolve()}/weights.data: found a file that was truncated to 5000 bytes while it was "
        "read, expected it not to change; run again with the complete file\n"
    )


@pytest.mark.skipif(not SMAPS.exists(), reason="counts pages by /proc")
def test_pages_that_computed_weights_are_made_of_are_given_back(
    mapped: np.memmap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zeropoint.ir.mapped.RECENT_PAGES", RecentPages(MIB))
    monkeypatch.setattr("zeropoint.ir.weights.RECENT_ARRAYS", RecentArrays(MIB))
    weights = Weights()
    for n in range(8):
        part = mapped[n * MIB : (n + 1) * MIB].view(np.int8)
        real = partial(np.multiply, np.float32(n + 1))
        weights.add(real(part), partial(result_of, real, part))
    for name in weights:
        weights[name].sum()
    assert resident(mapped) <= 4 * MIB  # the system maps some pages around each read
