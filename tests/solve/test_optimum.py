"""How far rescales are from the least there can be, in number and in cost, for everything that a port may demand.

`optimum.py` tries every type at every group of ports. The figures below are what was found; they are exact, so that a
change of the solver in either direction shows.
"""

from __future__ import annotations

import pytest

from solve.graphs import Graph
from solve.mixed_graphs import KINDS, TABLE, mixed_graph
from solve.optimum import Search, Totals, found_totals
from zeropoint.solve import move_rescales, propagate, violations

SEEDS = 24


def totals(family: str, seeds: int) -> tuple[Totals, Totals, Totals, int]:
    """Of all graphs of a family: found, found after motion, the least, and the greatest distance in number."""
    found, moved, least, worst = Totals(0, 0), Totals(0, 0), Totals(0, 0), 0
    for seed in range(seeds):
        program = mixed_graph(seed, family)
        solved = propagate(program, TABLE)
        after = move_rescales(solved, TABLE)
        assert not violations(solved, TABLE)
        assert not violations(after, TABLE)
        one, (count, cost) = found_totals(solved), Search.of(program, TABLE).least()
        assert one.count >= count, "the search misses what the solver found"
        assert one.cost >= cost, "the search misses what the solver found"
        found, least, moved = found + one, least + Totals(count, cost), moved + found_totals(after)
        worst = max(worst, one.count - count)
    return found, moved, least, worst


FIGURES = {
    "sizes": (Totals(13, 304), Totals(13, 304), Totals(11, 304), 1),
    "widths": (Totals(32, 1536), Totals(32, 1536), Totals(32, 1536), 0),
    "groups": (Totals(8, 160), Totals(6, 128), Totals(7, 144), 1),
    "products": (Totals(12, 288), Totals(12, 288), Totals(11, 272), 1),
    "pinned": (Totals(21, 416), Totals(21, 416), Totals(18, 400), 2),
    "functions": (Totals(11, 304), Totals(11, 304), Totals(10, 304), 1),
    "all": (Totals(31, 1392), Totals(29, 1360), Totals(26, 1296), 1),
}
"""By family, over its 24 graphs: what propagation leaves, what motion leaves of that, the least, the worst graph.

Cost is what is minimized: it is the least where sizes and widths differ and functions take part. A
zero point that kernels want is settled before ranges are (6 %), couplings are cut one after the other (11 %). Motion
may pass the least: it leaves out a coupled value where its readers take any parameters. It keeps each rescale from a
pinned type that saturates what the next type holds, which the pinned values of these graphs do.
"""


@pytest.mark.parametrize("family", KINDS)
def test_rescales_are_so_many_and_would_be_so_few(family: str) -> None:
    assert totals(family, SEEDS) == FIGURES[family]


def test_over_all_families_the_cost_is_within_four_percent_of_the_least() -> None:
    found = sum(figures[0].cost for figures in FIGURES.values())
    least = sum(figures[2].cost for figures in FIGURES.values())
    assert (found, least) == (4400, 4256)
    assert found / least < 1.035


def test_the_search_knows_a_program_that_can_be_counted_by_hand() -> None:
    """A and B meet in a kernel that shares its scale: the smaller of the two is rescaled, 2 elements of 8 bits."""
    graph = Graph(2, size=8)
    both = graph.kernel("same", graph.kernel("A", graph.args[0]), graph.kernel("B", graph.args[1], size=2))
    program = graph.finish(both)
    assert Search.of(program, TABLE).least() == (1, 16)
    assert found_totals(propagate(program, TABLE)) == Totals(1, 16)
