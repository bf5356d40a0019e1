"""sort: literal cases, the merge behind any comparator, and random inputs against StableHLO's interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from interp.programs import execute, upstream
from zeropoint.interp.sort import merge_order
from zeropoint.ir.tensors import Array


def _sort(element: str, shape: str, compare: str, *, inputs: int = 1, dimension: int = -1) -> str:
    """A program that sorts `inputs` tensors; `compare` sees %0, %1 for the first one, %2, %3 for the second."""
    tensor, scalar = f"tensor<{shape}x{element}>", f"tensor<{element}>"
    names = ", ".join(f"%x{i}" for i in range(inputs))
    types = ", ".join([tensor] * inputs)
    block = ", ".join(f"%{i}: {scalar}" for i in range(2 * inputs))
    return f"""
    func.func @main({", ".join(f"%x{i}: {tensor}" for i in range(inputs))}) -> ({types}) {{
      %r:{inputs} = "stablehlo.sort"({names}) <{{dimension = {dimension} : i64, is_stable = true}}> ({{
      ^bb0({block}):
        {compare.replace("SS", f"({scalar}, {scalar}) -> tensor<i1>").replace("S", scalar)}
        stablehlo.return %c : tensor<i1>
      }}) : ({types}) -> ({types})
      return {", ".join(f"%r#{i}" for i in range(inputs))} : {types}
    }}"""


def test_two_inputs_move_together_and_equal_keys_keep_their_order():
    text = _sort("i32", "6", "%c = stablehlo.compare LT, %0, %1 : SS", inputs=2)
    keys, values = np.array([3, 1, 3, 1, 2, 1], np.int32), np.arange(6, dtype=np.int32)
    sorted_keys, moved = execute(text, keys, values)
    assert sorted_keys.tolist() == [1, 1, 1, 2, 3, 3]
    assert moved.tolist() == [1, 3, 5, 4, 0, 2]


def test_descending_keeps_the_order_of_equal_keys_too():
    text = _sort("i32", "5", "%c = stablehlo.compare GT, %0, %1 : SS", inputs=2)
    _, moved = execute(text, np.array([1, 2, 2, -(2**31), 1], np.int32), np.arange(5, dtype=np.int32))
    assert moved.tolist() == [1, 2, 0, 4, 3]


def test_total_order_has_negative_zero_before_zero_and_nan_last():
    text = _sort("f32", "5", "%c = stablehlo.compare LT, %0, %1, TOTALORDER : SS")
    values = np.array([np.nan, 0.0, -0.0, -np.inf, 1.0], np.float32)
    result = execute(text, values)
    assert np.signbit(result).tolist() == [True, True, False, False, False]
    np.testing.assert_array_equal(result, np.array([-np.inf, -0.0, 0.0, 1.0, np.nan], np.float32))


COMPARATORS = {
    "less": "%c = stablehlo.compare LT, %0, %1 : SS",
    "greater": "%c = stablehlo.compare GT, %0, %1 : SS",
    "swapped": "%c = stablehlo.compare LT, %1, %0 : SS",
    "of the second input": "%c = stablehlo.compare LT, %2, %3 : SS",
    "of sums": """%s = stablehlo.add %0, %2 : S
        %t = stablehlo.add %1, %3 : S
        %c = stablehlo.compare LT, %s, %t : SS""",
    "lexicographic": """%l = stablehlo.compare LT, %0, %1 : SS
        %e = stablehlo.compare EQ, %0, %1 : SS
        %m = stablehlo.compare GT, %2, %3 : SS
        %b = stablehlo.and %e, %m : tensor<i1>
        %c = stablehlo.or %l, %b : tensor<i1>""",
}


@pytest.mark.parametrize("compare", COMPARATORS.values(), ids=COMPARATORS.keys())
@pytest.mark.parametrize("dimension", [0, 1, -1])
@pytest.mark.parametrize("element", ["i32", "f32"])
def test_sort_equals_upstream(compare: str, dimension: int, element: str):
    text = _sort(element, "7x9", compare, inputs=2, dimension=dimension)
    rng = np.random.default_rng(dimension + 1)
    arrays = [rng.integers(-4, 5, (7, 9)).astype({"i32": np.int32, "f32": np.float32}[element]) for _ in range(2)]
    for ours, theirs in zip(execute(text, *arrays), upstream(text, *arrays), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 5, 8, 17, 100])
def test_merging_gives_numpys_stable_order(length: int):
    values = np.random.default_rng(length).integers(0, length // 2 + 1, (3, length))

    def less(first: tuple[Array, ...], second: tuple[Array, ...]) -> Array:
        return first[0] < second[0]

    np.testing.assert_array_equal(merge_order((values,), less), np.argsort(values, -1, kind="stable"))


def test_a_comparator_that_is_no_order_still_gives_a_permutation():
    text = _sort("f32", "50", "%c = stablehlo.compare LT, %0, %1 : SS")
    rng = np.random.default_rng(1)
    values = np.where(rng.random(50) < 0.3, np.nan, rng.random(50)).astype(np.float32)
    np.testing.assert_array_equal(np.sort(execute(text, values)), np.sort(values))


def test_quantized_values_are_sorted_as_storage():
    element = "!quant.uniform<i8:f32, 0.5:3>"
    text = _sort(element, "4", "%c = stablehlo.compare LT, %0, %1 : SS")
    assert execute(text, np.array([5, -7, 3, 0], np.int8)).tolist() == [-7, 0, 3, 5]


@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_the_total_order_with_one_zero_is_that_of_its_comparator(direction: str) -> None:
    """It is recognized and sorted by NumPy; `or` with a constant false hides it."""
    plain = f"""%o = stablehlo.compare {direction}, %0, %1, TOTALORDER : SS
                %d = stablehlo.compare NE, %0, %1 : SS
                %c = stablehlo.and %o, %d : tensor<i1>"""
    hidden = (
        plain.replace("%c =", "%h =")
        + """
                %false = stablehlo.constant dense<false> : tensor<i1>
                %c = stablehlo.or %h, %false : tensor<i1>"""
    )
    values = np.random.default_rng(0).integers(-3, 4, (5, 33)).astype(np.float32) * 0.5
    signs = np.random.default_rng(1).normal(size=values.shape).astype(np.float32)
    values = np.where(values == 0, np.copysign(values, signs), values)
    values[:, ::7] = np.array([[np.nan], [-np.nan], [np.inf], [-np.inf], [1e-40]], np.float32)
    places = np.broadcast_to(np.arange(33, dtype=np.float32), (5, 33)).copy()
    found = [execute(_sort("f32", "5x33", text, inputs=2), values, places) for text in (plain, hidden)]
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one.view(np.int32), other.view(np.int32))
