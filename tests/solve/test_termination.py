"""RFC, propagation: it stops. Each port is set once and rescaled at most once; what has been read is not changed."""

from __future__ import annotations

import numpy as np
import pytest

from solve.graphs import ACT, CENTRED, KINDS, TOY, Graph, random_graph, row
from zeropoint.ir.quant import QuantizeRegionOp, Storage, UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.ir.tensors import shape_of
from zeropoint.solve import is_rescale, move_rescales, propagate, violations
from zeropoint.solve.move_rescales import _Moves
from zeropoint.solve.ports import PortGraph
from zeropoint.solve.separate import Collision, Pieces, separate
from zeropoint.solve.termination import NoProgress, Termination
from zeropoint.targets import OUTPUT, Custom, Free, Target

I8 = Storage.of("i8")
PIN = UniformQuantizedType.per_layer(I8, 0.25, 7)


def some_region() -> QuantizeRegionOp:
    graph = Graph()
    return regions_of(graph.finish(graph.kernel("free", graph.args[0])))[0]


def test_a_port_that_is_set_twice_or_never_or_rescaled_twice_is_a_fault() -> None:
    region = some_region()
    termination = Termination([(region, 0), (region, OUTPUT)])
    termination.set((region, 0), PIN)
    with pytest.raises(NoProgress, match=r"port 0 of quant\.region: found types"):
        termination.set((region, 0), PIN)
    termination.rescale((region, 0))
    with pytest.raises(NoProgress, match="found two rescales"):
        termination.rescale((region, 0))
    with pytest.raises(NoProgress, match="found 1 ports that were never set"):
        termination.finish()
    termination.set((region, OUTPUT), PIN)
    termination.finish()


def test_propagation_sets_each_port_exactly_once_and_rescales_none_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step is counted: as many settings as ports, at most as many rescales, and both are really made."""
    steps: dict[str, list[object]] = {"set": [], "rescale": []}
    for name in steps:
        real = getattr(Termination, name)

        def counted(self: Termination, port: object, *more: object, real=real, name=name) -> None:
            steps[name].append(port)
            real(self, port, *more)

        monkeypatch.setattr(Termination, name, counted)
    for seed in range(30):
        for found in steps.values():
            found.clear()
        program = random_graph(seed, KINDS)
        solved = propagate(program, TOY)
        kernels = [region for region in regions_of(solved) if not is_rescale(region)]
        ports = [(region, port) for region in kernels for port in (*range(len(region.inputs)), OUTPUT)]
        assert sorted(map(repr, steps["set"])) == sorted(map(repr, ports))
        assert len(steps["rescale"]) == len(regions_of(solved)) - len(kernels)
        assert len(set(steps["rescale"])) == len(steps["rescale"])


def test_a_settlement_that_visits_a_kernel_again_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    from zeropoint.solve.propagate import _Settlement

    real = _Settlement.settle
    monkeypatch.setattr(_Settlement, "settle", lambda self, kernel: (real(self, kernel), real(self, kernel)))
    graph = Graph()
    with pytest.raises(NoProgress, match="found types"):
        propagate(graph.finish(graph.kernel("free", graph.args[0])), TOY)


def test_a_collision_that_no_cut_parts_is_stopped_instead_of_looked_for_for_ever() -> None:
    from zeropoint.solve.constraints import take_constraints
    from zeropoint.solve.kernels import KernelChoice

    graph = Graph()
    program = graph.finish(graph.kernel("same", graph.kernel("same", graph.args[0])))
    constraints = take_constraints(program)
    ports = PortGraph.of(KernelChoice(TOY, constraints).choose(program), constraints)
    piece = max(separate(ports), key=len)  # the input, which is a float, is a piece of its own
    with pytest.raises(NoProgress, match="found nothing to cut between one and two"):
        Pieces.of(ports).cut(piece, Collision(piece, [], ("one", "two")))


def doubled(inputs, outputs):
    if not isinstance(inputs[0], UniformQuantizedType) or isinstance(outputs[0], UniformQuantizedType):
        return [], []
    outputs[0] = UniformQuantizedType.per_layer(I8, 2 * inputs[0].scale, inputs[0].zero_point)
    return [], [0]


def test_what_a_function_has_read_does_not_change_afterwards_for_want_of_room() -> None:
    """A product that is clipped to almost nothing wants a larger scale; a function has derived another from it."""
    table = Target("t", "fixed32", (*TOY.rows, row("multiply", Free()), row("double", Custom(doubled, "doubled"))))
    graph = Graph()
    product = graph.observed(graph.kernel("multiply", graph.args[0]), -1e-12, 1e-12)
    alone = propagate(graph.finish(graph.kernel("free", product)), table)
    assert regions_of(alone)[0].output_specs.data[0].scale > 1e-9  # more than its range asks for
    graph = Graph()
    product = graph.observed(graph.kernel("multiply", graph.args[0]), -1e-12, 1e-12)
    found = propagate(graph.finish(graph.kernel("double", product)), table)
    assert not violations(found, table)
    first, second = (region.output_specs.data[0] for region in regions_of(found))
    assert second.scale == 2 * first.scale


def test_what_a_function_has_read_does_not_change_afterwards_for_another_function() -> None:
    def backwards(inputs, outputs):
        known, inputs[0] = inputs[0], PIN
        return ([0], []) if isinstance(known, UniformQuantizedType) else ([], [])

    rows = (row("double", Custom(doubled, "doubled")), row("back", Custom(backwards, "backwards")))
    table = Target("t", "fixed32", (*TOY.rows, *rows))
    graph = Graph()
    value = graph.kernel("free", graph.args[0])
    # The second function sets the class of what the first one reads; the first one's output stays true to its input.
    found = propagate(graph.finish(graph.kernel("double", value), graph.kernel("back", value)), table)
    assert not violations(found, table)


def measure(program) -> tuple[int, int, int]:
    """What a motion lowers: the rescales, their cost, and how often they are read."""
    found = [region for region in regions_of(program) if is_rescale(region)]
    cost = sum(int(np.prod(shape_of(region.inputs[0]))) for region in found)
    return len(found), cost, sum(len(list(region.outputs[0].uses)) for region in found)


@pytest.mark.parametrize("seed", range(20))
def test_every_motion_of_a_rescale_lowers_their_number_or_cost_or_readers(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = _Moves.step

    def checked(self: _Moves, rescale: QuantizeRegionOp) -> bool:
        before = measure(self.program)
        moved = real(self, rescale)
        assert (measure(self.program) < before) == moved
        return moved

    monkeypatch.setattr(_Moves, "step", checked)
    table = Target("t", "fixed32", (*TOY.rows, row("pair", Free(), ACT, CENTRED)))
    move_rescales(propagate(random_graph(seed, KINDS), table), table)
