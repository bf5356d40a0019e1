"""scatter: literal cases, and random ones against StableHLO's interpreter."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Block, Region

from interp.programs import assert_as_upstream, execute, one_op, run_op
from zeropoint.ir.stablehlo import (
    AddOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    ReturnOp,
    ScatterDimensions,
    ScatterOp,
    SubtractOp,
)
from zeropoint.ir.tensors import Array, dtype_element

CELLS = ScatterDimensions(inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,), index_vector_dim=1)


def _body(build: Callable[..., object], element: object = i32) -> Region:
    block = Block(arg_types=[TensorType(element, [])] * 2)
    built = build(*block.args)
    if hasattr(built, "results"):
        block.add_op(built)
        built = built.results[0]
    block.add_op(ReturnOp([built]))
    return Region(block)


def _keep_update(current, update):
    return update


BODIES = {"add": AddOp, "maximum": MaximumOp, "subtract": SubtractOp, "the update": _keep_update}


def _scatter(build: Callable[..., object], x: Array, cells: list[int], updates: list[float]) -> Array:
    indices, update = np.array(cells, np.int32)[:, None], np.array(updates, x.dtype)
    element = dtype_element(x.dtype)
    types = [TensorType(element, x.shape), TensorType(i32, indices.shape), TensorType(element, update.shape)]
    return run_op(lambda a, i, u: ScatterOp([a], i, [u], CELLS, _body(build, element)), types, x, indices, update)


def test_updates_of_one_cell_all_count():
    assert _scatter(AddOp, np.zeros(3, np.int32), [1, 1, 0, 1], [1, 2, 3, 4]).tolist() == [3, 7, 0]


def test_what_is_there_comes_first_in_the_body():
    assert _scatter(SubtractOp, np.array([10, 20], np.int32), [0, 0, 1], [1, 2, 3]).tolist() == [7, 17]


def test_the_last_update_of_a_cell_stays():
    assert _scatter(_keep_update, np.zeros(2, np.int32), [1, 1, 1, 0], [5, 6, 7, 8]).tolist() == [8, 7]


def test_updates_outside_are_left_out():
    assert _scatter(AddOp, np.zeros(2, np.int32), [-1, 2, 2**31 - 1, 1], [1, 2, 3, 4]).tolist() == [0, 4]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize(("build", "zero"), [(MaximumOp, 0.0), (MinimumOp, -0.0)])
def test_extremes_order_the_zeros(build: Callable[..., object], zero: float, dtype: type) -> None:
    there, updates = np.array([-zero, zero], dtype), [zero, -zero]
    assert np.signbit(_scatter(build, there, [0, 1], updates)).tolist() == [np.signbit(zero)] * 2


def test_narrow_integers_wrap_at_their_width():
    text = """
    func.func @main(%i: tensor<2x1xi32>) -> tensor<1xi8> {
      %x = stablehlo.constant dense<7> : tensor<1xi4>
      %u = stablehlo.constant dense<1> : tensor<2xi4>
      %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
        inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
        ^bb0(%a: tensor<i4>, %b: tensor<i4>):
          %s = stablehlo.add %a, %b : tensor<i4>
          stablehlo.return %s : tensor<i4>
      }) : (tensor<1xi4>, tensor<2x1xi32>, tensor<2xi4>) -> tensor<1xi4>
      %1 = stablehlo.convert %0 : (tensor<1xi4>) -> tensor<1xi8>
      return %1 : tensor<1xi8>
    }"""
    assert execute(text, np.zeros((2, 1), np.int32)).tolist() == [-7]


def test_a_body_may_compute_in_a_wider_type():
    text = """
    func.func @main(%x: tensor<2xi8>, %i: tensor<3x1xi32>, %u: tensor<3xi8>) -> tensor<2xi32> {
      %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
        inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
        ^bb0(%a: tensor<i32>, %b: tensor<i32>):
          %s = stablehlo.add %a, %b : tensor<i32>
          stablehlo.return %s : tensor<i32>
      }) : (tensor<2xi8>, tensor<3x1xi32>, tensor<3xi8>) -> tensor<2xi32>
      return %0 : tensor<2xi32>
    }"""
    result = execute(text, np.array([100, 1], np.int8), np.array([[0], [0], [1]], np.int32), np.full(3, 100, np.int8))
    assert result.tolist() == [300, 101]


def test_sums_of_bf16_are_rounded_update_by_update():
    x, ones = np.array([256], ml_dtypes.bfloat16), [1] * 4
    assert float(_scatter(AddOp, x, [0] * 4, ones)[0]) == 256.0  # 257 is no bf16


def test_two_inputs_share_one_body():
    text = """
    func.func @main(%x: tensor<3xi32>, %i: tensor<4x1xi32>, %u: tensor<4xi32>) -> (tensor<3xi32>, tensor<3xi32>) {
      %z = stablehlo.constant dense<0> : tensor<3xi32>
      %0:2 = "stablehlo.scatter"(%x, %z, %i, %u, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
        inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
        ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
          %m = stablehlo.maximum %a, %c : tensor<i32>
          %s = stablehlo.add %b, %d : tensor<i32>
          stablehlo.return %m, %s : tensor<i32>, tensor<i32>
      }) : (tensor<3xi32>, tensor<3xi32>, tensor<4x1xi32>, tensor<4xi32>, tensor<4xi32>)
        -> (tensor<3xi32>, tensor<3xi32>)
      return %0#0, %0#1 : tensor<3xi32>, tensor<3xi32>
    }"""
    cells, updates = np.array([[0], [2], [0], [0]], np.int32), np.array([4, 5, 6, 1], np.int32)
    greatest, sums = execute(text, np.array([5, 5, 5], np.int32), cells, updates)
    assert greatest.tolist() == [6, 5, 5]
    assert sums.tolist() == [11, 0, 5]


def _random_case(seed: int) -> tuple[ScatterDimensions, list[Array]]:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    kinds = rng.choice(["window", "inserted", "batching"], rank, p=[0.4, 0.35, 0.25])
    shape = rng.integers(1, 5, rank)
    windows = [int(rng.integers(1, n + 1)) for kind, n in zip(kinds, shape, strict=True) if kind == "window"]
    batching = [d for d in range(rank) if kinds[d] == "batching"]
    mapped = [int(d) for d in rng.permutation(rank) if d not in batching and rng.random() < 0.8]
    batches = [(int(shape[d]), d) for d in batching] + [(int(n), -1) for n in rng.integers(1, 4, rng.integers(0, 3))]
    batches = [batches[i] for i in rng.permutation(len(batches))]
    vector_dim = int(rng.integers(0, len(batches) + 1))
    sizes = [size for size, _ in batches]
    at = [position + (position >= vector_dim) for position in range(len(batches))]
    where = [at[[dim for _, dim in batches].index(d)] for d in batching]
    update_rank = len(windows) + len(batches)
    window_dims = sorted(rng.permutation(update_rank)[: len(windows)].tolist())
    at_window, others = dict(zip(window_dims, windows, strict=True)), iter(sizes)
    update_shape = [at_window[d] if d in at_window else next(others) for d in range(update_rank)]
    dims = ScatterDimensions(
        tuple(window_dims),
        tuple(d for d in range(rank) if kinds[d] == "inserted"),
        tuple(batching),
        tuple(where),
        tuple(mapped),
        vector_dim,
    )
    indices = rng.integers(-1, 4, [*sizes[:vector_dim], len(mapped), *sizes[vector_dim:]])
    x, update = rng.integers(-99, 99, shape), rng.integers(-99, 99, update_shape)
    return dims, [array.astype(np.int32) for array in (x, indices, update)]


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
@pytest.mark.parametrize("seed", range(25))
def test_scatter_equals_upstream_for_random_dimensions(seed: int, body: Callable[..., object]):
    dims, arrays = _random_case(seed)
    types = [TensorType(i32, array.shape) for array in arrays]
    assert_as_upstream(one_op(types, lambda a, i, u: ScatterOp([a], i, [u], dims, _body(body))), *arrays)


@pytest.mark.parametrize("body", [AddOp, MultiplyOp, MaximumOp])
def test_float_updates_are_applied_in_upstreams_order(body: Callable[..., object]):
    rng = np.random.default_rng(3)
    x, cells = rng.standard_normal(4).astype(np.float32), rng.integers(0, 4, (200, 1)).astype(np.int32)
    updates = rng.standard_normal(200).astype(np.float32)
    element = dtype_element(x.dtype)
    types = [TensorType(element, [4]), TensorType(i32, [200, 1]), TensorType(element, [200])]
    program = one_op(types, lambda a, i, u: ScatterOp([a], i, [u], CELLS, _body(body, element)))
    assert_as_upstream(program, x, cells, updates)


def test_quantized_values_are_combined_as_the_body_says():
    element = "!quant.uniform<i8:f32, 0.5:3>"
    text = f"""
    func.func @main(%x: tensor<2x{element}>, %i: tensor<3x1xi32>, %u: tensor<3x{element}>) -> tensor<2x{element}> {{
      %0 = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<
        inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
        ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
          %s = stablehlo.add %a, %b : tensor<{element}>
          stablehlo.return %s : tensor<{element}>
      }}) : (tensor<2x{element}>, tensor<3x1xi32>, tensor<3x{element}>) -> tensor<2x{element}>
      return %0 : tensor<2x{element}>
    }}"""
    x, updates = np.array([3, 13], np.int8), np.array([5, 7, 127], np.int8)  # 0 and 5; 1, 2 and 62
    result = execute(text, x, np.array([[0], [0], [1]], np.int32), updates)
    assert result.tolist() == [9, 127]  # 3, and 62.0 where 67 does not fit
