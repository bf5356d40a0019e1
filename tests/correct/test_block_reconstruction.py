"""Blocks of a program, the gradients of their ops, and what learning them gives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from xdsl.ir import SSAValue

from networks import Network, quantized
from property_cases import some
from random_networks import Case, cases
from zeropoint.calibrate import silent
from zeropoint.correct import Platform, SampleParts, correct
from zeropoint.correct.block_reconstruction import NAME, Reconstruction
from zeropoint.correct.block_walk import BlockStep, BlockWalk
from zeropoint.correct.blocks import OpBlock, blocks_of
from zeropoint.correct.contraction_gradients import differentiable
from zeropoint.correct.contractions import give_biases
from zeropoint.correct.geometry import geometry_of
from zeropoint.correct.judge import Judge
from zeropoint.correct.learned import LearnedBlock, RoundingGrid
from zeropoint.correct.op_gradients import RULES, has_gradient
from zeropoint.correct.walk import Walk
from zeropoint.interp import Interpreter, ReferenceEngine
from zeropoint.ir.annotations import CORRECTIONS, facts_of
from zeropoint.ir.bounds import Bounds
from zeropoint.ir.isolation import computing
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, evaluate
from zeropoint.ir.stablehlo import AddOp, ClampOp, ConvolutionLayout, ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import Array, shape_of, with_shape
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import verify
from zeropoint.lower import integer_program
from zeropoint.materialize import materialize
from zeropoint.report.explain import explain
from zeropoint.targets import target

PLATFORM = Platform(ReferenceEngine(), lambda runs: ReferenceEngine(), target("cpu"))
CHANNELS = 8
SIZE = 8


@cache
def network() -> Program:
    """A convolution with relu6, then two residual branches of two convolutions each; weights of a mean."""
    net = Network([(1, 3, SIZE, SIZE)], seed=8)
    value = convolution(net, net.values[0], 3, clamped=True)
    for _ in range(2):
        inner = convolution(net, value, CHANNELS, clamped=True)
        branch = convolution(net, inner, CHANNELS, clamped=False)
        net.layer("sum")
        value = net.insert(AddOp(branch, value))
    net.values.append(value)
    return net.finish([value])


def convolution(net: Network, value: SSAValue, features: int, *, clamped: bool) -> SSAValue:
    net.layer("conv")
    weight = net.random.normal(0.1, 0.4, (CHANNELS, features, 1, 1))
    weight[:, 0, 0, 0] *= 60.0  # a great one in each channel: coarse steps for the others
    shape = [1, CHANNELS, SIZE, SIZE]
    op = ConvolutionOp(value, net.constant(weight), with_shape(value, shape), ConvolutionLayout.channels_first(2))
    made = net.insert(op)
    made = net.insert(AddOp(made, net.along(net.random.normal(0, 0.5, CHANNELS), made, 1)))
    return net.insert(ClampOp(net.constant(np.array(0.0)), made, net.constant(np.array(6.0)))) if clamped else made


def samples(count: int, seed: int = 0) -> list[dict[str, Array]]:
    random = np.random.default_rng(seed)
    return [{"x0": random.uniform(0, 1, (1, 3, SIZE, SIZE)).astype(np.float32)} for _ in range(count)]


@cache
def propagated() -> Program:
    return quantized(network(), samples(8), stage="propagated")


def kinds(parts: Sequence[object]) -> list[list[str]]:
    return [
        [op.logical_kernel.data for op in part.ops if isinstance(op, QuantizeRegionOp)]
        for part in parts
        if isinstance(part, OpBlock)
    ]


def test_blocks_end_after_sums_and_where_no_clamp_cuts() -> None:
    assert kinds(blocks_of(propagated())) == [[*3 * ["convolution"], "add"], [*2 * ["convolution"], "add"]]


@some(8)
@given(case=cases())
def test_blocks_are_all_ops_in_order_and_only_their_result_is_read_outside(case: Case) -> None:
    program = quantized(case.program, case.calibration, stage="propagated")
    parts = blocks_of(program)
    assert [op for part in parts for op in (part.ops if isinstance(part, OpBlock) else [part])] == computing(program)
    for part in parts:
        if isinstance(part, OpBlock):
            inner = [result for op in part.ops for result in op.results if result is not part.result]
            assert all(use.operation in part.ops for result in inner for use in result.uses)


WINDOWS = {
    "dense": ("1x6x9x8", "4x6x3x2", "1x4x5x4", "stride = [2, 2], pad = [[1, 1], [0, 1]]", 1),
    "point": ("1x6x5x5", "4x6x1x1", "1x4x5x5", "", 1),
    "strided point": ("1x6x5x5", "4x6x1x1", "1x4x3x3", "stride = [2, 2]", 1),
    "depthwise": ("1x6x9x8", "6x1x3x3", "1x6x4x8", "stride = [2, 1], pad = [[1, 0], [2, 2]], rhs_dilate = [1, 2]", 6),
    "grouped": ("1x6x5x5", "4x3x2x2", "1x4x4x4", "", 2),
    "transposed": ("1x6x4x4", "4x6x3x3", "1x4x9x9", "pad = [[2, 2], [2, 2]], lhs_dilate = [2, 2]", 1),
    "reversed": ("1x6x5x5", "4x6x3x2", "1x4x3x4", "reverse = [true, false]", 1),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_a_convolution_and_its_gradients_are_those_of_the_interpreter(name: str) -> None:
    x, w, y, window, groups = WINDOWS[name]
    check_contraction(
        f"""func.func @main(%x: tensor<{x}xf32>, %w: tensor<{w}xf32>) -> tensor<{y}xf32> {{
          %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
            window = {{{window}}} {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}
            : (tensor<{x}xf32>, tensor<{w}xf32>) -> tensor<{y}xf32>
          return %0 : tensor<{y}xf32>
        }}"""
    )


def test_a_convolution_with_features_last_has_the_same_gradients() -> None:
    check_contraction(
        """func.func @main(%x: tensor<2x5x4x6xf32>, %w: tensor<3x2x6x4xf32>) -> tensor<2x3x3x4xf32> {
          %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {}
            {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
            : (tensor<2x5x4x6xf32>, tensor<3x2x6x4xf32>) -> tensor<2x3x3x4xf32>
          return %0 : tensor<2x3x3x4xf32>
        }"""
    )


@pytest.mark.parametrize(
    ("x", "w", "y", "dims"), [("5x6", "6x4", "5x4", "[1] x [0]"), ("2x6x3", "4x6", "2x3x4", "[1] x [1]")]
)
def test_a_matrix_product_and_its_gradients_are_those_of_the_interpreter(x: str, w: str, y: str, dims: str) -> None:
    check_contraction(
        f"""func.func @main(%x: tensor<{x}xf32>, %w: tensor<{w}xf32>) -> tensor<{y}xf32> {{
          %0 = stablehlo.dot_general %x, %w, contracting_dims = {dims}
            : (tensor<{x}xf32>, tensor<{w}xf32>) -> tensor<{y}xf32>
          return %0 : tensor<{y}xf32>
        }}"""
    )


def check_contraction(text: str) -> None:
    """A contraction is linear in each operand, so that <e, f(x', w)> = <dx, x'> and <e, f(x, w')> = <dw, w'>."""
    program, random = parse_program(text), np.random.default_rng(1)
    (op,) = computing(program)
    assert isinstance(op, ConvolutionOp | DotGeneralOp)
    geometry = geometry_of(op)
    assert geometry is not None
    form = differentiable(geometry)
    assert form is not None
    interpreter, names = Interpreter(program), [port.name for port in program.inputs]

    def run(*given: Array) -> Array:
        (found,) = interpreter(dict(zip(names, given, strict=True))).values()
        return found

    x, w, other_x, other_w = (random.normal(0, 1, shape_of(value)).astype(np.float32) for value in (op.lhs, op.rhs) * 2)
    sums, gradients = form.sums(x, geometry.matrix(w))
    made = form.result(sums, shape_of(op.result))
    np.testing.assert_allclose(made, run(x, w), atol=1e-4)
    np.testing.assert_array_equal(form.sums_of(made), sums)
    error = random.normal(0, 1, made.shape).astype(np.float32)
    weight, back = gradients(form.sums_of(error), True)
    assert back is not None
    assert gradients(form.sums_of(error), False)[1] is None
    np.testing.assert_allclose((error * run(other_x, w)).sum(), (back * other_x).sum(), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(
        (error * run(x, other_w)).sum(), (weight * geometry.matrix(other_w)).sum(), rtol=1e-3, atol=1e-3
    )


ONE, ROW = "tensor<3x4xf32>", "tensor<4xf32>"
OPS = {
    "add": (f"stablehlo.add %x, %z : {ONE}", ONE, ONE),
    "subtract": (f"stablehlo.subtract %x, %z : {ONE}", ONE, ONE),
    "multiply": (f"stablehlo.multiply %x, %z : {ONE}", ONE, ONE),
    "divide": (f"stablehlo.divide %x, %z : {ONE}", ONE, ONE),
    "maximum": (f"stablehlo.maximum %x, %z : {ONE}", ONE, ONE),
    "minimum": (f"stablehlo.minimum %x, %z : {ONE}", ONE, ONE),
    "clamp": (f"stablehlo.clamp %z, %x, %h : ({ONE}, {ONE}, {ONE}) -> {ONE}", ONE, ONE),
    "scalar clamp": (f"stablehlo.clamp %z, %x, %h : (tensor<f32>, {ONE}, tensor<f32>) -> {ONE}", "tensor<f32>", ONE),
    "reshape": (f"stablehlo.reshape %x : ({ONE}) -> tensor<12xf32>", ONE, "tensor<12xf32>"),
    "transpose": (f"stablehlo.transpose %x, dims = [1, 0] : ({ONE}) -> tensor<4x3xf32>", ONE, "tensor<4x3xf32>"),
    "broadcast": (
        f"stablehlo.broadcast_in_dim %x, dims = [2, 0] : ({ONE}) -> tensor<4x2x3xf32>",
        ONE,
        "tensor<4x2x3xf32>",
    ),
    "sum": (
        f"stablehlo.reduce(%x init: %s) applies stablehlo.add across dimensions = [0] : ({ONE}, tensor<f32>) -> {ROW}",
        ONE,
        ROW,
    ),
}


@pytest.mark.parametrize("name", OPS)
def test_an_op_and_its_gradient_are_those_of_the_interpreter(name: str) -> None:
    line, other, result = OPS[name]
    program = parse_program(
        f"""func.func @main(%x: {ONE}, %z: {other}, %h: {other}, %s: tensor<f32>) -> {result} {{
          %0 = {line}
          return %0 : {result}
        }}"""
    )
    (op,) = computing(program)
    assert has_gradient(op)
    random, run = np.random.default_rng(2), Interpreter(program)
    inputs = {
        port.name: random.normal(0, 1, shape_of(value)).astype(np.float32)
        for port, value in zip(program.inputs, program.entry.args, strict=True)
    }
    first, second, third, _ = inputs
    inputs[third] = inputs[second] + np.float32(0.5)
    places = [program.entry.args.index(value) for value in op.operands]  # pyright: ignore (arguments)
    names = [program.inputs[place].name for place in places]
    assert names[0] in (first, second)
    made, back = RULES[type(op)](op, [inputs[one] for one in names])
    np.testing.assert_allclose(made, next(iter(run(inputs).values())), rtol=1e-6)
    error = random.normal(0, 1, made.shape).astype(np.float32)
    for one, slope in zip(names, back(error), strict=True):
        change = random.normal(0, 1, inputs[one].shape).astype(np.float32) * np.float32(1e-3)
        ends = [next(iter(run({**inputs, one: inputs[one] + sign * change}).values())) for sign in (1, -1)]
        expected = (error * (ends[0] - ends[1]) / 2).sum()
        np.testing.assert_allclose((slope * change).sum(), expected, rtol=2e-2, atol=2e-5)


def test_of_reductions_only_sums_have_a_gradient() -> None:
    program = parse_program(
        f"""func.func @main(%x: {ONE}, %s: tensor<f32>) -> {ROW} {{
          %0 = stablehlo.reduce(%x init: %s) applies stablehlo.maximum across dimensions = [0]
            : ({ONE}, tensor<f32>) -> {ROW}
          return %0 : {ROW}
        }}"""
    )
    assert not has_gradient(computing(program)[0])


def test_a_grid_rounds_as_the_type_does_and_has_no_gradient_beyond_its_ends() -> None:
    region = next(op for op in propagated().entry.ops if isinstance(op, QuantizeRegionOp))
    (kind,) = region.output_specs.data
    values = np.linspace(-3, 9, 1001).astype(np.float32)
    made, inside = RoundingGrid.of(kind, Bounds(0.0, 6.0)).round(values.copy())
    stored = evaluate.quantize(np.clip(values, 0, 6), kind)  # pyright: ignore (uniform)
    np.testing.assert_allclose(made, evaluate.dequantize(stored, kind), atol=1e-5)  # pyright: ignore (uniform)
    assert not inside[values < 0].any()
    assert not inside[values > 6].any()
    assert inside[(values > 0.1) & (values < made.max() - 0.1)].all()


@some(8)
@given(case=cases())
def test_a_walk_by_blocks_gives_what_a_walk_by_kernels_gives(case: Case) -> None:
    program = quantized(case.program, case.calibration, stage="propagated")
    quantized_only = LearnedBlock.of
    engine, target_ = ReferenceEngine(), target("cpu")
    walks = (
        Walk(program, engine, lambda step: None),
        BlockWalk(
            program,
            engine,
            lambda step: None,
            wanted=lambda block: quantized_only(block, program, target_) is not None,
        ),
    )
    for walk in walks:
        walk.run(case.samples, silent)
    for value in set(walks[0].values) & set(walks[1].values):
        first, second = (walk.values[value] for walk in walks)
        for number in range(len(case.samples)):
            np.testing.assert_array_equal(first.exact[number], second.exact[number])
            np.testing.assert_array_equal(first.real(number), second.real(number))
    assert set(program.entry.last_op.operands) <= set(walks[1].values)  # pyright: ignore (a return)


def test_a_block_computes_what_its_kernels_compute() -> None:
    program = propagated()
    steps: list[BlockStep] = []

    def visit(step: BlockStep) -> bool:
        steps.append(step)
        return True

    walk = BlockWalk(program, ReferenceEngine(), lambda step: None, wanted=lambda block: True, visit=visit)
    walk.run(samples(1), silent)
    (value,) = (walk.values[value] for value in program.entry.last_op.operands)  # pyright: ignore (a return)
    made = LearnedBlock.of(steps[-1].block, program, PLATFORM.target)
    assert made is not None
    made.begin()
    given = {value: held.real(0) for value, held in steps[-1].inputs.items()}
    assert made.learn(given, value.real(0), None, only_error=True) <= value.kind.scale**2 * 5  # pyright: ignore (a type)


def test_learned_blocks_are_nearer_to_float_on_other_samples() -> None:
    program, done, _ = correct(propagated(), SampleParts.of(samples(24)), PLATFORM, effort="best", methods=[NAME])
    verify(program.module)
    verify(integer_program(materialize(program)).module)
    assert (done.kept, done.refined, done.refit) == (None, (NAME,), 24)
    judge = Judge(propagated(), samples(8, seed=9), ReferenceEngine())
    assert judge.sqnr(program) > judge.sqnr(propagated()) + 1
    assert "block_reconstruction was fitted again to 24 samples" in done.summary()


def test_they_add_to_the_best_method_and_both_are_named() -> None:
    names = ["block_reconstruction", "empirical_bias"]
    program, done, _ = correct(propagated(), SampleParts.of(samples(24)), PLATFORM, effort="best", methods=names)
    assert done.all_kept == ("empirical_bias", NAME)
    assert [attempt.method for attempt in done.attempts] == ["empirical_bias", NAME]
    assert done.attempts[1].held > done.attempts[0].held
    assert "empirical_bias and block_reconstruction were fitted again" in done.summary()
    sources = {fact.source for op in program.entry.ops for fact in facts_of(op) if fact.name == "corrected"}
    assert sources == {"empirical_bias", NAME}
    assert "of the weights changed; the block's error is" in "".join(
        fact.value for op in program.entry.ops for fact in facts_of(op)
    )
    assert NAME in explain(integer_program(materialize(program))).overview()


def test_the_same_samples_give_the_same_program() -> None:
    programs = [
        correct(propagated(), SampleParts.of(samples(8)), PLATFORM, effort="best", methods=[NAME])[0] for _ in "12"
    ]
    assert str(programs[0].module) == str(programs[1].module)
    assert programs[0].weights.keys() == programs[1].weights.keys()


def test_blocks_that_learning_makes_worse_stay_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    import zeropoint.correct.block_reconstruction as module

    monkeypatch.setattr(module, "WEIGHT_RATE", 50.0)  # noise
    before = str(propagated().module)
    program, done, _ = correct(propagated(), SampleParts.of(samples(8)), PLATFORM, effort="best", methods=[NAME])
    assert done.all_kept == ()
    assert done.after == done.before
    assert "block_reconstruction undone" in done.summary()
    assert (
        "; undone: the noise of the outputs together stays the same" in facts_of(program.module, CORRECTIONS)[0].value
    )
    assert not any(fact.name == "corrected" for op in program.entry.ops for fact in facts_of(op))
    assert str(propagated().module) == before


def reconstruction(program: Program, reference: Program) -> Reconstruction:
    return Reconstruction(program, reference, PLATFORM.target, PLATFORM.records(NAME, program, 0))


def test_after_some_blocks_without_gain_the_others_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    import zeropoint.correct.block_reconstruction as module

    tried: list[int] = []

    def same(block: LearnedBlock, step: object) -> tuple[float, float]:
        tried.append(len(block.learned))
        return 1.0, 1.0

    monkeypatch.setattr(module, "learn", same)
    monkeypatch.setattr(module, "PATIENCE", 1)
    program = propagated().clone()
    assert reconstruction(program, propagated()).run(samples(4), ReferenceEngine(), silent) == 0
    assert tried == [3]


@pytest.mark.parametrize(("count", "words"), [(3, "the samples it learned from"), (4, "samples it did not learn from")])
def test_the_note_says_which_samples_judged_a_block(count: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import zeropoint.correct.block_reconstruction as module

    monkeypatch.setattr(module, "learn", lambda *_: (1.0, 0.5))  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType] (a stand-in)
    program = propagated().clone()
    assert reconstruction(program, propagated()).run(samples(count), ReferenceEngine(), silent)
    notes = [fact.value for op in program.entry.ops for fact in facts_of(op) if fact.name == "corrected"]
    assert notes
    assert all(note.endswith(f"0.50 times that before, on {words}") for note in notes)


@some(6)
@given(case=cases())
def test_any_network_can_be_reconstructed(case: Case) -> None:
    program = quantized(case.program, case.calibration, stage="propagated")
    give_biases(program, PLATFORM.target)
    made = program.clone()
    reconstruction(made, program).run(case.calibration, ReferenceEngine(), silent)
    verify(made.module)
    Interpreter(integer_program(materialize(made)))(case.samples[0])


def test_a_weight_starts_at_its_float_only_if_that_is_rounded_to_the_same_integer() -> None:
    made = [LearnedBlock.of(part, propagated(), PLATFORM.target) for part in blocks_of(propagated())]  # pyright: ignore (blocks only)
    (kernel, *_) = (one for block in made if block is not None for one in block.learned)
    before = kernel.integers()
    scales = kernel.kernel.weight_scales
    kernel.start_at((before + 0.3) * scales)
    np.testing.assert_allclose(kernel.latent, before + 0.3, atol=1e-3)
    kernel.start_at((before + 1.3) * scales)
    np.testing.assert_array_equal(kernel.latent, before)
