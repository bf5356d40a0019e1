"""The mean results of float kernels, from one run of the whole float network per sample.

A walk over both networks runs every float kernel alone and keeps its results. Corrections that only need their means
avoid this: the network runs as one program, and each result is summed when it is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.calibrate import Progress
from zeropoint.correct.contractions import ContractionKernel, contraction_kernels
from zeropoint.correct.rows import Chosen, ResultRows
from zeropoint.interp import Engine, masks_of
from zeropoint.interp.plan_steps import Observe
from zeropoint.ir.inlining import inline_region
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsRefOp
from zeropoint.ir.tensors import Array
from zeropoint.targets import Target


@dataclass(eq=False)
class FloatMean:
    """A kernel, the sampled positions of its result, and the sum of the float results there, (channels,), f64."""

    kernel: ContractionKernel
    chosen: Chosen
    sum: Array

    @property
    def mean(self) -> Array:
        """The mean results after the clamps of the kernel, (channels,), f64."""
        return self.sum / max(self.chosen.count, 1)


@dataclass(eq=False)
class FloatMeans:
    """The mean results of the contractions of a propagated program in float, over `samples`, in order."""

    program: Program
    samples: Sequence[Mapping[str, Array]]
    means: list[FloatMean]

    @staticmethod
    def of(
        program: Program, samples: Sequence[Mapping[str, Array]], target: Target, mask: str | None = None
    ) -> FloatMeans:
        """Means without any sample. Positions where the input `mask` is 0 are left out."""
        masks = masks_of(samples, mask)
        means: list[FloatMean] = []
        for kernel in contraction_kernels(program, target):
            chosen = Chosen.of(ResultRows.of(kernel), len(samples), masks)
            means.append(FloatMean(kernel, chosen, np.zeros(kernel.channels)))
        return FloatMeans(program, samples, means)

    def observed(self) -> Program:
        """The float network with requests for the results: a run gives its outputs and, to an `observer`, these."""
        results = (mean.kernel.region.results[0] for mean in self.means)
        return observed_float(self.program, {value: str(number) for number, value in enumerate(results)})

    def observer(self, number: int) -> Observe:
        """What adds the results of sample `number`."""

        def observe(key: str, array: Array) -> None:
            mean = self.means[int(key)]
            rows = ResultRows.of(mean.kernel)
            mean.sum = mean.sum + rows.sampled_sum(array, mean.chosen.positions[number])

        return observe

    def for_kernels(
        self, kernels: Sequence[ContractionKernel], samples: Sequence[Mapping[str, Array]]
    ) -> list[FloatMean] | None:
        """The means for the kernels of a copy of the program; None if they are other kernels, or of other samples."""
        if len(kernels) != len(self.means) or list(map(id, samples)) != list(map(id, self.samples)):
            return None
        return [replace(mean, kernel=kernel) for mean, kernel in zip(self.means, kernels, strict=True)]


def float_means(
    program: Program,
    samples: Sequence[Mapping[str, Array]],
    engine: Engine,
    target: Target,
    progress: Progress,
    mask: str | None = None,
) -> list[FloatMean]:
    """The mean results of the contractions of a propagated program, in float, in order.

    Positions where the input `mask` is 0 do not count. Passes on the errors of the engine.
    """
    found = FloatMeans.of(program, samples, target, mask)
    run, number = None, count()
    for sample in progress(samples, "means of channels"):
        run = run or engine.prepare(found.observed())  # with the progress shown
        with np.errstate(all="ignore"):  # non-finite samples give non-finite means
            run(sample, observe=found.observer(next(number)))
    return found.means


def observed_float(program: Program, keys: Mapping[SSAValue, str]) -> Program:
    """The float form of a propagated program, with a `quant.stats_ref` on the values in `keys`."""
    copy = program.clone()
    block = copy.entry
    values = dict(zip(_values(program), _values(copy), strict=True))
    for before, key in keys.items():
        value = values[before]
        reference = StatisticsRefOp(value, key)
        behind = value.owner.next_op if isinstance(value.owner, Operation) else block.first_op
        assert behind is not None
        block.insert_op_before(reference, behind)
        value.replace_uses_with_if(reference.res, lambda use, made=reference: use.operation is not made)
    for region in [op for op in block.ops if isinstance(op, QuantizeRegionOp)]:
        inline_region(region)
    copy.module.attributes.clear()
    return copy


def _values(program: Program) -> list[SSAValue]:
    return [*program.entry.args, *(result for op in program.entry.ops for result in op.results)]
