"""convolution: literal cases, every attribute against StableHLO's interpreter, integers exactly."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f32, i8, i32

from interp.programs import assert_as_upstream, execute, one_op, run_op
from zeropoint.interp import Interpreter
from zeropoint.ir.stablehlo import ConvolutionLayout, ConvolutionOp
from zeropoint.ir.tensors import Array, dtype_element


def _random_layout(rng: np.random.Generator, rank: int) -> ConvolutionLayout:
    lhs, rhs, out = (tuple(int(i) for i in rng.permutation(rank + 2)) for _ in range(3))
    # Upstream's interpreter aborts where the result's feature dimension comes before its batch dimension; see
    # test_result_layout_with_features_before_batch.
    out = (min(out[:2]), max(out[:2]), *out[2:])
    return ConvolutionLayout(lhs[0], lhs[1], lhs[2:], rhs[0], rhs[1], rhs[2:], out[0], out[1], out[2:])


def _placed(rank: int, positions: dict[int, int]) -> list[int]:
    return [positions[dim] for dim in range(rank)]


class _Case:
    """A convolution with random attributes that are legal together."""

    def __init__(self, seed: int, element=i8, result=i32):
        rng = np.random.default_rng(seed)
        rank = int(rng.integers(1, 4))
        feature_groups, batch_groups = [(1, 1), (1, 1), (2, 1), (3, 1), (1, 2)][rng.integers(5)]
        depthwise = feature_groups > 1 and rng.random() < 0.5
        features = 1 if depthwise else int(rng.integers(1, 4))
        outputs = feature_groups * batch_groups * int(rng.integers(1, 3))
        batch = batch_groups * int(rng.integers(1, 3))
        spatial = [int(n) for n in rng.integers(3, 7, rank)]
        kernel = [int(n) for n in rng.integers(1, 4, rank)]
        attributes = {
            "window_strides": [int(n) for n in rng.integers(1, 4, rank)],
            "padding": [(int(lo), int(hi)) for lo, hi in rng.integers(-1, 4, (rank, 2))],
            "lhs_dilation": [int(n) for n in rng.integers(1, 3, rank)],
            "rhs_dilation": [int(n) for n in rng.integers(1, 3, rank)],
            "window_reversal": [bool(n) for n in rng.integers(0, 2, rank)],
            "feature_group_count": feature_groups,
            "batch_group_count": batch_groups,
        }
        for name in ("window_strides", "padding", "lhs_dilation", "rhs_dilation", "window_reversal"):
            if rng.random() < 0.3:
                attributes[name] = None
        layout = _random_layout(rng, rank)
        sizes = self._sizes(spatial, kernel, attributes)
        lhs = {layout.input_batch_dimension: batch, layout.input_feature_dimension: features * feature_groups}
        lhs |= dict(zip(layout.input_spatial_dimensions, spatial, strict=True))
        rhs = {layout.kernel_input_feature_dimension: features, layout.kernel_output_feature_dimension: outputs}
        rhs |= dict(zip(layout.kernel_spatial_dimensions, kernel, strict=True))
        out = {layout.output_batch_dimension: batch // batch_groups, layout.output_feature_dimension: outputs}
        out |= dict(zip(layout.output_spatial_dimensions, sizes, strict=True))
        shapes = [_placed(rank + 2, where) for where in (lhs, rhs, out)]
        self.types = [TensorType(element, shape) for shape in shapes[:2]]
        self.shapes, self.rng = shapes, rng
        self.program = one_op(
            self.types, lambda x, w: ConvolutionOp(x, w, TensorType(result, shapes[2]), layout, **attributes)
        )

    @staticmethod
    def _sizes(spatial: list[int], kernel: list[int], attributes: dict) -> list[int]:
        ones = [1] * len(spatial)
        padding = attributes["padding"] or [(0, 0)] * len(spatial)
        sizes = []
        for size, taps, stride, (low, high), base, window in zip(
            spatial,
            kernel,
            attributes["window_strides"] or ones,
            padding,
            attributes["lhs_dilation"] or ones,
            attributes["rhs_dilation"] or ones,
            strict=True,
        ):
            extent = low + (size - 1) * base + 1 + high
            reach = (taps - 1) * window + 1
            sizes.append((extent - reach) // stride + 1 if extent >= reach else 0)
        return sizes

    def integers(self, low: int = -128, high: int = 128, dtype: type = np.int8) -> list[Array]:
        return [self.rng.integers(low, high, shape).astype(dtype) for shape in self.shapes[:2]]


def test_convolution_of_ones_counts_the_taps_inside():
    text = """
    func.func @main(%x: tensor<1x1x3x3xf32>, %w: tensor<1x1x3x3xf32>) -> tensor<1x1x3x3xf32> {
      %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
        window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
        : (tensor<1x1x3x3xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x3x3xf32>
      return %0 : tensor<1x1x3x3xf32>
    }"""
    ones = np.ones((1, 1, 3, 3), np.float32)
    assert execute(text, ones, ones).reshape(3, 3).tolist() == [[4, 6, 4], [6, 9, 6], [4, 6, 4]]


@pytest.mark.parametrize("seed", range(60))
def test_integer_convolution_equals_upstream_for_random_attributes(seed: int):
    case = _Case(seed)
    assert_as_upstream(case.program, *case.integers())


def test_result_layout_with_features_before_batch():
    rng = np.random.default_rng(3)
    x, w = (rng.integers(-9, 9, shape).astype(np.int8) for shape in ((2, 3, 5, 4), (6, 3, 2, 2)))
    layout = ConvolutionLayout.channels_first(2)
    turned = dataclasses.replace(
        layout, output_batch_dimension=2, output_feature_dimension=0, output_spatial_dimensions=(3, 1)
    )
    types = [TensorType(i8, x.shape), TensorType(i8, w.shape)]
    usual = run_op(lambda a, b: ConvolutionOp(a, b, TensorType(i32, [2, 6, 4, 3]), layout), types, x, w)
    result = run_op(lambda a, b: ConvolutionOp(a, b, TensorType(i32, [6, 3, 2, 4]), turned), types, x, w)
    np.testing.assert_array_equal(result, usual.transpose(1, 3, 0, 2))


@pytest.mark.parametrize("seed", range(60, 75))
def test_float_convolution_is_close_to_upstream_for_random_attributes(seed: int):
    case = _Case(seed, f32, f32)
    arrays = [case.rng.standard_normal(shape).astype(np.float32) for shape in case.shapes[:2]]
    assert_as_upstream(case.program, *arrays, relative=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_integer_convolution_wraps_around_in_its_result_type(seed: int):
    case = _Case(seed, i32, i32)
    assert_as_upstream(case.program, *case.integers(-(1 << 31), 1 << 31, np.int32))


def _convolve_int64(x: Array, w: Array, stride: int, groups: int) -> Array:
    """A plain sum over taps in int64, NCHW by OIHW, no padding."""
    n, _, h, width = x.shape
    o, i, kh, kw = w.shape
    sizes = (h - kh) // stride + 1, (width - kw) // stride + 1
    grouped, kernel = x.reshape(n, groups, i, h, width), w.reshape(groups, o // groups, i, kh, kw)
    y = np.zeros((n, groups, o // groups, *sizes), np.int64)
    for a, b in itertools.product(range(kh), range(kw)):
        window = grouped[
            ..., a : a + (sizes[0] - 1) * stride + 1 : stride, b : b + (sizes[1] - 1) * stride + 1 : stride
        ]
        y += np.einsum("ngihw,goi->ngohw", window.astype(np.int64), kernel[..., a, b].astype(np.int64))
    return y.reshape(n, o, *sizes)


@pytest.mark.parametrize("groups", [1, 4, 32])
@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (1, 2), (3, 1), (3, 2), (5, 2)])
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_integer_convolution_is_exact_whatever_the_arithmetic(groups: int, kernel: int, stride: int, bits: int):
    # 8 bits are summed in f32, 16 in f64, 32 in int64: see interp/exactness.py.
    rng = np.random.default_rng([groups, kernel, stride, bits])
    dtype = np.dtype(f"i{bits // 8}")
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max, (2, 32, 9, 8), dtype, endpoint=True)
    w = rng.integers(limits.min, limits.max, (64, 32 // groups, kernel, kernel), dtype, endpoint=True)
    y = _convolve_int64(x, w, stride, groups).astype(np.int32)
    element = dtype_element(dtype)
    program = one_op(
        [TensorType(element, x.shape), TensorType(element, w.shape)],
        lambda a, b: ConvolutionOp(
            a,
            b,
            TensorType(i32, y.shape),
            ConvolutionLayout.channels_first(2),
            window_strides=[stride, stride],
            feature_group_count=groups,
        ),
    )
    np.testing.assert_array_equal(Interpreter(program).run_values([x, w])[0], y)


def test_depthwise_convolution_in_several_blocks_of_channels(monkeypatch: pytest.MonkeyPatch):
    from zeropoint.interp import convolution

    monkeypatch.setattr(convolution, "BLOCK_BYTES", 2048)
    rng = np.random.default_rng(5)
    for groups in (1, 16):
        x = rng.integers(-9, 9, (1, 16, 11, 7)).astype(np.int8)
        w = rng.integers(-9, 9, (32, 16 // groups, 3, 3)).astype(np.int8)
        y = _convolve_int64(x, w, 2, groups)
        program = one_op(
            [TensorType(i8, x.shape), TensorType(i8, w.shape)],
            lambda a, b, y=y, groups=groups: ConvolutionOp(
                a,
                b,
                TensorType(i32, y.shape),
                ConvolutionLayout.channels_first(2),
                window_strides=[2, 2],
                feature_group_count=groups,
            ),
        )
        np.testing.assert_array_equal(Interpreter(program).run_values([x, w])[0], y)
