"""What a kernel of rows is made of: its loops, its operands, its scalars in sweeps, and how many elements at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from zeropoint.codegen.kernels.access import Access
from zeropoint.codegen.kernels.combining import is_ordered
from zeropoint.codegen.kernels.elements import (
    Reduce,
    Requantize,
    Scalar,
    Scalars,
    StoredNumber,
    is_function,
    width_inside,
)
from zeropoint.codegen.kernels.interleaved import halved
from zeropoint.codegen.kernels.sweeps import Sweeps
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.types import WIDTHS
from zeropoint.numerics.sums import PARTIALS

HELD = 8
"""The maximum number of vectors (of `lanes` elements) of a fully unrolled row; LLVM keeps in registers what fits."""
TOGETHER = 2
"""Rows computed at once, to hide the latency of reductions."""
SIDE_BY_SIDE = 4
"""The same of rows with few instructions per element, whose time is that of a chain of sums."""
SHORT = 8
"""Scalars per element in a sweep with few instructions."""
LONG = 64
"""Elements at once of a row with many, that does not fit the registers: with two vectors, AVX2 takes a sixth longer."""
INTERLEAVED = 4
"""Registers of i32 side by side in rows whose even and odd elements are computed apart."""
STACK = 32 << 10
"""The maximum number of stack bytes of a kernel; threads of a host program may have small stacks."""


@dataclass(frozen=True)
class RowShape:
    """`sizes` are the loops over rows, then the elements of a row; strides have an entry for each.

    Scalars are as in a nest; in addition, `Reduce` of all elements of the row, and a `StoredNumber` for each of
    `numbers`, in order, which say where it is written.
    """

    sizes: tuple[int, ...]
    reads: tuple[Access, ...]
    write: Access
    body: Scalars
    numbers: tuple[Access, ...] = ()

    @property
    def count(self) -> int:
        """The number of rows."""
        return math.prod(self.sizes[:-1])

    @property
    def length(self) -> int:
        """The number of elements of a row."""
        return self.sizes[-1]

    @cached_property
    def sweeps(self) -> Sweeps:
        """The assignment of scalars to sweeps."""
        return Sweeps(self.sizes, self.reads, self.body)

    @property
    def stored(self) -> list[int]:
        """The scalars that are stored once a row."""
        return [n for n, i in enumerate(self.body) if isinstance(i.what, StoredNumber)]

    @cached_property
    def halved(self) -> list[bool]:
        """Whether each scalar has half as many numbers as a row has elements."""
        return halved(self.body)

    def size(self, n: int) -> int:
        """Bytes that a scalar takes for an element of a row."""
        return max(8, WIDTHS[self.body[n].type]) // 8 >> self.halved[n]

    def bytes(self, n: int) -> int:
        """Bytes of a buffer for a scalar of a row: whole cache lines."""
        return -(-self.length * self.size(n) // 64) * 64

    def stack(self, together: int = TOGETHER) -> int:
        """Upper bound on the stack bytes of a row kernel that computes some rows at once."""
        return sum(map(self.bytes, (*self.sweeps.ahead, *together * list(self.sweeps.kept))))

    @cached_property
    def _wide(self) -> list[Scalar]:
        """The scalars that differ between the elements of a row."""
        return [i for n, i in enumerate(self.body) if self.sweeps.wide[n]]

    @cached_property
    def is_short(self) -> bool:
        """Whether all sweeps have few instructions per element."""
        functions = any(is_function(i) or isinstance(i.what, Requantize) for i in self._wide)
        return not functions and max(map(len, self.sweeps.needed)) <= SHORT

    @property
    def together(self) -> int:
        """Rows that are computed at once."""
        fits = self.is_short and self.stack(SIDE_BY_SIDE) <= STACK
        return min(self.count, SIDE_BY_SIDE if fits else TOGETHER)

    def overlaps(self, isa: InstructionSet) -> bool:
        """Whether groups of rows overlap: if half of the registers hold what two of them need at once."""
        first, last = (self.sweeps.reductions(self.body, 0), self.sweeps.numbers_in(self.body, self.sweeps.known[-1]))
        bits = sum(self.lanes(isa) * WIDTHS[self.body[n].type] for n in first)
        held = self.together * (-(-bits // (8 * isa.bytes)) + len(last))
        return self.is_short and self.count >= 2 * self.together and held <= isa.registers // 2

    def is_held(self, isa: InstructionSet) -> bool:
        """Whether what a row keeps for later sweeps stays in registers."""
        return bool(self.sweeps.kept) and not self.is_short and self.length // self._lanes(isa) <= HELD

    def lanes(self, isa: InstructionSet) -> int:
        """Number of elements computed at once."""
        most = self._lanes(isa)
        if self.sweeps.kept and not self.is_short and not self.is_held(isa) and isa.width >= 8:
            most = max(most, LONG)
        # A vector longer than the row would have nothing to compute.
        return min(most, 1 << (self.length.bit_length() - 1))

    def _lanes(self, isa: InstructionSet) -> int:
        """Number of elements of several registers of the widest type, side by side.

        A single register would be bound by latency, except for requantization, which has many instructions, and for
        several rows side by side. Integers that are read again, as in layer normalization, have long chains of
        instructions, and few registers to hold.
        """
        widest = max(8, *map(width_inside, self._wide)) if self._wide else 8
        together = isa.registers // (8 if self.sweeps.kept else 4)
        together = 2 if self.is_short else together
        together = 1 if any(isinstance(i.what, Requantize) for i in self._wide) else together
        together = INTERLEAVED if any(self.halved[n] for n in self.sweeps.needed[-1]) else together
        most = max(1, together * 8 * isa.bytes // widest)
        # A vector then has an element of each of the 16 parts of the specified schedule.
        return max(most, PARTIALS) if any(map(is_ordered_sum, self.body)) else most


def is_ordered_sum(i: Scalar) -> bool:
    """Whether a scalar is a reduction whose order matters."""
    return isinstance(i.what, Reduce) and is_ordered(i.what.op, i.type)
