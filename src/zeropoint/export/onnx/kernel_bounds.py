"""The bounds of a kernel, as a `Clip` of its result."""

from __future__ import annotations

import numpy as np

from zeropoint.export.kernels import ExportKernel
from zeropoint.export.onnx.emission import OnnxEmission, Tensor
from zeropoint.ir.quant import stored_array


def clamped(kernel: ExportKernel, tensor: Tensor, emit: OnnxEmission, name: str) -> Tensor:
    """The result clamped to the kernel's bounds by a `Clip`, unless its storage range enforces them already.

    The clip is on the integers, which is equivalent because rounding is monotone. A float result has float bounds. The
    ranges of a type with a scale per channel are the bounds (`materialize/file_contractions.py`).
    """
    low, high = kernel.bounds
    kind = tensor.quantized
    if kind is not None and not kind.is_per_layer:
        return tensor
    if kind is None:
        limits = [_limit(emit, bound) for bound in (low, high)]
        return emit.clip(tensor, limits, name) if any(limits) else tensor
    ends = stored_array(np.array([low, high]), kind)
    if ends[0] <= kind.storage.minimum and ends[1] >= kind.storage.maximum:
        return tensor
    limits = [emit.builder.constant("bound", end.reshape(())) for end in ends]
    return emit.clip(tensor, limits, name)


def _limit(emit: OnnxEmission, bound: float) -> str:
    return emit.builder.constant("bound", np.asarray(bound, np.float32)) if np.isfinite(bound) else ""
