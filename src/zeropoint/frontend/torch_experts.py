"""Products of the rows of each expert of a mixture with its own weights: an op that `transformers` registers."""

from __future__ import annotations

import importlib
from typing import Any


def grouped_product(x: Any, weight: Any, ends: Any) -> Any:
    """The rows of `x` times the weights of their group: rows up to `ends[0]` times `weight[0]`, and so on.

    Every row is multiplied by the weights of every group, and the product of its own is selected, because the numbers
    of rows are known only when the network runs. Rows after the last group give 0.
    """
    torch: Any = importlib.import_module("torch")
    place = torch.arange(x.shape[0], dtype=ends.dtype)[:, None]
    found = x @ weight[0]
    for group in range(1, weight.shape[0]):
        found = torch.where(place >= ends[group - 1], x @ weight[group], found)
    return torch.where(place < ends[-1], found, 0.0)
