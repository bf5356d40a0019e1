"""The steps of a plan, and how they compute. Errors name the op of the step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation

from zeropoint.errors import Error
from zeropoint.interp.binding import Kernel
from zeropoint.ir.locations import describe, text_position
from zeropoint.ir.mapped import RECENT_PAGES
from zeropoint.ir.tensors import Array
from zeropoint.limits import LimitExceeded

Observe = Callable[[str, Array], None]
Trace = Callable[[Operation, tuple[Array, ...]], None]


@dataclass(frozen=True, slots=True)
class PlanStep:
    """An op, the slots that it reads and writes, those to free after it, and the mapped weights that it reads."""

    op: Operation
    kernel: Kernel
    operands: tuple[int, ...]
    results: tuple[int, ...]
    statistics: str | None
    freed: tuple[int, ...] = ()
    mapped: tuple[Array, ...] = ()

    def compute(self, slots: Sequence[Array | None]) -> tuple[Array, ...]:
        """The results of the op. The read of mapped weights is recorded, because pages read long ago are released."""
        for array in self.mapped:
            RECENT_PAGES.read(array)
        computed = self.kernel(*[slots[slot] for slot in self.operands])
        return computed if isinstance(computed, tuple) else (computed,)


def advance(
    steps: Sequence[PlanStep], slots: list[Array | None], observe: Observe | None = None, trace: Trace | None = None
) -> None:
    """Compute some steps of a run on its slots."""
    step = None
    try:
        for step in steps:
            computed = step.compute(slots)
            for slot, value in zip(step.results, computed, strict=True):
                slots[slot] = value
            if step.statistics is not None and observe is not None:
                observe(step.statistics, computed[0])
            if trace is not None:
                trace(step.op, computed)
            for slot in step.freed:
                # A value is freed after its last reader, so that only live values take memory.
                slots[slot] = None
    except LimitExceeded as error:
        raise _named(error, step) from error
    except ValueError as error:
        _say_where(error, step)
        raise


def _named(error: LimitExceeded, step: PlanStep | None) -> LimitExceeded:
    """The error, preceded by the name of the op that exceeds the limit."""
    if step is None or describe(step.op) in str(error):
        return error
    named = LimitExceeded(f"{describe(step.op)}: {error}")
    named.position = error.position or text_position(step.op)
    return named


def _say_where(error: ValueError, step: PlanStep | None) -> None:
    if step is None:
        return
    error.add_note(f"in {describe(step.op)}")
    if isinstance(error, Error) and error.position is None:
        error.position = text_position(step.op)
