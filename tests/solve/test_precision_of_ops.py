"""No reader gets a value coarser than its own statistics want, behind the real kernels that share a scale."""

from __future__ import annotations

import sys

import pytest

from property_cases import CASES
from solve.joined_networks import SHARING, concatenated_network, joined_network
from zeropoint.calibrate import collect, instrument, state_ranges
from zeropoint.comparison import compare
from zeropoint.fuse import fuse
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.model import Model
from zeropoint.pipeline import Options, quantize
from zeropoint.simplify import simplify
from zeropoint.solve import is_rescale, move_rescales, propagate, rescale_count, violations
from zeropoint.solve.parts.joins import settle_kernels
from zeropoint.solve.precision import TOLERANCE
from zeropoint.targets import Target, target

SEEDS = CASES or 4
PARTED = CASES or 4
TARGET_NAMES = ["cpu", "cpu-integer", "litert", "onnxruntime", "openvino", "tosa", "stablehlo"]


def calibrated(seed: int, table: Target) -> Program:
    program, samples, _ = joined_network(seed)
    asked = instrument(fuse(simplify(program), table))
    return state_ranges(asked, collect(asked, samples, observer="minmax"))


def stored_as(program: Program, table: Target) -> dict[tuple[str | None, int], float]:
    """By reader, the coarsest scale that its value was stored with, on its way from the kernel that computes it."""
    coarsest: dict[object, float] = {}
    found: dict[tuple[str | None, int], float] = {}
    for region in regions_of(program):
        specs = [*region.input_specs, *region.output_specs]
        scales = [spec.scale if isinstance(spec, UniformQuantizedType) and spec.is_per_layer else 0.0 for spec in specs]
        given = [max(scale, coarsest.get(value, 0.0)) for value, scale in zip(region.inputs, scales, strict=False)]
        (made,) = scales[len(given) :]
        rows = table.by_kernel.get(region.logical_kernel.data, ())
        quantized = any(isinstance(spec, UniformQuantizedType) for spec in specs)
        tied = [bool(rows) and rows[0].tied(index) for index in range(len(given))]
        if is_rescale(region) or not quantized:
            coarsest[region.outputs[0]] = max(made, *given, 0.0)
            continue
        coarsest[region.outputs[0]] = max([made, *(s for s, is_tied in zip(given, tied, strict=True) if is_tied)])
        found |= {
            (location_text(region.location), index): scale
            for index, (scale, is_tied) in enumerate(zip(given, tied, strict=True))
            if not is_tied
        }
    returned = program.entry.last_op
    assert returned is not None
    return found | {("caller", index): coarsest.get(value, 0.0) for index, value in enumerate(returned.operands)}


@pytest.mark.parametrize("name", TARGET_NAMES)
def test_no_reader_behind_kernels_that_share_a_scale_gets_a_value_half_a_bit_too_coarse(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it is the only way: then it is as coarse where every edge has a rescale."""
    table, module = target(name), sys.modules[settle_kernels.__module__]
    monkeypatch.setattr(module, "PART_TOLERANCE", float("inf"))  # nothing is left float
    rescales = 0
    for seed in range(SEEDS):
        program = calibrated(seed, table)
        with monkeypatch.context() as patch:
            patch.setattr(module, "separate", lambda graph: [[number] for number in graph.nodes])
            finest = stored_as(propagate(program, table), table)
        solved = propagate(program, table)
        for made in (solved, move_rescales(solved, table)):
            assert not violations(made, table)
            got = stored_as(made, table)
            limit = 1.0001 * TOLERANCE
            worse = {reader: (got[reader], best) for reader, best in finest.items() if got[reader] > limit * best}
            assert not worse, f"seed {seed}"
            rescales += rescale_count(made)
    # Ranges do collide here; these runtimes take any types, or have few kernels.
    assert rescales or name in ("onnxruntime", "openvino", "stablehlo")


@pytest.mark.parametrize("name", TARGET_NAMES)
def test_parts_of_any_size_that_only_floats_read_are_reported_and_keep_their_bits(name: str) -> None:
    """One scale for parts of 0.003 and 300 leaves the small one 0 dB. Eight times the step that it needs leaves 25."""
    for seed in range(PARTED):
        program, samples = concatenated_network(seed)
        made = quantize(program, samples, Options(name, effort="none"))
        parts = compare(Model(program), Model(made.integer), samples).parts
        assert parts, f"seed {seed}"
        assert min(part.sqnr for part in parts) > 22, f"seed {seed}: {parts}"


def test_such_parts_are_lost_where_the_concatenation_is_quantized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[settle_kernels.__module__], "PART_TOLERANCE", float("inf"))
    found: list[float] = []
    for seed in range(PARTED):
        program, samples = concatenated_network(seed)
        made = quantize(program, samples, Options("cpu", effort="none"))
        found += [part.sqnr for part in compare(Model(program), Model(made.integer), samples).parts]
    assert min(found) < 5


def test_the_networks_have_every_kernel_that_shares_a_scale() -> None:
    assert set().union(*(joined_network(seed)[2] for seed in range(20))) == {make.__name__ for make in SHARING}
