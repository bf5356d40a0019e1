"""Schedules loops and branches: the steps of their regions become calls of one kernel (`kernels/control.py`).

The inputs and outputs of a region are buffers of the enclosing program. A loop's body writes a carried value in place
if it no longer reads the old value. Otherwise it writes a spare buffer, which is copied at the end of the trip. All
other buffers of a region are in one workspace, a buffer that lives as long as the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from xdsl.ir import Block

from zeropoint.codegen.graph import Buffer, Graph, Parameters, Space, Step, TripCounter, View, dense_view
from zeropoint.codegen.kernels.control import Branches, KernelCall, Loop
from zeropoint.codegen.memory import plan
from zeropoint.codegen.views import copy, fill, is_copy
from zeropoint.ir.native import ControlOp, NativeWhileOp
from zeropoint.limits import limits

TRIPS = -1
"""The number of the trip counter among the outputs of a region."""

Bindings = Mapping[tuple[Space, int], View]
"""The views of the enclosing program for a region's inputs and outputs, by (space, number)."""


def has_loops(block: Block) -> bool:
    """Whether a block or a nested region has a loop."""
    controls = [op for op in block.ops if isinstance(op, ControlOp)]
    return any(isinstance(op, NativeWhileOp) or any(has_loops(r.block) for r in op.programs) for op in controls)


def count_trips(graph: Graph) -> TripCounter:
    """The trip counter of all loops of a run. Appends the step that sets the counter to 0."""
    trips = TripCounter(_counter(Space.CARRIED), limits().trips, [])
    fill(graph, "trips", 0, trips.count)
    return trips


def inner_trips(trips: TripCounter | None) -> TripCounter | None:
    """The counter inside a region, where the counter is an additional output."""
    return None if trips is None else replace(trips, count=_counter(Space.OUTPUT, TRIPS))


def _counter(space: Space, index: int = 0) -> View:
    return dense_view((2,), np.dtype(np.int64), space, index)


def schedule_while(
    graph: Graph, name: str, regions: tuple[Graph, Graph], captured: Sequence[View], carried: Sequence[View]
) -> None:
    """Append a loop over the steps of its condition and its body. `carried` are the buffers of its carried values."""
    assert graph.trips is not None
    trips = graph.trips
    trips.loops.append(name)
    number = len(trips.loops)
    condition, body = regions
    decision = dense_view((), np.dtype(np.bool_), Space.CARRIED)
    given: Bindings = {
        (Space.OUTPUT, TRIPS): trips.count,
        **{(Space.INPUT, n): view for n, view in enumerate((*carried, *captured))},
    }
    _write_in_place(body, len(carried))
    step = _Step(graph, [*carried, decision, trips.count])
    step.add(condition, {**given, (Space.OUTPUT, 0): decision})
    step.add(body, {**given, **{(Space.OUTPUT, n): view for n, view in enumerate(carried)}})
    pointers = step.pointers()
    counted = pointers[decision.buffer], pointers[trips.count.buffer]
    step.append(name, Loop(len(pointers), step.calls(), *counted, trips.limit, number))


def schedule_case(
    graph: Graph, name: str, regions: Sequence[Graph], inputs: Sequence[View], outputs: Sequence[View]
) -> None:
    """Append a branch. The first input selects the region that runs; the others are the inputs of the regions."""
    selector, *given = inputs
    bindings: Bindings = {
        **{(Space.INPUT, n): view for n, view in enumerate(given)},
        **{(Space.OUTPUT, n): view for n, view in enumerate(outputs)},
    }
    counters = [] if graph.trips is None else [graph.trips.count]
    if graph.trips is not None:
        bindings = {**bindings, (Space.OUTPUT, TRIPS): graph.trips.count}
    step = _Step(graph, [*outputs, *counters], [selector])
    for region in regions:
        step.add(region, bindings)
    pointers = step.pointers()
    address = pointers[selector.buffer], selector.offset
    step.append(name, Branches(len(pointers), step.calls(), address, selector.dtype == np.bool_))


def _write_in_place(body: Graph, carried: int) -> None:
    """Give a body's outputs spare buffers if the input of the same number is read after the output is written."""
    for number in range(carried):
        result = body.results[number]
        if not result.buffer.size:
            continue
        if _is_overwritten(body, number):
            body.steps = [step for step in body.steps if not _copies(step, number)]
            continue
        spare = View(Buffer(Space.CARRIED, result.buffer.size), 0, result.shape, result.strides, result.dtype)
        body.steps = [_bound(step, {(Space.OUTPUT, number): spare}) for step in body.steps]
        copy(
            body,
            f"copy of carried value {number}",
            spare,
            replace(result, buffer=Buffer(Space.OUTPUT, result.buffer.size, number)),
        )


def _is(buffer: Buffer, space: Space, number: int) -> bool:
    return buffer.space is space and buffer.index == number and buffer.inside is None


def _copies(step: Step, number: int) -> bool:
    """Whether a step copies elements of input `number` to the same positions of output `number`."""
    if not is_copy(step):
        return False
    source, target = step.arguments
    assert isinstance(source, View) and isinstance(target, View)
    alike = (source.offset, source.shape, source.strides) == (target.offset, target.shape, target.strides)
    return alike and _is(source.buffer, Space.INPUT, number) and _is(target.buffer, Space.OUTPUT, number)


