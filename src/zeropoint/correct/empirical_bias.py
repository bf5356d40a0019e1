"""Empirical bias correction: move each bias until the quantized kernel has the mean of the float one, per channel.

Rounding weights moves the mean of a channel, and so does what was rounded before; in convolutional networks this shift
is most of the noise. The mean that has to agree is the one behind the bounds of the kernel (relu6), which is what the
next kernel reads:

    b += (mean(clamp(y)) - mean(clamp(z + b))) / (share of z + b inside the bounds)

a few times, where y is what the float kernel sums up and z what the quantized one does from what it really reads.

Source: Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", section 4.2 and appendix
D (empirical correction); the iteration through the bounds is ours.
"""

from __future__ import annotations

import numpy as np

from zeropoint.correct.contractions import ContractionKernel
from zeropoint.correct.rows import Chosen, exact_results, products, quantized_rows
from zeropoint.correct.walk import Step
from zeropoint.ir.tensors import Array

ITERATIONS = 4
LEAST_INSIDE = 0.02
"""Where fewer results than this share are inside the bounds, a bias says nothing about the mean."""
LEAST_SLOPE = 0.05


def correct_bias(kernel: ContractionKernel, step: Step) -> str:
    """Replace the bias of a kernel; what was done, for people."""
    chosen = Chosen.of(kernel, step)
    sums = products(quantized_rows(kernel, step.inputs[0], chosen), kernel.quantized_weight())
    before = kernel.quantized_bias()
    after = balanced_bias(kernel, exact_results(kernel, step, chosen), sums, before)
    kept = kernel.set_bias(after)
    return moved(kernel, after - before, kept)


def balanced_bias(kernel: ContractionKernel, exact: Array, sums: Array, bias: Array) -> Array:
    """The bias (channels,) with which `sums` (positions, channels) have the means of `exact` behind the bounds.

    Starts from `bias`, to which channels fall back whose results are nearly all outside the bounds.
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
    """How far biases moved, in steps of the output."""
    output = kernel.region.output_specs.data[0]
    scales = np.broadcast_to(getattr(output, "scales", 1.0), shift.shape)
    steps = np.abs(shift) / scales
    note = f"; {kept} channels keep theirs, whose sums would not fit" if kept else ""
    return f"moved by {steps.mean():.2f} steps of the output on average, {steps.max():.2f} at most{note}"
