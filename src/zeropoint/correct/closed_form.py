"""Asymmetric closed form: the weights that map quantized inputs to float results, then error-aware rounding.

The weights are the least squares solution of `least_squares.py`, from the inputs in the quantized network to the
results in the float network. So this also corrects the rounding of earlier kernels. The weights get their own scales
and are rounded by `rounding` with H + d I. The bias is then chosen so that the means after the kernel's clamp agree,
starting from the bias of W. (Starting from the bias with which the means before the clamp agree gave 0.2 dB less on
other data of EfficientNet-Lite0.) A fully connected layer keeps its real weights and is only rounded: with many weights
and few rows, it overfits most easily.

Source: least squares of Nagel et al., "Up or Down? Adaptive Rounding for Post-Training Quantization", section 3
(asymmetric reconstruction), solved in closed form; Frantar et al. (GPTQ) for the rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from zeropoint.correct.contractions import ContractionKernel, rounded
from zeropoint.correct.empirical_bias import balanced_bias, correct_bias
from zeropoint.correct.least_squares import (
    FOLDS,
    Equations,
    Moments,
    best_ridge,
    joined,
    mean_diagonal,
    solved,
)
from zeropoint.correct.rounding import error_aware_rounding
from zeropoint.correct.rows import Chosen, ResultRows, exact_mean, exact_rows, quantized_rows, quantized_sums
from zeropoint.correct.walk import WalkStep, WalkValue
from zeropoint.freed_memory import give_back_memory
from zeropoint.ir.tensors import Array

DAMPING = 0.05
LARGE = 1 << 22
"""The elements of moments from which freed memory is given back before they are made."""
MOST_TERMS = 4608
"""The maximum number of terms per output. With more, the moment matrices are too large: only the bias is corrected."""


def reconstruct(kernel: ContractionKernel, step: WalkStep) -> str:
    """Replace weights and bias of a kernel, or only the bias if the system cannot be solved. Returns a description."""
    chosen = Chosen.of(ResultRows.of(kernel), len(step.exact), step.masks)
    if kernel.shape[0] * kernel.shape[2] ** 2 >= LARGE:
        give_back_memory(cycles=True)  # what earlier kernels have left would come on top of the moments
    try:
        real, own, how = _real_weights(kernel, step.inputs[0], chosen)
        # The weights get new scales, because a solution may have a larger range than the trained weights.
        error = _set_rounded(kernel, real, own)
    except np.linalg.LinAlgError:
        return correct_bias(kernel, step)
    sums = quantized_sums(kernel, step.inputs[0], chosen)
    kernel.set_bias(balanced_bias(kernel, exact_mean(kernel, step.exact, chosen), sums, kernel.quantized_bias()))
    return f"{how}; rounding leaves {error:.2f} of the error of rounding to nearest"


def _real_weights(kernel: ContractionKernel, value: WalkValue, chosen: Chosen) -> tuple[Array, Array, str]:
    """The weights before rounding, H, and how they were found. Raises LinAlgError if rows are not finite."""
    how, parts = "no least squares", chosen.parts(FOLDS)
    if not parts:
        raise np.linalg.LinAlgError("no rows")
    if kernel.is_fully_connected:
        own = joined(Moments.of(quantized_rows(kernel, value, part)) for part in parts)
        return kernel.float_weight, _finite(own.products), how

    weight = kernel.float_weight.astype(np.float32)

    def equations() -> Iterator[Equations]:
        # Made again for the second reading: all rows at once would be the largest arrays here.
        for part in parts:
            results = exact_rows(kernel, value, part) @ weight.swapaxes(1, 2)
            yield Equations.of(results, quantized_rows(kernel, value, part))

    every = joined(equations())
    own, aim = _finite(every.own.products), _finite(every.aim.products)
    ridge = best_ridge(weight, equations(), every)
    if math.isinf(ridge):
        return kernel.float_weight, own, how
    return solved(weight, own, aim, ridge).astype(np.float64), own, f"least squares, ridge {ridge:g}"


def _finite(moments: Array) -> Array:
    """Moments without infinities and NaN, for which the solver may return NaN. Raises LinAlgError."""
    if not np.isfinite(moments).all():
        raise np.linalg.LinAlgError("moments that are not finite")
    return moments


def _set_rounded(kernel: ContractionKernel, real: Array, own: Array) -> float:
    """Set the kernel's weights, rounded to new scales. Returns the error relative to that of rounding to nearest."""
    kind = kernel.types_for(real, kernel.float_bias)
    scales = np.broadcast_to(kind.scales, (kernel.channels,)).reshape(*real.shape[:2], 1)
    point = int(kind.zero_points.reshape(-1)[0])
    damping = DAMPING * mean_diagonal(own)
    least, greatest = kind.storage.minimum - point, kind.storage.maximum - point
    found = error_aware_rounding(real, own, damping, scales, least, greatest)
    nearest = rounded(real, scales, kind).astype(np.float64)
    errors = [_error(real - integers * scales, own, damping) for integers in (found, nearest)]
    # Greedy rounding is not always better than rounding to nearest.
    if errors[0] > errors[1]:
        found = nearest
    kernel.set_weight(found, kind)
    return min(errors) / errors[1] if errors[1] else 1.0


def _error(difference: Array, moments: Array, damping: Array) -> float:
    """E (H + d I) E^T, with products in f32, which moments have."""
    inner = (difference.astype(np.float32) @ moments) * difference
    return float(inner.sum(dtype=np.float64) + (damping * difference**2).sum())


def is_feasible(kernel: ContractionKernel) -> bool:
    """Whether sums have at most 32 bits and `MOST_TERMS` terms, and the weight may have any scale."""
    return not kernel.is_fixed and kernel.is_bounded and kernel.shape[2] <= MOST_TERMS
