"""The mean input rows of float kernels, from one run of the whole float network per sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.calibrate import Progress
from zeropoint.correct.contractions import ContractionKernel, contraction_kernels
from zeropoint.correct.float_means import observed_float
from zeropoint.correct.rows import InputRows
from zeropoint.interp import Engine, masks_of
from zeropoint.interp.plan_steps import Observe
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.targets import Target


@dataclass(eq=False)
class FloatInputs:
    """The mean inputs of the contractions of a propagated program in float, added up over `samples`, in order."""

    program: Program
    samples: Sequence[Mapping[str, Array]]
    kernels: Sequence[ContractionKernel]
    mask: str | None = None
    _sums: dict[ContractionKernel, Array] = field(default_factory=dict[ContractionKernel, Array])

    def __post_init__(self) -> None:
        self._masks = masks_of(self.samples, self.mask)
        self._keys: dict[SSAValue, str] = {}
        self._readers: dict[str, list[ContractionKernel]] = {}
        for kernel in self.kernels:
            # Kernels that read the same value share its observation.
            key = self._keys.setdefault(kernel.region.inputs[0], str(len(self._keys)))
            self._readers.setdefault(key, []).append(kernel)

    @staticmethod
    def of(program: Program, samples: Sequence[Mapping[str, Array]], target: Target) -> FloatInputs:
        """Sums without any sample, of samples without padding."""
        return FloatInputs(program, samples, contraction_kernels(program, target))

    def observed(self) -> Program:
        """The float network with requests for the inputs: a run gives its outputs and, to an `observer`, these."""
        return observed_float(self.program, self._keys)

    def observer(self, number: int) -> Observe:
        """What adds the inputs of sample `number`."""

        def observe(key: str, array: Array) -> None:
            for kernel in self._readers[key]:
                shown = None if self._masks is None else self._masks[number]
                rows = InputRows.of(kernel.geometry, tuple(shape_of(kernel.op.result)), shown)
                self._sums[kernel] = self._sums.get(kernel, np.zeros(())) + rows.mean(array)

        return observe

    def run(self, engine: Engine, progress: Progress) -> dict[QuantizeRegionOp, Array]:
        """The sums by region, from runs of the network on all samples. Passes on the errors of the engine."""
        run = engine.prepare(self.observed())
        for number, sample in enumerate(progress(self.samples, "means of channels")):
            run(sample, observe=self.observer(number))
        return self.sums

    @property
    def sums(self) -> dict[QuantizeRegionOp, Array]:
        """The sums over the samples that have run, by region; none of an input that was never computed."""
        return {kernel.region: found for kernel, found in self._sums.items()}

    def for_kernels(
        self, kernels: Sequence[ContractionKernel], samples: Sequence[Mapping[str, Array]]
    ) -> dict[QuantizeRegionOp, Array] | None:
        """The sums for the kernels of a copy of the program; None if they are other kernels, or of other samples."""
        if len(kernels) != len(self.kernels) or list(map(id, samples)) != list(map(id, self.samples)):
            return None
        pairs = zip(kernels, self.kernels, strict=True)
        return {kernel.region: self._sums[own] for kernel, own in pairs if own in self._sums}
