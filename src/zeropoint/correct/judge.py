"""How near the outputs of a propagated program are to float, on samples that corrections have not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from zeropoint.interp import Engine
from zeropoint.ir.inlining import inline_region
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.tensors import Array
from zeropoint.lower import integer_program
from zeropoint.materialize import materialize


class Judge:
    """The float outputs on some samples, to compare programs with."""

    def __init__(self, program: Program, samples: Sequence[Mapping[str, Array]], engine: Engine):
        self.samples, self._engine = samples, engine
        run = engine.prepare(without_specs(program))
        self._expected = [run(sample) for sample in samples]

    def sqnr(self, program: Program) -> float:
        """The SQNR in dB of the integer program that a propagated one becomes; of several outputs, by their mean noise.

        Outputs count alike: 10 log10 of the inverse of the mean of noise over signal. Infinite where nothing differs.
        """
        run = self._engine.prepare(integer_program(materialize(program)))
        signal: dict[str, float] = {}
        noise: dict[str, float] = {}
        for sample, expected in zip(self.samples, self._expected, strict=True):
            for name, found in run(sample).items():
                real = expected[name].astype(np.float64)
                signal[name] = signal.get(name, 0.0) + float((real**2).sum())
                noise[name] = noise.get(name, 0.0) + float(((found - real) ** 2).sum())
        shares = [noise[name] / signal[name] for name in signal if signal[name]]
        mean = float(np.mean(shares)) if shares else 0.0
        return float(-10 * np.log10(mean)) if mean else float("inf")


def without_specs(program: Program) -> Program:
    """The float program that a propagated one came from, or what corrections made of its constants."""
    program = program.clone()
    for region in [op for op in program.entry.ops if isinstance(op, QuantizeRegionOp)]:
        inline_region(region)
    program.module.attributes.clear()
    return program
