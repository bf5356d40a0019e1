"""Run a program by the reference semantics of its ops, on named inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from zeropoint.interp.binding import Binary
from zeropoint.interp.lock_step import InterpretedLockStep, integer_contractions
from zeropoint.interp.plan import plan_of
from zeropoint.interp.plan_steps import Observe, Trace
from zeropoint.ir.arguments import checked_arguments, in_order
from zeropoint.ir.program import Port, Program
from zeropoint.ir.tensors import Array
from zeropoint.numerics.products import sums_of_products


class Interpreter:
    """A program that is prepared once and called many times.

    Arrays of a quantized type hold storage integers. `products` adds up products of floats, with the bits of
    `numerics.products`. Calls are thread-safe. Raises UnsupportedError if the program has
    ops that the interpreter does not support.
    """

    def __init__(self, program: Program, products: Binary = sums_of_products):
        self.inputs: list[Port] = program.inputs
        self.outputs: list[Port] = program.outputs
        self._plan = plan_of(program, products=products)

    def __call__(
        self, inputs: Mapping[str, Array], *, observe: Observe | None = None, trace: Trace | None = None
    ) -> dict[str, Array]:
        """Run the program on inputs by name, and return the outputs by name.

        `observe(key, array)` is called at every `quant.stats_ref`, and `trace(op, results)` after every op. Ops on
        constants only are computed once in advance and not traced. Raises InputError if names, shapes or dtypes do not
        match the program's inputs.
        """
        results = self.run_values(in_order(inputs, self.inputs), observe=observe, trace=trace)
        return {port.name: result for port, result in zip(self.outputs, results, strict=True)}

    def run_values(
        self, values: Sequence[Array], *, observe: Observe | None = None, trace: Trace | None = None
    ) -> list[Array]:
        """Run the program on inputs in order, and return the outputs in order."""
        return list(self._plan.run(checked_arguments(values, self.inputs), observe, trace))

    def lock_step(self, samples: Sequence[Mapping[str, Array]], memory: int) -> InterpretedLockStep | None:
        """The program contraction by contraction over samples; None if no contraction has integers.

        Values are freed after their last readers, as in a walk over the kernels, so `memory` holds them.
        """
        del memory
        found = integer_contractions(self._plan)
        return InterpretedLockStep(self._plan, self.inputs, self.outputs, samples, found) if found else None

    def run_samples(
        self, samples: Iterable[Mapping[str, Array]], *, observe: Observe | None = None
    ) -> Iterator[dict[str, Array]]:
        """The outputs of each sample, computed lazily."""
        return (self(sample, observe=observe) for sample in samples)


def run(
    program: Program, inputs: Mapping[str, Array], *, observe: Observe | None = None, trace: Trace | None = None
) -> dict[str, Array]:
    """Run a program once. For many runs, `Interpreter` is faster."""
    return Interpreter(program)(inputs, observe=observe, trace=trace)
