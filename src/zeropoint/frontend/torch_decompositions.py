"""Write PyTorch ops that its ONNX exporter lacks, or exports wrongly, with ops that it has.

`torch.onnx.export` (PyTorch 2.13) ignores the divisor of average pools, the projections of LSTMs, means in scatters,
smoothed labels and bounds of quantized values, aligns corners to lengths that are not rounded, exports embedding bags
as sequences, and has no conversion for the other ops here. Each function has the arguments of its ATen op. It returns
`NotImplemented` if the exporter converts a call as it is.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from zeropoint.frontend import torch_bessel as bessel
from zeropoint.frontend import torch_experts as experts
from zeropoint.frontend import torch_integers as integers
from zeropoint.frontend import torch_matrices as matrices
from zeropoint.frontend import torch_orders as orders
from zeropoint.frontend import torch_quantized as quantized
from zeropoint.frontend import torch_special_functions as special
from zeropoint.frontend import torch_stacks as stacks
from zeropoint.frontend import torch_windows as windows

Decomposition = Callable[..., Any]


def decomposed(exported: Any) -> Any | None:
    """An `ExportedProgram` without the ops in the table; None if it has none of them."""
    found = {_function(node.target): TABLE[_without_in_place(node.target)] for node in _calls(exported)}
    return exported.run_decompositions(found) if found else None


def exported_wrongly(exported: Any) -> list[str]:
    """The ops of this program that PyTorch converts to ones that compute something else, without an error."""
    nodes = _calls(exported)
    return sorted({_name(node.target) for node in nodes if _WRONG.get(_name(node.target), lambda _: False)(node)})


_DIVISOR = 6
"""The position of an average pool's divisor among its arguments."""
_REDUCTION = 4
"""The position of the reduction of a scatter among its arguments."""
_DIMENSIONS = 4
"""The dimensions of an attention's operands that the exporter converts: batch, heads, rows, features."""
_SMOOTHING = 5
"""The position of the smoothing of labels among the arguments of a cross entropy."""


def _aligned(node: Any) -> bool:
    """Whether an interpolation aligns corners, and has factors instead of sizes."""
    return bool(node.args[2]) and node.args[3] is not None


_WRONG: Mapping[str, Callable[[Any], bool]] = {
    **{
        f"aten.{op}": _aligned
        for op in ("upsample_bicubic2d", "upsample_bilinear2d", "upsample_linear1d", "upsample_trilinear3d")
    },
    **{f"aten.{op}": lambda node: bool(node.args[2]) for op in ("_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa")},
    "aten.avg_pool2d": lambda node: len(node.args) > _DIVISOR,
    "aten.avg_pool3d": lambda node: len(node.args) > _DIVISOR,
    "aten.cross_entropy_loss": lambda node: len(node.args) > _SMOOTHING,
    "aten.scatter_reduce": lambda node: node.args[_REDUCTION] == "mean",
    "aten.signbit": lambda node: True,
    "aten.fake_quantize_per_channel_affine": lambda node: node.args[-2:] == (0, 127),
    "aten.fake_quantize_per_tensor_affine": lambda node: node.args[-2:] == (0, 127),
    "quantized_decomposed.quantize_per_tensor": lambda node: quantized.is_narrowed(*node.args[-3:]),
}
"""The ops that are exported wrongly, if the arguments are these."""


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


def _not_implemented(*_: Any, **__: Any) -> Any:
    return NotImplemented


def _attention(q: Any, k: Any, v: Any, *settings: Any, **more: Any) -> Any:
    """Attention with fewer or more dimensions before those of rows than the two of ONNX's, batch and heads."""
    if q.dim() == k.dim() == v.dim() == _DIMENSIONS or more.get("enable_gqa"):
        return NotImplemented
    torch: Any = importlib.import_module("torch")
    outer = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])

    def with_two(x: Any) -> Any:
        x = x.expand(*outer, *x.shape[-2:])
        return x.reshape(math.prod(outer[:-1]), outer[-1] if outer else 1, *x.shape[-2:])

    mask = settings[0] if settings else more.get("attn_mask")
    if mask is not None:
        mask = mask if mask.dim() <= 2 else with_two(mask)
        settings, more = (mask, *settings[1:]), {key: value for key, value in more.items() if key != "attn_mask"}
    found = torch.nn.functional.scaled_dot_product_attention(*map(with_two, (q, k, v)), *settings, **more)
    return found.reshape(*outer, *found.shape[-2:])


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


def _distances(a: Any, b: Any, p: float = 2.0, compute_mode: int | None = None) -> Any:
    """The p-norm of the difference of each row of `a` and each row of `b`."""
    del compute_mode  # of speed
    return _norm((a.unsqueeze(-2) - b.unsqueeze(-3)).abs(), p)


def _norm(size: Any, p: float) -> Any:
    """The p-norm of absolute values along the last dimension."""
    if p == 0:
        return (size != 0).to(size.dtype).sum(-1)
    if p == math.inf:
        return size.amax(-1)
    return size.sum(-1) if p == 1 else (size * size).sum(-1).sqrt() if p == 2 else (size**p).sum(-1) ** (1 / p)


