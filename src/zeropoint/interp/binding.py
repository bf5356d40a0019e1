"""Rules and kernels: before a program runs, each op is bound to a function from arrays to arrays.

An entry of the table (`zeropoint.interp.table`) is a `Rule`: it reads an op's attributes and types once and returns
the `Kernel` that is called in every run. A value is an ndarray; for a quantized type, of its storage integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from xdsl.ir import Block, SSAValue

from zeropoint.ir.tensors import Array
from zeropoint.numerics import Profile

Kernel = Callable[..., Array | tuple[Array, ...]]
"""Maps operand arrays to the result array, or to a tuple of arrays unless the op has exactly one result."""
ArrayFunction = Callable[..., Array]
"""A kernel with one result, of any number of operands."""
Arrays = tuple[Array, ...]
Unary = Callable[[Array], Array]
Binary = Callable[[Array, Array], Array]
Ternary = Callable[[Array, Array, Array], Array]
BodyFunction = Callable[..., tuple[Array, ...]]
Branch = Callable[[Sequence[Array], Sequence[Array]], tuple[Array, ...]]
"""A region as a function of its arguments and of the values that the op's regions capture."""


class Scope(Protocol):
    """The program around an op, as seen by the op's rule."""

    @property
    def profile(self) -> Profile:
        """The numerics profile that quantized ops compute with."""
        ...

    @property
    def states_profile(self) -> bool:
        """Whether the op or the program names its profile."""
        ...

    def constant(self, value: SSAValue) -> Array | None:
        """The read-only array of a value that is the same in every run; None for any other value."""
        ...

    @property
    def probes(self) -> dict[str, list[Array]]:
        """The values that the program's probes recorded, by probe name."""
        ...

    @property
    def write(self) -> Callable[[str], object]:
        """The output function of `interpreter.print`."""
        ...

    def function(self, name: str) -> BodyFunction:
        """A function of the module as a process, on a sequence of its arguments."""
        ...

    def argument_count(self, name: str) -> int:
        """The number of arguments of a function in the module."""
        ...

    def branch(self, block: Block) -> Branch:
        """A region's block, which may capture values from outside.

        The op's kernel receives captured values after its operands and passes them to every branch.
        """
        ...

    def body(self, block: Block) -> BodyFunction:
        """A block as a function of its arguments that returns a tuple; it works elementwise on arrays of any shape."""
        ...


BindingRule = Callable[[Any, Scope], Kernel]
