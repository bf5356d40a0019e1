"""Rules and kernels. Before a program runs, each op is bound to a function from arrays to arrays.

An entry of the table (`zeropoint.interp.table`) is a `Rule`. It reads an op's attributes and types once, and returns
the `Kernel` that is called in every run. A value is an ndarray; for a quantized type, it holds storage integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from xdsl.ir import Block, SSAValue

from zeropoint.ir.tensors import Array
from zeropoint.numerics import Profile

Kernel = Callable[..., Array | tuple[Array, ...]]
"""Maps operand arrays to the result array; to a tuple of arrays if the op does not have exactly one result."""
ArrayFunction = Callable[..., Array]
"""A kernel with one result, of any number of operands."""
Arrays = tuple[Array, ...]
Unary = Callable[[Array], Array]
Binary = Callable[[Array, Array], Array]
Ternary = Callable[[Array, Array, Array], Array]
BodyFunction = Callable[..., tuple[Array, ...]]
Branch = Callable[[Sequence[Array], Sequence[Array]], tuple[Array, ...]]
"""A region as a function of its arguments and of the values that the regions of the op capture."""


class Scope(Protocol):
    """What the rule of an op sees of the program around the op."""

    @property
    def profile(self) -> Profile:
        """The numerics profile of quantized ops."""
        ...

    @property
    def states_profile(self) -> bool:
        """Whether the op or the program names its profile."""
        ...

    def constant(self, value: SSAValue) -> Array | None:
        """The read-only array of a value that is constant in all runs; None for any other value."""
        ...

    @property
    def float_products(self) -> Binary:
        """The function for sums of products of f32 or f64: `numerics.products`, or another with the same bits."""
        ...

    @property
    def probes(self) -> dict[str, list[Array]]:
        """The values that the program's probes recorded, by the name of the probe."""
        ...

    @property
    def write(self) -> Callable[[str], object]:
        """The output function of `interpreter.print`."""
        ...

    def function(self, name: str) -> BodyFunction:
        """A function of the module, to be run as a process on a sequence of arguments."""
        ...

    def argument_count(self, name: str) -> int:
        """The number of arguments of a function in the module."""
        ...

    def branch(self, block: Block) -> Branch:
        """The block of a region as a function. It may capture values from outside.

        The op's kernel receives captured values after its operands, and passes them to every branch.
        """
        ...

    def body(self, block: Block) -> BodyFunction:
        """A block as a function that maps its arguments to a tuple. It computes elementwise on arrays of any shape."""
        ...


BindingRule = Callable[[Any, Scope], Kernel]
