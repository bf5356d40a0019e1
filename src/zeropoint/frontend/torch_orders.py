"""Functions of the order of elements that PyTorch's ONNX exporter lacks, with the operations that it has."""

from __future__ import annotations

import importlib
from typing import Any


def _torch() -> Any:
    return importlib.import_module("torch")


def _of_one(x: Any) -> Any:
    """The choice from a number without dimensions, and its position."""
    return x.clone(), _torch().zeros((), dtype=_torch().int64)


def kth(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th least element along a dimension, and its position."""
    if x.dim() == 0:
        return _of_one(x)
    values, places = x.sort(dim)
    found = values.narrow(dim, k - 1, 1), places.narrow(dim, k - 1, 1)
    return found if keepdim else tuple(each.squeeze(dim) for each in found)


def median(x: Any, dim: int, keepdim: bool = False) -> Any:
    """The lower median and its position; a NaN, and the position of the first one, if there is one."""
    torch = _torch()
    if x.dim() == 0:
        return _of_one(x)
    found, place = kth(x, (x.shape[dim] + 1) // 2, dim, keepdim)
    if not x.is_floating_point():
        return found, place
    # The maximum is NaN if an element is, and otherwise not less.
    found = torch.minimum(found, x.amax(dim, keepdim))
    first = x.isnan().to(torch.int32).argmax(dim, keepdim)
    return found, torch.where(found.isnan(), first, place)


def median_of_all(x: Any) -> Any:
    """The median of all elements."""
    return median(x.reshape(-1), 0)[0]


def median_of_numbers(x: Any, dim: int, keepdim: bool = False) -> Any:
    """The lower median of the elements that are not NaN, and its position."""
    torch = _torch()
    if not x.is_floating_point() or x.dim() == 0:
        return median(x, dim, keepdim)
    missing = x.isnan()
    values, places = torch.where(missing, torch.inf, x).sort(dim)
    count = missing.logical_not().sum(dim, keepdim=True)
    at = ((count - 1) // 2).clamp(min=0)
    found, place = values.gather(dim, at), places.gather(dim, at)
    found = torch.where(count == 0, torch.nan, found)
    return (found, place) if keepdim else (found.squeeze(dim), place.squeeze(dim))


def median_of_all_numbers(x: Any) -> Any:
    """The median of all elements that are not NaN."""
    return median_of_numbers(x.reshape(-1), 0)[0]


def mode(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The least of the most frequent elements along a dimension, and the last position that has it."""
    torch = _torch()
    if x.dim() == 0:
        return _of_one(x)
    last = x.movedim(dim, -1)
    counts = (last.unsqueeze(-1) == last.unsqueeze(-2)).to(torch.int32).sum(-1)
    is_frequent = counts == counts.amax(-1, keepdim=True)
    found = torch.where(is_frequent, last, last.amax(-1, keepdim=True)).amin(-1, keepdim=True)
    numbers = torch.arange(last.shape[-1])
    place = torch.where(last == found, numbers, -1).amax(-1, keepdim=True)
    results = tuple(each.movedim(-1, dim) for each in (found, place))
    return results if keepdim else tuple(each.squeeze(dim) for each in results)


def running_maximum(x: Any, dim: int) -> Any:
    """The maximum of the first elements along a dimension, and the last position that has it."""
    return _running(x, dim, _torch().maximum)


def running_minimum(x: Any, dim: int) -> Any:
    """The minimum of the first elements along a dimension, and the last position that has it."""
    return _running(x, dim, _torch().minimum)


def _running(x: Any, dim: int, choose: Any) -> Any:
    torch = _torch()
    if x.dim() == 0:
        return _of_one(x)
    found = _doubled(x, dim, choose)
    shape = [1] * x.dim()
    shape[dim] = -1
    numbers = torch.arange(x.shape[dim]).reshape(shape)
    is_new = x == found
    if x.is_floating_point():
        is_new = is_new | x.isnan()
    return found, _doubled(torch.where(is_new, numbers, 0), dim, torch.maximum)


def _doubled(x: Any, dim: int, choose: Any) -> Any:
    """The choice among the first elements, by steps of 1, 2, 4, ..."""
    step, size = 1, x.shape[dim]
    while step < size:
        rest = choose(x.narrow(dim, step, size - step), x.narrow(dim, 0, size - step))
        x = _torch().cat([x.narrow(dim, 0, step), rest], dim)
        step *= 2
    return x


def searched(
    ordered: Any,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """The number of elements of `ordered` that are less than each element of `x`, or equal to it with `right`."""
    torch = _torch()
    ordered = ordered if sorter is None else ordered.gather(-1, sorter)
    ordered = ordered if ordered.dim() == 1 else ordered.unsqueeze(-2)
    x = x if isinstance(x, torch.Tensor) else torch.full((), x, dtype=ordered.dtype)
    # Every number is before a NaN, which no number is greater than.
    behind = ordered > x.unsqueeze(-1) if right or side == "right" else ordered >= x.unsqueeze(-1)
    return behind.logical_not().sum(-1).to(torch.int32 if out_int32 else torch.int64)
