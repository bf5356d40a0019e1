"""Ops whose attributes are operands compute what their static forms compute."""

from __future__ import annotations

import numpy as np

from oracle.mlir import checked
from zeropoint.interp import Interpreter
from zeropoint.ir.tensors import Array


def run(text: str, *values: Array) -> list[Array]:
    return Interpreter(checked(text)).run_values(list(values))


def sizes(*entries: int) -> Array:
    return np.array(entries, np.int64)


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_shapes_come_from_operands():
    text = """func.func @main(%x: tensor<2x3xf32>, %s: tensor<2xi64>, %t: tensor<3xi64>)
        -> (tensor<i32>, tensor<?x?xf32>, tensor<?x?x?xf32>, tensor<?x?xi8>) {
      %0 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<2x3xf32>) -> tensor<i32>
      %1 = stablehlo.dynamic_reshape %x, %s : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<?x?xf32>
      %2 = stablehlo.dynamic_broadcast_in_dim %x, %t, dims = [2, 0]
        : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<?x?x?xf32>
      %3 = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi64>) -> tensor<?x?xi8>
      return %0, %1, %2, %3 : tensor<i32>, tensor<?x?xf32>, tensor<?x?x?xf32>, tensor<?x?xi8>
    }"""
    size, reshaped, broadcast, counted = run(text, X, sizes(3, 2), sizes(3, 4, 2))
    assert size == 3
    assert reshaped.tolist() == X.reshape(3, 2).tolist()
    assert broadcast.tolist() == np.broadcast_to(X.T[:, None, :], (3, 4, 2)).tolist()
    assert counted.tolist() == [[0, 1]] * 3
    assert counted.dtype == np.int8


def test_a_size_of_one_is_repeated():
    text = """func.func @main(%x: tensor<?x3xf32>, %t: tensor<2xi64>) -> tensor<?x?xf32> {
      %0 = stablehlo.dynamic_broadcast_in_dim %x, %t, dims = [0, 1]
        : (tensor<?x3xf32>, tensor<2xi64>) -> tensor<?x?xf32>
      return %0 : tensor<?x?xf32>
    }"""
    assert run(text, X[:1].copy(), sizes(4, 3))[0].tolist() == [[0.0, 1.0, 2.0]] * 4


def test_padding_comes_from_operands_and_may_be_negative():
    text = """func.func @main(%x: tensor<2x3xf32>, %z: tensor<f32>, %l: tensor<2xi64>, %h: tensor<2xi64>,
        %i: tensor<2xi64>) -> tensor<?x?xf32> {
      %0 = stablehlo.dynamic_pad %x, %z, %l, %h, %i
        : (tensor<2x3xf32>, tensor<f32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x?xf32>
      return %0 : tensor<?x?xf32>
    }"""
    found = run(text, X, np.array(9, np.float32), sizes(1, -1), sizes(0, 1), sizes(0, 1))[0]
    assert found.tolist() == [[9, 9, 9, 9, 9], [9, 1, 9, 2, 9], [9, 4, 9, 5, 9]]


def test_convolutions_of_several_paddings_in_one_program():
    text = """func.func @main(%x: tensor<1x4x4x1xi32>, %k: tensor<3x3x1x1xi32>, %p: tensor<2x2xi64>)
        -> tensor<1x4x4x1xi32> {
      %0 = "stablehlo.dynamic_conv"(%x, %k, %p) <{
        dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,
        batch_group_count = 1 : i64, feature_group_count = 1 : i64}>
        : (tensor<1x4x4x1xi32>, tensor<3x3x1x1xi32>, tensor<2x2xi64>) -> tensor<1x4x4x1xi32>
      return %0 : tensor<1x4x4x1xi32>
    }"""
    random = np.random.default_rng(0)
    x, kernel = random.integers(-9, 9, (1, 4, 4, 1), np.int32), random.integers(-9, 9, (3, 3, 1, 1), np.int32)
    interpreter = Interpreter(checked(text))
    for low, high in ((1, 1), (2, 0), (0, 2), (1, 1)):
        found = interpreter.run_values([x, kernel, np.array([[low, high]] * 2)])[0]
        around = np.pad(x[0, :, :, 0], ((low, high),) * 2)
        windows = np.lib.stride_tricks.sliding_window_view(around, (3, 3))
        assert np.array_equal(found[0, :, :, 0], np.einsum("ijkl,kl->ij", windows, kernel[:, :, 0, 0]))


def test_gather_of_slices_whose_size_is_an_operand():
    text = """func.func @main(%x: tensor<2x3xf32>, %i: tensor<4x1xi64>, %s: tensor<2xi64>) -> tensor<4x2xf32> {
      %0 = "stablehlo.dynamic_gather"(%x, %i, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}>
        : (tensor<2x3xf32>, tensor<4x1xi64>, tensor<2xi64>) -> tensor<4x2xf32>
      return %0 : tensor<4x2xf32>
    }"""
    found = run(text, X, np.array([[1], [0], [7], [-7]]), sizes(1, 2))[0]
    assert found.tolist() == X[[1, 0, 1, 0], :2].tolist()
