"""QuantFn: what a Python relation sees, and what it may set."""

from __future__ import annotations

from math import ceil, log2

import numpy as np
import pytest

from solve.graphs import ACT, CENTRED, TOY, Graph, row
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    CalibratedQuantizedType,
    QuantizedType,
    QuantizeRegionOp,
    Storage,
    UniformQuantizedType,
)
from zeropoint.ir.regions import regions_of
from zeropoint.solve import PropagationError, is_rescale, propagate, rescale_count
from zeropoint.solve.check import violations
from zeropoint.targets import Custom, KernelRow, PortRule, Role, Target

I8 = Storage.of("i8")
WEIGHT = PortRule(Role.WEIGHT, Storage.of("i8", -127), 0, per_channel=True)
BIAS = PortRule(Role.BIAS, Storage.of("i32"), 0, per_channel=True)
RANDOM = np.random.default_rng(0)


def up(scale: float) -> float:
    """The least power of two that is not below."""
    return 2.0 ** ceil(log2(scale))


def rounded(found: QuantizedType | None) -> UniformQuantizedType | None:
    """A type whose scales are powers of two, where what is known says one."""
    if isinstance(found, CalibratedQuantizedType):
        return UniformQuantizedType.per_layer(I8, up(max(-found.minimum, found.maximum) / 127))
    if isinstance(found, UniformQuantizedType) and found.is_per_channel and found.axis is not None:
        return UniformQuantizedType.per_channel(found.storage, found.axis, [up(s) for s in found.scales.tolist()])
    return None


def power_of_two(inputs, outputs):
    """Powers of two at every port: activations from what was observed, weights from their own scales."""
    changed = [i for i, found in enumerate(inputs[:2]) if rounded(found) is not None]
    for i in changed:
        inputs[i] = rounded(inputs[i])
    made = rounded(outputs[0])
    if made is not None:
        outputs[0] = made
    return changed, [0] if made is not None else []


BIASES = np.array([-1, -0.5, 0.5, 1], np.float32)


def dense(relation: Custom) -> KernelRow:
    return KernelRow("fully_connected", (ACT, WEIGHT, BIAS), ACT, relation, 32)


def chain(count: int = 3) -> Program:
    graph = Graph()
    value = graph.args[0]
    for _ in range(count):
        value = graph.dense(value, RANDOM.normal(size=(4, 4)).astype(np.float32), BIASES)
        value = graph.kernel("same", value)
    return graph.finish(value)


def regions(program: Program, kernel: str) -> list[QuantizeRegionOp]:
    return [region for region in regions_of(program) if region.logical_kernel.data == kernel]


def test_a_function_sees_calibrated_ranges_any_for_what_nobody_observed_and_the_types_of_constants() -> None:
    seen: list[tuple[list[str], list[str]]] = []

    def watched(inputs, outputs):
        seen.append(([str(i) for i in inputs], [str(o) for o in outputs]))
        return [], []

    propagate(chain(1), Target("t", "fixed32", (*TOY.rows, dense(Custom(watched, "watched")))))
    first, last = seen[0], seen[-2]  # the last of all asks what follows from the output
    assert first[0][0] == "!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>"
    assert {i[1] for i, _ in seen} == {last[0][1]}  # the default of a constant is decided in every call
    assert first[0][2] == "!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>"
    assert last[0][0].startswith("!quant.uniform<i8:f32, ")
    assert last[0][1].startswith("!quant.uniform<i8<-127:127>:f32:1, {")
    assert last[0][2].startswith("!quant.uniform<i32:f32:0, {")
    assert last[1] == ["!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>"]


def test_a_function_may_set_every_port_and_what_it_derives_decides_the_value() -> None:
    """Powers of two at every port of every contraction, with no rescale back to another scale."""
    table = Target("t", "fixed32", (*TOY.rows, dense(Custom(power_of_two, "power_of_two"))))
    found = propagate(chain(), table)
    assert rescale_count(found) == 0
    for region in regions(found, "fully_connected"):
        for spec in (*region.input_specs, *region.output_specs):
            assert isinstance(spec, UniformQuantizedType)
            assert {np.frexp(scale)[0] for scale in spec.scales.tolist()} == {0.5}
        given, weight, bias = region.input_specs
        assert isinstance(given, UniformQuantizedType)
        assert isinstance(weight, UniformQuantizedType)
        assert weight.is_per_channel
        np.testing.assert_array_equal(bias.scales, given.scale * weight.scales)
    assert violations(found, table) == []


