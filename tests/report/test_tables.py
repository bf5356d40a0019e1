"""Text tables: as wide as the terminal, and blocks of lines where it is too narrow for columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from zeropoint.cli import main
from zeropoint.report.tables import folded, text_table

COLUMNS = "value", "type", "because"
ROWS = [("conv", "!quant.uniform<i8:f32, 0.5>", "range [0, 1]: observed by calibration"), ("pool", "f32", "")]


def test_a_table_without_a_terminal_has_a_line_for_each_row() -> None:
    lines = text_table(COLUMNS, ROWS).splitlines()
    assert [line.split() for line in lines if "conv" in line] == [" ".join(ROWS[0]).split()]


@pytest.mark.parametrize("width", [70, 100])
def test_cells_are_folded_to_the_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    rows = [(name, kind, reason * 3) for name, kind, reason in ROWS]
    lines = text_table(COLUMNS, rows).splitlines()
    assert lines[1].split() == list(COLUMNS)
    assert max(map(len, lines)) <= width


def test_rows_are_blocks_of_lines_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "34")
    assert text_table(COLUMNS, ROWS, title="2 values").splitlines() == [
        "2 values",
        "",
        "conv",
        "  type     !quant.uniform<i8:f32,",
        "           0.5>",
        "  because  range [0, 1]: observed",
        "           by calibration",
        "",
        "pool",
        "  type     f32",
    ]


def test_a_narrow_table_keeps_its_columns_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    assert text_table(("a", "b"), [("1", "2")]).splitlines()[1].split() == ["a", "b"]


def test_brackets_in_cells_are_not_markup() -> None:
    assert "[bold]x[/bold]" in text_table(("a",), [("[bold]x[/bold]",)])


def test_text_is_folded_between_words_only_where_there_is_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    text = "  softmax stays float at 'softmax'"
    assert folded(text) == text
    monkeypatch.setenv("COLUMNS", "24")
    assert folded(text).splitlines() == ["  softmax stays float at", "    'softmax'"]


TEXT = """func.func @main(%x: tensor<1x8xf32> {zeropoint.name = "x"}) -> tensor<1x8xf32> {
  %w = stablehlo.constant dense<0.11> : tensor<8x8xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32> loc("encoder.layer.0.attention.output.dense")
  %1 = stablehlo.sine %0 : tensor<1x8xf32> loc("encoder.layer.0.attention.output.sine")
  return %1 : tensor<1x8xf32>
}
"""


def test_commands_print_no_line_that_is_longer_than_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(TEXT)
    np.savez("d.npz", x=np.random.default_rng(0).normal(0, 1, (4, 1, 8)).astype(np.float32))
    for command in (
        "quantize m.mlir --data d.npz -o q.mlir",
        "compare m.mlir q.mlir --data d.npz --layers",
        "explain q.mlir",
        "explain q.mlir encoder.layer.0.attention.output.dense",
        "explain q.mlir --ranges",
        "sensitivity m.mlir --data d.npz",
        "targets",
        "targets cpu",
    ):
        done = CliRunner().invoke(main, command.split())
        assert done.exit_code == 0, done.output
        assert max(map(len, done.output.splitlines())) <= 40, command
