"""The progress bar fits the terminal: the count and the remaining time are never cut off."""

from __future__ import annotations

import io
import re
import sys
import time
from collections.abc import Iterable, Iterator
from operator import length_hint
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from onnx import TensorProto, helper, save

import zeropoint as zp
from zeropoint.calibrate import bar
from zeropoint.progress import _displays, phase, showing  # pyright: ignore[reportPrivateUsage]: what is on the terminal

T = TypeVar("T")


class Terminal(io.StringIO):
    """Standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [40, 100])
def test_count_and_remaining_time_are_shown_on_terminals_of_any_width(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    assert list(bar(range(250), "means of channels")) == list(range(250))
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())
    lines = [line for line in re.split(r"[\r\n]+", plain) if "means" in line]
    assert lines
    assert all(len(line) <= width and re.search(r"/250 .*\d:\d\d:\d\d|/250 .*-:--:--", line) for line in lines)
    assert any("━" in line for line in lines) == (width == 100)


def drawn(terminal: Terminal) -> list[str]:
    """The lines that were drawn, without control sequences."""
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())
    return [line for line in re.split(r"[\r\n]+", plain) if line.strip()]


def terminal_for(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error for the rest of a test. Not a fixture: pytest replaces the stream after its setup."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    return made


def test_the_remaining_time_is_no_guess_from_the_first_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 40 items the first three are fast; nothing is said before the fourth."""
    terminal = terminal_for(monkeypatch)
    for number in bar(range(40), "calibrate"):
        time.sleep(0.001 if number < 3 else 0.05)
    early = [line for line in drawn(terminal) if re.search(r" [0-3]/40", line)]
    late = [line for line in drawn(terminal) if re.search(r" (?:[5-9]|[123]\d)/40", line)]
    assert early
    assert all("-:--:--" in line for line in early)
    assert late
    assert not any("-:--:--" in line for line in late)


def test_a_first_item_that_compiles_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_for(monkeypatch)
    for number in bar(range(20), "calibrate"):
        time.sleep(1.0 if number == 0 else 0.05)
    times = [found[1] for line in drawn(terminal) if (found := re.search(r"/20 \S+ 0:00:(\d\d)", line))]
    assert times
    assert max(map(int, times)) <= 2  # 19 of the first one would be 19 s


def test_a_bar_inside_of_a_bar_is_a_line_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_for(monkeypatch)
    for _ in bar(range(1), "calibrate"):
        assert list(bar(range(3), "at once")) == [0, 1, 2]
        for _ in bar(range(2), "compile"):
            time.sleep(0.7)
    lines = drawn(terminal)
    assert any("compile" in line and "/2" in line for line in lines)
    assert not any("at once" in line for line in lines)


def test_loading_a_model_counts_its_nodes_and_names_the_other_phases(tmp_path: Path) -> None:
    """The bars of `load` and of all that loads a model by itself; none without progress."""
    node = helper.make_node("Relu", ["x"], ["y"])
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2])] for name in "xy"]
    path = tmp_path / "model.onnx"
    save(helper.make_model(helper.make_graph([node], "g", *ports), opset_imports=[helper.make_opsetid("", 17)]), path)
    text = tmp_path / "model.mlir"
    zp.load(path).save(text)
    seen: list[tuple[str, int]] = []

    def progress(items: Iterable[T], description: str) -> Iterator[T]:
        seen.append((description, length_hint(items, -1)))
        return iter(items)

    zp.load(path)
    assert not seen
    zp.load(path, progress=progress)
    assert seen == [("read model.onnx", 1), ("check", 1), ("fold shapes", 1), ("import", 1), ("verify", 1)]
    for call in (zp.quantize, zp.sensitivity):
        seen.clear()
        call(text, np.ones((1, 1, 2), np.float32), progress=progress)
        assert seen[0] == ("read model.mlir", 1)
    seen.clear()
    zp.compare(path, text, np.ones((1, 1, 2), np.float32), progress=progress)
    assert seen[:2] == [("read model.mlir", 1), ("read model.onnx", 1)]


def test_an_error_in_a_phase_removes_its_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal_for(monkeypatch)
    with pytest.raises(ValueError, match="broken"), showing(bar), phase("read"):
        raise ValueError("broken")
    assert not _displays
