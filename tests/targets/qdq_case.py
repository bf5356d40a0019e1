"""What our own stages make of the QDQ models of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from zeropoint.check_target.cases import CASES
from zeropoint.check_target.models import built, row_id, signatures
from zeropoint.frontend import load_model
from zeropoint.fuse import fuse
from zeropoint.ir.program import Program
from zeropoint.simplify import simplify
from zeropoint.solve import move_rescales, propagate
from zeropoint.targets import target


def propagated(name: str, program: Program) -> Program:
    """The regions that our stages make of a float program for a target, with their types."""
    table = target(name)
    return move_rescales(propagate(fuse(simplify(program), table), table), table)


def loaded(proto: onnx.ModelProto, folder: Path) -> Program:
    """The float program of a model, with the casts that pin its types."""
    onnx.save(proto, folder / "model.onnx")
    return load_model(folder / "model.onnx")


def variants(name: str) -> list[Any]:
    """Every row, case and storage of a target as test parameters; weights per channel and per tensor."""
    found = []
    for row in target(name).rows:
        for case in CASES.get(row.kernel, ()):
            for storages in signatures(row):
                for per_channel in (True, False) if case.weight else (True,):
                    way = ("per-channel" if per_channel else "per-tensor",) if case.weight else ()
                    label = "-".join([row_id(row), case.op, str(storages[-1]), *way])
                    found.append(pytest.param(row, built(row, case, storages, per_channel), id=label))
    return found
