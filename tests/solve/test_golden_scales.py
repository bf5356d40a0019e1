"""The golden scales of the 2019 solver, through ours: a range that was observed (f32), the storage of a kernel."""

from __future__ import annotations

import pytest

from solve.graphs import Graph
from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.solve import PropagationError, propagate
from zeropoint.targets import Free, KernelRow, PortRule, Role, Target

GOLDEN = [
    ("i8", -6.123, 3.45, 0.037564418067230126, 35),
    ("i8", -12.25, 6.1, 0.072058823529412216, 42),
    ("i8", -8.0, 8.0, 0.0629921259842528, -1),
    ("u8", -8.0, 7.9375, 0.0625, 128),
]


def decided(storage: str, low: float, high: float, ranges: str) -> UniformQuantizedType:
    port = PortRule(Role.ACTIVATION, Storage.of(storage))
    table = Target("t", "fixed32", (KernelRow("k", (port,), port, Free()),))
    graph = Graph()
    program = graph.finish(graph.observed(graph.kernel("k", graph.args[0]), low, high))
    spec = regions_of(propagate(program, table, ranges=ranges))[0].output_specs.data[0]
    assert isinstance(spec, UniformQuantizedType)
    return spec


@pytest.mark.parametrize(("storage", "low", "high", "scale", "zero_point"), GOLDEN)
def test_minmax_nudged_gives_the_golden_scales(
    storage: str, low: float, high: float, scale: float, zero_point: int
) -> None:
    found = decided(storage, low, high, "minmax-nudged")
    assert found.scale == pytest.approx(scale, rel=0, abs=1e-12)  # the tolerance of that solver's own tests
    assert found.zero_point == zero_point


def test_the_default_rule_gives_other_scales() -> None:
    assert decided("i8", -8.0, 8.0, "asymmetric").scale == 16 / 255


def test_a_rule_that_does_not_exist_is_refused() -> None:
    with pytest.raises((PropagationError, ValueError), match="found ranges 'widest', expected one of: asymmetric"):
        decided("i8", -8.0, 8.0, "widest")
