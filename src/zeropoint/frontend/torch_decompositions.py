"""Write PyTorch ops that its ONNX exporter lacks, or exports wrongly, with ops that it has.

`torch.onnx.export` (PyTorch 2.13) ignores the divisor of average pools and the projections of LSTMs, exports embedding
bags as sequences, and has no conversion for the other ops here. Each function has the arguments of its ATen op. It
returns `NotImplemented` if the exporter converts a call as it is.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Decomposition = Callable[..., Any]


def decomposed(exported: Any) -> Any | None:
    """An `ExportedProgram` without the ops in the table; None if it has none of them."""
    found = {_function(node.target): TABLE[_without_in_place(node.target)] for node in _calls(exported)}
    return exported.run_decompositions(found) if found else None


def is_exported_wrongly(exported: Any) -> bool:
    """Whether PyTorch converts an op of this program to one that computes something else, without an error."""
    return any(
        _name(node.target) in ("aten.avg_pool2d", "aten.avg_pool3d") and len(node.args) > _DIVISOR
        for node in _calls(exported)
    )


_DIVISOR = 6
"""The position of an average pool's divisor among its arguments."""


def _name(target: object) -> str:
    """The name of an op without its overload: `aten.median` for `aten.median.dim`."""
    return ".".join(str(target).split(".")[:2])


def _without_in_place(target: object) -> str:
    """The name of an op and its overload, for an in-place op those of the function: `aten.cumprod.default`."""
    return str(target).replace("_.", ".")


def _function(target: Any) -> Any:
    """The op, or the function that an in-place op is written as before it is decomposed."""
    name = _without_in_place(target)
    if name == str(target):
        return target
    space, op, overload = name.split(".")
    torch: Any = importlib.import_module("torch")
    return getattr(getattr(getattr(torch.ops, space), op), overload)


def _calls(exported: Any) -> Iterator[Any]:
    nodes = exported.graph.nodes if exported is not None else ()
    return (node for node in nodes if _without_in_place(node.target) in TABLE)


