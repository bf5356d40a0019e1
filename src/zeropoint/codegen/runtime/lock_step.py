"""A native program run contraction by contraction, over all samples at once; biases may change in between.

Every sample has an arena of its own, so what one contraction left there is what the next one reads. A range of steps
is run by a table (`step_table.py`) that says where it begins and how many steps it has. A contraction with another bias
has other parameters: they are beside the program's inputs, and the table says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from zeropoint.codegen.cache import cache_folder
from zeropoint.codegen.graph import INPUTS, Graph, View
from zeropoint.codegen.llvm.machine import Loaded
from zeropoint.codegen.modules import kernels_of
from zeropoint.codegen.objects import objects_of
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.codegen.runtime.slots import aligned, results_of
from zeropoint.codegen.runtime.workers import Workers
from zeropoint.ir.arguments import checked_arguments, in_order
from zeropoint.ir.tensors import Array
from zeropoint.threads import in_threads


class LockStep:
    """A program whose contractions of integers run one after the other, in the order of their steps.

    `program` stays as it is: the changes are of this object.
    """

    def __init__(self, program: NativeProgram, samples: Sequence[Mapping[str, Array]]):
        self._program, self._graph = program, program.graph
        self._contractions = program.graph.contractions
        self._table = program.table.copy()
        self._count = len(self._graph.inputs)
        places = self._count + len(self._contractions)
        ports = places, len(self._graph.outputs)
        self._weights = self._graph.weights.array
        self._arenas = [aligned(max(1, program.arena.size)) for _ in range(len(samples) + 1)]
        addresses = self._arenas[-1].ctypes.data, self._weights.ctypes.data
        self._lanes = [Workers(program.code, 1, *addresses, *ports, self._table) for _ in range(program.threads)]
        """Each runs a part of the samples in a thread: a few steps are too little work to share them."""
        self._known = {step.kernel for step in self._graph.steps}
        self._changed: dict[int, Array] = {}
        """The parameters of contractions with another bias, by their number."""
        self._parameters = [0] * len(self._contractions)
        """Their addresses; 0 for contractions with their own bias."""
        self._code: list[Loaded] = []
        self._samples = samples
        self._given = [self._arguments(sample) for sample in samples]
        self._results = [self._outputs() for _ in samples]
        self._done = 0

    @property
    def names(self) -> list[str | None]:
        """The unique name of the kernel of each contraction; None without one."""
        return [contraction.unique_name for contraction in self._contractions]

    @property
    def biases(self) -> list[Array]:
        """What is added to the sums of products of each contraction, (channels,), i64: bias and zero points."""
        return [contraction.bias for contraction in self._contractions]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of what each contraction reads."""
        return [contraction.source.shape for contraction in self._contractions]

    def sources(self, number: int) -> list[Array]:
        """What contraction `number` reads, by sample, where it is: all steps before it have run.

        It is i8, or u8 of numbers that are greater by 128. Valid until the next call. Raises ValueError if the samples
        have run to their end.
        """
        contraction = self._contractions[number]
        if self._done == len(self._graph.steps):
            raise ValueError(f"found contraction {number} to be read after the last step, expected it before")
        self._run_to(contraction.steps.start)
        return [self._stored(contraction.source, arena) for arena in self._arenas[:-1]]

    def add(self, number: int, change: Array) -> None:
        """Add integers (channels,) to the bias of a contraction that has not run."""
        contraction = self._contractions[number]
        if contraction.steps.start < self._done:
            raise ValueError(f"found a bias of contraction {number} to be changed, expected one that has not run")
        graph = contraction.with_bias(contraction.bias + change)
        names = kernels_of(graph).names
        code = self._compiled(graph)
        self._changed[number] = graph.weights.array
        self._parameters[number] = graph.weights.array.ctypes.data
        place = INPUTS, self._count + number
        for step, name, made in zip(contraction.steps, names, graph.steps, strict=True):
            self._table.replace(step, code.address(name), made, place)

    def __call__(
        self, inputs: Mapping[str, Array], *, observe: Callable[[str, Array], None] | None = None
    ) -> dict[str, Array]:
        """The outputs by name, with the changed biases; `observe` is never called.

        The samples run to their end. After that no bias changes, and no contraction can be read.
        """
        steps = len(self._graph.steps)
        self._run_to(steps)
        del self._arenas[:-1]  # a program with its corrections may live long
        number = next((number for number, sample in enumerate(self._samples) if sample is inputs), None)
        if number is not None:
            results = self._results[number]
        else:
            values, results = self._arguments(inputs), self._outputs()
            self._table.select(0, steps)
            self._run(self._lanes[0], self._arenas[-1], values, results)
        return {port.name: result for port, result in zip(self._graph.outputs, results, strict=True)}

    def _arguments(self, inputs: Mapping[str, Array]) -> list[Array]:
        ports = self._graph.inputs
        return [
            np.require(array, requirements=["C", "A"]) for array in checked_arguments(in_order(inputs, ports), ports)
        ]

    def _outputs(self) -> list[Array]:
        return [np.empty(shape, dtype) for shape, dtype in results_of(self._graph.outputs)]

    def _compiled(self, graph: Graph) -> Loaded:
        """The code of a contraction's kernels: the program's own, or, if sums may now be greater, other ones."""
        if all(step.kernel in self._known for step in graph.steps):
            return self._program.code
        sources = kernels_of(graph).sources
        objects = objects_of(sources, graph.isa, cache=cache_folder(), form=self._program.form)
        self._code.append(Loaded(objects.values(), graph.isa))
        return self._code[-1]

    def _run_to(self, step: int) -> None:
        """Run the steps before `step` that have not run, on all samples."""
        if step <= self._done:
            return
        self._table.select(self._done, step)
        given = list(zip(self._arenas[:-1], self._given, self._results, strict=True))

        def run(lane: int) -> None:
            for arena, values, results in given[lane :: len(self._lanes)]:
                self._run(self._lanes[lane], arena, values, results)

        in_threads(run, range(len(self._lanes)))
        self._done = step

    def _run(self, workers: Workers, arena: Array, values: list[Array], results: list[Array]) -> None:
        """Run the selected steps on one sample."""
        workers.use(arena.ctypes.data, self._weights.ctypes.data)
        inputs = [*(array.ctypes.data for array in values), *self._parameters]
        workers.run(inputs, [array.ctypes.data for array in results], held=(values, results, arena))

    def _stored(self, view: View, arena: Array) -> Array:
        """Stored integers, with the offset that they have in the arena."""
        dtype = np.uint8 if view.activations and self._graph.isa.offset else np.int8
        return np.ndarray(view.shape, dtype, arena.data, view.buffer.offset + view.offset, view.strides)
