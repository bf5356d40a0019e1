"""Bodies of kernels that are rewritten: new scalars in place of old ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zeropoint.codegen.kernels.elements import Elementwise, Number, Scalar, Scalars, StoredNumber, What


class NewBody:
    """A body under construction. `numbers` has the new number of each scalar of the old body that was visited."""

    def __init__(self) -> None:
        self.body: list[Scalar] = []
        self.numbers: dict[int, int] = {}

    def append(self, i: Scalar) -> int:
        """Append a scalar and return its number."""
        self.body.append(i)
        return len(self.body) - 1

    def op(self, what: What | str, type_: str, *arguments: int, signed: bool = True) -> int:
        """Append a scalar and return its number. A string names an elementwise op."""
        return self.append(Scalar(Elementwise(what) if isinstance(what, str) else what, type_, arguments, signed))

    def number(self, number: float, type_: str, *, signed: bool = True) -> int:
        """Append a constant and return its number."""
        return self.op(Number(number), type_, signed=signed)

    def moved(self, i: Scalar) -> Scalar:
        """A scalar of the old body, with its arguments in the new one."""
        return replace(i, arguments=tuple(self.numbers[n] for n in i.arguments))

    @property
    def needed(self) -> Scalars:
        """The scalars that the results need."""
        return needed(self.body)


def needed(body: Sequence[Scalar]) -> Scalars:
    """The scalars that are needed for the last one, and for the numbers that a kernel of rows stores."""
    wanted = {len(body) - 1, *(n for n, i in enumerate(body) if isinstance(i.what, StoredNumber))}
    for n in reversed(range(len(body))):
        if n in wanted:
            wanted |= set(body[n].arguments)
    numbers = {n: number for number, n in enumerate(sorted(wanted))}
    return tuple(replace(body[n], arguments=tuple(numbers[k] for k in body[n].arguments)) for n in numbers)
