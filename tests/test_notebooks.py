"""examples/notebooks: every cell runs, and the outputs that are stored are those of a run."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent / "examples" / "notebooks"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_every_cell_runs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    stored = [bool(cell.outputs) for cell in notebook.cells if cell.cell_type == "code"]
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(FOLDER)}}).execute()
    found = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [bool(cell.outputs) for cell in found] == stored
    assert not any("\x1b" in str(cell.outputs) for cell in found)  # escape sequences of a terminal
