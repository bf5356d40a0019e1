"""An interpreted program run contraction by contraction, over all samples at once; biases may change in between.

Every sample has slots of its own (`plan.py`), so what one contraction left there is what the next one reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import Operation

from zeropoint.interp.binding import Kernel
from zeropoint.interp.plan import Plan
from zeropoint.interp.plan_steps import PlanStep, advance
from zeropoint.interp.trips import counted_trips
from zeropoint.ir.annotations import facts_of, unique_name
from zeropoint.ir.arguments import checked_arguments, in_order
from zeropoint.ir.contractions import ContractionOp, output_channel_axis, weight_channel_axis
from zeropoint.ir.program import Port
from zeropoint.ir.stablehlo import AddOp, ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import Array, element_of, shape_of


@dataclass(frozen=True, eq=False)
class PlannedContraction:
    """A contraction of i8 with constant weights: its op, its step, its unique name, and its bias, (channels,), i64."""

    op: ContractionOp
    step: int
    name: str | None
    bias: Array

    def with_bias(self, step: PlanStep, change: Array) -> PlanStep:
        """Its step with integers (channels,) added to the sums."""
        shape = [-1 if dim == output_channel_axis(self.op) else 1 for dim in range(len(shape_of(self.op.result)))]
        return replace(step, kernel=_plus(step.kernel, change.astype(np.int32).reshape(shape)))


def integer_contractions(plan: Plan) -> list[PlannedContraction]:
    """The contractions of i8 with constant weights among the steps of a plan, in order."""
    readers: dict[int, list[PlanStep]] = {}
    for step in plan.steps:
        for slot in step.operands:
            readers.setdefault(slot, []).append(step)
    found: list[PlannedContraction] = []
    for number, step in enumerate(plan.steps):
        op = step.op
        if _is_of_bytes(op) and plan.slots[step.operands[1]] is not None:
            bias = _bias(op, step.results[0], readers, plan)
            found.append(PlannedContraction(op, number, _name(op), bias))
    return found


class InterpretedLockStep:
    """A program whose contractions of i8 run one after the other, in the order of their ops. `plan` stays as it is."""

    def __init__(
        self,
        plan: Plan,
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        samples: Sequence[Mapping[str, Array]],
        contractions: Sequence[PlannedContraction],
    ):
        self._plan, self._inputs, self._outputs, self._samples = plan, inputs, outputs, samples
        self._steps = list(plan.steps)
        self._contractions = contractions
        self._slots = [plan.begun(self._arguments(sample)) for sample in samples]
        self._done = 0

    @property
    def names(self) -> list[str | None]:
        """The unique name of the kernel of each contraction; None without one."""
        return [contraction.name for contraction in self._contractions]

    @property
    def biases(self) -> list[Array]:
        """What is added to the sums of products of each contraction, (channels,), i64: bias and zero points."""
        return [contraction.bias for contraction in self._contractions]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of what each contraction reads."""
        return [tuple(shape_of(contraction.op.lhs)) for contraction in self._contractions]

    def sources(self, number: int) -> list[Array]:
        """What contraction `number` reads, by sample, i8: all steps before it have run."""
        step = self._contractions[number].step
        self._run_to(step)
        slot = self._steps[step].operands[0]
        return [np.asarray(slots[slot]) for slots in self._slots]

    def add(self, number: int, change: Array) -> None:
        """Add integers (channels,) to the bias of a contraction that has not run."""
        contraction = self._contractions[number]
        if contraction.step < self._done:
            raise ValueError(f"found a bias of contraction {number} to be changed, expected one that has not run")
        self._steps[contraction.step] = contraction.with_bias(self._steps[contraction.step], change)

    def __call__(
        self, inputs: Mapping[str, Array], *, observe: Callable[[str, Array], None] | None = None
    ) -> dict[str, Array]:
        """The outputs by name, with the changed biases; `observe` is never called.

        The samples run to their end, and no bias changes after that.
        """
        self._run_to(len(self._steps))
        number = next((number for number, sample in enumerate(self._samples) if sample is inputs), None)
        slots = self._plan.begun(self._arguments(inputs)) if number is None else self._slots[number]
        if number is None:
            self._advance(self._steps, slots)
        return {port.name: result for port, result in zip(self._outputs, self._plan.ended(slots), strict=True)}

    def _arguments(self, inputs: Mapping[str, Array]) -> list[Array]:
        return checked_arguments(in_order(inputs, self._inputs), self._inputs)

    def _run_to(self, step: int) -> None:
        """Run the steps before `step` that have not run, on all samples."""
        if step > self._done:
            for slots in self._slots:
                self._advance(self._steps[self._done : step], slots)
            self._done = step

    @staticmethod
    def _advance(steps: Sequence[PlanStep], slots: list[Array | None]) -> None:
        with np.errstate(all="ignore"), counted_trips():
            advance(steps, slots)


def _plus(kernel: Kernel, change: Array) -> Kernel:
    return lambda *operands: kernel(*operands) + change


def _is_of_bytes(op: Operation) -> TypeGuard[ContractionOp]:
    if not isinstance(op, ConvolutionOp | DotGeneralOp) or weight_channel_axis(op) is None:
        return False
    return element_of(op.lhs) == i8 and element_of(op.result) == i32


def _bias(op: ContractionOp, sums: int, readers: Mapping[int, Sequence[PlanStep]], plan: Plan) -> Array:
    """What is added to each channel of the sums in a slot, one constant after the other."""
    axis, shape = output_channel_axis(op), shape_of(op.result)
    total = np.zeros(shape[axis], np.int64)
    while len(reading := readers.get(sums, ())) == 1 and isinstance(reading[0].op, AddOp):
        constants = [array for slot in reading[0].operands if (array := plan.slots[slot]) is not None]
        by_channel = [np.moveaxis(array, axis, -1).reshape(-1, shape[axis]) for array in constants]
        if len(constants) != 1 or not (by_channel[0] == by_channel[0][:1]).all():
            break
        total += by_channel[0][0]
        (sums,) = reading[0].results
    return total


def _name(op: Operation) -> str | None:
    """The unique name of the kernel of a contraction, which is stated where the result of the kernel is."""
    while not facts_of(op):
        if len(op.results) != 1 or not op.results[0].has_one_use():
            return None
        op = next(iter(op.results[0].uses)).operation
    return unique_name(op)
