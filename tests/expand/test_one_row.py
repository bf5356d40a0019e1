"""One-dimensional convolutions as convolutions of images of one row: the same bits, in kernels of convolutions."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, i32

from codegen.contractions import Builder, Output, samples_of
from codegen.exactness import HERE, assert_native_is_exact
from zeropoint.codegen.driver import needs_barrier
from zeropoint.codegen.group import group
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.memory import plan
from zeropoint.expand import with_one_row
from zeropoint.interp import Interpreter
from zeropoint.ir.native import KernelOp
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConvolutionLayout, ConvolutionOp, ReshapeOp
from zeropoint.ir.tensors import shape_of
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import verify

CHAIN = """
func.func @main(%x: tensor<2x8x30xf32>, %w: tensor<16x4x3xf32>) -> (tensor<2x16xf32>, tensor<2x17x14xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %limits = stablehlo.constant dense<0.5> : tensor<2x16x14xf32>
  %p = stablehlo.pad %x, %zero, low = [0, 0, 4], high = [0, 0, 0], interior = [0, 0, 0]
      : (tensor<2x8x30xf32>, tensor<f32>) -> tensor<2x8x34xf32>
  %c = stablehlo.convolution(%p, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0],
      window = {stride = [1], rhs_dilate = [2], reverse = [1]}
      {batch_group_count = 1 : i64, feature_group_count = 2 : i64}
      : (tensor<2x8x34xf32>, tensor<16x4x3xf32>) -> tensor<2x16x30xf32>
  %m = "stablehlo.reduce_window"(%c, %low)
      <{window_dimensions = array<i64: 1, 1, 4>, window_strides = array<i64: 1, 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %larger = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %larger : tensor<f32>
  }) : (tensor<2x16x30xf32>, tensor<f32>) -> tensor<2x16x14xf32>
  %small = stablehlo.compare LT, %m, %limits, FLOAT : (tensor<2x16x14xf32>, tensor<2x16x14xf32>) -> tensor<2x16x14xi1>
  %t = stablehlo.tanh %m : tensor<2x16x14xf32>
  %s = stablehlo.select %small, %t, %limits : tensor<2x16x14xi1>, tensor<2x16x14xf32>
  %r = stablehlo.reverse %s, dims = [2] : tensor<2x16x14xf32>
  %f = stablehlo.slice %r [0:2, 3:4, 0:14] : (tensor<2x16x14xf32>) -> tensor<2x1x14xf32>
  %both = stablehlo.concatenate %f, %s, dim = 1 : (tensor<2x1x14xf32>, tensor<2x16x14xf32>) -> tensor<2x17x14xf32>
  %total = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [2]
      : (tensor<2x16x14xf32>, tensor<f32>) -> tensor<2x16xf32>
  return %total, %both : tensor<2x16xf32>, tensor<2x17x14xf32>
}"""


def same_bits(program: Program) -> Program:
    """The program on images, after a comparison with the one on lines."""
    made = with_one_row(program)
    verify(made.module)
    random = np.random.default_rng(0)
    given = {port.name: random.standard_normal(shape_of(port.type)).astype(np.float32) for port in program.inputs}
    first, second = (list(Interpreter(each)(given).values()) for each in (program, made))
    for one, other in zip(first, second, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()
    return made


def test_a_branch_reads_a_line_as_it_was() -> None:
    """An op inside of it was taken for one of the lines, and the line that it reads could not be erased."""
    line = "tensor<1x2x6xf32>"
    program = parse_program(f"""
