"""Block reconstruction: learn how weights are rounded, block by block, to minimize the error of the block's result.

The float network provides the target result, and the quantized network the inputs of the block. Adam moves weights and
biases along gradients through the rounding (`learned.py`). A weight starts at the float weight if that is rounded to
the same integer, otherwise at the integer. So a block starts unchanged, and the weights that are closest to being
rounded the other way change first.

A quarter of the samples is held back. A block is changed only if its error on these falls by at least `LEAST_GAIN`. If
none of the first `PATIENCE` blocks is changed, the others are not tried. With fewer than `PARTS` samples, none are held
back.

Source: Li et al., "BRECQ: Pushing the Limit of Post-Training Quantization by Block Reconstruction", section 3.2; Bengio
et al., "Estimating or Propagating Gradients Through Stochastic Neurons", section 4 (straight-through estimation);
Kingma and Ba, "Adam: A Method for Stochastic Optimization", algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Operation

from zeropoint.calibrate import Progress
from zeropoint.correct.block_walk import BlockStep, BlockWalk
from zeropoint.correct.blocks import OpBlock
from zeropoint.correct.contractions import ContractionKernel, contraction_kernel
from zeropoint.correct.journal import MethodRecords
from zeropoint.correct.learned import LearnedBlock
from zeropoint.interp import Engine, kept_positions
from zeropoint.ir.annotations import Fact, facts_of, state_facts
from zeropoint.ir.isolation import computing
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.tensors import Array
from zeropoint.targets import Target

NAME = "block_reconstruction"
ITERATIONS = 20
WEIGHT_RATE, BIAS_RATE = 0.02, 0.01
"""The first step of Adam, in steps of the weight's scale and of the result's. Both rates fall to 0 along half a
cosine."""
DECAYS = 0.9, 0.999
TINY = 1e-12
ELEMENTS = 1 << 20
LEAST_BATCH, MOST_BATCH = 2, 32
"""Limits on the number of samples per iteration, which are as many as have `ELEMENTS` input elements."""
PARTS = 4
"""One of this many samples is held back."""
LEAST_GAIN = 0.003
PATIENCE = 4


@dataclass(eq=False)
class Adam:
    """The Adam optimizer for one array, which it changes in place."""

    values: Array
    rate: float

    def __post_init__(self) -> None:
        self._mean, self._power, self._steps = np.zeros_like(self.values), np.zeros_like(self.values), 0

    def move(self, slope: Array, share: float) -> None:
        """Make one step against a gradient, with a share of the rate."""
        self._steps += 1
        first, second = DECAYS
        self._mean += np.float32(1 - first) * (slope - self._mean)
        self._power += np.float32(1 - second) * (np.square(slope) - self._power)
        mean, power = self._mean / (1 - first**self._steps), self._power / (1 - second**self._steps)
        self.values -= np.asarray(share * self.rate * mean / (np.sqrt(power) + TINY), np.float32)


@dataclass(eq=False)
class Reconstruction:
    """Reconstructs the blocks of a propagated program in place.

    `reference` has the same ops with the constants of the float network.
    """

    program: Program
    reference: Program
    target: Target
    records: MethodRecords
    changed: int = 0
    tried: int = 0
    learned: dict[OpBlock, LearnedBlock] = field(default_factory=dict[OpBlock, LearnedBlock])

    def run(
        self, samples: Sequence[Mapping[str, Array]], engine: Engine, progress: Progress, mask: str | None = None
    ) -> int:
        """Learn from samples. Returns the number of blocks that were changed. Passes on the errors of the engine."""
        self._exact = dict(zip(computing(self.program), computing(self.reference), strict=True))
        walk = BlockWalk(
            self.program, engine, lambda step: None, reference=self.reference, mask=mask, wanted=self._wanted,
            visit=self._visit, visits=lambda region: False,
        )  # fmt: skip
        walk.run(samples, progress)
        return self.changed

    def _wanted(self, block: OpBlock) -> bool:
        made = LearnedBlock.of(block, self.program, self.target)
        if made is not None:
            self.learned[block] = made
        return made is not None

    def _visit(self, step: BlockStep) -> bool:
        """Learn a block. Returns whether the walk continues."""
        block = self.learned.pop(step.block)
        self.tried += 1
        known = self.records.know([one.kernel for one in block.learned])
        texts = [self.records.restore(one.kernel) for one in block.learned] if known else self._learned(block, step)
        for one, text in zip(block.learned, texts, strict=True):
            region = one.kernel.region
            if text is not None:
                state_facts(region, [*facts_of(region), Fact("corrected", text, "calibrated", NAME)])
        self.changed += any(text is not None for text in texts)
        return self.changed > 0 or self.tried < PATIENCE

    def _learned(self, block: LearnedBlock, step: BlockStep) -> list[str | None]:
        """Learn a block, and record it. Returns a description for each kernel with weights; None if it is unchanged."""
        for one in block.learned:
            exact = self._float_kernel(one.kernel.region)
            if exact is not None:
                one.start_at(exact.float_weight)
        before, after = learn(block, step)
        changed = after < (1 - LEAST_GAIN) * before
        judged_on = "samples it did not learn from" if len(step.exact) >= PARTS else "the samples it learned from"
        texts: list[str | None] = []
        for one in block.learned:
            note = f"; the block's error is {after / before:.2f} times that before, on {judged_on}" if changed else ""
            text = one.finish() + note if changed else None
            self.records.add(one.kernel, text, weight=changed)
            texts.append(text)
        return texts

    def _float_kernel(self, region: Operation) -> ContractionKernel | None:
        exact = self._exact[region]
        assert isinstance(exact, QuantizeRegionOp)
        return contraction_kernel(exact, self.reference.weights, self.target)


def learn(block: LearnedBlock, step: BlockStep) -> tuple[float, float]:
    """Move the weights and biases of a block.

    Returns its error before and after, on the held-back samples.
    """
    count = len(step.exact)
    judged = list(range(PARTS - 1, count, PARTS))
    taught = [sample for sample in range(count) if sample not in judged]
    # Fewer than `PARTS` samples are all learned from, and judge the block as well.
    before = _error(block, step, judged or taught)
    size = sum(value.stored[0].size for value in step.inputs.values())
    batch = min(len(taught), int(np.clip(ELEMENTS // max(size, 1), LEAST_BATCH, MOST_BATCH)))
    # The seed is the same in every run.
    generator = np.random.default_rng([count, size])
    moved = [
        (kernel, Adam(kernel.latent, WEIGHT_RATE), Adam(kernel.bias, BIAS_RATE * kernel.step))
        for kernel in block.learned
    ]
    for number in range(ITERATIONS):
        block.begin()
        for sample in generator.permutation(taught)[:batch]:
            _learn(block, step, int(sample))
        share = 0.5 * (1 + np.cos(np.pi * number / ITERATIONS))
        for kernel, weight, bias in moved:
            weight.move(kernel.slopes[0], share)
            bias.move(kernel.slopes[1], share)
    return before, _error(block, step, judged or taught)


def _error(block: LearnedBlock, step: BlockStep, samples: Sequence[int]) -> float:
    block.begin()
    return sum(_learn(block, step, sample, only_error=True) for sample in samples)


def _learn(block: LearnedBlock, step: BlockStep, sample: int, *, only_error: bool = False) -> float:
    given = {value: held.real(sample) for value, held in step.inputs.items()}
    exact = step.exact[sample]
    kept = None if step.masks is None else kept_positions(step.masks[sample], exact.shape)
    return block.learn(given, exact, kept, only_error=only_error)
