"""Stacks that PyTorch's ONNX exporter lacks, with the operations that it has."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any


def stacked_side_by_side(parts: Sequence[Any]) -> Any:
    """`hstack`: the parts along the second dimension, or along the only one."""
    torch: Any = importlib.import_module("torch")
    parts = [part.reshape(1) if part.dim() == 0 else part for part in parts]
    return torch.cat(parts, 0 if parts[0].dim() == 1 else 1)


def stacked_in_rows(parts: Sequence[Any]) -> Any:
    """`vstack`: the parts along the first dimension; a vector is a row."""
    torch: Any = importlib.import_module("torch")
    return torch.cat([part.reshape(1, -1) if part.dim() < 2 else part for part in parts], 0)


def stacked_in_depth(parts: Sequence[Any]) -> Any:
    """`dstack`: the parts along the third dimension."""
    torch: Any = importlib.import_module("torch")
    return torch.cat([_deep(part) for part in parts], 2)


def _deep(x: Any) -> Any:
    if x.dim() < 2:
        return x.reshape(1, -1, 1)
    return x.unsqueeze(2) if x.dim() == 2 else x
