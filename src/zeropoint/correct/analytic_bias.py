"""Analytic bias correction: subtract the shift of each channel's mean that weight rounding causes.

    b -= sum over t of (Wq - W)[o, t] * E[x_t]

E[x_t] is the mean input per channel in the float network. The method needs no quantized run, and ignores the rounding
of activations in earlier kernels.

Source: Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", section 4.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.calibrate import Progress
from zeropoint.correct.contractions import ContractionKernel, contraction_kernels
from zeropoint.correct.empirical_bias import moved
from zeropoint.correct.float_means import observed_float
from zeropoint.correct.rows import rows_kept
from zeropoint.interp import Engine, masks_of
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.targets import Target

POSITIONS = 256
"""The maximum number of output positions per sample for computing means."""


def correct_biases(
    program: Program,
    samples: Sequence[Mapping[str, Array]],
    engine: Engine,
    target: Target,
    progress: Progress,
    mask: str | None = None,
) -> dict[str, str]:
    """Replace the biases of a propagated program, in place. Returns a description per kernel name.

    Positions where the input `mask` is 0 do not count in the means.
    """
    kernels = contraction_kernels(program, target)
    readers: dict[str, list[ContractionKernel]] = {}
    keys: dict[SSAValue, str] = {}
    for kernel in kernels:
        # Kernels that read the same value share its observation.
        readers.setdefault(keys.setdefault(kernel.region.inputs[0], str(len(keys))), []).append(kernel)
    sums: dict[ContractionKernel, Array] = {}

    def observe(shown: Array | None, key: str, array: Array) -> None:
        for kernel in readers[key]:
            sums[kernel] = sums.get(kernel, np.zeros(())) + _mean_row(kernel, array, shown)

    run = engine.prepare(observed_float(program, keys))
    for sample in progress(samples, "means of channels"):
        (shown,) = masks_of([sample], mask) or [None]
        run(sample, observe=partial(observe, shown))
    return {kernel.name: _correct(kernel, sums[kernel] / len(samples)) for kernel in kernels if kernel in sums}


def _mean_row(kernel: ContractionKernel, array: Array, mask: Array | None) -> Array:
    """The mean input row, (groups, 1, terms), over evenly spaced output positions that are not padding."""
    kept = rows_kept(kernel.geometry, mask, tuple(shape_of(kernel.op.result)))
    positions = kept[np.unique(np.linspace(0, len(kept) - 1, min(len(kept), POSITIONS)).astype(np.int64))]
    return kernel.geometry.rows(array, positions).mean(axis=1, keepdims=True, dtype=np.float64)


def _correct(kernel: ContractionKernel, mean: Array) -> str:
    # E[(W - Wq) x] = (W - Wq) E[x], so the mean input suffices.
    shift = ((kernel.float_weight - kernel.quantized_weight()) * mean).sum(axis=2).reshape(-1)
    kept = kernel.set_bias(kernel.quantized_bias() + shift)
    return moved(kernel, shift, kept)
