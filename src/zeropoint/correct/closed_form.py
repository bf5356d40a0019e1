"""Asymmetric closed form: the weights that map quantized inputs to float results, then error-aware rounding.

For input rows x of the float network and q of the quantized one, at the same positions and with means subtracted,

    V = argmin E |W x - V q|^2 + r |W - V|^2 = W (C + r I) (H + r I)^-1,   H = E q q^T,  C = E x q^T

so that this also corrects the rounding upstream. r is a ridge relative to the mean diagonal of H; without it the
weights overfit the samples (a ridge of 0.05 gave 37 dB on the calibration data of EfficientNet-Lite0, but 20 dB on
other data). V gets its own scales and is rounded by `rounding` with H + d I. The bias then makes the means after the
kernel's clamp agree, starting from the bias of W. (Starting where the means before the clamp agree was measured on
EfficientNet-Lite0: 0.2 dB less on other data.) A fully connected layer keeps V = W: with many weights and few rows it
overfits most easily.

Source: least squares of Nagel et al., "Up or Down? Adaptive Rounding for Post-Training Quantization", section 3
(asymmetric reconstruction), solved in closed form; Frantar et al. (GPTQ) for the rounding.
"""

from __future__ import annotations

import numpy as np

from zeropoint.correct.contractions import ContractionKernel, rounded
from zeropoint.correct.empirical_bias import balanced_bias, correct_bias
from zeropoint.correct.rounding import error_aware_rounding
from zeropoint.correct.rows import Chosen, exact_results, exact_rows, products, quantized_rows
from zeropoint.correct.walk import Step
from zeropoint.ir.tensors import Array

RIDGE = 10.0
DAMPING = 0.05
MOST_TERMS = 4608
"""The maximum number of terms per output. Beyond this the moment matrices are too large, and only the bias is
corrected."""
LEAST_MOMENT = 1e-12


def reconstruct(kernel: ContractionKernel, step: Step, ridge: float = RIDGE, *, asymmetric: bool = True) -> str:
    """Replace weights and bias of a kernel, or only the bias if the system is not solvable. Returns a description."""
    chosen = Chosen.of(kernel, step)
    quantized = quantized_rows(kernel, step.inputs[0], chosen)
    before = kernel.float_weight
    mean = quantized.mean(axis=1, keepdims=True, dtype=np.float64).astype(np.float32)
    quantized -= mean  # in place: rows are the largest arrays here
    moments, cross = _moments(quantized), np.zeros(())
    if asymmetric:
        exact = exact_rows(kernel, step.inputs[0], chosen)
        exact -= exact.mean(axis=1, keepdims=True)
        cross = _moments(exact, quantized)
        del exact
    # The solver may return NaNs for infinities instead of raising.
    if not (np.isfinite(moments).all() and np.isfinite(cross).all()):
        return correct_bias(kernel, step)
    try:
        real = _least_squares(before, moments, cross, ridge) if asymmetric else before
        # The weights get new scales: a solution may reach further than the trained ones.
        error = _set_rounded(kernel, real, moments)
    except np.linalg.LinAlgError:
        return correct_bias(kernel, step)
    weight = kernel.quantized_weight()
    sums = products(quantized, weight)
    del quantized
    sums += (weight * mean).sum(axis=2, dtype=np.float64).reshape(-1).astype(np.float32)
    kernel.set_bias(balanced_bias(kernel, exact_results(kernel, step, chosen), sums, kernel.quantized_bias()))
    how = f"least squares, ridge {ridge:g}" if asymmetric else "no least squares"
    return f"{how}; rounding leaves {error:.2f} of the error of rounding to nearest"


def _moments(rows: Array, others: Array | None = None) -> Array:
    """Mean products of the terms of rows with those of others, by default their own: (groups, terms, terms), f64."""
    made = np.matmul(rows.swapaxes(1, 2), rows if others is None else others)
    return (made / rows.shape[1]).astype(np.float64)


def _diagonal(moments: Array, share: float) -> Array:
    """A diagonal matrix per group: `share` times the mean of the group's diagonal."""
    mean = np.maximum(np.trace(moments, axis1=1, axis2=2) / moments.shape[1], LEAST_MOMENT)
    return share * mean[:, None, None] * np.eye(moments.shape[1])


def _least_squares(weight: Array, moments: Array, cross: Array, ridge: float) -> Array:
    added = _diagonal(moments, ridge)
    solved = np.linalg.solve(moments + added, (weight @ (cross + added)).swapaxes(1, 2))
    return solved.swapaxes(1, 2)


def _set_rounded(kernel: ContractionKernel, real: Array, moments: Array) -> float:
    """Set the kernel's weights, rounded to new scales. Returns the error relative to that of rounding to nearest."""
    kind = kernel.types_for(real, kernel.float_bias)
    scales = np.broadcast_to(kind.scales, (kernel.channels,)).reshape(*real.shape[:2], 1)
    point = int(kind.zero_points.reshape(-1)[0])
    damped = moments + _diagonal(moments, DAMPING)
    least, greatest = kind.storage.minimum - point, kind.storage.maximum - point
    found = error_aware_rounding(real, damped, scales, least, greatest)
    nearest = rounded(real, scales, kind)
    errors = [_error(real - integers * scales, damped) for integers in (found, nearest)]
    # Greedy rounding is not always better than rounding to nearest.
    if errors[0] > errors[1]:
        found = nearest
    kernel.set_weight(found + point, kind)
    return min(errors) / errors[1] if errors[1] else 1.0


def _error(difference: Array, moments: Array) -> float:
    return float(((difference @ moments) * difference).sum())


def depends_on_ridge(kernel: ContractionKernel) -> bool:
    """Whether the least squares are solved for a kernel. If not, its result is the same for every ridge."""
    return is_feasible(kernel) and not kernel.is_fully_connected


def is_feasible(kernel: ContractionKernel) -> bool:
    """Whether sums are of at most 32 bits and `MOST_TERMS` terms, and the weight may have any scale."""
    return not kernel.is_fixed and kernel.is_bounded and kernel.float_weight.shape[2] <= MOST_TERMS
