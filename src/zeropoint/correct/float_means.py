"""The mean results of float kernels, from one run of the whole float network per sample.

A walk over both networks runs every float kernel alone and keeps its results. Corrections that only need their means
avoid this: the network runs as one program, and each result is summed when it is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.calibrate import Progress
from zeropoint.correct.contractions import ContractionKernel, contraction_kernels
from zeropoint.correct.rows import Chosen, sampled_sum
from zeropoint.interp import Engine, masks_of
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


def float_means(
    program: Program,
    samples: Sequence[Mapping[str, Array]],
    engine: Engine,
    target: Target,
    progress: Progress,
    mask: str | None = None,
) -> dict[QuantizeRegionOp, FloatMean]:
    """The mean float results of the contractions of a propagated program, by region.

    Positions where the input `mask` is 0 do not count. Passes on the errors of the engine.
    """
    masks = masks_of(samples, mask)
    found: dict[QuantizeRegionOp, FloatMean] = {}
    for kernel in contraction_kernels(program, target):
        chosen = Chosen.of(kernel, len(samples), masks)
        found[kernel.region] = FloatMean(kernel, chosen, np.zeros(kernel.channels))
    keys = {str(number): mean for number, mean in enumerate(found.values())}
    run = engine.prepare(observed_float(program, {mean.kernel.region.results[0]: key for key, mean in keys.items()}))
    number = count()
    for sample in progress(samples, "means of channels"):
        at = next(number)

        def observe(key: str, array: Array, at: int = at) -> None:
            mean = keys[key]
            mean.sum = mean.sum + sampled_sum(mean.kernel, array, mean.chosen.positions[at])

        with np.errstate(all="ignore"):  # non-finite samples give non-finite means
            run(sample, observe=observe)
    return found


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
