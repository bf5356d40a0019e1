"""No reader gets a value coarser than its own statistics want, unless that is the only way."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import f32

from networks import Network
from property_cases import CASES
from solve.graphs import ACT, CENTRED, TOY, Graph, row
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.constants import constant_op
from zeropoint.ir.locations import location_text, value_name
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, Storage, UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import (
    AddOp,
    ConcatenateOp,
    ConvolutionLayout,
    ConvolutionOp,
    MultiplyOp,
    ReshapeOp,
    TransposeOp,
)
from zeropoint.ir.tensors import Array, shape_of, with_shape
from zeropoint.pipeline import Quantization, quantize
from zeropoint.solve import is_rescale, move_rescales, propagate, rescale_count, violations
from zeropoint.solve.constraints import root
from zeropoint.solve.parts.joins import PART_TOLERANCE, settle_kernels
from zeropoint.solve.precision import TOLERANCE
from zeropoint.targets import TARGETS, Free, KernelRow, PortRule, Role, SameScale, Target, target
from zeropoint.targets.logical_kernels import PASSES_ELEMENTS

I8 = Storage.of("i8")


def convolved(net: Network, value, features: int = 4):
    """A convolution of kernel 1, whose weights are normal."""
    batch, channels, *sizes = shape_of(value)
    weight = net.random.normal(0, 1, (features, channels, *[1] * len(sizes)))
    made = with_shape(value, [batch, features, *sizes])
    layout = ConvolutionLayout.channels_first(len(sizes))
    return net.insert(ConvolutionOp(value, net.constant(weight), made, layout))


def narrow_beside_wide(movement: str) -> Program:
    """An add of range about [-3, 4] that a movement hands to a convolution; a Concat joins it with a wide value."""
    net = Network([(1, 6, 8), (1, 6, 8)], seed=3)
    narrow, wide = net.values
    net.name = "add"
    narrow = net.insert(AddOp(narrow, net.along(net.random.normal(0, 0.2, 6), narrow, 1)))
    net.name = "wide"
    wide = net.insert(MultiplyOp(wide, net.along(net.random.uniform(80, 120, 6), wide, 1)))
    net.name = "moved"
    moved = net.insert(
        TransposeOp(narrow, [0, 2, 1]) if movement == "transpose" else ReshapeOp(narrow, with_shape(narrow, [1, 8, 6]))
    )
    net.name = "conv"
    conv = convolved(net, moved)
    net.name = "concat"
    both = net.insert(ConcatenateOp([narrow, wide], 1))
    net.name = "mixed"
    return net.finish([conv, convolved(net, both)])


def samples(program: Program, count: int, seed: int) -> list[dict[str, Array]]:
    random = np.random.default_rng(seed)
    return [
        {f"x{i}": random.uniform(-2, 2, shape_of(argument)).astype(np.float32) for i, argument in enumerate(inputs)}
        for inputs in [program.entry.args] * count
    ]


def sqnr(result: Quantization, program: Program, name: str) -> float:
    """Of an output, over samples that calibration has not seen."""
    exact, integers = Interpreter(program), Interpreter(result.integer)
    signal = noise = 0.0
    for sample in samples(program, 8, seed=1):
        wanted, found = exact(sample)[name], integers(sample)[name]
        signal, noise = signal + float((wanted**2).sum()), noise + float(((wanted - found) ** 2).sum())
    return 10 * float(np.log10(signal / noise))


@pytest.mark.parametrize("movement", ["transpose", "reshape"])
def test_a_convolution_behind_data_movement_reads_a_value_as_fine_as_it_was_observed(movement: str) -> None:
    program = narrow_beside_wide(movement)
    result = quantize(program, samples(program, 16, seed=0))
    assert sqnr(result, program, "y0") > 30


# The property. What a reader gets is the coarsest scale that its value was ever stored with, on its way from the kernel
# that computes it. The finest that it can get is what it has where every edge is rescaled: only the tied ports of a
# kernel, coupled values, pins, kernels that fix a scale and zero points that they want are left there.

EVEN = row("even", SameScale(), CENTRED, output=CENTRED)
WIDE = PortRule(Role.ACTIVATION, Storage.of("i16"))
TABLE = Target(
    "toy",
    "fixed32",
    (
        *TOY.rows,
        row("same", SameScale(), WIDE, output=WIDE),
        row("first", SameScale((0, -1)), ACT, ACT),
        row("alike", SameScale((0, 1)), ACT, ACT),
        row("wide", Free(), WIDE, output=WIDE),
        row("narrow", Free(), WIDE),
        EVEN,
    ),
)
PINS = [UniformQuantizedType.per_layer(I8, 1 / 64), UniformQuantizedType.per_layer(I8, 1 / 4, -3)]
FAMILIES = {
    "ranges": ("same", "same", "same", "free"),
    "groups": ("same", "same", "first", "alike", "free", "coupled"),
    "fixed": ("same", "same", "same", "free", "pinned", "A"),
    "zero points": ("same", "same", "even", "centred", "free"),
    "widths": ("same", "same", "same", "free", "wide", "narrow"),
    "all": ("same", "same", "same", "first", "alike", "even", "centred", "free", "coupled", "pinned", "A"),
}


def of_many_ranges(seed: int, family: str) -> tuple[Program, dict[str, float]]:
    """A random directed graph whose values have ranges of many sizes; every value that nothing reads is an output.

    And the scales of coupled values, by name: that of the range of both.
    """
    random = np.random.default_rng([seed, sorted(FAMILIES).index(family)])
    graph = Graph(2)

    def observed(value):
        """In a range within 0.01 to 100, of one sign or both."""
        low, high = 10.0 ** random.uniform(-2, 2, 2) * random.choice([0, 1, 1, 1], 2)
        ranges[value_name(value)] = low, high
        return graph.observed(value, -float(low), float(high))

    ranges: dict[str, Array] = {}
    coupled: dict[str, float] = {}
    values = [observed(value) for value in graph.args]
    for count in range(int(random.integers(4, 12))):
        kind = str(random.choice(FAMILIES[family]))
        some = [values[int(i)] for i in random.integers(0, len(values), 3)]
        if kind in ("same", "even"):
            made = graph.kernel(kind, *some[: int(random.integers(1, 4))])
        elif kind in ("first", "alike"):
            made = graph.kernel(kind, *some[:2])
        elif kind == "coupled":
            names = [value_name(root(value)) for value in some[:2]]
            if coupled.keys() & set(names) or not ranges.keys() >= set(names):
                continue
            coupled |= dict.fromkeys(names, float(np.maximum(*(ranges[name] for name in names)).sum()) / 255)
            one, other = (graph.coupled(value, f"key{count}") for value in some[:2])
            values.append(observed(graph.kernel("free", other)))
            made = graph.kernel("same", one)
        elif kind == "pinned":
            values.append(graph.pinned(graph.kernel("free", some[0]), PINS[int(random.integers(2))]))
            continue
        else:
            made = graph.kernel(kind, some[0])
        values.append(observed(made))
    program = graph.finish(*(value for value in values[2:] if value.first_use is None), observe=False)
    return program, coupled


def stored_as(program: Program, coupled: Mapping[str, float]) -> dict[tuple[str | None, int], float]:
    """By reader, the coarsest scale that its value was stored with; the caller reads the outputs of the program."""
    coarsest = {argument: coupled.get(value_name(argument), 0.0) for argument in program.entry.args}
    found: dict[tuple[str | None, int], float] = {}
    for region in regions_of(program):
        given = [
            max(spec.scale, coarsest.get(value, 0.0))
            for value, spec in zip(region.inputs, region.input_specs, strict=True)
        ]
        made = region.output_specs.data[0].scale
        if is_rescale(region):
            coarsest[region.outputs[0]] = max(made, *given)
            continue
        kernel = TABLE.by_kernel[region.logical_kernel.data][0]
        handed_on = [scale for index, scale in enumerate(given) if kernel.tied(index)]
        coarsest[region.outputs[0]] = max(made, *handed_on, coupled.get(value_name(region.outputs[0]), 0.0))
        found |= {(location_text(region.location), i): s for i, s in enumerate(given) if not kernel.tied(i)}
    returned = program.entry.last_op
    return found | {("caller", i): coarsest[value] for i, value in enumerate(returned.operands)}


def rescaled_everywhere(program: Program, monkeypatch: pytest.MonkeyPatch) -> Program:
    with monkeypatch.context() as patch:
        module = sys.modules[settle_kernels.__module__]
        patch.setattr(module, "separate", lambda graph: [[number] for number in graph.nodes])
        return propagate(program, TABLE)


SEEDS = CASES or 12


@pytest.mark.parametrize("family", FAMILIES)
def test_no_reader_gets_a_value_half_a_bit_too_coarse(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[settle_kernels.__module__], "PART_TOLERANCE", float("inf"))  # nothing is left float
    rescales = 0
    for seed in range(SEEDS):
        program, coupled = of_many_ranges(seed, family)
        finest = stored_as(rescaled_everywhere(program, monkeypatch), coupled)
        solved = propagate(program, TABLE)
        for made in (solved, move_rescales(solved, TABLE)):
            assert not violations(made, TABLE)
            got = stored_as(made, {})
            assert got.keys() == finest.keys()
            limit = 1.0001 * TOLERANCE
            worse = {reader: (got[reader], best) for reader, best in finest.items() if got[reader] > limit * best}
            assert not worse, f"seed {seed}"
            rescales += rescale_count(made)
    assert rescales > SEEDS  # ranges do collide here


@pytest.mark.parametrize(("low", "high", "apart"), [(-2.0, 0.0, True), (-2.0, 2.0, False)])
@pytest.mark.parametrize("names", [("free", "even"), ("even", "free")])
def test_coupled_values_take_a_required_zero_point_only_if_it_costs_no_precision(
    names: tuple[str, str], low: float, high: float, apart: bool
) -> None:
    """Two coupled values, of which one comes from a kernel that requires zero point 0, in either order."""
    graph = Graph(2)
    values = [graph.observed(value, low, high) for value in graph.args]
    made = [graph.observed(graph.kernel(name, value), low, high) for name, value in zip(names, values, strict=True)]
    coupled = [graph.coupled(value, "key") for value in made]
    last = [graph.observed(graph.kernel("free", value, label=f"last{i}"), -1, 1) for i, value in enumerate(coupled)]
    solved = propagate(graph.finish(*last, observe=False), TABLE)
    read = {location_text(region.location): region.input_specs.data[0] for region in regions_of(solved)}
    assert read["last0"] == read["last1"]
    assert (read["last0"].zero_point == 0) != apart
    assert stored_as(solved, {})[f"last{names.index('free')}", 0] == pytest.approx((high - low) / 255, rel=0.01)
    assert rescale_count(solved) == apart


@pytest.mark.parametrize(("times", "pays"), [(0.9 * TOLERANCE, False), (1.1 * TOLERANCE, True)])
def test_a_rescale_pays_from_the_tolerance_on(times: float, pays: bool) -> None:
    """Two readers, one of which wants a coarser scale: the noise of both with one scale, and with a rescale."""
    exact = np.random.default_rng(0).uniform(-100, 100, 100_000)
    fine, coarse = np.rint(exact), times * np.rint(exact / times)
    rescaled = times * np.rint(fine / times)
    shared = 2 * ((coarse - exact) ** 2).mean()
    apart = ((fine - exact) ** 2).mean() + ((rescaled - exact) ** 2).mean()
    assert (apart < shared) == pays


# A kernel whose result has one scale for operands of different size, which only floats read: every such row.


SHARED = {
    f"{name}-{row.kernel}-{number}": (name, row)
    for rows in [{replace(row, checked=""): name for name in reversed(TARGETS) for row in target(name).rows}]
    for number, (row, name) in enumerate(rows.items())
    if isinstance(row.relation, SameScale) or row.kernel in PASSES_ELEMENTS
}
"""The rows that differ, each with a table that has it."""
EVERY_SHARED = pytest.mark.parametrize(("name", "shared"), SHARED.values(), ids=SHARED)


def is_join(shared: KernelRow) -> bool:
    """Whether elements of more than one operand get into the result; operands beyond the rules follow the last one."""
    passes = shared.kernel in PASSES_ELEMENTS
    tied = [shared.tied(index) or (passes and rule.role is not Role.OTHER) for index, rule in enumerate(shared.inputs)]
    tied.append(tied[-1])
    return sum(tied if shared.inputs[-1].role is not Role.OTHER else tied[:-1]) > 1


def joined(name: str, shared: KernelRow, narrow: float, wide: float, *, read_by: str) -> QuantizeRegionOp:
    """The region of a kernel that reads 0..narrow and 0..wide, where it reads two values, after propagation."""
    rule = next(rule for rule in shared.inputs if rule.role is not Role.OTHER)
    rows = row("free", Free(), rule, output=rule), row("same", SameScale(), rule, output=rule)
    table = replace(target(name), rows=(shared, *rows))
    graph = Graph(2)
    one, other = (graph.kernel("free", value) for value in graph.args)
    data = [graph.observed(one, 0.0, narrow), graph.observed(other, 0.0, wide)]
    indices = constant_op(np.zeros(graph.size, np.int32), graph.weights)
    graph.block.add_op(indices)
    last = shared.inputs[-1]
    given = sum(rule.role is not Role.OTHER for rule in shared.inputs)
    rules = shared.inputs if given > 1 or last.role is Role.OTHER else [*shared.inputs, last]
    operands = [data.pop(0) if rule.role is not Role.OTHER else indices.output for rule in rules]
    most = narrow if data else wide
    both = graph.observed(graph.join(shared.kernel, *operands, label="both"), 0.0, most)
    last = both if read_by == "caller" else graph.observed(graph.kernel(read_by, both, label="last"), 0.0, most)
    regions = regions_of(propagate(graph.finish(last), table))
    return next(region for region in regions if location_text(region.location) == "both")


@pytest.mark.parametrize("read_by", ["caller", "same"])
@EVERY_SHARED
def test_a_kernel_that_would_give_a_narrow_operand_a_wide_scale_stays_float(
    name: str, shared: KernelRow, read_by: str
) -> None:
    region = joined(name, shared, 1.0, 320.0, read_by=read_by)
    assert (region.output_specs.data[0] == f32) == is_join(shared)
    if is_join(shared):
        times = 256 if target(name).scale_type == "power_of_two" else 320
        why = f"at one scale 'free0' would be {times} times coarser than its range requires"
        assert region.attributes[FLOAT_REASON].data == f"only floats read it, and {why}"


@EVERY_SHARED
def test_it_is_quantized_where_integers_read_it_or_sizes_are_alike(name: str, shared: KernelRow) -> None:
    assert joined(name, shared, 1.0, 320.0, read_by="free").output_specs.data[0] != f32
    assert joined(name, shared, 1.0, PART_TOLERANCE, read_by="caller").output_specs.data[0] != f32
    beyond = joined(name, shared, 1.0, 2.01 * PART_TOLERANCE, read_by="caller")
    assert (beyond.output_specs.data[0] == f32) == is_join(shared)


def test_the_tables_have_joins_and_kernels_of_one_value_that_share_a_scale() -> None:
    assert {"concatenate", "pad", "select", "maximum", "minimum", "pack"} <= {row.kernel for _, row in SHARED.values()}
    assert not is_join(next(row for _, row in SHARED.values() if row.kernel == "gather" and len(row.inputs) > 1))
