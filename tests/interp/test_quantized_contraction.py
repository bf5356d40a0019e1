"""convolution and dot_general on quantized operands: exact sums, results of every kind, every profile."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp

from interp.programs import run_op
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import PROFILE
from zeropoint.ir.constants import constant_op
from zeropoint.ir.program import Program
from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.ir.stablehlo import ConvolutionLayout, ConvolutionOp, DotDimensions, DotGeneralOp
from zeropoint.ir.tensors import Array
from zeropoint.ir.weights import Weights
from zeropoint.numerics import PROFILES
from zeropoint.numerics.profile import profile as named_profile
from zeropoint.numerics.requantize import requantize

I8, NARROW, I32 = Storage.of("i8"), Storage.of("i8", -127), Storage.of("i32")
MATMUL = DotDimensions((), (), (1,), (0,))
X = UniformQuantizedType.per_layer(I8, 0.05, -11)
SCALES = [0.01, 0.02, 0.004]
W = UniformQuantizedType.per_channel(NARROW, 1, SCALES)


def _operands() -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(2)
    x = rng.integers(-128, 128, (4, 50)).astype(np.int8)
    w = rng.integers(-127, 128, (50, 3)).astype(np.int8)
    return x, w, (x.astype(np.int64) + 11) @ w.astype(np.int64)


def _dot(result: UniformQuantizedType, weights: UniformQuantizedType = W, profile: str | None = None) -> Array:
    x, w, _ = _operands()
    return run_op(
        lambda a, b: DotGeneralOp(a, b, TensorType(result, [4, 3]), MATMUL),
        [TensorType(X, x.shape), TensorType(weights, w.shape)],
        x,
        w,
        profile=profile,
    )


def test_a_result_of_the_products_scale_holds_the_sums_themselves():
    accumulator = UniformQuantizedType.per_channel(I32, 1, [0.05 * scale for scale in SCALES])
    np.testing.assert_array_equal(_dot(accumulator, profile="fixed16"), _operands()[2])


def test_a_result_of_the_products_scale_adds_its_zero_point():
    accumulator = UniformQuantizedType.per_layer(I32, 0.05 * 0.01, 1000)
    weights = UniformQuantizedType.per_layer(NARROW, 0.01)
    np.testing.assert_array_equal(_dot(accumulator, weights), _operands()[2] + 1000)


@pytest.mark.parametrize("name", PROFILES)
def test_an_8_bit_result_is_requantized_by_the_profile(name: str):
    result = UniformQuantizedType.per_layer(I8, 0.3, 9)
    profile = named_profile(name)
    multiplier = profile.multiplier(0.05 * np.array(SCALES) / 0.3, 8)
    expected = requantize(_operands()[2].astype(np.int32), multiplier, 9, -128, 127, axis=1)
    np.testing.assert_array_equal(_dot(result, profile=name), expected)


def test_zero_points_of_weights_are_subtracted_per_channel():
    points = [3, -4, 0]
    weights = UniformQuantizedType.per_channel(I8, 0, SCALES, points)
    accumulator = UniformQuantizedType.per_channel(I32, 1, [0.05 * scale for scale in SCALES])
    x, w, _ = _operands()
    # A convolution without spatial dimensions is a matrix product.
    result = run_op(
        lambda a, b: ConvolutionOp(a, b, TensorType(accumulator, [4, 3]), ConvolutionLayout.channels_first(0)),
        [TensorType(X, x.shape), TensorType(weights, w.T.shape)],
        x,
        w.T.copy(),
    )
    np.testing.assert_array_equal(result, (x.astype(np.int64) + 11) @ (w.astype(np.int64) - np.array(points)))


def test_sums_that_leave_32_bits_clamp_to_the_storage():
    wide = UniformQuantizedType.per_layer(Storage.of("i16"), 0.5, 0)
    accumulator = UniformQuantizedType.per_layer(I32, 0.25)
    x = np.full((1, 4), 32767, np.int16)
    result = run_op(
        lambda a, b: DotGeneralOp(a, b, TensorType(accumulator, [1, 1]), MATMUL),
        [TensorType(wide, [1, 4]), TensorType(wide, [4, 1])],
        x,
        -x.reshape(4, 1),
    )
    assert result.item() == -(2**31)


def test_batched_dot_of_two_activations():
    rng = np.random.default_rng(3)
    x, y = rng.integers(-128, 128, (2, 3, 5)).astype(np.int8), rng.integers(-128, 128, (2, 4, 5)).astype(np.int8)
    other = UniformQuantizedType.per_layer(I8, 0.5)
    accumulator = UniformQuantizedType.per_layer(I32, 0.05 * 0.5)
    result = run_op(
        lambda a, b: DotGeneralOp(a, b, TensorType(accumulator, [2, 3, 4]), DotDimensions((0,), (0,), (2,), (2,))),
        [TensorType(X, x.shape), TensorType(other, y.shape)],
        x,
        y,
    )
    expected = np.einsum("bik,bjk->bij", x.astype(np.int64) + 11, y.astype(np.int64))
    np.testing.assert_array_equal(result, expected)


def _convolution(profile: str, result: UniformQuantizedType, weights: Array, groups: int) -> Program:
    """A convolution with padding by constant weights: they are looked at and laid out once."""
    element = UniformQuantizedType.per_channel(NARROW, 0, np.linspace(0.01, 0.02, 8))
    function = FuncOp("main", ([TensorType(X, [1, 8, 6, 6])], []))
    store = Weights()
    constant = constant_op(weights, store, quantized=element)
    op = ConvolutionOp(
        function.body.block.args[0],
        constant.output,
        TensorType(result, [1, 8, 6, 6]),
        ConvolutionLayout.channels_first(2),
        padding=[(1, 1), (1, 1)],
        feature_group_count=groups,
    )
    function.body.block.add_ops([constant, op, ReturnOp(op.result)])
    function.function_type = FunctionType.from_lists([TensorType(X, [1, 8, 6, 6])], [op.result.type])
    module = ModuleOp([function], {PROFILE: StringAttr(profile)})
    module.verify()
    return Program(module, store)


@pytest.mark.parametrize("groups", [1, 8])
def test_padding_of_a_convolution_is_real_zero(groups: int):
    rng = np.random.default_rng(4)
    x = rng.integers(-128, 128, (1, 8, 6, 6)).astype(np.int8)
    w = rng.integers(-127, 128, (8, 8 // groups, 3, 3)).astype(np.int8)
    scales = np.linspace(0.01, 0.02, 8) * 0.05
    accumulator = UniformQuantizedType.per_channel(I32, 1, scales)
    sums = Interpreter(_convolution("fixed16", accumulator, w, groups)).run_values([x])[0]
    padded = np.pad(x.astype(np.int64) + 11, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded[0], (3, 3), axis=(1, 2))
    expected = (
        np.einsum("ihwkl,oikl->ohw", windows, w.astype(np.int64))
        if groups == 1
        else np.einsum("ohwkl,okl->ohw", windows, w[:, 0].astype(np.int64))
    )
    np.testing.assert_array_equal(sums[0], expected)
    # Straight to 8 bits is the same as in two steps.
    target = UniformQuantizedType.per_layer(I8, 0.1, 3)
    direct = Interpreter(_convolution("fixed16", target, w, groups)).run_values([x])[0]
    multiplier = named_profile("fixed16").multiplier(scales / 0.1, 8)
    np.testing.assert_array_equal(direct, requantize(sums, multiplier, 3, -128, 127, axis=1))


def test_a_float_operand_meets_dequantized_weights():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((2, 50)).astype(np.float32)
    w = _operands()[1]
    result = run_op(
        lambda a, b: DotGeneralOp(a, b, TensorType(f32, [2, 3]), MATMUL),
        [TensorType(f32, x.shape), TensorType(W, w.shape)],
        x,
        w,
    )
    np.testing.assert_allclose(result, x @ (w * np.array(SCALES, np.float32)), rtol=1e-5, atol=1e-5)
