"""Ranges: no input passes a bound, and inputs made from the weights attain it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program
from zeropoint.ranges import Interval, bits_of, obligations, ranges_of

ENDS = (-128, 127)


def returned(program: Program) -> Interval:
    block = program.entry
    assert block.last_op is not None
    return ranges_of(program).of(block.last_op.operands[0])


def program(body: str, arguments: str, result: str) -> Program:
    return parse_program(f"func.func @main({arguments}) -> {result} {{\n{body}\nreturn %r : {result}\n}}")


@dataclass
class Case:
    """A program of integers, and inputs that are to attain its bounds."""

    program: Program
    inputs: list[list[Array]]


def extremes(weights: Array, ends: tuple[int, int] = ENDS) -> list[Array]:
    """For each column of weights the input that makes its sum greatest, and the one that makes it least."""
    low, high = ends
    return [np.where((column > 0) == up, high, low) for column in weights.T for up in (True, False)]


def dot(zero_point: int, bias: bool) -> Case:
    random = np.random.default_rng(1 + bias)
    weights, added = random.integers(-127, 128, (24, 5)), random.integers(-(2**20), 2**20, 5)
    corrected = (added if bias else 0) - zero_point * weights.sum(0)
    body = f"""%w = stablehlo.constant dense<{weights.tolist()}> : tensor<24x5xi8>
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] :
        (tensor<1x24xi8>, tensor<24x5xi8>) -> tensor<1x5xi32>
      %b = stablehlo.constant dense<{corrected.tolist()}> : tensor<5xi32>
      %c = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<5xi32>) -> tensor<1x5xi32>
      %r = stablehlo.add %0, %c : tensor<1x5xi32>"""
    made = program(body, "%x: tensor<1x24xi8>", "tensor<1x5xi32>")
    return Case(made, [[x.reshape(1, 24).astype(np.int8)] for x in extremes(weights)])


def convolution(padding: int) -> Case:
    weights = np.random.default_rng(3).integers(-127, 128, (3, 2, 3, 3))
    size = 5 - 2 + 2 * padding
    body = f"""%w = stablehlo.constant dense<{weights.tolist()}> : tensor<3x2x3x3xi8>
      %r = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
        window = {{pad = [[{padding}, {padding}], [{padding}, {padding}]]}}
        {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} :
        (tensor<1x2x5x5xi8>, tensor<3x2x3x3xi8>) -> tensor<1x3x{size}x{size}xi32>"""
    made = program(body, "%x: tensor<1x2x5x5xi8>", f"tensor<1x3x{size}x{size}xi32>")
    inputs = []
    for x in extremes(weights.reshape(3, -1).T):
        image = np.zeros((1, 2, 5, 5), np.int8)
        image[0, :, 1:4, 1:4] = x.reshape(2, 3, 3)
        inputs.append([image])
    return Case(made, inputs)


def pooled() -> Case:
    """Windows that stand out of the image, each sum times a factor by its count."""
    counts = np.outer([2, 3, 3, 2], [2, 3, 3, 2]).reshape(1, 4, 4, 1)
    factors = np.rint(2**22 / counts).astype(np.int32).tolist()
    body = f"""%0 = stablehlo.convert %x : (tensor<1x4x4x1xi8>) -> tensor<1x4x4x1xi32>
      %z = stablehlo.constant dense<0> : tensor<i32>
      %1 = "stablehlo.reduce_window"(%0, %z) <{{window_dimensions = array<i64: 1, 3, 3, 1>,
          padding = dense<[[0, 0], [1, 1], [1, 1], [0, 0]]> : tensor<4x2xi64>}}> ({{
        ^bb0(%a: tensor<i32>, %b: tensor<i32>):
          %s = stablehlo.add %a, %b : tensor<i32>
          stablehlo.return %s : tensor<i32>
      }}) : (tensor<1x4x4x1xi32>, tensor<i32>) -> tensor<1x4x4x1xi32>
      %f = stablehlo.constant dense<{factors}> : tensor<1x4x4x1xi32>
      %r = stablehlo.multiply %1, %f : tensor<1x4x4x1xi32>"""
    made = program(body, "%x: tensor<1x4x4x1xi8>", "tensor<1x4x4x1xi32>")
    return Case(made, [[np.full((1, 4, 4, 1), end, np.int8)] for end in ENDS])


def elementwise(body: str, wide: str = "i32") -> Case:
    """Of i8 arguments x and y, all pairs of whose ends are the inputs."""
    arguments = "%x: tensor<1xi8>, %y: tensor<1xi8>"
    widened = "\n".join(f"%{n}w = stablehlo.convert %{n} : (tensor<1xi8>) -> tensor<1x{wide}>" for n in "xy")
    made = program(f"{widened}\n{body}", arguments, f"tensor<1x{wide}>")
    pairs = [(a, b) for a in (*ENDS, 0) for b in (*ENDS, 0)]
    return Case(made, [[np.array([a], np.int8), np.array([b], np.int8)] for a, b in pairs])


def requantized() -> Case:
    body = """%m = stablehlo.constant dense<[1073741824, 1288490188]> : tensor<2xi32>
      %s = stablehlo.constant dense<[33, 36]> : tensor<2xi32>
      %0 = stablehlo.convert %x : (tensor<1x2xi8>) -> tensor<1x2xi32>
      %r = "fxpmath.requantize"(%0, %m, %s) <{axis = 1 : i64, behaviour = "fixed32", zero_point = 3 : i64,
        storage_min = -128 : i64, storage_max = 127 : i64}> : (tensor<1x2xi32>, tensor<2xi32>, tensor<2xi32>)
        -> tensor<1x2xi8>"""
    made = program(body, "%x: tensor<1x2xi8>", "tensor<1x2xi8>")
    return Case(made, [[np.full((1, 2), end, np.int8)] for end in ENDS])


def weighted_sum() -> Case:
    body = """%r = "fxpmath.weighted_sum"(%x, %y) <{multipliers = array<i64: 700, -300>,
        zero_points = array<i64: 5, -7>, shift = 12 : i64, zero_point = 1 : i64, storage_min = -128 : i64,
        storage_max = 127 : i64}> : (tensor<1xi8>, tensor<1xi8>) -> tensor<1xi8>"""
    made = program(body, "%x: tensor<1xi8>, %y: tensor<1xi8>", "tensor<1xi8>")
    return Case(made, [[np.array([a], np.int8), np.array([b], np.int8)] for a in ENDS for b in ENDS])


CASES = {
    "dot": lambda: dot(0, False),
    "dot, zero point and bias": lambda: dot(-7, True),
    "convolution": lambda: convolution(0),
    "convolution, padded": lambda: convolution(1),
    "average of windows": pooled,
    "requantize": requantized,
    "weighted sum": weighted_sum,
    "sum": lambda: elementwise("%r = stablehlo.add %xw, %yw : tensor<1xi32>"),
    "difference": lambda: elementwise("%r = stablehlo.subtract %xw, %yw : tensor<1xi32>"),
    "product": lambda: elementwise("%r = stablehlo.multiply %xw, %yw : tensor<1xi32>"),
    "square": lambda: elementwise("%r = stablehlo.multiply %xw, %xw : tensor<1xi32>"),
    "maximum": lambda: elementwise("%r = stablehlo.maximum %xw, %yw : tensor<1xi32>"),
    "magnitude": lambda: elementwise("%r = stablehlo.abs %xw : tensor<1xi32>"),
    "a product of sums": lambda: elementwise(
        "%0 = stablehlo.add %xw, %yw : tensor<1xi32>\n%r = stablehlo.multiply %0, %0 : tensor<1xi32>"
    ),
    "x - x (the bounds do not know that it is 0)": lambda: elementwise(
        "%r = stablehlo.subtract %xw, %xw : tensor<1xi32>"
    ),
}
LOOSE = {"x - x (the bounds do not know that it is 0)": 0.0}
"""Tightness, attained / bound, of what is not attained."""


@pytest.mark.parametrize("name", CASES)
def test_no_input_passes_a_bound_and_adversarial_ones_attain_it(name: str) -> None:
    case = CASES[name]()
    bounds, interpreter = returned(case.program), Interpreter(case.program)
    results = [interpreter.run_values(arrays)[0].astype(np.int64) for arrays in case.inputs]
    random = np.random.default_rng(0)
    for _ in range(50):
        arrays = [random.integers(-128, 128, array.shape).astype(np.int8) for array in case.inputs[0]]
        results.append(interpreter.run_values(arrays)[0].astype(np.int64))
    low, high = np.minimum.reduce(results), np.maximum.reduce(results)
    assert (low >= bounds.low).all()
    assert (high <= bounds.high).all()
    # Channels are one part of the bounds; of positions the one that reaches furthest counts.
    axes = tuple(axis for axis in range(low.ndim) if bounds.low.ndim == 0 or bounds.low.shape[axis] == 1)
    attained = np.maximum(-low, high).max(axis=axes, keepdims=True)
    tightness = attained / bounds.magnitude.reshape(attained.shape if bounds.low.ndim else ())
    print(f"{name}: tightness {tightness.min():.3f}, bound {int(bounds.magnitude.max())}, bits {bits_of(bounds).max()}")
    assert (tightness == LOOSE.get(name, 1.0)).all()


def test_partial_sums_are_bounded_in_any_order() -> None:
    """The whole sum is small, a partial one is not: the obligation is of the partial ones."""
    body = """%w = stablehlo.constant dense<[[127], [127], [-127], [-127]]> : tensor<4x1xi8>
      %0 = stablehlo.clamp %low, %x, %high : (tensor<i8>, tensor<1x4xi8>, tensor<i8>) -> tensor<1x4xi8>
      %r = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] :
        (tensor<1x4xi8>, tensor<4x1xi8>) -> tensor<1x1xi32>"""
    bounds = "%low = stablehlo.constant dense<100> : tensor<i8>\n%high = stablehlo.constant dense<101> : tensor<i8>\n"
    made = program(bounds + body, "%x: tensor<1x4xi8>", "tensor<1x1xi32>")
    *_, product, _ = made.entry.ops
    assert (returned(made).least, returned(made).greatest) == (-254, 254)
    (shown,) = obligations(ranges_of(made), product)
    assert (shown.range.least, shown.range.greatest) == (-2 * 127 * 101, 2 * 127 * 101)


def product_of(behaviour: str, acc: int, multiplier: int, shift: int) -> list[int]:
    """The numbers that a behaviour computes in 64 bits on the way to a requantized accumulator, in Python integers."""
    if behaviour == "fixed32":
        product = acc * multiplier << max(-shift, 0)
        return [product, product + (1 << shift >> 1 if shift > 0 else 0)]
    if behaviour == "fixed32-double":
        inside = max(-(2**31), min(2**31 - 1, acc << max(shift, 0)))
        return [inside * multiplier, inside * multiplier + 2**30]
    if behaviour == "tosa-double":
        total = acc * multiplier + (1 << shift - 1)
        return [total, total + (0 if shift <= 31 else 2**30 if acc >= 0 else -(2**30))]
    return [acc << max(-shift, 0)]


@pytest.mark.parametrize(
    ("behaviour", "multiplier", "shift"),
    [
        ("fixed32", 2**31 - 1, 62),
        ("fixed32", 1518500250, 40),
        ("fixed32", 2**29, -2),
        ("fixed32-double", 2**31 - 1, -31),
        ("fixed32-double", 1518500250, 3),
        ("tosa-double", 2**31 - 1, 62),
        ("tosa-double", 2**30, 31),
        ("pot", 1, -31),
        ("pot", 1, 62),
    ],
)
def test_the_bound_of_a_requantization_is_attained_by_every_accumulator_range(
    behaviour: str, multiplier: int, shift: int
) -> None:
    for low, high in ((-(2**31), 2**31 - 1), (-5, 2**31 - 1), (7, 900), (-1000, -3)):
        body = f"""%low = stablehlo.constant dense<{low}> : tensor<i32>
          %high = stablehlo.constant dense<{high}> : tensor<i32>
          %a = stablehlo.clamp %low, %x, %high : (tensor<i32>, tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
          %m = stablehlo.constant dense<{multiplier}> : tensor<1xi32>
          %s = stablehlo.constant dense<{shift}> : tensor<1xi32>
          %r = "fxpmath.requantize"(%a, %m, %s) <{{behaviour = "{behaviour}", zero_point = 0 : i64,
            storage_min = -128 : i64, storage_max = 127 : i64}}>
            : (tensor<4xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi8>"""
        made = program(body, "%x: tensor<4xi32>", "tensor<4xi8>")
        ranges = ranges_of(made)
        (shown,) = (each for op in made.entry.ops for each in obligations(ranges, op))
        ends = [number for acc in (low, high) for number in product_of(behaviour, acc, multiplier, shift)]
        assert shown.holds
        assert shown.range.greatest == max(ends)
        if behaviour == "tosa-double":
            assert shown.range.least == min(ends)  # the last sum may be above the one before it
        else:
            assert shown.range.least == product_of(behaviour, low, multiplier, shift)[-1]


def test_what_is_added_to_an_unbounded_number_is_unbounded() -> None:
    unbounded = Interval.of(2**62, 2**62).times(4)
    for added in (-(2**62), -(2**40), 0, 5):
        assert not (unbounded + Interval.of(added, added)).is_bounded
    assert (Interval.of(2**62, 2**62) + Interval.of(2**61, 2**61)).greatest == 2**62 + 2**61
