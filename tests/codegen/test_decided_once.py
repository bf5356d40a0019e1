"""What several stages could do is done by one of them: padding, wide weights, the correction of biases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from xdsl.ir import Operation, OpResult

from codegen.exactness import HERE
from zeropoint.codegen.group import group
from zeropoint.codegen.layout import layout
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.constants import constant_array, elements
from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.native import KernelOp
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ConstantOp,
    ConvertOp,
    ConvolutionOp,
    DotGeneralOp,
    MultiplyOp,
    PadOp,
)
from zeropoint.ir.stablehlo.arrays import padding_values
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.ir.text import parse_program
from zeropoint.opt import parse_passes, run_passes
from zeropoint.recipe import apply_recipe, recipe_of

PADDED = """
func.func @main(%x: tensor<1x8x6x6xf32>) -> tensor<1x16x6x6xf32> {
  %s = "quant.stats"(%x) {layerStats = dense<[-1.0, 3.0]> : tensor<2xf32>}
    : (tensor<1x8x6x6xf32>) -> tensor<1x8x6x6xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %v = stablehlo.constant dense<0.5> : tensor<8x8x1x1xf32>
  %c = stablehlo.convolution(%s, %v) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x8x6x6xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x6x6xf32>
  %t = "quant.stats"(%c) {layerStats = dense<[-2.0, 5.0]> : tensor<2xf32>}
    : (tensor<1x8x6x6xf32>) -> tensor<1x8x6x6xf32>
  %p = stablehlo.pad %t, %zero, low = [0, 0, 1, 1], high = [0, 0, 1, 1], interior = [0, 0, 0, 0]
    : (tensor<1x8x6x6xf32>, tensor<f32>) -> tensor<1x8x8x8xf32>
  %w = stablehlo.constant dense<0.25> : tensor<16x8x3x3xf32>
  %d = stablehlo.convolution(%p, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x8x8x8xf32>, tensor<16x8x3x3xf32>) -> tensor<1x16x6x6xf32>
  %b = stablehlo.constant dense<1.5> : tensor<16xf32>
  %bb = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<16xf32>) -> tensor<1x16x6x6xf32>
  %e = stablehlo.add %d, %bb : tensor<1x16x6x6xf32>
  %y = "quant.stats"(%e) {layerStats = dense<[-9.0, 9.0]> : tensor<2xf32>}
    : (tensor<1x16x6x6xf32>) -> tensor<1x16x6x6xf32>
  return %y : tensor<1x16x6x6xf32>
}
"""
WIDE = """
func.func @main(%x: tensor<4x32xf32>) -> tensor<4x16xf32> {
  %s = "quant.stats"(%x) {layerStats = dense<[-1.0, 3.0]> : tensor<2xf32>} : (tensor<4x32xf32>) -> tensor<4x32xf32>
  %w = stablehlo.constant dense<0.25> : tensor<32x16xf32>
  %d = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0]
    : (tensor<4x32xf32>, tensor<32x16xf32>) -> tensor<4x16xf32>
  %y = "quant.stats"(%d) {layerStats = dense<[-9.0, 9.0]> : tensor<2xf32>} : (tensor<4x16xf32>) -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}
