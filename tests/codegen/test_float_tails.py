"""Ops after a float contraction: a factor and a bias per channel, as of a batch norm, a clamp, another value."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.emulation import EVERYWHERE
from codegen.exactness import assert_same_bits
from zeropoint.codegen.graph import Space, View
from zeropoint.codegen.group import group
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.native import KernelOp
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program

RANDOM = np.random.default_rng(11)


def numbers(*shape: int) -> str:
    """A constant of small integers, among them zeros of both signs, so that sums are often zero."""
    chosen = RANDOM.choice([-2.0, -1.0, -0.0, 0.0, 1.0, 3.0], shape)
    return f"dense<{chosen.tolist()}> : tensor<{'x'.join(map(str, shape))}xf32>"


STEPS = {
    "factor": "stablehlo.multiply {0}, %factor",
    "bias": "stablehlo.add {0}, %bias",
    "other": "stablehlo.add {0}, %y",
    "clamp": "stablehlo.clamp %low, {0}, %high",
    "relu": "stablehlo.maximum {0}, %zero",
}


def program(contraction: str, source: str, weights: str, result: str, channel: int, tail: str) -> Program:
    """A contraction of `%x` and a constant, then the steps of `tail`. `%y` is another value of the result's shape."""
    channels = int(result.split("x")[channel])
    lines, value = list[str](), "%c"
    for index, step in enumerate(tail.split()):
        operand = "(tensor<f32>, T, tensor<f32>) -> T" if step == "clamp" else "T"
        lines.append(f"%t{index} = {STEPS[step].format(value)} : {operand}")
        value = f"%t{index}"
    body = f"""
      %w = stablehlo.constant {numbers(*map(int, weights.split("x")))}
      %f = stablehlo.constant {numbers(channels)}
      %b = stablehlo.constant {numbers(channels)}
      %factor = stablehlo.broadcast_in_dim %f, dims = [{channel}] : (tensor<{channels}xf32>) -> T
      %bias = stablehlo.broadcast_in_dim %b, dims = [{channel}] : (tensor<{channels}xf32>) -> T
      %low = stablehlo.constant dense<-1.0> : tensor<f32>
      %high = stablehlo.constant dense<6.0> : tensor<f32>
      %zero = stablehlo.constant dense<0.0> : T
      %c = {contraction} : (tensor<{source}xf32>, tensor<{weights}xf32>) -> T
      {chr(10).join(lines)}
      return {value} : T"""
    text = f"func.func @main(%x: tensor<{source}xf32>, %y: T) -> T {{ {body} }}"
    return parse_program(text.replace(" T", f" tensor<{result}xf32>").replace("(T", f"(tensor<{result}xf32>"))


def convolution(channels: int, outputs: int, groups: int, stride: int) -> tuple[str, str, str, str, int]:
    """A 3x3 convolution of 9x9 pixels with padding 1."""
    size = -(-9 // stride)
    text = f"""stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
        window = {{stride = [{stride}, {stride}], pad = [[1, 1], [1, 1]]}}
        {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}"""
    return text, f"2x{channels}x9x9", f"{outputs}x{channels // groups}x3x3", f"2x{outputs}x{size}x{size}", 1


CONTRACTIONS = {
    "dense": convolution(3, 20, 1, 2),
    "grouped": convolution(8, 12, 2, 1),
    "depthwise": convolution(24, 24, 24, 1),
    "rows": ("stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]", "5x12", "12x21", "5x21", 1),
}
TAILS = ["factor", "factor bias", "factor bias clamp", "factor bias other relu", "factor relu", "factor relu other"]


def values(built: Program) -> list[np.ndarray]:
    """Inputs of small integers, so that sums are often zero."""
    shapes = [tuple(port.type.get_shape()) for port in built.inputs]
    return [RANDOM.choice([-1.0, 0.0, -0.0, 2.0], shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("form", CONTRACTIONS)
def test_factors_join_the_kernel_with_the_interpreters_bits(form: str, tail: str) -> None:
    built = program(*CONTRACTIONS[form], tail)
    kernels = [op.kind.data for op in group(built, isa="portable").entry.ops if isinstance(op, KernelOp)]
    if form != "depthwise" or "other" not in tail:
        assert kernels == ["contraction"]
    given = values(built)
    (expected,) = Interpreter(built).run_values(given)
    for isa in ("portable", "avx2", "avx512-vnni"):
        (found,) = NativeProgram(built, isa=EVERYWHERE[isa], guarded=True).run_values(given)
        assert_same_bits(found, expected)


@pytest.mark.parametrize("tail", ["bias factor", "relu factor bias", "other factor", "factor factor bias"])
def test_factors_that_do_not_follow_the_sums_stay_apart(tail: str) -> None:
    built = program(*CONTRACTIONS["dense"], tail)
    given = values(built)
    (found,) = NativeProgram(built, guarded=True).run_values(given)
    assert_same_bits(found, Interpreter(built).run_values(given)[0])


@pytest.mark.parametrize("form", ["dense", "depthwise"])
def test_the_callers_image_is_copied_once(form: str) -> None:
    """The copy has the padding of the convolution around it. The other copy is the result."""
    native = NativeProgram(program(*CONTRACTIONS[form], "bias"))
    copies = [step for step in native.graph.steps if step.name.startswith("copy")]
    spaces = [[view.buffer.space for view in step.arguments if isinstance(view, View)] for step in copies]
    assert spaces == [[Space.INPUT, Space.ARENA], [Space.ARENA, Space.OUTPUT]]
