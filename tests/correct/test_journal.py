"""Corrections that are broken off go on from their journal, with the same bits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from networks import Network
from zeropoint.calibrate import JournalError, Work
from zeropoint.cli import main
from zeropoint.correct import block_reconstruction, closed_form, journal
from zeropoint.correct.journal import CorrectionJournal
from zeropoint.interp import ReferenceEngine
from zeropoint.ir import files
from zeropoint.ir.files import save_program
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import AddOp, ConvolutionLayout, ConvolutionOp, MaximumOp
from zeropoint.ir.tensors import Array, shape_of, with_shape
from zeropoint.ir.text import print_program
from zeropoint.pipeline import Options, quantize

CHANNELS, SIZE, BLOCKS = 8, 6, 2
METHODS = {
    "analytic_bias": ("analytic_bias",),
    "empirical_bias": ("empirical_bias",),
    "closed_form": ("closed_form",),
    "blocks": ("empirical_bias", "block_reconstruction"),
    "best": ("empirical_bias", "closed_form", "block_reconstruction", "unrounded_terms", "unrounded_results"),
}
RECORDS = {"best": 5}
"""The records between two ends of the process, if these are more than one. Each run takes half a second."""


@cache
def network() -> Program:
    """Residual blocks of two convolutions. A great weight in each channel makes coarse steps for the others."""
    net = Network([(1, CHANNELS, SIZE, SIZE)], seed=3)

    def convolution(x):
        net.layer("conv")
        weight = net.random.normal(0.1, 1, (CHANNELS, CHANNELS, 1, 1)) / CHANNELS**0.5
        weight[:, 0] *= 12.0
        result = ConvolutionOp(x, net.constant(weight), with_shape(x, shape_of(x)), ConvolutionLayout.channels_first(2))
        x = net.insert(result)
        return net.insert(AddOp(x, net.along(net.random.normal(0, 1, CHANNELS), x, 1)))

    x = convolution(net.values[0])
    for _ in range(BLOCKS):
        hidden = convolution(x)
        term = convolution(net.insert(MaximumOp(hidden, net.splat(0.0, hidden))))
        net.layer("sum")
        x = net.insert(AddOp(x, term))
    return net.finish([x])


def data(seed: int = 1) -> list[Mapping[str, Array]]:
    random = np.random.default_rng(seed)
    return [{"x0": random.normal(0, 1, (1, CHANNELS, SIZE, SIZE)).astype(np.float32)} for _ in range(16)]


def written(work: Work | None, folder: Path, samples: list[Mapping[str, Array]] | None = None, **options: Any) -> Any:
    """The propagated program as text, and the bytes of the integer program and its weights as files."""
    engine = options.pop("engine", None)
    made = quantize(network(), samples or data(), Options(**options), work=work, engine=engine)
    folder.mkdir(exist_ok=True)
    paths = save_program(made.integer, folder / "integer.mlir")
    return print_program(made.propagated), [path.read_bytes() for path in paths]


@pytest.fixture
def every_kernel_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SECONDS", 0.0)


class Broken(Exception):
    """In place of a crash."""


def dies_after_records(monkeypatch: pytest.MonkeyPatch, every: int = 1) -> None:
    add, counts = CorrectionJournal.add, count(1)

    def add_and_die(record: CorrectionJournal, *values: Any) -> None:
        add(record, *values)
        if not next(counts) % every:
            raise Broken

    monkeypatch.setattr(CorrectionJournal, "add", add_and_die)


@pytest.mark.usefixtures("every_kernel_is_recorded")
@pytest.mark.parametrize(
    ("methods", "engine"),
    [("analytic_bias", None), ("empirical_bias", None), ("best", None), ("best", ReferenceEngine())],
    ids=["analytic_bias", "empirical_bias", "best", "best-interpreter"],
)
def test_corrections_that_are_broken_off_again_and_again_repeat_none(
    methods: str, engine: ReferenceEngine | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"corrections": METHODS[methods], "engine": engine}
    alone, every = written(None, tmp_path / "alone", **options), RECORDS.get(methods, 1)
    dies_after_records(monkeypatch, every)
    path, lines, runs = tmp_path / "journal", [1], 0
    for runs in range(100):
        try:
            found = written(Work(1, path, runs > 0), tmp_path / "again", **options)
            break
        except Broken:
            lines.append(len((tmp_path / "journal.corrections").read_bytes().splitlines()))
    assert found == alone
    assert lines == [1 + every * number for number in range(runs + 1)]
    assert every * runs > 2 * BLOCKS - every
    assert not (tmp_path / "journal.corrections").exists()


@pytest.mark.usefixtures("every_kernel_is_recorded")
@pytest.mark.parametrize(
    ("methods", "module", "name"),
    [("closed_form", closed_form, "reconstruct"), ("blocks", block_reconstruction, "learn")],
)
def test_nothing_is_solved_or_learned_again(
    methods: str, module: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, path = {"corrections": METHODS[methods]}, tmp_path / "journal"

    def die(*values: Any, **named: Any) -> None:
        raise Broken

    with monkeypatch.context() as patch:
        patch.setattr("zeropoint.correct.effort._recorded", die)
        with pytest.raises(Broken):
            written(Work(1, path), tmp_path / "again", **options)
    alone = written(None, tmp_path / "alone", **options)
    monkeypatch.setattr(module, name, die)
    assert written(Work(1, path, resume=True), tmp_path / "again", **options) == alone


def broken_off(folder: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Path:
    """The journal of corrections that ended after the first record."""
    with monkeypatch.context() as patch:
        dies_after_records(patch)
        with pytest.raises(Broken):
            written(Work(1, folder / "journal"), folder / "again", **options)
    return folder / "journal.corrections"


OTHERS: dict[str, dict[str, Any]] = {
    "other data": {"samples": data(2)},
    "a sample less": {"samples": data()[:-1]},
    "other options": {"corrections": ("closed_form", "empirical_bias")},
    "other ranges": {"observer": "minmax"},
}


@pytest.mark.usefixtures("every_kernel_is_recorded")
@pytest.mark.parametrize("other", OTHERS)
def test_a_journal_of_something_else_is_refused(other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"corrections": ("closed_form",)}
    path = broken_off(tmp_path, monkeypatch, **options)
    before = path.read_bytes()
    with pytest.raises(JournalError, match="found the journal of another model, other data or other options, or a dam"):
        written(Work(1, tmp_path / "journal", resume=True), tmp_path / "again", **(options | OTHERS[other]))
    assert path.read_bytes() == before
    assert written(Work(1, tmp_path / "journal"), tmp_path / "again", **options)  # without resume, it is replaced


DAMAGED: dict[str, Any] = {
    "a digit of a weight": lambda text: text.replace(b'"weight": "', b'"weight": "A', 1),
    "a line that is cut": lambda text: text[:-40] + b"\n",
    "a line of something else": lambda text: text + b'{"method": 5}\n',
    "no first line": lambda text: text.split(b"\n", 1)[1],
    "an empty line": lambda text: text + b"\n",
    "bytes that are not text": lambda text: text + b"\xff\n",
    "nothing": lambda text: b"",
}


@pytest.mark.usefixtures("every_kernel_is_recorded")
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_journal_is_refused(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = broken_off(tmp_path, monkeypatch, corrections=("closed_form",))
    path.write_bytes(DAMAGED[damage](path.read_bytes()))
    with pytest.raises(JournalError, match=r"or a damaged one, .*; run without resume \(--resume\) to start over"):
        written(Work(1, tmp_path / "journal", resume=True), tmp_path / "again", corrections=("closed_form",))


@pytest.mark.usefixtures("every_kernel_is_recorded")
def test_an_incomplete_last_line_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"corrections": ("closed_form",)}
    path = broken_off(tmp_path, monkeypatch, **options)
    path.write_bytes(path.read_bytes() + path.read_bytes().splitlines()[1][:70])
    again = written(Work(1, tmp_path / "journal", resume=True), tmp_path / "again", **options)
    assert again == written(None, tmp_path / "alone", **options)


def test_short_corrections_write_no_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*values: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(CorrectionJournal, "add", refuse)
    written(Work(1, tmp_path / "journal"), tmp_path / "again", corrections=METHODS["closed_form"])


@pytest.mark.usefixtures("every_kernel_is_recorded")
def test_a_search_has_its_own_journal_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*values: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(CorrectionJournal, "add", refuse)
    options: dict[str, Any] = {"corrections": ("empirical_bias",), "target": "cpu-wide", "least_sqnr": 10.0}
    written(Work(1, tmp_path / "journal"), tmp_path / "again", **options)


@pytest.mark.usefixtures("every_kernel_is_recorded")
def test_a_command_goes_on_where_corrections_were_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_program(network(), tmp_path / "model.mlir")
    np.savez(tmp_path / "data.npz", x0=np.concatenate([sample["x0"] for sample in data()]))
    given = ["quantize", str(tmp_path / "model.mlir"), "--data", str(tmp_path / "data.npz"), "--effort", "best"]
    assert CliRunner().invoke(main, [*given, "-o", str(tmp_path / "alone.mlir")]).exit_code == 0

    def die(*values: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_together", die)
        dies = CliRunner().invoke(main, [*given, "-o", str(tmp_path / "q.mlir")])
    assert dies.exit_code != 0
    assert [path.name for path in tmp_path.glob(".q.mlir*")] == [".q.mlir.journal.corrections"]
    monkeypatch.setattr(closed_form, "reconstruct", die)
    assert CliRunner().invoke(main, [*given, "-o", str(tmp_path / "q.mlir"), "--resume"]).exit_code == 0
    assert sorted(path.name for path in tmp_path.glob("*q.mlir*")) == ["q.mlir"]
    assert (tmp_path / "q.mlir").read_text() == (tmp_path / "alone.mlir").read_text()
