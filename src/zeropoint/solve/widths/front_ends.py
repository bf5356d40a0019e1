"""Front ends: the values that a small part of a network's multiplications computes from its inputs.

Example: a constant-Q transform. Eight filters halve the rate of a waveform one after the other, a bank of filters reads
each of the nine waveforms, and a logarithm reads all of them. Each filter takes away most of what 8 bits hold, and the
logarithm shows what is left. All of it has 8 % of the multiplications of the network behind the logarithm.

Contractions with the same weights count together, so that the first steps of a recurrence are no front end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import is_constant
from zeropoint.ir.contractions import multiplications_of
from zeropoint.ir.program import Program

SHARE = 0.1
"""The largest part of the multiplications of a network that may be before a value of a front end."""


def front_end(program: Program) -> frozenset[SSAValue]:
    """The values of a program that its front end computes."""
    counts = {op: multiplications_of(op) for op in program.entry.ops}
    by_weights: Counter[SSAValue] = Counter()
    for op, count in counts.items():
        if count:
            by_weights[_weights(op)] += count
    most = SHARE * by_weights.total()
    # The weights that are read on the way to each value of the front end.
    read: dict[SSAValue, frozenset[SSAValue]] = {argument: frozenset() for argument in program.entry.args}
    for op, count in counts.items():
        before = _united(read.get(value) for value in op.operands if not is_constant(value))
        if before is None:
            continue
        before = before | {_weights(op)} if count else before
        if sum(by_weights[weights] for weights in before) <= most:
            read.update((result, before) for result in op.results)
    return frozenset(read)


def _weights(op: Operation) -> SSAValue:
    """The constant that a contraction multiplies by; its result if it has none."""
    return next((value for value in op.operands[1:2] if is_constant(value)), op.results[0])


def _united(sets: Iterable[frozenset[SSAValue] | None]) -> frozenset[SSAValue] | None:
    """The union of sets; None if one is None."""
    found: frozenset[SSAValue] = frozenset()
    for one in sets:
        if one is None:
            return None
        found |= one
    return found