def _average_pool(rank: int) -> Decomposition:
    def pooled(
        x: Any,
        kernel: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        """An average over whole windows of a value that is padded with zeros, times elements / divisor."""
        del count_include_pad  # with a divisor, it says nothing
        if divisor_override is None:
            return NotImplemented
        functions: Any = importlib.import_module("torch.nn.functional")
        sizes, steps, pads = (_spread(given, rank) for given in (kernel, stride or kernel, padding))
        borders: list[int] = []
        for n, size, step, pad in zip(x.shape[-rank:], sizes, steps, pads, strict=True):
            free = n + 2 * pad - size
            count = free // step + 1
            # A window must start inside of the value or of the padding before it.
            count += int(ceil_mode and free % step > 0 and count * step < n + pad)
            borders = [pad, max(pad, (count - 1) * step + size - n - pad), *borders]
        average: Any = getattr(functions, f"avg_pool{rank}d")
        return average(functions.pad(x, borders), sizes, steps) * (math.prod(sizes) / divisor_override)

    return pooled


def _spread(given: Sequence[int], rank: int) -> list[int]:
    """One number for each dimension; a single number is that of all."""
    return list(given) * rank if len(given) == 1 else list(given)


def _lstm(x: Any, state: Any, weights: Any, *settings: Any) -> Any:
    """An LSTM with a projection of its output, step by step: ONNX's has none."""
    if state[0].shape[-1] == state[1].shape[-1]:
        return NotImplemented
    torch: Any = importlib.import_module("torch")
    table: Any = importlib.import_module("torch._decomp").decomposition_table
    return table[torch.ops.aten.lstm.input](x, state, weights, *settings)


def _embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """The sum, mean or maximum of the rows of each bag, by the bags that each index belongs to."""
    del scale_grad_by_freq, sparse  # of training
    torch: Any = importlib.import_module("torch")
    end = torch.full((1,), indices.shape[0], dtype=offsets.dtype)
    starts = offsets[:-1] if include_last_offset else offsets
    ends = offsets[1:] if include_last_offset else torch.cat([offsets[1:], end])
    place = torch.arange(indices.shape[0], dtype=offsets.dtype)
    inside = (place >= starts[:, None]) & (place < ends[:, None])
    if padding_idx is not None and padding_idx >= 0:
        inside = inside & (indices != padding_idx)
    rows, counts = weight[indices], inside.sum(1)
    if mode == 2:  # maximum; 0 of an empty bag
        found = torch.where(inside[:, :, None], rows, -math.inf).amax(1)
        found = torch.where(counts[:, None] > 0, found, 0.0)
    else:
        rows = rows if per_sample_weights is None else rows * per_sample_weights[:, None]
        found = inside.to(rows.dtype) @ rows
        found = found / counts.clamp(min=1)[:, None].to(rows.dtype) if mode == 1 else found
    return found, torch.zeros_like(indices), counts, torch.zeros_like(starts)


def _adaptive_max_pool(x: Any, sizes: Sequence[int]) -> Any:
    """The maxima of windows of different lengths, and their positions: shorter windows repeat their last element."""
    rows, columns = (_windows(n, count) for n, count in zip(x.shape[-2:], sizes, strict=True))
    places = (rows[:, None, :, None] * x.shape[-1] + columns[None, :, None, :]).flatten(-2)
    elements = x.flatten(-2)[..., places]
    greatest = elements.argmax(-1, keepdim=True)
    return elements.amax(-1), places.expand(elements.shape).gather(-1, greatest).squeeze(-1)


def _windows(size: int, count: int) -> Any:
    """The positions in each of `count` windows that cover a dimension, all as many as the longest has."""
    torch: Any = importlib.import_module("torch")
    ends = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
    number, longest = torch.arange(count), max(end - start for start, end in ends)
    last = ((number + 1) * size + count - 1) // count - 1
    return torch.minimum((number * size // count)[:, None] + torch.arange(longest), last[:, None])


def _adaptive_max_pool_of_line(x: Any, sizes: Sequence[int]) -> Any:
    return tuple(found.squeeze(-2) for found in _adaptive_max_pool(x.unsqueeze(-2), [1, *sizes]))


def _distances(a: Any, b: Any, p: float = 2.0, compute_mode: int | None = None) -> Any:
    """The p-norm of the difference of each row of `a` and each row of `b`."""
    del compute_mode  # of speed
    size = (a.unsqueeze(-2) - b.unsqueeze(-3)).abs()
    if p == 0:
        return (size != 0).to(a.dtype).sum(-1)
    if p == math.inf:
        return size.amax(-1)
    return size.sum(-1) if p == 1 else (size * size).sum(-1).sqrt() if p == 2 else (size**p).sum(-1) ** (1 / p)


def _hypotenuse(a: Any, b: Any) -> Any:
    return (a * a + b * b).sqrt()


def _kth(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th least element along a dimension, and its position."""
    values, places = x.sort(dim)
    found = values.narrow(dim, k - 1, 1), places.narrow(dim, k - 1, 1)
    return found if keepdim else tuple(each.squeeze(dim) for each in found)


def _median(x: Any, dim: int, keepdim: bool = False) -> Any:
    return _kth(x, (x.shape[dim] + 1) // 2, dim, keepdim)


def _median_of_all(x: Any) -> Any:
    return _median(x.reshape(-1), 0)[0]


def _searched(
    ordered: Any,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """The number of elements of `ordered` that are less than each element of `x`, or equal to it with `right`."""
    torch: Any = importlib.import_module("torch")
    ordered = ordered if sorter is None else ordered.gather(-1, sorter)
    ordered = ordered if ordered.dim() == 1 else ordered.unsqueeze(-2)
    # Every number is before a NaN, which no number is greater than.
    behind = ordered > x.unsqueeze(-1) if right or side == "right" else ordered >= x.unsqueeze(-1)
    return behind.logical_not().sum(-1).to(torch.int32 if out_int32 else torch.int64)


def _running_product(x: Any, dim: int, *, dtype: Any = None) -> Any:
    """The products of the first elements along a dimension: of rows of a triangle, with ones beyond it."""
    torch: Any = importlib.import_module("torch")
    x = x if dtype is None else x.to(dtype)
    last = x.movedim(dim, -1)
    triangle = torch.ones(last.shape[-1], last.shape[-1], dtype=torch.bool).tril()
    return torch.where(triangle, last.unsqueeze(-2), 1).prod(-1).movedim(-1, dim)


def _put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """`x[mask] = number`, or `x[:, mask] = number`: a `where`."""
    torch: Any = importlib.import_module("torch")
    *outer, mask = indices
    is_mask = isinstance(mask, torch.Tensor) and mask.dtype == torch.bool and all(index is None for index in outer)
    if not is_mask or math.prod(values.shape) != 1 or accumulate:
        return NotImplemented
    mask = mask.reshape(*mask.shape, *[1] * (x.dim() - len(outer) - mask.dim()))
    return torch.where(mask, values.reshape(()), x)


def _integer_product(a: Any, b: Any) -> Any:
    torch: Any = importlib.import_module("torch")
    return a.to(torch.int32) @ b.to(torch.int32)


def _chosen_parameters(x: Any, least: int, most: int, eps: float, dtype: Any) -> Any:
    """The scale and the zero point that cover the range of a value, as dynamic quantization computes them."""
    del dtype
    torch: Any = importlib.import_module("torch")
    flat = x.reshape(-1)
    low, high = flat.amin(0).clamp(max=0), flat.amax(0).clamp(min=0)
    scale = ((high - low) / float(most - least)).clamp(min=eps)
    zero = (least - (low / scale).round()).clamp(least, most)
    return scale.to(torch.float64), zero.to(torch.int64)


def _quantized(x: Any, scale: Any, zero: Any, least: int, most: int, dtype: Any) -> Any:
    steps = (x * (1.0 / scale).to(x.dtype)).round() + zero.to(x.dtype)
    return steps.clamp(least, most).to(dtype)


def _dequantized(x: Any, scale: Any, zero: Any, *_: Any, out_dtype: Any = None) -> Any:
    torch: Any = importlib.import_module("torch")
    kind = torch.float32 if out_dtype is None else out_dtype
    return (x.to(kind) - zero.to(kind)) * scale.to(kind)


TABLE: Mapping[str, Decomposition] = {
    "aten._int_mm.default": _integer_product,
    "aten.adaptive_max_pool1d.default": _adaptive_max_pool_of_line,
    "aten.adaptive_max_pool2d.default": _adaptive_max_pool,
    "aten.avg_pool2d.default": _average_pool(2),
    "aten.avg_pool3d.default": _average_pool(3),
    "aten.cdist.default": _distances,
    "aten.cumprod.default": _running_product,
    "aten.embedding_bag.padding_idx": _embedding_bag,
    "aten.hypot.default": _hypotenuse,
    "aten.index_put.default": _put,
    "aten.kthvalue.default": _kth,
    "aten.lstm.input": _lstm,
    "aten.median.default": _median_of_all,
    "aten.median.dim": _median,
    "aten.searchsorted.Tensor": _searched,
    "quantized_decomposed.choose_qparams.tensor": _chosen_parameters,
    "quantized_decomposed.dequantize_per_tensor.tensor": _dequantized,
    "quantized_decomposed.quantize_per_tensor.tensor": _quantized,
}
"""Decompositions by the name of the op and its overload."""
