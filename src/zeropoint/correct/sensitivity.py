"""The sources of noise in a quantized network: noise added and inherited per kernel, and the gain of 16 bits.

Let y be the float result of a kernel, q its result in the quantized network, and f(x) the result of the float kernel on
the quantized inputs. The noises are

    total      E (q - y)^2       noise of the result
    inherited  E (f(x) - y)^2    noise of the inputs, as passed on by the kernel
    added      E (q - f(x))^2    noise of rounding the weights and the result, and of clipping its range
    rounding   share * s^2 / 12  the part of `added` from rounding to steps of s, for the share of results in range

all relative to E y^2. A 16-bit result would avoid `rounding`. To first order, it gains 10 log10 (total / (total -
rounding)) dB at this kernel. One walk over both networks measures all of these. `width_effects` measures exactly what
the width of a kernel changes at the network's outputs, which needs runs of the whole network per kernel.

Later kernels amplify or attenuate the noise that a kernel adds. To first order, a kernel passes on `inherited / (sum of
the totals of its inputs)` of the noise/signal of each input, and noises of different kernels are independent. The share
of kernel k at the outputs is then added_k times the sum over all paths to the outputs of the product of these gains;
`at_outputs` accumulates it backwards, from the last op to the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any, cast

from xdsl.ir import SSAValue

from zeropoint.calibrate import Progress, silent
from zeropoint.correct.methods import Platform
from zeropoint.correct.sample_parts import Samples
from zeropoint.correct.walk import Walk, WalkStep, WalkValue, fitting
from zeropoint.interp import masks_of, unpadded
from zeropoint.ir.annotations import unique_name
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.tensors import Array
from zeropoint.numerics.noise import NoiseSums, decibels, difference_energy, power_sum

BYTE = 8


@dataclass(frozen=True)
class Sensitivity:
    """The sensitivity of one kernel: noise/signal ratios at its result, and gains in dB.

    `op` is the name of the op in the original model. `name` is that of the kernel: `gru_8` if the op became several
    kernels. `wide_gain` is the first-order gain of a 16-bit result at the kernel; 0 if it is already wider than 8 bits.
    `exact_gain` is the gain at the network's outputs if only this kernel is wide, without corrections; None if not
    requested, or if it has no wider form. `exact_form` is that form: `i16`, or `float` if the target has the kernel in
    one width. `exact_loss` is the loss if only this kernel is narrow; None if the wider form is float.
    """

    name: str
    op: str
    kernel: str
    total: float
    inherited: float
    added: float
    wide_gain: float
    exact_loss: float | None = None
    at_outputs: float = 0.0
    exact_gain: float | None = None
    exact_form: str | None = None

    def record(self) -> dict[str, Any]:
        """The fields as a JSON-compatible dict. Infinities and NaN become None."""
        fields = asdict(self)
        return {key: None if isinstance(v, float) and not isfinite(v) else v for key, v in fields.items()}


@dataclass
class _Sums(NoiseSums):
    inside: float = 0.0
    """The number of results that are not at a bound of their storage."""

    def count(self, stored: Array, kind: UniformQuantizedType | None) -> None:
        """Add the stored results of one sample."""
        if kind is not None:
            inside = (stored > kind.storage.minimum) & (stored < kind.storage.maximum)
            self.inside += float(inside.sum())


def sensitivities(
    program: Program, reference: Program, samples: Samples, platform: Platform, progress: Progress = silent
) -> list[Sensitivity]:
    """The sensitivity of every quantized kernel of a propagated program, in program order.

    `reference` is the program before corrections, with the constants of the float network. Uses as many samples as fit
    in memory. Positions that the platform masks as padding do not count. Passes on the errors of the engines.
    """
    used = fitting(program, samples)
    engine, masks = platform.kernels(len(used)), masks_of(used, platform.mask)

    def shown(array: Array, sample: int) -> Array:
        return array if masks is None else unpadded(array, masks[sample])

    found: list[Sensitivity] = []
    gains: dict[QuantizeRegionOp, float] = {}

    def follow(step: WalkStep, result: WalkValue) -> None:
        assert step.alone is not None
        run, sums = engine.prepare(step.alone), _Sums()
        for sample, exact in enumerate(step.exact):
            given = {str(number): value.real(sample) for number, value in enumerate(step.inputs)}
            (passed,) = run(given).values()
            real, stored = shown(result.real(sample), sample), shown(result.stored[sample], sample)
            sums.add(shown(exact, sample), shown(passed, sample), real)
            sums.count(stored, result.kind)
        one = _sensitivity(step.region, sums, result.kind)
        given = sum(_noise_share(value, shown) for value in step.inputs)
        # Without noise at the inputs, none is passed on; 0 / 0 would be NaN.
        gains[step.region] = one.inherited / given if given else 0.0
        found.append(one)

    Walk(program, engine, lambda step: None, follow, reference).run(used, progress)
    reached = _gains_to_outputs(program, gains)
    return [
        # Inherited noise is left out here, because it counts at the kernel that added it.
        replace(one, at_outputs=one.added * reached[region.results[0]])
        for region, one in zip(gains, found, strict=True)
    ]


def _noise_share(value: WalkValue, shown: Callable[[Array, int], Array]) -> float:
    """The noise/signal of a value over all samples, without padding; 0 if there is no signal."""
    signal = sum(power_sum(shown(exact, sample)) for sample, exact in enumerate(value.exact))
    noise = sum(
        difference_energy(shown(exact, sample), shown(value.real(sample), sample))
        for sample, exact in enumerate(value.exact)
    )
    return noise / signal if signal else 0.0


def _gains_to_outputs(program: Program, gains: Mapping[QuantizeRegionOp, float]) -> dict[SSAValue, float]:
    """For each value, the first-order gain from its noise/signal to the mean over the outputs.

    `gains` has the gains of kernels from their inputs to their result. Other ops pass noise on unchanged.
    """
    found: dict[SSAValue, float] = {}
    outputs = max(len(program.outputs), 1)
    for op in reversed(list(program.entry.ops)):
        ours = sum(found.get(result, 0.0) for result in op.results)
        passed = 1 / outputs if op is program.entry.last_op else ours * gains.get(cast("QuantizeRegionOp", op), 1.0)
        for operand in op.operands:
            found[operand] = found.get(operand, 0.0) + passed
        found.update((result, found.get(result, 0.0)) for result in op.results)
    return found


def _sensitivity(region: QuantizeRegionOp, sums: _Sums, kind: UniformQuantizedType | None) -> Sensitivity:
    power = sums.signal or 1.0
    rounding = 0.0
    if kind is not None and kind.is_per_layer and kind.storage.type.width <= BYTE:
        rounding = min(sums.inside * kind.scale**2 / 12, sums.added)
    gain = decibels(sums.total, max(sums.total - rounding, 0.0)) if sums.total > 0 else 0.0
    op = location_text(region.location) or region.logical_kernel.data
    shares = sums.total / power, sums.inherited / power, sums.added / power
    return Sensitivity(unique_name(region) or op, op, region.logical_kernel.data, *shares, gain)


def ranked(found: Sequence[Sensitivity]) -> list[Sensitivity]:
    """Sensitivities in descending order of exact loss, or else gain, if known, then of the first-order share of the
    noise at the outputs."""
    return sorted(found, key=lambda one: (-(one.exact_loss or one.exact_gain or 0.0), -one.at_outputs))