def _is_overwritten(body: Graph, number: int) -> bool:
    """Whether no step reads input `number` after a step has written output `number`."""
    steps = list(enumerate(body.steps))
    read = [n for n, step in steps if any(_is(b, Space.INPUT, number) for b in step.reads)]
    written = [n for n, step in steps if any(_is(b, Space.OUTPUT, number) for b in step.writes)]
    copied = [n for n, step in steps if _copies(step, number)]
    first = min((n for n in written if n not in copied), default=len(steps))

    def is_early(n: int) -> bool:
        over = body.steps[n].over
        return n < first or (n == first and over is not None and _is(over, Space.INPUT, number))

    return all(map(is_early, read))


def _bound(step: Step, bindings: Bindings) -> Step:
    """The step and its inner steps, with inputs and outputs replaced by the bound views."""

    def buffer(found: Buffer) -> Buffer:
        view = bindings.get((found.space, found.index))
        return found if view is None else view.buffer

    def argument(found: View | Parameters) -> View | Parameters:
        if isinstance(found, Parameters) or (found.buffer.space, found.buffer.index) not in bindings:
            return found
        view = bindings[found.buffer.space, found.buffer.index]
        return replace(found, buffer=view.buffer, offset=view.offset + found.offset)

    return replace(
        step,
        arguments=tuple(map(argument, step.arguments)),
        reads=tuple(map(buffer, step.reads)),
        writes=tuple(map(buffer, step.writes)),
        over=None if step.over is None else buffer(step.over),
        inner=tuple(_bound(inner, bindings) for inner in step.inner),
    )


class _Step:
    """The step of a loop or branch. It writes `written`. Its other arguments are `read` and what its regions read."""

    def __init__(self, graph: Graph, written: Sequence[View], read: Sequence[View] = ()):
        self._graph = graph
        self._written = dict.fromkeys(view.buffer for view in written)
        self._read = dict.fromkeys(view.buffer for view in read)
        self._workspace = Buffer(Space.ARENA, 0)
        self._regions: list[list[Step]] = []

    def add(self, region: Graph, bindings: Bindings) -> None:
        """Add the steps of a region, with its inputs and outputs bound. All regions share the workspace."""
        self._workspace.size = max(self._workspace.size, plan(region).size)
        for buffer in (buffer for step in region.steps for buffer in (*step.reads, *step.writes)):
            if buffer.space.in_arena:
                buffer.inside = self._workspace
        self._regions.append([_bound(step, bindings) for step in region.steps])

    @property
    def _steps(self) -> list[Step]:
        return [step for region in self._regions for step in region]

    def _arguments(self) -> tuple[list[Buffer], list[Parameters], list[Buffer]]:
        """The buffers that the step reads, its parameters, and the buffers that it writes."""
        arguments = [argument for step in self._steps for argument in step.arguments]
        parameters = dict.fromkeys(argument for argument in arguments if isinstance(argument, Parameters))
        buffers = [argument.buffer for argument in arguments if isinstance(argument, View)]
        read = dict.fromkeys(b for b in (*self._read, *buffers) if b.inside is None and b not in self._written)
        workspace = [self._workspace] if self._workspace.size else []
        return list(read), list(parameters), [*self._written, *workspace]

    def pointers(self) -> dict[Buffer | Parameters, int]:
        """The numbers of the arguments."""
        read, parameters, written = self._arguments()
        return {argument: n for n, argument in enumerate((*read, *parameters, *written))}

    def calls(self) -> tuple[tuple[KernelCall, ...], ...]:
        """The kernel calls of each region."""
        pointers, number = self.pointers(), 1
        regions: list[tuple[KernelCall, ...]] = []
        for region in self._regions:
            calls: list[KernelCall] = []
            for step in region:
                arguments = tuple(self._address(argument, pointers) for argument in step.arguments)
                calls.append(KernelCall(step.kernel, arguments, number))
                number += step.count
            regions.append(tuple(calls))
        return tuple(regions)

    def _address(self, argument: View | Parameters, pointers: Mapping[Buffer | Parameters, int]) -> tuple[int, int]:
        if isinstance(argument, Parameters):
            return pointers[argument], 0
        buffer = argument.buffer
        if buffer.inside is not None:
            return pointers[self._workspace], buffer.offset + argument.offset
        return pointers[buffer], argument.offset

    def append(self, name: str, kernel: Loop | Branches) -> None:
        """Append the step to the graph."""
        read, parameters, written = self._arguments()
        arguments = [*map(_whole, read), *parameters, *map(_whole, written)]
        operations, inner = sum(step.operations for step in self._steps), tuple(self._steps)
        made = Step(name, kernel, tuple(arguments), tuple(read), tuple(written), operations, inner=inner)
        self._graph.steps.append(made)


def _whole(buffer: Buffer) -> View:
    return View(buffer, 0, (buffer.size,), (1,), np.dtype(np.uint8))
