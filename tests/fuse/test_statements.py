"""Fusion sees through what only states something of a value."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from annotated import texts_of_plain_and_annotated, without_facts
from zeropoint.calibrate import asks_all, collect, instrument, samples, state_ranges
from zeropoint.frontend import load_model
from zeropoint.fuse import fuse, unfuse
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.text import parse_program, print_program
from zeropoint.lower import integer_program
from zeropoint.materialize import materialize
from zeropoint.options import Options
from zeropoint.pipeline import quantize
from zeropoint.simplify import simplify
from zeropoint.solve import move_rescales, propagate, wanted_statistics
from zeropoint.targets import target

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
TEXT = """
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0 = stablehlo.add %x, %y : tensor<4xf32>
  %1 = "quant.stats"(%0) {layerStats = dense<[-2.0, 2.0]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = stablehlo.maximum %1, %zero : tensor<4xf32>
  %3 = "quant.stats"(%2) {layerStats = dense<[0.0, 2.0]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
"""


def regions(program: Program) -> list[QuantizeRegionOp]:
    return [op for op in program.entry.ops if isinstance(op, QuantizeRegionOp)]


def test_statistics_in_the_middle_of_a_kernel_go_inside_and_those_of_its_output_stay_behind_it() -> None:
    fused = fuse(parse_program(TEXT))
    (region,) = regions(fused)
    assert region.logical_kernel.data == "add"
    (inside,) = [op for op in region.body.block.ops if isinstance(op, StatisticsOp)]
    assert inside.operands[0].owner.name == "stablehlo.add"
    (behind,) = [op for op in fused.entry.ops if isinstance(op, StatisticsOp)]
    assert behind.arg is region.outputs[0]
    assert print_program(parse_program(print_program(fused))) == print_program(fused)


@pytest.mark.parametrize(
    "stated", ['"quant.stats_ref"(%1) {statsKey = "s"}', '"quant.coupled_ref"(%1) {coupledKey = "c"}']
)
def test_statistics_of_the_scalars_of_a_reduction_change_nothing(stated: str) -> None:
    """A max pool was no kernel."""
    text = """
    func.func @main(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32> {
      %0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %y = "stablehlo.reduce_window"(%x, %0) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %1 = stablehlo.maximum %a, %b : tensor<f32>
        %2 = STATED : (tensor<f32>) -> tensor<f32>
        stablehlo.return %2 : tensor<f32>
      }) {window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 2, 2>}
        : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x2x2xf32>
      return %y : tensor<1x2x2x2xf32>
    }"""
    plain = text.replace("        %2 = STATED : (tensor<f32>) -> tensor<f32>\n", "").replace("return %2", "return %1")
    annotated = print_program(fuse(parse_program(text.replace("STATED", stated))))
    assert "max_pool" in annotated
    assert annotated == print_program(fuse(parse_program(plain)))


def test_unfusing_gives_the_statistics_back() -> None:
    program = parse_program(TEXT)
    restored = unfuse(fuse(program))
    given, made = ([op for op in p.entry.ops if not isinstance(op, ConstantOp)] for p in (program, restored))
    assert [op.name for op in made] == [op.name for op in given]
    assert [op.operands[0].owner.name for op in made[1:]] == [op.operands[0].owner.name for op in given[1:]]


@pytest.mark.parametrize("observer", ["minmax", "mse"])
def test_annotating_every_value_first_equals_fusing_first_to_the_byte(observer: str) -> None:
    """Same kernels, same scales, same integers: on the digits network, with statistics after every op."""
    network, table = simplify(load_model(DIGITS / "digits.onnx")), target("cpu")
    some = [sample for sample, _ in zip(samples(DIGITS / "calib.npz", network.inputs), range(4), strict=False)]

    def annotated(program: Program, *, every_result: bool) -> Program:
        asked = instrument(program, asks=asks_all, every_result=every_result)
        return state_ranges(asked, collect(asked, some, observer=observer))

    first = fuse(annotated(network, every_result=True), table)
    then = annotated(fuse(network, table), every_result=False)
    assert sum(isinstance(op, StatisticsOp) for region in regions(first) for op in region.body.block.ops) > 10
    solved = [move_rescales(propagate(program, table), table) for program in (first, then)]
    kernels, specs = (
        [[get(region) for region in regions(program)] for program in solved]
        for get in (lambda r: r.logical_kernel.data, lambda r: (r.input_specs, r.output_specs))
    )
    assert kernels[0] == kernels[1]
    assert specs[0] == specs[1]
    first_text, then_text = (print_program(without_facts(integer_program(materialize(p)))) for p in solved)
    assert first_text == then_text


CLAMPED = """
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %c = stablehlo.constant dense<0.75> : tensor<4x4xf32>
  %w = stablehlo.constant dense<0.25> : tensor<4x4xf32>
  %low = stablehlo.constant dense<-0.5> : tensor<f32>
  %high = stablehlo.constant dense<0.25> : tensor<f32>
  %0 = stablehlo.add %x, %c : tensor<4x4xf32>
  %1 = stablehlo.clamp %low, %0, %high : (tensor<f32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0]
       : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}