"""


Found = TypeVar("Found", bound=Operation)


def integers(text: str, target: str, rules: Sequence[Mapping[str, object]] = ()) -> tuple[Program, Program]:
    """The float program after `simplify`, and the integer program, by the rules of a recipe."""
    simple = run_passes(parse_program(text), parse_passes("simplify"))
    fused = run_passes(simple, parse_passes(f"fuse{{target={target}}}"))
    if rules:
        fused = apply_recipe(fused, recipe_of(rules), simple)
    rest = f"propagate{{target={target}}},move-rescales{{target={target}}},materialize"
    return simple, run_passes(fused, parse_passes(f"{rest},integer-program"))


def ops(program: Program, kind: type[Found]) -> list[Found]:
    return [op for op in program.module.walk() if isinstance(op, kind)]


def pads(op: ConvolutionOp) -> bool:
    return any(any(pair) for pair in padding_values(op.padding, 0))


def test_padding_is_folded_once_made_explicit_once_and_never_copied() -> None:
    """`simplify` folds it into the convolution, `lower` makes it explicit, native code keeps room for it."""
    simple, program = integers(PADDED, "cpu")
    assert ops(simple, PadOp) == []
    assert list(map(pads, ops(simple, ConvolutionOp))) == [False, True]
    (pad,) = ops(program, PadOp)
    assert constant_array(pad.padding_value, program.weights) != 0
    assert not any(map(pads, ops(program, ConvolutionOp)))
    grouped = group(program, isa=HERE[-1].name)
    assert len(ops(grouped, PadOp)) == 1
    assert not any(map(pads, ops(grouped, ConvolutionOp)))
    kinds = [kernel.kind.data for kernel in ops(layout(grouped), KernelOp)]
    assert kinds == ["quantize", "contraction", "contraction", "dequantize"]


def test_a_bias_is_corrected_once() -> None:
    """The integer program has one sum: the bias minus the zero point times the sums of weights."""
    _, program = integers(PADDED, "cpu")
    second = ops(program, RequantizeOp)[1]
    total = second.accumulator.owner
    assert isinstance(total, AddOp)
    assert isinstance(total.lhs.owner, ConvolutionOp)
    assert isinstance(total.rhs.owner, BroadcastInDimOp)
    (pad,) = ops(program, PadOp)
    found = constant_array(total.rhs.owner.operand, program.weights)
    weights = constant_array(total.lhs.owner.rhs, program.weights)
    zero = constant_array(pad.padding_value, program.weights)
    assert found is not None
    assert weights is not None
    assert zero is not None
    # Weights of 0.25 in [-127, 127], activations in [-2, 5]: the bias 1.5 in steps of (0.25 / 127) * (7 / 255).
    bias = np.rint(1.5 / ((0.25 / 127) * (7 / 255)))
    np.testing.assert_allclose(found + int(zero) * weights.astype(int).sum((1, 2, 3)), bias, atol=1)


def test_weights_beside_wide_activations_are_stored_in_bytes_and_widened_once() -> None:
    """In quantized StableHLO they have i16, like the other operand, with the bounds of i8; `lower` goes by these."""
    rule = [{"op": "fully_connected", "activation_scales": "per_tensor"}]
    _, program = integers(WIDE, "cpu-integer", rule)
    (product,) = ops(program, DotGeneralOp)
    assert element_dtype(element_of(product.lhs)) == np.int16
    assert isinstance(product.rhs, OpResult)
    assert isinstance(product.rhs.op, ConvertOp)
    stored = constant_array(product.rhs.op.operand, program.weights)
    assert stored is not None
    assert stored.dtype == np.int8
    held = [elements(op, program.weights) for op in ops(program, ConstantOp)]
    assert [array.dtype for array in held if array.size == stored.size] == [np.int8]
    narrowed = [op for op in ops(program, ConvertOp) if element_dtype(element_of(op.result)) == np.int8]
    assert narrowed == []
    graph = steps_of(program, HERE[-1])
    assert sum("Contraction" in type(step.kernel).__name__ for step in graph.steps) == 1


def test_the_programs_compute_what_the_interpreter_does() -> None:
    for text, target in ((PADDED, "cpu"), (WIDE, "cpu-integer")):
        _, program = integers(text, target)
        x = {port.name: np.random.default_rng(1).uniform(-1, 3, shape_of(port.type)) for port in program.inputs}
        given = {name: array.astype(np.float32) for name, array in x.items()}
        wanted, found = Interpreter(program)(given), NativeProgram(program, form="debug")(given)
        for name in wanted:
            np.testing.assert_array_equal(found[name], wanted[name])


READ_TWICE = """
func.func @main(%x: tensor<8x64xi16>, %n: tensor<8x64xi32>) -> (tensor<8x64xi32>, tensor<64x8xi32>) {
  %w = stablehlo.convert %x : (tensor<8x64xi16>) -> tensor<8x64xi32>
  %s = stablehlo.multiply %w, %n : tensor<8x64xi32>
  %y = stablehlo.convert %s : (tensor<8x64xi32>) -> tensor<8x64xi16>
  %v = stablehlo.convert %y : (tensor<8x64xi16>) -> tensor<8x64xi32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %sum = stablehlo.reduce(%v init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<8x64xi32>, tensor<i32>) -> tensor<8xi32>
  %b = stablehlo.broadcast_in_dim %sum, dims = [0] : (tensor<8xi32>) -> tensor<8x64xi32>
  %p = stablehlo.subtract %v, %b : tensor<8x64xi32>
  %t = stablehlo.transpose %v, dims = [1, 0] : (tensor<8x64xi32>) -> tensor<64x8xi32>
  %q = stablehlo.add %t, %t : tensor<64x8xi32>
  return %p, %q : tensor<8x64xi32>, tensor<64x8xi32>
}
"""


def test_what_two_kernels_read_through_a_conversion_is_computed_once() -> None:
    """Both widen it themselves, which is cheap. The product before it is not."""
    grouped = group(parse_program(READ_TWICE), isa=HERE[-1].name)
    assert len(ops(grouped, MultiplyOp)) == 1