def _distances_of_rows(x: Any, p: float = 2.0) -> Any:
    """The p-norms of the differences of each row and each later one."""
    torch: Any = importlib.import_module("torch")
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1)
    return _norm((x[first] - x[second]).abs(), p)


def _leaky(x: Any, lower: float = 0.125, upper: float = 1 / 3, training: bool = False, generator: Any = None) -> Any:
    """A leaky relu whose slope is random in training, and the mean of its bounds otherwise."""
    del generator
    functions: Any = importlib.import_module("torch.nn.functional")
    return NotImplemented if training else functions.leaky_relu(x, (lower + upper) / 2)


def _cross_entropy(
    x: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100, label_smoothing: float = 0.0
) -> Any:
    """The cross entropy of one sample, with probabilities, or with smoothed labels."""
    if not label_smoothing and x.dim() > 1 and not target.is_floating_point():
        return NotImplemented
    if x.dim() == 1:
        found = _smoothed(x[None], target[None], weight, reduction, ignore_index, label_smoothing)
        return found.reshape(())
    return _smoothed(x, target, weight, reduction, ignore_index, label_smoothing)


def _smoothed(x: Any, target: Any, weight: Any, reduction: int, ignore_index: int, label_smoothing: float) -> Any:
    torch: Any = importlib.import_module("torch")
    axis, count = 1, x.shape[1]
    logs = x.log_softmax(axis)
    if weight is not None:
        logs = logs * weight.reshape(-1, *[1] * (x.dim() - axis - 1))
    if target.is_floating_point():
        smooth = target * (1 - label_smoothing) + label_smoothing / count
        found = -(logs * smooth).sum(axis)
        return found if reduction == 0 else found.sum() if reduction == 2 else found.mean()
    is_used = target != ignore_index
    classes = torch.where(is_used, target, 0)
    own = logs.gather(axis, classes.unsqueeze(axis)).squeeze(axis)
    found = -(own * (1 - label_smoothing) + logs.sum(axis) * (label_smoothing / count))
    found = torch.where(is_used, found, 0.0)
    if reduction != 1:
        return found if reduction == 0 else found.sum()
    shares = torch.ones_like(found) if weight is None else weight[classes]
    return found.sum() / torch.where(is_used, shares, 0.0).sum()


