"""What a case of LiteRT's rows says: an op, and what our interpreter is asked to compare with.

A text is a StableHLO body on the quantized types of the ports: `{x0}` is the type of the first operand, `{w}`, `{b}`,
`{y}` those of weights, bias and result, `{acc}` that of sums, `{fx}`, `{fy}` those of the real numbers of operand and
result, `{scalar}` that of one stored value, `{raw}` its storage; `{zero}`, `{low}`, `{high}` are numbers of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Case:
    """One op: the shapes of its quantized operands and of its results, its options, its other constant operands.

    `order` says where operands stand (`x0`, `x1`, `w`, `b`, `c0`, ...), where that is not the order of this list.
    `expected` is a text for our interpreter, or a function of the stored operands that moves them. `refuses` names the
    violations of the row that the kernel refuses, in 8 and in 16 bits, `uses` those that it takes and computes with; it
    ignores the others: the result is the same. `steps` is by how many storage steps results may differ from ours, in 8
    and in 16 bits; `why` says why they do. `positive` keeps the last operand above its zero point. `reference` is false
    where the reference kernel is at fault (8-bit sums, in 2.3.0) and the other built-in one runs.
    """

    op: str
    shapes: tuple[tuple[int, ...], ...]
    result: tuple[int, ...] = ()
    options: tuple[str, dict[str, Any]] | None = None
    others: tuple[Array, ...] = ()
    weight: tuple[int, ...] = ()
    order: tuple[str, ...] = ()
    results: int = 1
    expected: str | Callable[..., Array | tuple[Array, ...]] = ""
    refuses: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
    uses: frozenset[str] = frozenset()
    steps: tuple[int, int] = (0, 0)
    why: str = ""
    scale: float = 0.1
    positive: bool = False
    version: int = 1
    reference: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """That of each result."""
        return self.result or self.shapes[0]


SCALE, ZERO = "a result of another scale", "a result of another zero point"
OPERAND_SCALE, OPERAND_ZERO = "an operand of another scale", "an operand of another zero point"
WIDE, WIDE_ZERO = "16 bits", "a zero point in 16 bits"
WEIGHT_WIDE, WEIGHT_ZERO = "weights of 16 bits", "weights with a zero point"
BIAS_SCALE, BIAS_ZERO = "a bias of another scale", "a bias with a zero point"


def refusing(eight: set[str], sixteen: set[str] | None = None) -> tuple[frozenset[str], frozenset[str]]:
    return frozenset(eight), frozenset(sixteen or set())


def ints(*values: int) -> Array:
    return np.array(values, np.int32)


def function(*lines: str) -> str:
    """A function of reals between a dequantization (%f) and a quantization (of %g)."""
    first = "%f = stablehlo.uniform_dequantize %x0 : ({x0}) -> {fx}"
    return "\n".join([first, *lines, "%r = stablehlo.uniform_quantize %g : ({fy}) -> {y}"])


def unary(op: str) -> str:
    return function(f"%g = stablehlo.{op} %f : {{fx}}")


def binary(op: str) -> str:
    return f"%r = stablehlo.{op} %x0, %x1 : ({{x0}}, {{x1}}) -> {{y}}"


def of_two(*lines: str) -> str:
    """A function of two reals, %f and %e."""
    return function("%e = stablehlo.uniform_dequantize %x1 : ({x1}) -> {fx}", *lines)


def splat(name: str, number: float) -> str:
    return f"%{name} = stablehlo.constant dense<{number:.9e}> : {{fx}}"


def moved(op: str, attributes: str = "") -> str:
    return f"%r = stablehlo.{op} %x0{attributes} : ({{x0}}) -> {{y}}"


def constant(name: str, value: str) -> str:
    return f"%{name} = stablehlo.constant() <{{{{value = dense<{value}> : tensor<{{raw}}>}}}}> : () -> {{scalar}}\n"


def reduced(op: str, initial: str) -> str:
    """A reduction of stored integers over dimension 1."""
    return (
        constant("i", initial)
        + f"%r = stablehlo.reduce(%x0 init: %i) applies stablehlo.{op} across dimensions = [1] "
        + ": ({x0}, {scalar}) -> {y}"
    )


def contraction(product: str, axis: int) -> str:
    """A product, a bias in its type, a rescale in the last line."""
    return f"""{product}
      %c = stablehlo.broadcast_in_dim %b, dims = [{axis}] : ({{b}}) -> {{acc}}
      %s = stablehlo.add %p, %c : {{acc}}
      %r = stablehlo.uniform_quantize %s : ({{acc}}) -> {{y}}"""


def convolution(kernel: str, window: str = "", groups: int = 1) -> str:
    return contraction(
        f"""%p = stablehlo.convolution(%x0, %w) dim_numbers = [b, 0, 1, f]x[{kernel}]->[b, 0, 1, f],
        window = {{{{{window}}}}}
        {{{{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}}} : ({{x0}}, {{w}}) -> {{acc}}""",
        3,
    )


FIXED = "it multiplies in fixed point; we round the real number once"
TABLE = "it looks up a table, in 16 bits between 513 points; we compute in f32"
STORED_MEAN = "it rounds the mean of stored integers; we round that of real numbers"
IMAGE = (2, 8, 6, 3)
MATRIX = (60, 9)
POOL = ("Pool2DOptions", {"padding": 1, "strideW": 1, "strideH": 2, "filterWidth": 2, "filterHeight": 2})
VALID = {"padding": 1, "strideW": 1, "strideH": 1, "dilationWFactor": 1, "dilationHFactor": 1}
WINDOW = "window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 1, 1>"
ROWS_MAXIMUM = """%low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %m = stablehlo.reduce(%f init: %low) applies stablehlo.maximum across dimensions = [1]
    : ({fx}, tensor<f32>) -> tensor<60xf32>
  %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<60xf32>) -> {fx}
  %d = stablehlo.subtract %f, %mb : {fx}
  %x = stablehlo.exponential %d : {fx}"""


def rows_sum(of: str) -> str:
    return f"""%null = stablehlo.constant dense<0.0> : tensor<f32>
      %t = stablehlo.reduce(%{of} init: %null) applies stablehlo.add across dimensions = [1]
        : ({{fx}}, tensor<f32>) -> tensor<60xf32>
      %tb = stablehlo.broadcast_in_dim %t, dims = [0] : (tensor<60xf32>) -> {{fx}}"""


def reduced_mean(divide: bool) -> str:
    lines = """%null = stablehlo.constant dense<0.0> : tensor<f32>
      %g = stablehlo.reduce(%f init: %null) applies stablehlo.add across dimensions = [1, 2]
        : ({fx}, tensor<f32>) -> {fy}"""
    if not divide:
        return function(lines)
    count = "%n = stablehlo.constant dense<20.0> : {fy}\n%g = stablehlo.divide %h, %n : {fy}"
    return function(lines.replace("%g =", "%h ="), count)


def in_windows(op: str, initial: str, *lines: str) -> str:
    """A reduction of reals over the windows of POOL, to %g."""
    return function(
        f"%i = stablehlo.constant dense<{initial}> : tensor<f32>",
        f"""%{"h" if lines else "g"} = "stablehlo.reduce_window"(%f, %i) <{{{{{WINDOW}}}}}> ({{{{
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %c = stablehlo.{op} %a, %b : tensor<f32>
          stablehlo.return %c : tensor<f32>
        }}}}) : ({{fx}}, tensor<f32>) -> {{fy}}""",
        *lines,
    )


def to_depth(x: Array) -> Array:
    b, h, w, c = x.shape
    return x.reshape(b, h // 2, 2, w // 2, 2, c).transpose(0, 1, 3, 2, 4, 5).reshape(b, h // 2, w // 2, 4 * c)


def to_space(x: Array) -> Array:
    b, h, w, c = x.shape
    return x.reshape(b, h, w, 2, 2, c // 4).transpose(0, 1, 3, 2, 4, 5).reshape(b, 2 * h, 2 * w, c // 4)


def resized(x: Array) -> Array:
    """Twice as high and one and a half times as wide, pixels centred: positions in steps of 1/1024, rounded away from
    0."""
    made = x.astype(np.int64)
    for axis, out in ((1, 2 * x.shape[1]), (2, x.shape[2] * 3 // 2)):
        size = x.shape[axis]
        step = (1024 * size + out // 2) // out
        places = [position * step + step // 2 - 512 for position in range(out)]
        matrix = np.zeros((size, out), np.int64)
        for column, place in enumerate(places):
            low = max(place, 0) // 1024
            matrix[low, column] += 1024 - (place - 1024 * low)
            matrix[min(max(place + 1023, 0) // 1024, size - 1), column] += place - 1024 * low
        made = np.moveaxis(np.moveaxis(made, axis, -1) @ matrix, -1, axis)
    return (np.sign(made) * ((abs(made) + 2**19) // 2**20)).astype(x.dtype)


PADDING = ints(0, 0, 1, 0, 1, 1, 0, 0).reshape(4, 2)
PAIRS = tuple(map(tuple, PADDING.tolist()))
CHOICE = np.arange(288).reshape(IMAGE) % 3 == 0
TIED = {SCALE, ZERO}
TWO_TIED = TIED | {OPERAND_SCALE, OPERAND_ZERO}
