"""Empirical bias correction: shift each bias so that the quantized kernel's mean equals the float one, per channel.

Rounding the weights shifts the mean of a channel, and so does rounding in earlier kernels. In convolutional networks,
this shift is most of the noise. The means must agree after the kernel's clamp (relu6), because the next kernel reads
the clamped values:

    b += (mean(clamp(y)) - mean(clamp(z + b))) / (share of z + b inside the bounds)

The update is iterated a few times. y is the sum of the float kernel, and z the sum of the quantized kernel for its
quantized inputs. Only the means of the float kernels are needed, so the float network runs once, as a whole.

Source: Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", section 4.2 and appendix
D (empirical correction); the iteration through the clamp is ours.
"""

from __future__ import annotations

import numpy as np

from zeropoint.correct.contractions import ContractionKernel
from zeropoint.correct.rows import Chosen, ResultRows, exact_mean, quantized_sums
from zeropoint.correct.walk import WalkStep, WalkValue
from zeropoint.ir.tensors import Array
from zeropoint.threads import in_threads

ITERATIONS = 4
BLOCK = 1 << 18
"""The number of results that are computed at a time, for some of the channels."""
LEAST_INSIDE = 0.02
"""If a smaller share of the results is inside the bounds, the bias hardly affects the mean, so it is not changed."""
LEAST_SLOPE = 0.05


def correct_bias(kernel: ContractionKernel, step: WalkStep) -> str:
    """Replace the bias of a kernel in a walk over both networks. Returns a description."""
    chosen = Chosen.of(ResultRows.of(kernel), len(step.exact), step.masks)
    return set_mean(kernel, step.inputs[0], chosen, exact_mean(kernel, step.exact, chosen))


def set_mean(kernel: ContractionKernel, value: WalkValue, chosen: Chosen, mean: Array) -> str:
    """Replace the bias of a kernel that reads `value`, so that its mean results are `mean` (channels,), f64.

    Returns a description.
    """
    before = kernel.quantized_bias()
    after = balanced_bias(kernel, mean, quantized_sums(kernel, value, chosen), before)
    kept = kernel.set_bias(after)
    return moved(kernel, after - before, kept)


def balanced_bias(kernel: ContractionKernel, mean: Array, sums: Array, bias: Array) -> Array:
    """The bias (channels,) with which `sums` (channels, positions) have the `mean` (channels,) after the clamp.

    Iterates from `bias` until no channel moves by half a step of the bias. A channel with nearly all results outside
    the bounds is not updated.
    """
    low, high = kernel.bounds.low, kernel.bounds.high
    if low == -np.inf and high == np.inf:
        return mean - sums.mean(axis=1, dtype=np.float64)
    bias, count = bias.copy(), max(sums.shape[1], 1)
    steps = np.broadcast_to(kernel.bias_type.scales, bias.shape)
    size = max(BLOCK // count, 1)

    def balance(start: int) -> None:
        block = slice(start, start + size)
        for _ in range(ITERATIONS):
            results = sums[block] + bias[block, None].astype(np.float32)
            inside = ((results > low) & (results < high)).view(np.uint8).sum(axis=1, dtype=np.uint32) / count
            gap = mean[block] - np.clip(results, low, high, out=results).mean(axis=1, dtype=np.float64)
            change = np.where(inside > LEAST_INSIDE, gap / np.maximum(inside, LEAST_SLOPE), 0.0)
            bias[block] += change
            if np.all(np.abs(change) < 0.5 * steps[block]):
                break

    in_threads(balance, range(0, len(bias), size))  # channels are independent; a few at a time fit in the cache
    return bias


def moved(kernel: ContractionKernel, shift: Array, kept: int) -> str:
    """A description of how far biases moved, in steps of the output."""
    output = kernel.region.output_specs.data[0]
    scales = np.broadcast_to(getattr(output, "scales", 1.0), shift.shape)
    steps = np.abs(shift) / scales
    note = f"; {kept} channels keep theirs, because their sums would not fit" if kept else ""
    return f"moved by {steps.mean():.2f} steps of the output on average, {steps.max():.2f} at most{note}"