func.func @main(%x: {line}, %w: tensor<2x2x1xf32>, %p: tensor<i1>) -> {line} {{
  %c = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {{stride = [1]}}
      {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({line}, tensor<2x2x1xf32>) -> {line}
  %r = stablehlo.reverse %c, dims = [2] : {line}
  %b = "stablehlo.if"(%p) ({{
    %n = stablehlo.negate %r : {line}
    stablehlo.return %n : {line}
  }}, {{
    stablehlo.return %r : {line}
  }}) : (tensor<i1>) -> {line}
  return %b : {line}
}}""")
    made = with_one_row(program)
    verify(made.module)
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((1, 2, 6), (2, 2, 1)))
    for taken in (False, True):
        (expected,), (found,) = (Interpreter(each).run_values([x, w, np.array(taken)]) for each in (program, made))
        assert np.array_equal(found, expected)


def integer_program(kind: str, channels: int = 32, length: int = 40) -> Program:
    """An i8 convolution over a line that stays as long, requantized."""
    groups = {"dense": 1, "grouped": 4, "depthwise": channels}[kind]
    shape = (1, channels, length)
    net = Builder([shape], seed=3)
    weights = net.random.integers(-64, 65, (channels, channels // groups, 5)).astype("int8")
    convolution = ConvolutionOp(
        net.values[0],
        net.constant(weights),
        TensorType(i32, shape),
        ConvolutionLayout.channels_first(1),
        padding=[(2, 2)],
        feature_group_count=groups,
    )
    output = Output("fixed16", True, (-12.0, -9.0), 3, (-128, 127), 1000)
    return net.finish(net.requantized(net.insert(convolution), output, 1))


def test_ops_around_convolutions_compute_on_images_too() -> None:
    made = same_bits(parse_program(CHAIN))
    reshapes = [op for op in made.entry.ops if isinstance(op, ReshapeOp)]
    # The input, the weights and one result: all others are images, or were lines only between them.
    assert [shape_of(op.result) for op in reshapes] == [(2, 8, 1, 30), (16, 4, 1, 3), (2, 17, 14)]


def test_channels_may_come_last() -> None:
    text = """
    func.func @main(%x: tensor<1x9x4xf32>, %w: tensor<3x4x6xf32>) -> tensor<1x7x6xf32> {
      %c = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
          {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
          : (tensor<1x9x4xf32>, tensor<3x4x6xf32>) -> tensor<1x7x6xf32>
      return %c : tensor<1x7x6xf32>
    }"""
    made = same_bits(parse_program(text))
    (found,) = (op for op in made.entry.ops if isinstance(op, ConvolutionOp))
    assert shape_of(found.lhs) == (1, 1, 9, 4)
    assert shape_of(found.rhs) == (1, 3, 4, 6)


@pytest.mark.parametrize(
    "other",
    [
        "stablehlo.dot_general %h, %h, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3]"
        " : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>",
        "stablehlo.convolution(%h, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {}"
        " {batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
        " : (tensor<1x2x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32>",
    ],
    ids=["attention heads", "images with other channels"],
)
def test_lines_stay_lines_beside(other: str) -> None:
    text = f"""
    func.func @main(%x: tensor<1x4x9xf32>, %w: tensor<6x4x3xf32>, %h: tensor<1x2x4x4xf32>, %k: tensor<1x1x4x4xf32>)
        -> (tensor<1x6x7xf32>, tensor<1x2x4x4xf32>) {{
      %c = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {{}}
          {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
          : (tensor<1x4x9xf32>, tensor<6x4x3xf32>) -> tensor<1x6x7xf32>
      %p = {other}
      return %c, %p : tensor<1x6x7xf32>, tensor<1x2x4x4xf32>
    }}"""
    program = parse_program(text)
    assert with_one_row(program) is program


@pytest.mark.parametrize("kind", ["dense", "grouped", "depthwise"])
def test_convolutions_of_lines_are_kernels_of_convolutions(kind: str) -> None:
    program = integer_program(kind)
    grouped = group(program, isa="avx2")
    assert [op.kind.data for op in grouped.entry.ops if isinstance(op, KernelOp)] == ["contraction"]
    assert_native_is_exact(program, samples_of(Builder([(1, 32, 40)], 5), [(1, 32, 40)]), HERE[-1], (1, 2))


def test_groups_of_channels_are_steps_that_do_not_wait_for_each_other() -> None:
    graph = steps_of(integer_program("grouped"), HERE[-1])
    plan(graph)
    steps = [n for n, step in enumerate(graph.steps) if type(step.kernel).__name__ == "Contraction"]
    assert len(steps) == 4
    assert [needs_barrier(graph)[n] for n in steps[1:]] == [False] * 3