"""
"""LiteRT has no kernel for the clamp: it becomes a maximum, of which the model has no statistics, and a minimum."""


def test_statistics_around_a_clamp_that_becomes_two_kernels_give_the_scales_of_the_plain_program() -> None:
    network = parse_program(CLAMPED)
    random = np.random.default_rng(0)
    data = [{network.inputs[0].name: random.normal(size=(4, 4)).astype(np.float32)} for _ in range(4)]
    asked = instrument(network, asks=asks_all, every_result=True)
    annotated = state_ranges(asked, collect(asked, data))
    options = Options(target="litert", observer="minmax", effort="none")
    first, then = (quantize(program, data, options).propagated for program in (network, annotated))
    kernels = [region.logical_kernel.data for region in regions(first)]
    assert kernels == ["add", "maximum", "minimum", "fully_connected"]
    specs = [[(region.input_specs, region.output_specs) for region in regions(program)] for program in (first, then)]
    assert specs[0] == specs[1]


def test_statistics_inside_of_a_kernel_do_not_keep_its_bias_far_below_the_clamp() -> None:
    """`bound-terms` raises a bias of -1000 behind which nothing shows, and with it the precision of the weight."""
    kind, step = "tensor<2x2xf32>", "stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<2xf32>)"
    dot = f"stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({kind}, {kind})"
    network = parse_program(f"""func.func @main(%x: {kind}) -> {kind} {{
      %w = stablehlo.constant dense<[[1.0e-6, 2.0e-6], [3.0e-6, 4.0e-6]]> : {kind}
      %b = stablehlo.constant dense<[0.5, -1000.0]> : tensor<2xf32>
      %zero = stablehlo.constant dense<0.0> : {kind}
      %0 = {dot} -> {kind}
      %1 = {step} -> {kind}
      %2 = stablehlo.add %0, %1 : {kind}
      %3 = stablehlo.maximum %2, %zero : {kind}
      return %3 : {kind}
    }}""")
    random = np.random.default_rng(0)
    data = [{network.inputs[0].name: random.normal(size=(2, 2)).astype(np.float32)} for _ in range(4)]
    asked = instrument(network, asks=asks_all, every_result=True)
    annotated = state_ranges(asked, collect(asked, data))
    options = Options(target="cpu", observer="minmax", effort="none")
    (first,), (then,) = (regions(quantize(program, data, options).propagated) for program in (network, annotated))
    assert first.input_specs == then.input_specs


NORMALIZED = """
func.func @main(%i: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %k = stablehlo.constant dense<[[1.0, -0.5, 0.25, 0.75], [0.5, 1.0, -0.75, 0.25], [-1.0, 0.5, 1.0, 0.5],
       [0.25, -1.0, 0.5, 1.0]]> : tensor<4x4xf32>
  %x = stablehlo.dot_general %i, %k, contracting_dims = [1] x [0]
       : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %four = stablehlo.constant dense<4.0> : tensor<8xf32>
  %epsilon = stablehlo.constant dense<1.0e-5> : tensor<8xf32>
  %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
       : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
  %m = stablehlo.divide %s, %four : tensor<8xf32>
  %b = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<8xf32>) -> tensor<8x4xf32>
  %d = stablehlo.subtract %x, %b : tensor<8x4xf32>
  %q = stablehlo.multiply %d, %d : tensor<8x4xf32>
  %t = stablehlo.reduce(%q init: %zero) applies stablehlo.add across dimensions = [1]
       : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
  %v = stablehlo.divide %t, %four : tensor<8xf32>
  %e = stablehlo.add %v, %epsilon : tensor<8xf32>
  %r = stablehlo.rsqrt %e : tensor<8xf32>
  %c = stablehlo.broadcast_in_dim %r, dims = [0] : (tensor<8xf32>) -> tensor<8x4xf32>
  %y = stablehlo.multiply %d, %c : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}
