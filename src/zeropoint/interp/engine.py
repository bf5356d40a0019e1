"""Engines that run programs. The interpreter and native code give the same results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, runtime_checkable

from zeropoint.interp.binding import Binary
from zeropoint.interp.interpreter import Interpreter
from zeropoint.interp.plan_steps import Observe
from zeropoint.ir.kernel_path import KernelPath
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.numerics.products import sums_of_products


class Runnable(Protocol):
    """A program prepared by an engine."""

    def __call__(self, inputs: Mapping[str, Array], *, observe: Observe | None = None) -> dict[str, Array]:
        """The outputs by name. `observe(key, array)` is called at every `quant.stats_ref`."""
        ...


class LockStepped(Runnable, Protocol):
    """An integer program whose contractions run one after the other, over all samples at once.

    Biases may change in between. A call runs the program with the changed ones.
    """

    @property
    def names(self) -> list[str | None]:
        """The unique name of the kernel of each contraction; None without one."""
        ...

    @property
    def biases(self) -> list[Array]:
        """What is added to the sums of products of each contraction, (channels,), i64: bias and zero points."""
        ...

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of what each contraction reads."""
        ...

    def sources(self, number: int) -> list[Array]:
        """What contraction `number` reads, by sample: i8, or u8 of numbers that are greater by 128.

        Valid until the next call.
        """
        ...

    def add(self, number: int, change: Array) -> None:
        """Add integers (channels,) to the bias of a contraction that has not run."""
        ...


@runtime_checkable
class Adjustable(Runnable, Protocol):
    """A prepared program whose biases can be changed."""

    def lock_step(self, samples: Sequence[Mapping[str, Array]], memory: int) -> LockStepped | None:
        """The program in lock step over samples; None if it has no such form, or not in so many bytes."""
        ...


@runtime_checkable
class Concurrent(Runnable, Protocol):
    """A prepared program that several threads may call."""

    @property
    def callers(self) -> int:
        """The number of calls that run at the same time."""
        ...


class RepeatedKernels(Protocol):
    """Runs a program on one sample at a time, and then kernels of it again. One thread at a time may use it."""

    def run(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        """Run the program on a sample. Returns the observed values by key, which the next run may overwrite."""
        ...

    def again(self, path: KernelPath, arrays: Sequence[Array]) -> list[Array]:
        """The last value of a path for each of several first ones. All other values are those of the sample's run."""
        ...


@runtime_checkable
class Repeatable(Runnable, Protocol):
    """A prepared program whose kernels can run again, alone."""

    def repeated(self, paths: Collection[KernelPath], count: int, memory: int) -> Sequence[RepeatedKernels]:
        """At most `count` ways to run these kernels again, in so many bytes; none if some cannot run alone."""
        ...


BinCounter = Callable[[Array], Array]
"""How often each number occurs in the upper 16 bits of contiguous u32 words, up to the last one that occurs."""


@runtime_checkable
class CountingEngine(Protocol):
    """An engine that also counts the bins of histograms."""

    def bin_counter(self) -> BinCounter:
        """A counter, for one thread at a time."""
        ...


class Engine(Protocol):
    """A way to run programs."""

    def prepare(self, program: Program) -> Runnable:
        """Prepare the program to be called many times."""
        ...


class ReferenceEngine:
    """The interpreter as an engine. `products` adds up products of floats, with the bits of `numerics.products`."""

    def __init__(self, products: Binary = sums_of_products):
        self._products = products

    def prepare(self, program: Program) -> Runnable:
        """An `Interpreter` of the program."""
        return Interpreter(program, self._products)
