"""Sums of float products in native code have the bits of `zeropoint.numerics.products`."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint import engines
from zeropoint.codegen.llvm.machine import host
from zeropoint.codegen.runtime.products import NativeProducts, products_text
from zeropoint.engines import QuickestEngine
from zeropoint.interp import ReferenceEngine
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program
from zeropoint.numerics.products import sums_of_products

SHAPES = [
    ((3, 5), (5, 7)),
    ((1, 9), (9, 50)),
    ((7, 33), (33, 131)),
    ((4, 1, 9), (4, 9, 100)),
    ((9, 27), (27, 400)),
    ((2, 3, 64, 32), (2, 3, 32, 64)),
    ((1, 7, 8), (5, 8, 30)),
    ((5, 17, 4), (4, 131)),
    ((50, 8), (8, 2)),
    ((100, 33), (33, 1)),
    ((8, 0), (0, 40)),
    ((0, 3), (3, 4)),
]

CONVOLUTION = """
func.func @main(%x: tensor<1x3x9x9xf32>, %w: tensor<8x3x3x3xf32>) -> tensor<1x8x7x7xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x3x9x9xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x7x7xf32>
  func.return %0 : tensor<1x8x7x7xf32>
}
"""


@pytest.fixture(scope="module")
def products() -> NativeProducts:
    if not host().fused:
        pytest.skip("needs instructions for float multiply-add")
    return NativeProducts()


def assert_same(found: Array, expected: Array) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.flags.c_contiguous
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_bits_are_those_of_numpy(products: NativeProducts, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in (left, right))
    assert_same(products(a, b), sums_of_products(a, b))
    turned = np.ascontiguousarray(b.swapaxes(-2, -1)).swapaxes(-2, -1)
    assert_same(products(a, turned), sums_of_products(a, b))


@pytest.mark.parametrize("scale", [1e-22, 1e-19, 1e19, 3e37])
def test_sums_that_are_tiny_or_overflow(products: NativeProducts, scale: float) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-9, 10, size=shape).astype(np.float32) * np.float32(scale) for shape in ((6, 40), (40, 75)))
    found, expected = products(a, b), sums_of_products(a, b)
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    assert_same(np.nan_to_num(found), np.nan_to_num(expected))


def test_every_step_is_rounded_once(products: NativeProducts) -> None:
    """2^-24 is half of the last place of 1: with the least product after it, the sum must be rounded up."""
    a = np.array([[1, 2.0**-24, 2.0**-60]], np.float32)
    b = np.broadcast_to(np.array([[1], [1 + 2.0**-23], [1]], np.float32), (3, 90))
    assert_same(products(a, b), sums_of_products(a, b))
    assert products(a, b)[0, 0] == 1 + 2.0**-23


def test_a_zero_sum_is_positive(products: NativeProducts) -> None:
    found = products(np.full((2, 3), -0.0, np.float32), np.ones((3, 70), np.float32))
    assert not np.signbit(found).any()


def test_text_depends_on_the_width_only() -> None:
    assert products_text(8) == products_text(8) != products_text(16)


def test_the_interpreter_of_calibration_changes_to_native_products(monkeypatch: pytest.MonkeyPatch) -> None:
    if not host().fused:
        pytest.skip("needs instructions for float multiply-add")
    monkeypatch.setattr(engines, "LOADING", 5000)
    interpreter = ReferenceEngine(engines.SumsOfProducts())
    monkeypatch.setattr(engines, "INTERPRETER", interpreter)
    program, rng = parse_program(CONVOLUTION), np.random.default_rng(2)
    run, reference = QuickestEngine().prepare(program), ReferenceEngine().prepare(program)
    for _ in range(3):  # the first run is NumPy's
        sample = {port.name: rng.normal(size=port.type.get_shape()).astype(np.float32) for port in program.inputs}
        (found,), (expected,) = run(sample).values(), reference(sample).values()
        assert_same(found, expected)
