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
from zeropoint.correct.rows import InputRows
from zeropoint.interp import Engine, masks_of
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.targets import Target


def correct_biases(
    program: Program,
    samples: Sequence[Mapping[str, Array]],
    engine: Engine,
    target: Target,
    progress: Progress,
    mask: str | None = None,
    known: Mapping[QuantizeRegionOp, Array] | None = None,
) -> dict[str, str]:
    """Replace the biases of a propagated program, in place. Returns a description per kernel name.

    Positions where the input `mask` is 0 do not count in the means. `known` has the sums of mean input rows over the
    samples, by kernel; without it, the float network runs on them.
    """
    kernels = contraction_kernels(program, target)
    if known is None:
        sums = _sums(kernels, program, samples, engine, progress, mask)
    else:
        sums = {kernel: known[kernel.region] for kernel in kernels}
    return {kernel.name: _correct(kernel, sums[kernel] / len(samples)) for kernel in kernels if kernel in sums}


def _sums(
    kernels: Sequence[ContractionKernel],
    program: Program,
    samples: Sequence[Mapping[str, Array]],
    engine: Engine,
    progress: Progress,
    mask: str | None,
) -> dict[ContractionKernel, Array]:
    """The mean input rows of each kernel, added up over the samples."""
    readers: dict[str, list[ContractionKernel]] = {}
    keys: dict[SSAValue, str] = {}
    for kernel in kernels:
        # Kernels that read the same value share its observation.
        readers.setdefault(keys.setdefault(kernel.region.inputs[0], str(len(keys))), []).append(kernel)
    sums: dict[ContractionKernel, Array] = {}

    def observe(shown: Array | None, key: str, array: Array) -> None:
        for kernel in readers[key]:
            rows = InputRows.of(kernel.geometry, tuple(shape_of(kernel.op.result)), shown)
            sums[kernel] = sums.get(kernel, np.zeros(())) + rows.mean(array)

    run = engine.prepare(observed_float(program, keys))
    for sample in progress(samples, "means of channels"):
        (shown,) = masks_of([sample], mask) or [None]
        run(sample, observe=partial(observe, shown))
    return sums


def _correct(kernel: ContractionKernel, mean: Array) -> str:
    # E[(W - Wq) x] = (W - Wq) E[x], so the mean input suffices.
    shift = ((kernel.float_weight - kernel.quantized_weight()) * mean).sum(axis=2).reshape(-1)
    kept = kernel.set_bias(kernel.quantized_bias() + shift)
    return moved(kernel, shift, kept)
