"""Empirical bias correction: shift each bias so that the quantized kernel's mean equals the float one, per channel.

Rounding the weights shifts the mean of a channel, and so does rounding upstream. In convolutional networks this shift
is most of the noise. The means must agree after the kernel's clamp (relu6), because that is what the next kernel reads:

    b += (mean(clamp(y)) - mean(clamp(z + b))) / (share of z + b inside the bounds)

iterated a few times. y is the sum of the float kernel, z the sum of the quantized kernel on its quantized inputs.

Source: Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", section 4.2 and appendix
D (empirical correction); the iteration through the clamp is ours.
"""

from __future__ import annotations

import numpy as np

from zeropoint.correct.contractions import ContractionKernel
from zeropoint.correct.rows import Chosen, exact_results, products, quantized_rows
from zeropoint.correct.walk import WalkStep
from zeropoint.ir.tensors import Array

ITERATIONS = 4
LEAST_INSIDE = 0.02
"""If a smaller share of results is inside the bounds, the bias hardly affects the mean, and is left alone."""
LEAST_SLOPE = 0.05


def correct_bias(kernel: ContractionKernel, step: WalkStep) -> str:
    """Replace the bias of a kernel. Returns a description."""
    chosen = Chosen.of(kernel, step)
    sums = products(quantized_rows(kernel, step.inputs[0], chosen), kernel.quantized_weight())
    before = kernel.quantized_bias()
    after = balanced_bias(kernel, exact_results(kernel, step, chosen), sums, before)
    kept = kernel.set_bias(after)
    return moved(kernel, after - before, kept)


def balanced_bias(kernel: ContractionKernel, exact: Array, sums: Array, bias: Array) -> Array:
    """The bias (channels,) with which `sums` (positions, channels) have the means of `exact` after the clamp.

    Iterates from `bias`. A channel whose results are nearly all outside the bounds is not updated.
    """
    low, high = kernel.bounds.low, kernel.bounds.high
    target = exact.mean(axis=0, dtype=np.float64)
    if low == -np.inf and high == np.inf:
        return target - sums.mean(axis=0, dtype=np.float64)
    bias = bias.copy()
    for _ in range(ITERATIONS):
        moved_sums = sums + bias.astype(np.float32)
        inside = ((moved_sums > low) & (moved_sums < high)).mean(axis=0)
        gap = target - np.clip(moved_sums, low, high).mean(axis=0, dtype=np.float64)
        bias += np.where(inside > LEAST_INSIDE, gap / np.maximum(inside, LEAST_SLOPE), 0.0)
    return bias


def moved(kernel: ContractionKernel, shift: Array, kept: int) -> str:
    """A description of how far biases moved, in steps of the output."""
    output = kernel.region.output_specs.data[0]
    scales = np.broadcast_to(getattr(output, "scales", 1.0), shift.shape)
    steps = np.abs(shift) / scales
    note = f"; {kept} channels keep theirs, whose sums would not fit" if kept else ""
    return f"moved by {steps.mean():.2f} steps of the output on average, {steps.max():.2f} at most{note}"
