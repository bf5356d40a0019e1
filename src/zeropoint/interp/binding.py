"""What an op is bound to before a program runs: the function that computes it, from arrays to arrays.

An entry of the table (`zeropoint.interp.table`) is a `Rule`: it reads an op's attributes and types once and returns
the `Kernel` that runs every time. A value is an ndarray; of a quantized type, the array of its storage integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from xdsl.ir import Block, SSAValue

from zeropoint.ir.tensors import Array
from zeropoint.numerics import Profile

Kernel = Callable[..., Array | tuple[Array, ...]]
"""Operand arrays to the result array; to a tuple of arrays for an op that has not exactly one result."""
Function = Callable[..., Array]
"""A kernel with one result, of any number of operands."""
Unary = Callable[[Array], Array]
Binary = Callable[[Array, Array], Array]
Ternary = Callable[[Array, Array, Array], Array]
Body = Callable[..., tuple[Array, ...]]
Branch = Callable[[Sequence[Array], Sequence[Array]], tuple[Array, ...]]
"""A region as a function of its arguments, and of what the op's regions use from around it."""


class Scope(Protocol):
    """What a rule may ask about the program around its op."""

    @property
    def profile(self) -> Profile:
        """The numerics profile that quantized ops compute with."""
        ...

    def constant(self, value: SSAValue) -> Array | None:
        """The array behind a value that is the same in every run, read-only; None for any other value."""
        ...

    @property
    def probes(self) -> dict[str, list[Array]]:
        """What the probes of the program have seen, by their names."""
        ...

    @property
    def write(self) -> Callable[[str], object]:
        """Where `interpreter.print` writes."""
        ...

    def function(self, name: str) -> Body:
        """A function of the module, on a sequence of its arguments."""
        ...

    def argument_count(self, name: str) -> int:
        """How many arguments a function of the module has."""
        ...

    def branch(self, block: Block) -> Branch:
        """A region's block, which may use values from around it.

        They are handed to the op's kernel after its operands, and go on from there to every branch of the op.
        """
        ...

    def body(self, block: Block) -> Body:
        """A block as a function of its arguments that returns a tuple; it works elementwise on arrays of any shape."""
        ...


Rule = Callable[[Any, Scope], Kernel]
