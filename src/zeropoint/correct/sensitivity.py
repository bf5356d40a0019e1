"""Where the noise of a quantized network comes from: noise added and inherited per kernel, and the gain of 16 bits.

For the float result y of a kernel, its result q in the quantized network, and the result f(x) of the float kernel on
the quantized inputs:

    total      E (q - y)^2       noise of the result
    inherited  E (f(x) - y)^2    noise of the inputs, as passed on by the kernel
    added      E (q - f(x))^2    from rounding the weights and the result, and from clipping its range
    rounding   share * s^2 / 12  the part of `added` from rounding to steps of s, for the share of results in range

all relative to E y^2. A 16-bit result would avoid `rounding`: to first order it gains
10 log10 (total / (total - rounding)) dB at this kernel. One walk over both networks gives all of these. The exact cost
of 8 bits at the network's outputs is `bit_widths.narrow_losses`, which needs a run of the whole network per kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf, isfinite, log10
from typing import Any

import numpy as np

from zeropoint.calibrate import Progress, silent
from zeropoint.correct.methods import Platform, Samples
from zeropoint.correct.walk import Step, Value, Walk, fitting
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.tensors import Array

BYTE = 8


@dataclass(frozen=True)
class Sensitivity:
    """The sensitivity of one kernel: noise/signal ratios at its result, and gains in dB.

    `wide_gain` is the first-order gain of a 16-bit result at the kernel, 0 if it is wider than 8 bits already.
    `exact_loss` is the loss at the network's outputs if only this kernel is narrow, without corrections; None if not
    requested, or if the target has the kernel in one width only.
    """

    name: str
    kernel: str
    total: float
    inherited: float
    added: float
    wide_gain: float
    exact_loss: float | None = None

    def record(self) -> dict[str, Any]:
        """The fields as a JSON-compatible dict; infinities and NaN become None."""
        fields = asdict(self)
        return {key: None if isinstance(v, float) and not isfinite(v) else v for key, v in fields.items()}


@dataclass
class _Sums:
    signal: float = 0.0
    total: float = 0.0
    inherited: float = 0.0
    added: float = 0.0
    inside: float = 0.0
    count: int = 0


def sensitivities(
    program: Program, reference: Program, samples: Samples, platform: Platform, progress: Progress = silent
) -> list[Sensitivity]:
    """The sensitivity of every quantized kernel of a propagated program, in program order.

    `reference` is the program before corrections, with the constants of the float network. Uses as many samples as fit
    in memory. Raises what the engines raise.
    """
    used = fitting(program, samples)
    engine = platform.kernels(len(used))
    found: list[Sensitivity] = []

    def follow(step: Step, result: Value) -> None:
        run, sums = engine.prepare(step.alone), _Sums()
        for sample, exact in enumerate(step.exact):
            given = {str(number): value.real(sample) for number, value in enumerate(step.inputs)}
            (passed,) = run(given).values()
            _add(sums, exact, passed, result.real(sample), result.stored[sample], result.kind)
        found.append(_sensitivity(step.region, sums, result.kind))

    Walk(program, engine, lambda step: None, follow, reference).run(used, progress)
    return found


def _add(
    sums: _Sums, exact: Array, passed: Array, real: Array, stored: Array, kind: UniformQuantizedType | None
) -> None:
    def energy(array: Array) -> float:
        return float(np.square(array, dtype=np.float64).sum())

    sums.signal += energy(exact)
    sums.total += energy(real - exact)
    sums.inherited += energy(passed - exact)
    sums.added += energy(real - passed)
    sums.count += exact.size
    if kind is not None:
        storage = kind.storage
        sums.inside += float(((stored > storage.minimum) & (stored < storage.maximum)).sum())


def _sensitivity(region: QuantizeRegionOp, sums: _Sums, kind: UniformQuantizedType | None) -> Sensitivity:
    power = sums.signal or 1.0
    rounding = 0.0
    if kind is not None and kind.is_per_layer and kind.storage.type.width <= BYTE:
        rounding = min(sums.inside * kind.scale**2 / 12, sums.added)
    left = sums.total - rounding
    gain = 10 * log10(sums.total / left) if left > 0 and sums.total > 0 else inf if sums.total > 0 else 0.0
    name = location_text(region.location) or region.logical_kernel.data
    shares = sums.total / power, sums.inherited / power, sums.added / power
    return Sensitivity(name, region.logical_kernel.data, *shares, gain)


def ranked(found: Sequence[Sensitivity]) -> list[Sensitivity]:
    """Sorted by descending exact loss if known, then by descending added noise."""
    return sorted(found, key=lambda one: (-(one.exact_loss or 0.0), -one.added))


def sensitivity_table(found: Sequence[Sensitivity]) -> str:
    """A text table with a row per kernel: SQNR in dB of total, inherited and added noise, and the gains in dB."""
    rows: list[tuple[str, ...]] = [("kernel", "of", "SQNR", "inherited", "added", "16 bits gain", "8 bits lose")]
    for one in found:
        exact = "-" if one.exact_loss is None else f"{one.exact_loss:.2f}"
        shares = (_decibels(share) for share in (one.total, one.inherited, one.added))
        rows.append((one.name, one.kernel, *shares, f"{one.wide_gain:.2f}", exact))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines: list[str] = []
    for row in rows:
        cells = zip(row, widths, strict=True)
        padded = (text.ljust(width) if n < 2 else text.rjust(width) for n, (text, width) in enumerate(cells))
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _decibels(share: float) -> str:
    return f"{-10 * log10(share):.2f}" if share > 0 else "inf"
