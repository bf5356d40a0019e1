"""Run the float and the quantized network side by side, block by block, over all samples at once.

Like `walk.py`, but the float results at the end of a block are computed before its first quantized kernel runs. So all
kernels of the block can be changed to improve its result. A value inside a block is released after its last reader
there. Float values that nothing reads after a block are released sample by sample while its float results are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.calibrate import Progress
from zeropoint.correct.blocks import OpBlock, blocks_of
from zeropoint.correct.walk import LARGE, Walk, WalkValue, bytes_a_sample
from zeropoint.freed_memory import give_back_memory
from zeropoint.interp import masks_of
from zeropoint.ir.isolation import activations, computing, float_form, last_readers
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.tensors import Array


@dataclass(eq=False)
class BlockStep:
    """A block of quantized kernels that is about to run: its inputs, and its float results by sample."""

    block: OpBlock
    inputs: Mapping[SSAValue, WalkValue]
    exact: list[Array]
    masks: Sequence[Array] | None = None
    """The positions of each sample that are not padding (bool); None if nothing is."""


Wanted = Callable[[OpBlock], bool]
BlockVisitor = Callable[[BlockStep], bool]
"""May change the kernels of a block. Returns whether the walk continues."""


@dataclass
class BlockWalk(Walk):
    """One walk over a program. `visit` is called at the blocks for which `wanted` is true.

    These blocks have only quantized kernels with one result each.
    """

    wanted: Wanted = lambda block: False
    visit: BlockVisitor = lambda step: True
    exact_ops: dict[Operation, Operation] = field(default_factory=dict[Operation, Operation])

    def run(self, samples: Sequence[Mapping[str, Array]], progress: Progress) -> None:
        """Run all blocks in order, over all samples."""
        # What follows decides the peak, if the values are large.
        give_back_memory(cycles=len(samples) * bytes_a_sample(self.program) >= LARGE)
        self.masks = masks_of(samples, self.mask)
        for argument, port in zip(self.program.entry.args, self.program.inputs, strict=True):
            arrays = [np.asarray(sample[port.name]) for sample in samples]
            self.values[argument] = WalkValue(arrays, arrays)
        last = last_readers(self.program.entry)
        pairs = zip(computing(self.program), computing(self.reference or self.program), strict=True)
        self.exact_ops = dict(pairs)
        with np.errstate(all="ignore"):  # non-finite samples give non-finite values
            for part in progress(blocks_of(self.program), "blocks"):
                ops = part.ops if isinstance(part, OpBlock) else [part]
                if isinstance(part, OpBlock) and self.wanted(part):
                    if not self._block(part, len(samples), last):
                        return
                    give_back_memory()
                else:
                    for op in ops:
                        self._step(op, self.exact_ops[op], len(samples), last.get(op, ()))
                        self._release(last.get(op, ()))
                for op in ops:
                    self._release(last.get(op, ()))

    def _release(self, values: Sequence[SSAValue]) -> None:
        for value in values:
            self.values.pop(value, None)

    def _block(self, block: OpBlock, count: int, readers: Mapping[Operation, Sequence[SSAValue]]) -> bool:
        exact = self._exact(block, count, readers)
        inputs = {value: self.values[value] for value in block.inputs}
        for op in block.ops:
            assert isinstance(op, QuantizeRegionOp)
            # A value from outside the block that is still float is quantized by the region that reads it.
            given = [inputs.get(value) or WalkValue([], []) for value in activations(op)]
            read = zip(activations(op), self._as_read(op, given), strict=True)
            inputs.update((value, held) for value, held in read if value in inputs)
        if not self.visit(BlockStep(block, inputs, exact, self.masks)):
            return False
        inside: dict[SSAValue, WalkValue] = {}
        last = _last_inside(block)
        for op in block.ops:
            assert isinstance(op, QuantizeRegionOp)
            read = [inside.get(value) or self.values[value] for value in activations(op)]
            stored, kinds = self._quantized(op, self._as_read(op, read), count)
            inside[op.results[0]] = WalkValue([], stored[0], kinds[0])
            for value in last.get(op, ()):
                inside.pop(value, None)
        made = inside[block.result]
        self.values[block.result] = WalkValue(exact, made.stored, made.kind)
        return True

    def _exact(self, block: OpBlock, count: int, readers: Mapping[Operation, Sequence[SSAValue]]) -> list[Array]:
        """The result of the float network. `readers` has the values that each op is the last one to read."""
        found = {value: self.values[value].exact for value in block.inputs}
        last = _last_inside(block)
        for op in block.ops:
            alone = float_form(self.reference or self.program, self.exact_ops[op])
            inside = [found[value] for value in last.get(op, ())]
            before = [self.values[value] for value in readers.get(op, ()) if value in self.values]
            ended = [*inside, *(value.exact for value in before if value.exact is not value.stored)]
            (found[op.results[0]],) = self._all(alone, [found[value] for value in activations(op)], count, ended)
            for value in last.get(op, ()):
                found.pop(value, None)
        return found[block.result]


def _last_inside(block: OpBlock) -> dict[Operation, list[SSAValue]]:
    """Maps each op of a block to the block's values that are used last by this op, without the block's result."""
    last = {value: op for op in block.ops for value in activations(op)}
    found: dict[Operation, list[SSAValue]] = {}
    made = {result for op in block.ops for result in op.results} - {block.result}
    for value, op in last.items():
        if value in made:
            found.setdefault(op, []).append(value)
    return found
