"""select_and_scatter against loops over windows, as the specification has it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from oracle.mlir import checked
from zeropoint.interp import Interpreter
from zeropoint.ir.tensors import Array


def text(shape: list[int], sizes: list[int], window: list[int], strides: list[int], padding: list[list[int]]) -> str:
    def dims(entries: list[int]) -> str:
        return "x".join(map(str, entries))

    operand, source = f"tensor<{dims(shape)}xi32>", f"tensor<{dims(sizes)}xi32>"
    return f"""func.func @main(%x: {operand}, %s: {source}, %z: tensor<i32>) -> {operand} {{
      %0 = "stablehlo.select_and_scatter"(%x, %s, %z) <{{
        padding = dense<{padding}> : tensor<{len(shape)}x2xi64>,
        window_dimensions = array<i64: {", ".join(map(str, window))}>,
        window_strides = array<i64: {", ".join(map(str, strides))}>}}> ({{
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %c = stablehlo.compare GE, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }}, {{
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %t = stablehlo.subtract %b, %a : tensor<i32>
        stablehlo.return %t : tensor<i32>
      }}) : ({operand}, {source}, tensor<i32>) -> {operand}
      return %0 : {operand}
    }}"""


def by_loops(
    x: Array, source: Array, init: int, window: list[int], strides: list[int], padding: list[list[int]]
) -> Array:
    """Window by window; `scatter` here is not commutative, so that the order shows."""
    result = np.full(x.shape, init, np.int32)
    for place in itertools.product(*map(range, source.shape)):
        best: tuple[int, ...] | None = None
        for tap in itertools.product(*map(range, window)):
            at = tuple(p * s - low + t for p, s, t, (low, _) in zip(place, strides, tap, padding, strict=True))
            if all(0 <= i < size for i, size in zip(at, x.shape, strict=True)) and (best is None or x[best] < x[at]):
                best = at
        if best is not None:
            result[best] = source[place] - result[best]
    return result


@pytest.mark.parametrize(
    ("shape", "window", "strides", "padding"),
    [
        ([6], [2], [2], [[0, 0]]),
        ([7], [3], [1], [[1, 1]]),
        ([5, 4], [2, 3], [2, 1], [[1, 0], [0, 2]]),
        ([4, 4], [1, 1], [3, 1], [[0, 0], [0, 0]]),
        ([2, 5, 3], [1, 3, 2], [1, 1, 2], [[0, 0], [2, 2], [0, 1]]),
        ([3], [2], [2], [[4, 0]]),  # the first two windows lie in the padding
    ],
)
def test_every_value_goes_where_its_window_chooses(
    shape: list[int], window: list[int], strides: list[int], padding: list[list[int]]
):
    random = np.random.default_rng(len(shape) * 100 + window[0])
    sizes = [
        (size + low + high - extent) // stride + 1
        for size, extent, stride, (low, high) in zip(shape, window, strides, padding, strict=True)
    ]
    x = random.integers(-3, 4, shape).astype(np.int32)  # few values: equal ones occur
    source, init = random.integers(-50, 50, sizes).astype(np.int32), 7
    found = Interpreter(checked(text(shape, sizes, window, strides, padding))).run_values(
        [x, source, np.array(init, np.int32)]
    )[0]
    assert np.array_equal(found, by_loops(x, source, init, window, strides, padding))
