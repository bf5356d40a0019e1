"""Runs a program by the reference semantics of its ops, on named inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute

from zeropoint.interp.errors import InputError
from zeropoint.interp.plan import Observe, Trace, plan_of
from zeropoint.ir.program import Port, Program
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of


class Interpreter:
    """A program made ready once, to be called many times.

    Arrays of a quantized type hold its storage integers. Safe to call from several threads at once.
    Raises UnsupportedError where the program holds ops that have no semantics.
    """

    def __init__(self, program: Program):
        self.inputs: list[Port] = program.inputs
        self.outputs: list[Port] = program.outputs
        self._plan = plan_of(program)

    def __call__(
        self, inputs: Mapping[str, Array], *, observe: Observe | None = None, trace: Trace | None = None
    ) -> dict[str, Array]:
        """The outputs by name, for inputs by name.

        `observe(key, array)` is called at every `quant.stats_ref`; `trace(op, results)` after every op that was run
        (constants, and what follows from them alone, are computed before).
        Raises InputError where names, shapes or dtypes do not fit the program's inputs.
        """
        self._check_names(inputs)
        results = self.run_values([inputs[port.name] for port in self.inputs], observe=observe, trace=trace)
        return {port.name: result for port, result in zip(self.outputs, results, strict=True)}

    def run_values(
        self, values: Sequence[Array], *, observe: Observe | None = None, trace: Trace | None = None
    ) -> list[Array]:
        """The outputs in order, for inputs in order."""
        if len(values) != len(self.inputs):
            raise InputError(f"found {len(values)} arrays, expected {len(self.inputs)}: {self._signature()}")
        arrays = [
            checked_argument(np.asarray(value), port.type, f"input {port.name}")
            for value, port in zip(values, self.inputs, strict=True)
        ]
        return list(self._plan.run(arrays, observe, trace))

    def run_samples(
        self, samples: Iterable[Mapping[str, Array]], *, observe: Observe | None = None
    ) -> Iterator[dict[str, Array]]:
        """The outputs for one sample after the other, as they are asked for."""
        return (self(sample, observe=observe) for sample in samples)

    def _check_names(self, inputs: Mapping[str, Array]) -> None:
        expected = {port.name for port in self.inputs}
        if set(inputs) != expected:
            found = ", ".join(sorted(inputs)) or "no input"
            raise InputError(f"found inputs {found}; expected {self._signature()}")

    def _signature(self) -> str:
        return ", ".join(f"{port.name}: {port.type}" for port in self.inputs) or "no input"


def checked_argument(value: Array, found: Attribute, name: str) -> Array:
    """The array, where it fits the type of what it is given for.

    Raises InputError for another shape or dtype.
    """
    if not isinstance(found, TensorType):
        return value
    shape, dtype = shape_of(cast("Attribute", found)), element_dtype(element_of(cast("Attribute", found)))
    # A dynamic dimension takes any size.
    wanted = tuple(f if e in (DYNAMIC_INDEX, f) else e for e, f in zip(shape, value.shape, strict=False))
    if len(shape) != value.ndim or wanted != value.shape:
        raise InputError(f"{name}: found shape {value.shape}, expected {found}; reshape it")
    if value.dtype != dtype:
        raise InputError(
            f"{name}: found dtype {value.dtype}, expected {dtype} ({found}); convert it with .astype('{dtype}')"
        )
    return value


def run(
    program: Program, inputs: Mapping[str, Array], *, observe: Observe | None = None, trace: Trace | None = None
) -> dict[str, Array]:
    """Run a program once; see `Interpreter`, which is quicker for many runs."""
    return Interpreter(program)(inputs, observe=observe, trace=trace)
