"""Ops whose positions are values: literal cases, and random ones against StableHLO's interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, i8, i32, i64

from interp.programs import assert_as_upstream, execute, one_op, run_op
from zeropoint.ir.stablehlo import DynamicSliceOp, DynamicUpdateSliceOp, GatherDimensions, GatherOp
from zeropoint.ir.tensors import Array

ROWS = GatherDimensions(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=1)


def _counting(*shape: int) -> Array:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.int32).reshape(shape)


def _type(array: Array) -> TensorType:
    return TensorType({1: i8, 4: i32, 8: i64}[array.dtype.itemsize], array.shape)


def test_gather_of_rows_is_a_table_lookup():
    table, rows = _counting(4, 3), np.array([2, 0, 2], np.int64)
    result = run_op(lambda a, i: GatherOp(a, i, ROWS, [1, 3]), [_type(table), _type(rows)], table, rows)
    assert result.tolist() == [[7, 8, 9], [1, 2, 3], [7, 8, 9]]


def test_gather_clamps_positions_into_the_operand():
    table, rows = _counting(4, 3), np.array([-5, 99, 127], np.int8)
    result = run_op(lambda a, i: GatherOp(a, i, ROWS, [1, 3]), [_type(table), _type(rows)], table, rows)
    assert result.tolist() == [[1, 2, 3], [10, 11, 12], [10, 11, 12]]


def test_gather_takes_unsigned_positions_past_int64_as_past_the_end():
    table, rows = _counting(4, 3), np.array([2**64 - 1, 1], np.uint64)
    unsigned = TensorType(IntegerType(64, Signedness.UNSIGNED), [2])
    result = run_op(lambda a, i: GatherOp(a, i, ROWS, [1, 3]), [_type(table), unsigned], table, rows)
    assert result.tolist() == [[10, 11, 12], [4, 5, 6]]


def test_gather_of_windows_keeps_them_inside():
    x, starts = _counting(5), np.array([0, 3, 9], np.int32)
    windows = GatherDimensions(offset_dims=(0,), start_index_map=(0,), index_vector_dim=1)
    result = run_op(lambda a, i: GatherOp(a, i, windows, [2]), [_type(x), _type(starts)], x, starts)
    assert result.tolist() == [[1, 4, 4], [2, 5, 5]]


def test_gather_of_quantized_values_moves_their_storage():
    element = "!quant.uniform<i8:f32, 0.5:3>"
    text = f"""
    func.func @main(%x: tensor<3x2x{element}>, %i: tensor<1x1xi32>) -> tensor<1x2x{element}> {{
      %0 = "stablehlo.gather"(%x, %i) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>}}>
        : (tensor<3x2x{element}>, tensor<1x1xi32>) -> tensor<1x2x{element}>
      return %0 : tensor<1x2x{element}>
    }}"""
    x = np.array([[1, 2], [3, 4], [5, 6]], np.int8)
    assert execute(text, x, np.array([[1]], np.int32)).tolist() == [[3, 4]]


def _random_gather(seed: int) -> tuple[GatherDimensions, list[int], Array, Array]:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    kinds = rng.choice(["window", "collapsed", "batching"], rank, p=[0.5, 0.25, 0.25])
    shape = rng.integers(1, 5, rank)
    slices = [int(rng.integers(0, n + 1)) if kind == "window" else 1 for kind, n in zip(kinds, shape, strict=True)]
    batching = [d for d in range(rank) if kinds[d] == "batching"]
    mapped = [int(d) for d in rng.permutation(rank) if d not in batching and rng.random() < 0.8]
    # Batches: those of the operand in some order, and some of their own.
    batches = [(int(shape[d]), d) for d in batching] + [(int(n), -1) for n in rng.integers(1, 4, rng.integers(0, 3))]
    batches = [batches[i] for i in rng.permutation(len(batches))]
    vector_dim = int(rng.integers(0, len(batches) + 1))
    sizes = [size for size, _ in batches]
    at = [position + (position >= vector_dim) for position in range(len(batches))]
    where = [at[[dim for _, dim in batches].index(d)] for d in batching]
    if len(mapped) == 1 and vector_dim == len(batches) and seed % 2:
        indices_shape = sizes
    else:
        indices_shape = [*sizes[:vector_dim], len(mapped), *sizes[vector_dim:]]
    windows = sum(kind == "window" for kind in kinds)
    offsets = sorted(rng.permutation(windows + len(batches))[:windows].tolist())
    dims = GatherDimensions(
        tuple(offsets),
        tuple(d for d in range(rank) if kinds[d] == "collapsed"),
        tuple(batching),
        tuple(where),
        tuple(mapped),
        vector_dim,
    )
    indices = rng.integers(-2, 6, indices_shape).astype(np.int64)
    return dims, slices, rng.integers(-99, 99, shape).astype(np.int32), indices


@pytest.mark.parametrize("seed", range(60))
def test_gather_equals_upstream_for_random_dimensions(seed: int):
    dims, slices, operand, indices = _random_gather(seed)
    program = one_op([_type(operand), _type(indices)], lambda a, i: GatherOp(a, i, dims, slices))
    assert_as_upstream(program, operand, indices)


def test_dynamic_slice_is_clamped_into_the_operand():
    x = _counting(2, 4)
    for start, expected in [((0, 1), [[2, 3]]), ((-3, 3), [[3, 4]]), ((9, -1), [[5, 6]])]:
        starts = [np.array(at, np.int32) for at in start]
        types = [_type(x), TensorType(i32, []), TensorType(i32, [])]
        assert run_op(lambda a, *at: DynamicSliceOp(a, at, [1, 2]), types, x, *starts).tolist() == expected
        assert_as_upstream(one_op(types, lambda a, *at: DynamicSliceOp(a, at, [1, 2])), x, *starts)


def test_dynamic_update_slice_is_clamped_into_the_operand_and_leaves_it_alone():
    x, update = _counting(2, 4), np.array([[-1, -2]], np.int32)
    types = [_type(x), _type(update), TensorType(i64, []), TensorType(i64, [])]
    for start, expected in [((0, 1), [[1, -1, -2, 4], [5, 6, 7, 8]]), ((7, 7), [[1, 2, 3, 4], [5, 6, -1, -2]])]:
        starts = [np.array(at, np.int64) for at in start]
        program = one_op(types, lambda a, u, *at: DynamicUpdateSliceOp(a, u, at))
        result = run_op(lambda a, u, *at: DynamicUpdateSliceOp(a, u, at), types, x, update, *starts)
        assert result.tolist() == expected
        assert_as_upstream(program, x, update, *starts)
    assert x.tolist() == _counting(2, 4).tolist()


@pytest.mark.parametrize("element", ["i32", "ui8", "f32", "f16", "bf16", "i4"])
@pytest.mark.parametrize("dimension", [0, 1])
def test_iota_counts_along_its_dimension(element: str, dimension: int):
    text = f"""
    func.func @main() -> tensor<3x4xi32> {{
      %0 = stablehlo.iota dim = {dimension} : tensor<3x4x{element}>
      %1 = stablehlo.convert %0 : (tensor<3x4x{element}>) -> tensor<3x4xi32>
      return %1 : tensor<3x4xi32>
    }}"""
    expected = np.broadcast_to(np.arange(4) if dimension else np.arange(3)[:, None], (3, 4))
    assert execute(text).tolist() == expected.tolist()


def test_iota_of_a_narrow_type_wraps():
    text = """
    func.func @main() -> tensor<10xi8> {
      %0 = stablehlo.iota dim = 0 : tensor<10xi4>
      %1 = stablehlo.convert %0 : (tensor<10xi4>) -> tensor<10xi8>
      return %1 : tensor<10xi8>
    }"""
    assert execute(text).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, -8, -7]


def test_iota_of_a_quantized_type_is_quantized():
    element = "!quant.uniform<i8:f32, 0.5:-3>"
    text = f"func.func @main() -> tensor<3x{element}> {{ %0 = stablehlo.iota dim = 0 : tensor<3x{element}>\n" + (
        f"return %0 : tensor<3x{element}> }}"
    )
    assert execute(text).tolist() == [-3, -1, 1]
