"""What our own stages make of the QDQ models of rows."""

from __future__ import annotations

from pathlib import Path

import onnx

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
