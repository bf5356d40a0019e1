"""Analytic bias correction: subtract the shift of each channel's mean that weight rounding causes.

    b -= sum over t of (Wq - W)[o, t] * E[x_t]

E[x_t] is the mean input per channel in the float network. The method needs no quantized run, and ignores the rounding
of activations in earlier kernels.

Source: Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", section 4.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zeropoint.calibrate import Progress
from zeropoint.correct.contractions import ContractionKernel, contraction_kernels
from zeropoint.correct.empirical_bias import moved
from zeropoint.correct.float_inputs import FloatInputs
from zeropoint.interp import Engine
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.tensors import Array
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
    sums = FloatInputs(program, samples, kernels, mask).run(engine, progress) if known is None else known
    found = ((kernel, sums.get(kernel.region)) for kernel in kernels)
    return {kernel.name: _correct(kernel, total / len(samples)) for kernel, total in found if total is not None}


def _correct(kernel: ContractionKernel, mean: Array) -> str:
    # E[(W - Wq) x] = (W - Wq) E[x], so the mean input suffices.
    shift = ((kernel.float_weight - kernel.quantized_weight()) * mean).sum(axis=2).reshape(-1)
    kept = kernel.set_bias(kernel.quantized_bias() + shift)
    return moved(kernel, shift, kept)