"""


def test_statistics_inside_of_a_layer_norm_say_of_its_rows_what_calibration_says() -> None:
    """The rows are of very different sizes: i8 is too coarse for them, so the product before stays float."""
    network = parse_program(NORMALIZED)
    values = np.random.default_rng(0).normal(size=(4, 8, 4)) * np.logspace(-3, 0, 8).reshape(-1, 1)
    data = [{network.inputs[0].name: sample.astype(np.float32)} for sample in values]
    plain, annotated = texts_of_plain_and_annotated(network, data, "output")  # other observers change no float
    assert "i8 is too coarse" in plain
    assert plain == annotated


FOLDED = """
func.func @main(%x: tensor<1x8x8x2xf32>) -> tensor<1x8x8x3xf32> {
  %w = stablehlo.constant dense<0.25> : tensor<3x3x2x3xf32>
  %scale = stablehlo.constant dense<[1.5, 1.0, 0.75]> : tensor<3xf32>
  %shift = stablehlo.constant dense<[0.25, -0.5, 0.0]> : tensor<3xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0.0> : tensor<1x8x8x3xf32>
  %pad = stablehlo.pad %x, %zero, low = [0, 1, 1, 0], high = [0, 1, 1, 0], interior = [0, 0, 0, 0]
       : (tensor<1x8x8x2xf32>, tensor<f32>) -> tensor<1x10x10x2xf32>
  %conv = stablehlo.convolution(%pad, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {}
       {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
       : (tensor<1x10x10x2xf32>, tensor<3x3x2x3xf32>) -> tensor<1x8x8x3xf32>
  %norm = "stablehlo.batch_norm_inference"(%conv, %scale, %shift, %shift, %scale)
       <{epsilon = 0.001 : f32, feature_index = 3 : i64}>
       : (tensor<1x8x8x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<1x8x8x3xf32>
  %relu = stablehlo.maximum %norm, %low : tensor<1x8x8x3xf32>
  return %relu : tensor<1x8x8x3xf32>
}
"""
"""`simplify` folds the pad and the batch norm into the convolution."""
ANNOTATIONS = {
    "requests": lambda value, kind, n: [
        f'%{value}_s = "quant.stats_ref"(%{value}) {{statsKey = "k{n}"}} : ({kind}) -> {kind}'
    ],
    "ranges": lambda value, kind, n: [
        f'%{value}_s = "quant.stats"(%{value}) {{layerStats = dense<[-9.0, 9.0]> : tensor<2xf32>}} : ({kind}) -> {kind}'
    ],
    "types": lambda value, kind, n: [
        f"%{value}_q = quant.qcast %{value} : {kind} to {kind.replace('f32', '!quant.calibrated<f32<-9.0:9.0>>')}",
        f"%{value}_s = quant.dcast %{value}_q : {kind.replace('f32', '!quant.calibrated<f32<-9.0:9.0>>')} to {kind}",
    ],
}


def annotated_text(form: str, values: list[str]) -> str:
    """FOLDED with an annotation of each of the values, which all later ops read."""
    lines: list[str] = []
    for statement in re.split(r"\n(?=  %|  return|})", FOLDED):
        made = re.match(r"  %(\w+) =", statement)
        lines.append(re.sub(rf"(?<=[ (])%({'|'.join(values)})(?=[,) ])(?! =)", r"%\1_s", statement))
        if made and made[1] in values:
            kind = statement.rstrip().rsplit(" ", 1)[-1]
            lines += ["  " + line for line in ANNOTATIONS[form](made[1], kind, len(lines))]
    return "\n".join(lines)


@pytest.mark.parametrize("form", ANNOTATIONS)
@pytest.mark.parametrize("values", [["conv"], ["pad"], ["w", "scale", "shift", "pad", "conv", "norm"]])
def test_annotations_do_not_keep_ops_from_being_folded(form: str, values: list[str]) -> None:
    """Batch norms, pads and constants fold as in the program without them; annotations of folded values are dropped."""
    plain, marked = (parse_program(text) for text in (FOLDED, annotated_text(form, values)))
    data = [{"arg0": np.random.default_rng(n).normal(size=(1, 8, 8, 2)).astype(np.float32)} for n in range(3)]
    data = [{plain.inputs[0].name: sample["arg0"]} for sample in data]
    options = Options(target="cpu", effort="none")
    texts = [print_program(without_facts(quantize(program, data, options).integer)) for program in (plain, marked)]
    assert texts[0] == texts[1]


def test_annotations_of_values_that_simplification_replaces_stay() -> None:
    simple = simplify(parse_program(annotated_text("ranges", ["norm"])))
    (stats,) = [op for op in simple.entry.ops if isinstance(op, StatisticsOp)]
    assert stats.arg.owner.name == "stablehlo.add"
    assert [use.operation.name for use in stats.res.uses] == ["stablehlo.maximum"]
    assert "zeropoint.stated" not in print_program(simple)


ZERO_POINT = """
func.func @main(%x: tensor<2x12x4xf32>) -> (tensor<2x12x4xf32>, tensor<2x6x6xf32>) {
  %fixed = stablehlo.logistic %x : tensor<2x12x4xf32>
  %product = stablehlo.multiply %x, %fixed : tensor<2x12x4xf32>
  %moved = stablehlo.reshape %fixed : (tensor<2x12x4xf32>) -> tensor<2x6x8xf32>
  %scores = stablehlo.dot_general %moved, %moved, batching_dims = [0] x [0], contracting_dims = [2] x [2]
       : (tensor<2x6x8xf32>, tensor<2x6x8xf32>) -> tensor<2x6x6xf32>
  return %product, %scores : tensor<2x12x4xf32>, tensor<2x6x6xf32>
}
"""
"""Type 1/256:-128 of the logistic; one operand of the product of matrices requires zero point 0, so it is rescaled."""
SELECTED = """
func.func @main(%x: tensor<2x12x4xf32>) -> tensor<2x12x1xf32> {
  %sum = stablehlo.add %x, %x : tensor<2x12x4xf32>
  %fixed = stablehlo.logistic %sum : tensor<2x12x4xf32>
  %moved = stablehlo.slice %fixed [0:2, 0:12, 0:1] : (tensor<2x12x4xf32>) -> tensor<2x12x1xf32>
  return %moved : tensor<2x12x1xf32>
}
"""
"""The sum may saturate where the slice of the logistic takes nothing from it."""
JOINED = """
func.func @main(%x: tensor<2x12x4xf32>) -> tensor<2x12x8xf32> {
  %fixed = stablehlo.logistic %x : tensor<2x12x4xf32>
  %small = stablehlo.multiply %x, %fixed : tensor<2x12x4xf32>
  %moved = stablehlo.concatenate %fixed, %small, dim = 2
       : (tensor<2x12x4xf32>, tensor<2x12x4xf32>) -> tensor<2x12x8xf32>
  return %moved : tensor<2x12x8xf32>
}
"""
"""The concatenation has the ranges of both operands."""


@pytest.mark.parametrize("value", ["fixed", "moved"])
@pytest.mark.parametrize(
    ("text", "to"),
    [(ZERO_POINT, "shift_only"), (SELECTED, "cpu"), (JOINED, "cpu")],
    ids=["zero_point", "selected", "joined"],
)
def test_requests_for_values_that_no_kernel_needs_change_nothing(text: str, to: str, value: str) -> None:
    """Calibration observes such a value without a request, too, where its range has an effect."""
    made = re.search(rf"  %{value} = .*?(\S+)\n(?=  [%r])", text, re.DOTALL)
    assert made is not None
    head, tail = text[: made.end()], text[made.end() :]
    mark = f'  %s = "quant.stats_ref"(%{value}) {{statsKey = "k"}} : ({made[1]}) -> {made[1]}\n'
    plain, marked = parse_program(text), parse_program(head + mark + re.sub(rf"%{value}\b", "%s", tail))
    values = np.random.default_rng(0).normal(scale=0.3, size=(4, 2, 12, 4)).astype(np.float32)
    data = [{plain.inputs[0].name: sample} for sample in values]
    options = Options(target=to, effort="none")
    texts = [print_program(without_facts(quantize(program, data, options).integer)) for program in (plain, marked)]
    assert texts[0] == texts[1]


def test_calibration_observes_a_float_result_by_which_ranges_are_narrowed() -> None:
    """Target onnxruntime has no maximum of two values."""
    text = """
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  %function = stablehlo.tanh %x : tensor<4xf32>
  %other = stablehlo.multiply %x, %x : tensor<4xf32>
  %greater = stablehlo.maximum %function, %other : tensor<4xf32>
  %part = stablehlo.slice %function [0:2] : (tensor<4xf32>) -> tensor<2xf32>
  return %greater, %part : tensor<4xf32>, tensor<2xf32>
}
"""
    table = target("onnxruntime")
    fused = fuse(simplify(parse_program(text)), table)
    (greater,) = [region.outputs[0] for region in regions(fused) if region.logical_kernel.data == "maximum"]
    assert wanted_statistics(table)(fused)(greater)