def _scatter_mean(x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """The means of the elements that are scattered to a position, and of the present one.

    A source that is larger than its indices is cut, for other reductions, too.
    """
    cut = _cut(source, index)
    if reduce != "mean":
        return NotImplemented if cut is source else x.scatter_reduce(dim, index, cut, reduce, include_self=include_self)
    torch: Any = importlib.import_module("torch")
    source = cut
    total = x.scatter_reduce(dim, index, source, "sum", include_self=include_self)
    zeros = torch.zeros_like(x)
    counts = zeros.scatter_add(dim, index, torch.ones_like(source))
    counts = counts + 1 if include_self else counts.clamp(min=1)
    if x.is_floating_point():
        return total / counts
    return torch.div(total, counts, rounding_mode="floor")


def _cut(source: Any, index: Any) -> Any:
    """The elements of a source that have an index."""
    return source if source.shape == index.shape else source[tuple(slice(size) for size in index.shape)]


def _added(x: Any, dim: int, index: Any, source: Any) -> Any:
    """`scatter_add` of a source that is larger than its indices."""
    cut = _cut(source, index)
    return NotImplemented if cut is source else x.scatter_add(dim, index, cut)


def _replaced(x: Any, dim: int, index: Any, source: Any) -> Any:
    """`scatter` of a source that is larger than its indices."""
    cut = _cut(source, index)
    return NotImplemented if cut is source else x.scatter(dim, index, cut)


def _scattered(x: Any, dim: int, index: Any, source: Any, *, reduce: str) -> Any:
    """`scatter` that adds or multiplies."""
    torch: Any = importlib.import_module("torch")
    source = source if isinstance(source, torch.Tensor) else torch.full(index.shape, source, dtype=x.dtype)
    source = _cut(source, index)
    return x.scatter_reduce(dim, index, source, {"add": "sum", "multiply": "prod"}[reduce])


def _filled_in_order(x: Any, mask: Any, source: Any) -> Any:
    """The elements where a mask is true, replaced by the first elements of `source`, in order."""
    torch: Any = importlib.import_module("torch")
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    if not source.numel() or not math.prod(shape):  # then nothing is replaced
        return x.expand(shape).clone()
    mask = mask.expand(shape)
    before = mask.reshape(-1).to(torch.int64).cumsum(0) - 1
    places = before.clamp(min=0, max=source.numel() - 1)
    return torch.where(mask, source.reshape(-1)[places].reshape(shape), x)


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


TABLE: Mapping[str, Decomposition] = {
    "aten._int_mm.default": quantized.integer_product,
    "aten.adaptive_avg_pool3d.default": windows.adaptive_average_pool,
    "aten.adaptive_max_pool1d.default": windows.adaptive_max_pool,
    "aten.adaptive_max_pool2d.default": windows.adaptive_max_pool,
    "aten.adaptive_max_pool3d.default": windows.adaptive_max_pool,
    "aten.avg_pool2d.default": windows.average_pool(2),
    "aten.avg_pool3d.default": windows.average_pool(3),
    "aten.cdist.default": _distances,
    "aten.copysign.Scalar": special.with_sign,
    "aten.copysign.Tensor": special.with_sign,
    "aten.cross_entropy_loss.default": _cross_entropy,
    "aten.cummax.default": orders.running_maximum,
    "aten.cummin.default": orders.running_minimum,
    "aten.cumprod.default": _running_product,
    "aten.det.default": matrices.determinant,
    "aten.digamma.default": special.digamma,
    "aten.dstack.default": stacks.stacked_in_depth,
    "aten.embedding_bag.padding_idx": _embedding_bag,
    "aten.erfinv.default": special.inverse_error_function,
    "aten.fake_quantize_per_channel_affine.default": quantized.fake_quantized_channels,
    "aten.fake_quantize_per_tensor_affine.default": quantized.fake_quantized,
    "aten.fake_quantize_per_tensor_affine.tensor_qparams": quantized.fake_quantized,
    "aten.fmax.default": special.greater_number,
    "aten.fmin.default": special.less_number,
    "aten.gcd.default": integers.greatest_common_divisor,
    "aten.hstack.default": stacks.stacked_side_by_side,
    "aten.hypot.default": special.hypotenuse,
    "aten.i0.default": bessel.bessel_i0,
    "aten.index_put.default": _put,
    "aten.inverse.default": matrices.inverse,
    "aten.kthvalue.default": orders.kth,
    "aten.lgamma.default": special.log_gamma,
    "aten.linalg_det.default": matrices.determinant,
    "aten.linalg_inv.default": matrices.inverse,
    "aten.linalg_inv_ex.default": matrices.inverse_and_status,
    "aten.linalg_matrix_exp.default": matrices.exponential,
    "aten.linalg_pinv.atol_rtol_float": matrices.pseudo_inverse_of_tolerances,
    "aten.linalg_pinv.atol_rtol_tensor": matrices.pseudo_inverse_of_tolerances,
    "aten.linalg_pinv.default": matrices.pseudo_inverse,
    "aten.linalg_pinv.rcond_tensor": matrices.pseudo_inverse,
    "aten.linalg_slogdet.default": matrices.sign_and_logarithm,
    "aten.linalg_solve.default": matrices.solution,
    "aten.logdet.default": matrices.log_determinant,
    "aten.lstm.input": _lstm,
    "aten.masked_scatter.default": _filled_in_order,
    "aten.matrix_exp.default": matrices.exponential,
    "aten.median.default": orders.median_of_all,
    "aten.median.dim": orders.median,
    "aten.mode.default": orders.mode,
    "aten.nanmedian.default": orders.median_of_all_numbers,
    "aten.nanmedian.dim": orders.median_of_numbers,
    "aten.pdist.default": _distances_of_rows,
    "aten.pinverse.default": matrices.pseudo_inverse,
    "aten.polygamma.default": bessel.polygamma,
    "aten.rrelu.default": _leaky,
    "aten.rsub.Scalar": integers.subtracted_from,
    "aten.scaled_dot_product_attention.default": _attention,
    "aten.scatter.reduce": _scattered,
    "aten.scatter.src": _replaced,
    "aten.scatter.value_reduce": _scattered,
    "aten.scatter_add.default": _added,
    "aten.scatter_reduce.two": _scatter_mean,
    "aten.searchsorted.Scalar": orders.searched,
    "aten.searchsorted.Tensor": orders.searched,
    "aten.signbit.default": special.sign_bit,
    "aten.slogdet.default": matrices.sign_and_logarithm,
    "aten.special_i0.default": bessel.bessel_i0,
    "aten.special_polygamma.default": bessel.polygamma,
    "aten.vstack.default": stacks.stacked_in_rows,
    **{
        f"aten.{op}.vec": windows.aligned_to_corners(op)
        for op in ("upsample_bicubic2d", "upsample_bilinear2d", "upsample_linear1d", "upsample_trilinear3d")
    },
    **{
        f"aten.{op}.{form}": _not_implemented
        for op in ("_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa")
        for form in ("default", "vec")
    },
    "quantized_decomposed.choose_qparams.tensor": quantized.chosen_parameters,
    "quantized_decomposed.choose_qparams_per_token_asymmetric.default": quantized.chosen_parameters_of_tokens,
    "quantized_decomposed.dequantize_per_channel_group.default": quantized.dequantized_groups,
    "quantized_decomposed.dequantize_per_tensor.tensor": quantized.dequantized,
    "quantized_decomposed.dequantize_per_token.default": quantized.dequantized_tokens,
    "quantized_decomposed.quantize_per_tensor.default": quantized.clamped,
    "quantized_decomposed.quantize_per_tensor.tensor": quantized.quantized,
    "quantized_decomposed.quantize_per_token.default": quantized.quantized,
    "torchao.dequantize_affine.default": quantized.dequantized_blocks,
    "transformers.grouped_mm_fallback.default": experts.grouped_product,
}
"""Decompositions by the name of the op and its overload."""
