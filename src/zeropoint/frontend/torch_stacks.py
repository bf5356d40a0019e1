"""Stacks that PyTorch's ONNX exporter lacks, with the operations that it has."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any


def stacked_in_depth(parts: Sequence[Any]) -> Any:
    """`dstack`: the parts along the third dimension."""
    torch: Any = importlib.import_module("torch")
    return torch.cat([_deep(part) for part in parts], 2)


def _deep(x: Any) -> Any:
    if x.dim() < 2:
        return x.reshape(1, -1, 1)
    return x.unsqueeze(2) if x.dim() == 2 else x