def test_a_derived_output_that_does_not_hold_what_was_observed_still_decides_its_value() -> None:
    """What a kernel makes it makes: its readers take that, and so does what only hands it on."""

    def narrow(inputs, outputs):
        outputs[0] = UniformQuantizedType.per_layer(I8, 1 / 256)
        return [], [0]

    table = Target("t", "fixed32", (*TOY.rows, row("narrow", Custom(narrow, "narrow"))))
    graph = Graph()
    value = graph.kernel("same", graph.kernel("same", graph.kernel("narrow", graph.args[0])))
    found = propagate(graph.finish(graph.kernel("free", value), value), table)
    assert not [region for region in regions_of(found) if is_rescale(region)]
    assert str(regions(found, "free")[0].input_specs.data[0]) == "!quant.uniform<i8:f32, 3.906250e-03>"


def test_a_weight_whose_sums_would_overflow_is_refused_by_name() -> None:
    def tiny(inputs, outputs):
        inputs[1] = UniformQuantizedType.per_layer(Storage.of("i8", -127), 1e-9)
        return [1], []

    graph = Graph()
    value = graph.dense(graph.args[0], np.ones((4, 4), np.float32), np.full(4, 1e3, np.float32))
    table = Target("t", "fixed32", (*TOY.rows, dense(Custom(tiny, "tiny"))))
    with pytest.raises(PropagationError, match=r"fully_connected 'dense0': tiny: found .* for weight, expected scales"):
        propagate(graph.finish(value), table)


def test_a_bias_that_is_not_at_the_scale_of_the_products_is_refused() -> None:
    def other(inputs, outputs):
        inputs[2] = UniformQuantizedType.per_layer(Storage.of("i32"), 0.5)
        return [2], []

    graph = Graph()
    value = graph.dense(graph.args[0], np.ones((4, 4), np.float32), np.ones(4, np.float32))
    table = Target("t", "fixed32", (*TOY.rows, dense(Custom(other, "other"))))
    with pytest.raises(PropagationError, match=r"other: found .* for bias, expected the scales of the products"):
        propagate(graph.finish(value), table)


MISFITS = {
    "a zero point": (lambda i, o: (1, UniformQuantizedType.per_layer(i[1].storage, 1.0, 5)), "expected zero point 0"),
    "too few scales": (
        lambda i, o: (1, UniformQuantizedType.per_channel(i[1].storage, 1, [1.0] * 3)),
        "expected one scale, or one for each index of dimension 1 of tensor<4x4xf32>",
    ),
    "scales of another dimension": (
        lambda i, o: (1, UniformQuantizedType.per_channel(i[1].storage, 0, [1.0] * 4)),
        "expected one scale, or one for each index of dimension 1 of tensor<4x4xf32>",
    ),
    "a dimension that is not there": (
        lambda i, o: (1, UniformQuantizedType.per_channel(i[1].storage, 7, [1.0] * 4)),
        "expected one scale, or one for each index of dimension 1 of tensor<4x4xf32>",
    ),
    "a zero point of the output": (
        lambda i, o: (-1, UniformQuantizedType.per_layer(I8, 1.0, 5)),
        "expected zero point 0",
    ),
    "a scale that is no power of two": (
        lambda i, o: (-1, UniformQuantizedType.per_layer(I8, 0.1)),
        "expected scales that are powers of two",
    ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_a_type_that_the_row_or_the_target_does_not_have_is_refused(name: str) -> None:
    """Each was accepted, or an error of NumPy about shapes."""
    made, sentence = MISFITS[name]

    def relation(inputs, outputs):
        port, found = made(inputs, outputs)
        (inputs if port >= 0 else outputs)[max(port, 0)] = found
        return ([port], []) if port >= 0 else ([], [0])

    centred = KernelRow("fully_connected", (ACT, WEIGHT, BIAS), CENTRED, Custom(relation, "f"), 32)
    table = Target("t", "fixed32", (*TOY.rows, centred), scale_type="power_of_two")
    with pytest.raises(
        PropagationError, match=rf"fully_connected 'dense0': f: found .* for (weight|output), {sentence}"
    ):
        propagate(chain(1), table)


def test_a_storage_may_be_written_with_its_range() -> None:
    assert Storage.of("i8<-127:127>") == Storage.of("i8", -127)
    assert Storage.of("u8<1:255>") == Storage.of("u8", 1)
    for wrong in ("i8<-129:127>", "i8<5:5>", "i8<-127>", "i8<-127:128>"):
        with pytest.raises(ValueError, match="found storage type"):
            Storage.of(wrong)
