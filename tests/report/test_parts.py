"""SQNR of each part of a concatenated output, so that a small part that is lost shows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

import zeropoint as zp
from networks import Network
from zeropoint.comparison import compare
from zeropoint.interp import Interpreter
from zeropoint.ir.constants import constant_op
from zeropoint.ir.locations import location_text
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ClampOp,
    ConcatenateOp,
    DotDimensions,
    DotGeneralOp,
    ExponentialOp,
    LogisticOp,
    MaximumOp,
    MultiplyOp,
    PadOp,
    ReduceWindowOp,
    ReshapeOp,
    ReverseOp,
    SliceOp,
    SubtractOp,
    TanhOp,
    TransposeOp,
)
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import with_shape
from zeropoint.model import Model
from zeropoint.pipeline import Options, quantize
from zeropoint.report.explain import explain
from zeropoint.report.parts import output_parts

RANDOM = np.random.default_rng(0)


Then = Callable[[Network, SSAValue], SSAValue]


def detector(transposed: bool, *after: Then) -> Model:
    """Boxes up to 320 and scores up to 1 in one output, which `after` is applied to."""
    net = Network([(1, 4, 10), (1, 3, 10)])
    net.name = "boxes"
    boxes = net.insert(MultiplyOp(net.values[0], net.along(np.full(4, 320.0), net.values[0], 1)))
    net.name = "scores"
    scores = net.insert(LogisticOp(net.values[1]))
    net.name = "detections"
    both = net.insert(ConcatenateOp([boxes, scores], 1))
    both = net.insert(TransposeOp(both, [0, 2, 1])) if transposed else both
    for number, then in enumerate(after):
        net.name = f"after{number}"
        both = then(net, both)
    return Model(net.finish([both]))


def data(count: int) -> list[dict[str, np.ndarray]]:
    return [
        {
            "x0": RANDOM.uniform(0, 1, (1, 4, 10)).astype(np.float32),
            "x1": RANDOM.uniform(-6, 2, (1, 3, 10)).astype(np.float32),
        }
        for _ in range(count)
    ]


@pytest.mark.parametrize("transposed", [False, True])
def test_boxes_and_scores_of_a_detector_are_reported_apart_and_both_are_near(transposed: bool) -> None:
    network = detector(transposed)
    result = quantize(network.program, data(16))
    found = compare(network, Model(result.integer), data(4))
    assert [row.name for row in found.parts] == ["y0: boxes", "y0: scores"]
    assert all(row.sqnr > 30 for row in found.parts), found.parts
    assert "part y0: scores" in found.table()


@pytest.mark.parametrize("target", ["cpu", "litert"])
def test_boxes_and_scores_that_are_padded_and_added_are_reported_apart_and_both_are_near(target: str) -> None:
    net = Network([(1, 4, 10), (1, 3, 10)])
    net.name = "boxes"
    boxes = net.insert(MultiplyOp(net.values[0], net.along(np.full(4, 320.0), net.values[0], 1)))
    net.name = "scores"
    scores = net.insert(LogisticOp(net.values[1]))
    zero = net.constant(np.array(0.0))
    padded = [
        net.insert(PadOp(boxes, zero, [0, 0, 0], [0, 3, 0])),
        net.insert(PadOp(scores, zero, [0, 4, 0], [0, 0, 0])),
    ]
    network = Model(net.finish([net.insert(AddOp(*padded))]))
    result = quantize(network.program, data(16), Options(target=target))
    found = compare(network, Model(result.integer), data(4))
    assert [row.name for row in found.parts] == ["y0: boxes", "y0: scores"]
    assert all(row.sqnr > 30 for row in found.parts), found.parts


def joined_apart(net: Network, filler: float) -> tuple[SSAValue, SSAValue]:
    """Boxes beside a number, and the number beside scores: what is computed of both has boxes and scores apart."""
    net.name = "boxes"
    boxes = net.insert(MultiplyOp(net.values[0], net.splat(320.0, net.values[0])))
    net.name = "scores"
    scores = net.insert(LogisticOp(net.values[1]))
    net.name = "first"
    first = net.insert(ConcatenateOp([boxes, net.splat(filler, scores)], 1))
    net.name = "second"
    second = net.insert(ConcatenateOp([net.splat(filler, boxes), scores], 1))
    net.name = "met"
    return first, second


def added_joins(net: Network) -> SSAValue:
    return net.insert(AddOp(*joined_apart(net, 0.0)))


def subtracted_joins(net: Network) -> SSAValue:
    return net.insert(SubtractOp(*joined_apart(net, 0.0)))


def mean_of_joins(net: Network) -> SSAValue:
    total = net.insert(AddOp(*joined_apart(net, 0.0)))
    return net.insert(MultiplyOp(total, net.splat(0.5, total)))


def multiplied_joins(net: Network) -> SSAValue:
    return net.insert(MultiplyOp(*joined_apart(net, 1.0)))


def even_join(net: Network) -> SSAValue:
    """Boxes and scores up to 1, which have one size until what follows makes the boxes larger."""
    net.name = "boxes"
    boxes = net.insert(TanhOp(net.values[0]))
    net.name = "scores"
    scores = net.insert(LogisticOp(net.values[1]))
    net.name = "joined"
    joined = net.insert(ConcatenateOp([boxes, scores], 1))
    net.name = "met"
    return joined


def moved_boxes(net: Network) -> SSAValue:
    joined = even_join(net)
    return net.insert(AddOp(joined, net.along(np.array([320.0] * 4 + [0.0] * 3), joined, 1)))


def enlarged_boxes(net: Network) -> SSAValue:
    joined = even_join(net)
    return net.insert(MultiplyOp(joined, net.along(np.array([320.0] * 4 + [1.0] * 3), joined, 1)))


def powers_of_boxes(net: Network) -> SSAValue:
    """Powers of the boxes and inverse powers of the scores."""
    joined = even_join(net)
    scaled = net.insert(MultiplyOp(joined, net.along(np.array([6.0] * 4 + [-3.0] * 3), joined, 1)))
    net.name = "power"
    return net.insert(ExponentialOp(scaled))


MEETING = [
    added_joins,
    subtracted_joins,
    mean_of_joins,
    multiplied_joins,
    moved_boxes,
    enlarged_boxes,
    powers_of_boxes,
]


@pytest.mark.parametrize("target", ["cpu", "litert"])
@pytest.mark.parametrize("made", MEETING)
def test_what_an_elementwise_op_makes_of_joins_is_reported_apart_and_every_part_is_near(
    target: str, made: Callable[[Network], SSAValue]
) -> None:
    net = Network([(1, 4, 10), (1, 3, 10)])
    network = Model(net.finish([made(net)]))
    result = quantize(network.program, data(16), Options(target, effort="none"))
    found = compare(network, Model(result.integer), data(4))
    assert [row.name for row in found.parts] == ["y0: boxes", "y0: scores"]
    assert all(row.sqnr > 30 for row in found.parts), found.parts


@pytest.mark.parametrize("made", [added_joins, enlarged_boxes])
def test_what_follows_a_sum_of_joins_that_a_recipe_keeps_float_does_not_cost_the_scores(
    made: Callable[[Network], SSAValue],
) -> None:
    net = Network([(1, 4, 10), (1, 3, 10)])
    uneven = made(net)
    net.name = "then"
    network, recipe = Model(net.finish([transposed(net, uneven)])), [{"name": "met", "quantize": False}]
    result = zp.quantize(network, data(16), target="litert", recipe=recipe, effort="none")
    found = compare(network, result, data(4))
    assert [row.name for row in found.parts] == ["y0: boxes", "y0: scores"]
    assert all(row.sqnr > 30 for row in found.parts), found.parts


def test_a_sum_of_joins_that_integers_read_is_quantized() -> None:
    net = Network([(1, 4, 10), (1, 3, 10)])
    total = added_joins(net)
    net.name = "read"
    weights = net.constant(net.random.normal(0, 1, (7, 40)))
    read = DotGeneralOp(total, weights, with_shape(total, [1, 10, 40]), DotDimensions((), (), (1,), (0,)))
    result = quantize(net.finish([net.insert(read)]), data(16), Options("cpu", effort="none"))
    assert not explain(result.integer).float_ops


def test_explain_says_which_part_left_a_sum_of_joins_float() -> None:
    most = np.ones((1, 4, 10), np.float32)
    net = Network([(1, 4, 10), (1, 3, 10)])
    program = net.finish([added_joins(net)])
    result = quantize(program, [{"x0": most, "x1": 9 * most[:, :3]}, {"x0": 0 * most, "x1": -9 * most[:, :3]}])
    why = "only floats read it, and at one scale 'scores' would be 320 times coarser than its range requires"
    assert [(op.name, op.reason) for op in explain(result.integer).float_ops] == [("met", why)]


def relu(net: Network, value: SSAValue) -> SSAValue:
    return net.insert(MaximumOp(value, net.splat(0.0, value)))


def clipped(net: Network, value: SSAValue) -> SSAValue:
    return net.insert(ClampOp(net.constant(np.array(0.0)), value, net.constant(np.array(319.0))))


def added_to_its_reverse(net: Network, value: SSAValue) -> SSAValue:
    return net.insert(AddOp(value, net.insert(ReverseOp(value, [1]))))


def centered(net: Network, value: SSAValue) -> SSAValue:
    return net.insert(SubtractOp(value, net.splat(0.5, value)))


def scaled(net: Network, value: SSAValue) -> SSAValue:
    return net.insert(MultiplyOp(value, net.splat(2.0, value)))


def reshaped_to_pairs(net: Network, value: SSAValue) -> SSAValue:
    return net.insert(ReshapeOp(value, with_shape(value, [1, 5, 14])))


def transposed(net: Network, value: SSAValue) -> SSAValue:
    return net.insert(TransposeOp(value, [0, 2, 1]))


def masked(net: Network, value: SSAValue) -> SSAValue:
    """Times a mask of the last dimension, which is computed from an input."""
    net.name = "mask"
    kept = net.insert(SliceOp(net.values[0], [0, 0, 0], [1, 1, 10], [1] * 3))
    kept = net.insert(LogisticOp(net.insert(MultiplyOp(kept, net.splat(20.0, kept)))))
    kept = net.insert(BroadcastInDimOp(net.insert(ReshapeOp(kept, with_shape(kept, [10]))), value.type, [1]))
    net.name = "after0"
    return net.insert(MultiplyOp(value, kept))


def mean(net: Network, value: SSAValue) -> SSAValue:
    """The mean of every box coordinate and score over the candidates."""
    total = net.reduced(value, [1])
    return net.insert(MultiplyOp(total, net.splat(0.1, total)))


def greatest_pairs(net: Network, value: SSAValue) -> SSAValue:
    """A max pool over pairs of candidates."""
    window = binary_body(MaximumOp, f32)
    made = with_shape(value, [1, 5, 7])
    least = net.constant(np.array(-np.inf))
    return net.insert(ReduceWindowOp([value], [least], [made], [1, 2, 1], window, window_strides=[1, 2, 1]))


def interpolated(net: Network, value: SSAValue) -> SSAValue:
    """Twice as many candidates, between each two neighbours: a product by a constant matrix."""
    places = np.clip(np.arange(20)[None] / 2 - 0.25, 0, 9)
    weights = net.constant(np.clip(1 - np.abs(np.arange(10)[:, None] - places), 0, 1))
    return net.insert(DotGeneralOp(value, weights, with_shape(value, [1, 7, 20]), DotDimensions((), (), (1,), (0,))))


APART = [(relu,), (clipped,), (scaled,), (masked,), (mean,), (greatest_pairs,), (interpolated,)]


@pytest.mark.parametrize("after", [*APART, (scaled, centered, clipped), (masked, interpolated)])
@pytest.mark.parametrize("target", ["cpu", "litert", "onnxruntime", "tosa"])
def test_functions_behind_the_join_do_not_cost_the_scores(target: str, after: tuple[Then, ...]) -> None:
    network = detector(True, *after)
    result = quantize(network.program, data(16), Options(target, effort="none"))
    found = compare(network, Model(result.integer), data(4))
    assert [row.name for row in found.parts] == ["y0: boxes", "y0: scores"]
    assert all(row.sqnr > 30 for row in found.parts), found.parts
    floats = explain(result.integer).float_ops
    why = "only floats read it, and at one scale 'scores' would be "
    assert any(op.name == "detections" and op.reason.startswith(why) for op in floats)
    assert "after0" in {op.name for op in floats}


@pytest.mark.parametrize("target", ["cpu", "litert"])
@pytest.mark.parametrize("then", [reshaped_to_pairs, transposed, masked, mean])
def test_what_follows_a_join_that_a_recipe_keeps_float_does_not_cost_the_scores(target: str, then: Then) -> None:
    network, recipe = detector(True, then), [{"name": "detections", "quantize": False}]
    result = zp.quantize(network, data(16), target=target, recipe=recipe, effort="none")
    found = compare(network, result, data(4))
    assert len(found.parts) == 2
    assert all(row.sqnr > 30 for row in found.parts), found.parts


@pytest.mark.parametrize("target", ["cpu", "litert", "onnxruntime"])
@pytest.mark.parametrize("after", [(), (scaled,)])
def test_an_integer_reader_of_a_join_does_not_cost_the_float_readers(target: str, after: tuple[Then, ...]) -> None:
    """A cache of keys is an output, and a product reads it: the output is a copy in float."""
    net = Network([(1, 4, 10), (1, 3, 10)])
    net.name = "boxes"
    boxes = net.insert(MultiplyOp(net.values[0], net.along(np.full(4, 320.0), net.values[0], 1)))
    net.name = "scores"
    both = net.insert(ConcatenateOp([boxes, net.insert(LogisticOp(net.values[1]))], 1))
    for then in after:
        net.name = "after"
        both = then(net, both)
    net.name = "read"
    weights = net.constant(net.random.normal(0, 1, (7, 40)))
    read = net.insert(DotGeneralOp(both, weights, with_shape(both, [1, 10, 40]), DotDimensions((), (), (1,), (0,))))
    network = Model(net.finish([both, read]))
    result = quantize(network.program, data(16), Options(target, effort="none"))
    found = compare(network, Model(result.integer), data(4))
    assert all(row.sqnr > 30 for row in (*found.parts, *found.outputs)), found.table()
    regions = [op for op in result.propagated.entry.ops if isinstance(op, QuantizeRegionOp)]
    reads = next(region for region in regions if location_text(region.location) == "read")
    assert isinstance(reads.input_specs.data[0], UniformQuantizedType)


def test_a_join_before_a_function_is_quantized_if_an_integer_kernel_reads_that() -> None:
    result = quantize(detector(False, scaled, added_to_its_reverse).program, data(16), Options("litert", effort="none"))
    assert "detections" not in {op.name for op in explain(result.integer).float_ops}


def reshaped(net: Network, value: SSAValue) -> SSAValue:
    return net.insert(ReshapeOp(value, with_shape(value, [1, 70])))


def padded(net: Network, value: SSAValue) -> SSAValue:
    return net.insert(PadOp(value, net.constant(np.array(-1.0)), [0, 1, 0], [0, 0, 2]))


def reversed_slice(net: Network, value: SSAValue) -> SSAValue:
    return net.insert(ReverseOp(net.insert(SliceOp(value, [0, 0, 0], [1, 6, 10], [1, 1, 3])), [1]))


def nested(net: Network, value: SSAValue) -> SSAValue:
    return net.insert(ConcatenateOp([reshaped(net, value)] * 2, 1))


@pytest.mark.parametrize(
    ("then", "sizes"),
    [(reshaped, (40, 30)), (padded, (40, 30)), (scaled, (40, 30)), (reversed_slice, (16, 8)), (nested, (80, 60))],
)
def test_parts_are_found_behind_what_moves_and_scales_them(then: Then, sizes: tuple[int, int]) -> None:
    net = Network([(1, 4, 10), (1, 3, 10)])
    boxes, scores = (net.insert(LogisticOp(value)) for value in net.values)
    program = net.finish([then(net, net.insert(ConcatenateOp([boxes, scores], 1)))])
    marked = [np.full((1, rows, 10), number, np.float32) for rows, number in ((4, -30.0), (3, 30.0))]
    output = Interpreter(program)({"x0": marked[0], "x1": marked[1]})["y0"]
    first, second = (part.of(output) for part in output_parts(program)["y0"])
    assert (first.size, second.size) == sizes
    assert (first < 0.01).all()
    assert (second > 0.99).all()


def test_what_is_computed_from_one_part_is_a_part_of_its_own() -> None:
    net = Network([(1, 4, 10), (1, 3, 10)])
    first, second = net.values
    net.name = "joined"
    joined = net.insert(ConcatenateOp([first, second], 1))
    net.name = "kept"
    kept = net.insert(SliceOp(joined, [0, 0, 0], [1, 4, 10], [1, 1, 1]))
    net.name = "computed"
    computed = net.insert(MultiplyOp(kept, net.along(np.full(4, 0.01), kept, 1)))
    net.name = "both"
    (found,) = output_parts(net.finish([net.insert(ConcatenateOp([computed, kept, joined], 1))])).values()
    assert [(part.name, int(part.elements.sum())) for part in found] == [
        ("x0", 40),
        ("x1", 30),
        ("computed", 40),
        ("kept", 40),
    ]


@pytest.mark.parametrize(
    ("order", "names"),
    [((0, 1, 2), ["x0", "x1", "x2"]), ((1, 2, 0), ["x0, x1", "x1, x2", "x0, x2"]), ((0, 2, 1), ["x0", "x1, x2"])],
)
def test_each_combination_of_parts_that_meet_in_a_sum_is_a_part(order: tuple[int, ...], names: list[str]) -> None:
    net = Network([(1, 4)] * 3)
    joined = [net.insert(ConcatenateOp([net.values[i] for i in part], 1)) for part in ((0, 1, 2), order)]
    (found,) = output_parts(net.finish([net.insert(AddOp(*joined))])).values()
    assert sorted(part.name for part in found) == sorted(names)
    assert sum(part.elements.sum() for part in found) == 12


def test_parts_that_a_product_of_matrices_mixes_are_not_reported() -> None:
    net = Network([(3, 4), (3, 4)])
    first, second = net.insert(ConcatenateOp(net.values, 1)), net.insert(ConcatenateOp(net.values, 0))
    product = DotGeneralOp(second, first, with_shape(first, [6, 8]), DotDimensions((), (), (1,), (0,)))
    assert not output_parts(net.finish([net.insert(product)]))


@pytest.mark.parametrize("stage", ["propagated", "quantized", "integer"])
def test_explain_says_which_part_left_a_join_float(stage: str) -> None:
    most = np.ones((1, 4, 10), np.float32)
    result = quantize(detector(transposed=True).program, [*data(16), {"x0": most, "x1": most[:, :3]}])
    reason = "only floats read it, and at one scale 'scores' would be 321 times coarser than its range requires"
    found = explain(getattr(result, stage))
    assert reason in {op.reason for op in found.float_ops if op.name == "detections"}
    assert f"in float, {reason}" in found.overview()
    assert f"'detections' is float: {reason}" in explain(getattr(result, stage), "detections").details()


@pytest.mark.parametrize("read", [False, True])
def test_a_pad_with_a_number_far_beyond_its_operand_stays_float_unless_integers_read_it(read: bool) -> None:
    net = Network([(1, 3, 10)])
    net.name = "scores"
    scores = net.insert(LogisticOp(net.values[0]))
    net.name = "padded"
    far = net.insert(constant_op(np.array(320.0, np.float32), net.weights))
    padded = net.insert(PadOp(scores, far, [0, 0, 0], [0, 0, 2]))
    net.name = "last"
    network = Model(net.finish([added_to_its_reverse(net, padded) if read else padded]))
    ends = [np.full((1, 3, 10), end, np.float32) for end in (-6.0, 2.0)]
    samples = [*({"x0": end} for end in ends), *({"x0": sample["x1"]} for sample in data(14))]
    result = quantize(network.program, samples)
    reasons = {op.reason for op in explain(result.integer).float_ops if op.name == "padded"}
    why = "only floats read it, and at one scale 'scores' would be 321 times coarser than its range requires"
    assert reasons == (set() if read else {why})
    if not read:
        inner = [output["y0"][..., :10] for output in (network(**samples[2]), Model(result.integer)(**samples[2]))]
        # Half a step of the operand times the greatest slope, and half a step of the result.
        np.testing.assert_allclose(inner[1], inner[0], atol=0.5 * 8 / 255 * 0.25 + 0.5 / 256)


def test_a_part_that_is_lost_shows_beside_a_whole_that_looks_good() -> None:
    network = detector(False)
    rounded = detector(False)

    class Coarse:
        """What one scale of 1.25 makes of the output."""

        def prepare(self, program):
            run = network.engine.prepare(program)
            return lambda sample, observe=None: {
                k: np.round(v / 1.25) * np.float32(1.25) for k, v in run(sample).items()
            }

    rounded.engine = Coarse()
    found = compare(network, rounded, data(4))
    boxes, scores = found.parts
    assert found.outputs[0].sqnr > 45
    assert boxes.sqnr > 45
    assert scores.sqnr < 5
