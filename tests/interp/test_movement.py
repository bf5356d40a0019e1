"""Ops that move elements: literal cases, and random attributes against StableHLO's interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Operation

from interp.programs import Build, assert_as_upstream, execute, one_op, run_op
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConcatenateOp, PadOp, ReshapeOp, SliceOp, TransposeOp
from zeropoint.ir.tensors import Array


def _counting(*shape: int) -> Array:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.int32).reshape(shape)


def _types(*arrays: Array) -> list[TensorType]:
    return [TensorType(i32, array.shape) for array in arrays]


def test_broadcast_in_dim_repeats_dimensions_of_size_one():
    x = _counting(3, 1)
    result = run_op(lambda a: BroadcastInDimOp(a, TensorType(i32, [2, 3, 2]), [1, 2]), _types(x), x)
    assert result.tolist() == [[[1, 1], [2, 2], [3, 3]]] * 2


def test_broadcast_in_dim_may_permute():
    x = _counting(2, 3)
    result = run_op(lambda a: BroadcastInDimOp(a, TensorType(i32, [3, 2]), [1, 0]), _types(x), x)
    np.testing.assert_array_equal(result, x.T)


def test_concatenate_of_three_in_order():
    x, y, z = _counting(2, 1), _counting(2, 2) * 10, _counting(2, 1) * 100
    result = run_op(lambda *values: ConcatenateOp(values, 1), _types(x, y, z), x, y, z)
    assert result.tolist() == [[1, 10, 20, 100], [2, 30, 40, 200]]


def test_pad_around_between_and_negative():
    text = """
    func.func @main(%x: tensor<2x3xi32>, %v: tensor<i32>) -> tensor<5x3xi32> {
      %0 = stablehlo.pad %x, %v, low = [0, -1], high = [2, 0], interior = [1, 0]
        : (tensor<2x3xi32>, tensor<i32>) -> tensor<5x2xi32>
      %1 = stablehlo.pad %0, %v, low = [0, 1], high = [0, 0], interior = [0, 0]
        : (tensor<5x2xi32>, tensor<i32>) -> tensor<5x3xi32>
      return %1 : tensor<5x3xi32>
    }"""
    result = execute(text, _counting(2, 3), np.int32(0))
    assert result.tolist() == [[0, 2, 3], [0, 0, 0], [0, 5, 6], [0, 0, 0], [0, 0, 0]]


def test_slice_with_strides():
    x = _counting(10)
    assert run_op(lambda a: SliceOp(a, [1], [9], [3]), _types(x), x).tolist() == [2, 5, 8]


def _random_case(seed: int) -> tuple[Build, list[Array]]:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    shape = rng.integers(1, 6, rank).tolist()
    x = rng.integers(-99, 99, shape).astype(np.int32)
    kind = seed % 5
    if kind == 0:
        low, high = rng.integers(-2, 4, (2, rank))
        between = rng.integers(0, 3, rank)
        # Negative padding may not remove more than there is.
        low = np.maximum(low, -(np.array(shape) // 2))
        high = np.maximum(high, -(np.array(shape) // 2))
        return lambda a, v: PadOp(a, v, low.tolist(), high.tolist(), between.tolist()), [x, np.array(7, np.int32)]
    if kind == 1:
        start = [int(rng.integers(0, n)) for n in shape]
        limit = [int(rng.integers(lo, n + 1)) for lo, n in zip(start, shape, strict=True)]
        return lambda a: SliceOp(a, start, limit, rng.integers(1, 4, rank).tolist()), [x]
    if kind == 2:
        return lambda a: TransposeOp(a, np.random.default_rng(seed).permutation(rank).tolist()), [x]
    if kind == 3:
        return lambda a: ReshapeOp(a, TensorType(i32, [x.size, 1])), [x]
    out = [*shape, 2]
    order = rng.permutation(rank + 1)
    dims = [int(np.flatnonzero(order == d)[0]) for d in range(rank)]
    return lambda a: BroadcastInDimOp(a, TensorType(i32, [out[d] for d in order]), dims), [x]


@pytest.mark.parametrize("seed", range(40))
def test_movement_equals_upstream_for_random_attributes(seed: int):
    build, arrays = _random_case(seed)

    def once(*values) -> Operation:
        return build(*values)

    assert_as_upstream(one_op(_types(*arrays), once), *arrays)
