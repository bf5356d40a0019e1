"""dot_general: literal cases, every dimension order against StableHLO's interpreter, integers exactly."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, bf16, f16, f32, f64, i8, i16, i32
from xdsl.ir import Attribute

from interp.programs import assert_as_upstream, execute, one_op, run_op
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import DotDimensions, DotGeneralOp
from zeropoint.ir.tensors import Array, element_dtype


def _random_dot(seed: int, element: Attribute, result: Attribute) -> tuple[Program, list[list[int]]]:
    """A dot with up to two batching, contracting and free dimensions, in any order."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, 8).tolist()
    batching, contracting = sizes[: rng.integers(0, 3)], sizes[2 : 2 + rng.integers(0, 3)]
    shapes, batch_dims, contract_dims = [], [], []
    for free in (sizes[4 : 4 + rng.integers(0, 3)], sizes[6 : 6 + rng.integers(0, 3)]):
        order = rng.permutation(len(batching) + len(contracting) + len(free))
        extents = [*batching, *contracting, *free]
        shapes.append([extents[i] for i in order])
        where = np.argsort(order)
        batch_dims.append(tuple(int(d) for d in where[: len(batching)]))
        contract_dims.append(tuple(int(d) for d in where[len(batching) : len(batching) + len(contracting)]))
    dims = DotDimensions(batch_dims[0], batch_dims[1], contract_dims[0], contract_dims[1])
    free = [
        [n for d, n in enumerate(shape) if d not in batch and d not in contract]
        for shape, batch, contract in zip(shapes, batch_dims, contract_dims, strict=True)
    ]
    out = TensorType(result, [*batching, *free[0], *free[1]])
    return one_op([TensorType(element, s) for s in shapes], lambda a, b: DotGeneralOp(a, b, out, dims)), shapes


def test_dot_of_a_row_and_a_matrix():
    text = """
    func.func @main(%x: tensor<1x2xi8>, %w: tensor<2x2xi8>) -> tensor<1x2xi32> {
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<1x2xi8>, tensor<2x2xi8>) -> tensor<1x2xi32>
      return %0 : tensor<1x2xi32>
    }"""
    result = execute(text, np.array([[3, -128]], np.int8), np.array([[1, 2], [100, 127]], np.int8))
    assert result.tolist() == [[3 - 12800, 6 - 16256]]
    assert result.dtype == np.int32


@pytest.mark.parametrize("seed", range(25))
def test_integer_dot_equals_upstream_for_random_dimensions(seed: int):
    program, shapes = _random_dot(seed, i8, i32)
    rng = np.random.default_rng(seed)
    assert_as_upstream(program, *(rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes))


@pytest.mark.parametrize("seed", range(5))
def test_float_dot_is_close_to_upstream_for_random_dimensions(seed: int):
    program, shapes = _random_dot(seed, f32, f32)
    rng = np.random.default_rng(seed)
    assert_as_upstream(program, *(rng.standard_normal(shape).astype(np.float32) for shape in shapes), relative=1e-6)


@pytest.mark.parametrize(("element", "bits"), [(i8, 8), (i16, 16), (i32, 32)])
def test_integer_dot_is_exact_at_the_extremes_whatever_the_arithmetic(element: Attribute, bits: int):
    limits = np.iinfo(element_dtype(element))
    rng = np.random.default_rng(bits)
    x = rng.choice(np.array([limits.min, limits.max]), (3, 1200)).astype(limits.dtype)
    w = rng.choice(np.array([limits.min, limits.max]), (1200, 4)).astype(limits.dtype)
    expected = (x.astype(np.int64) @ w.astype(np.int64)).astype(np.int32)
    dims = DotDimensions((), (), (1,), (0,))
    build = lambda a, b: DotGeneralOp(a, b, TensorType(i32, [3, 4]), dims)  # noqa: E731 (one line in a table)
    np.testing.assert_array_equal(
        run_op(build, [TensorType(element, x.shape), TensorType(element, w.shape)], x, w), expected
    )


@pytest.mark.parametrize("element", [f16, bf16, f64])
def test_float_dot_rounds_once_to_its_type(element: Attribute):
    rng = np.random.default_rng(1)
    dtype = element_dtype(element)
    x, w = (rng.standard_normal(shape).astype(dtype) for shape in ((4, 300), (300, 5)))
    program = one_op(
        [TensorType(element, x.shape), TensorType(element, w.shape)],
        lambda a, b: DotGeneralOp(a, b, TensorType(element, [4, 5]), DotDimensions((), (), (1,), (0,))),
    )
    result = Interpreter(program).run_values([x, w])[0]
    expected = x.astype(np.float64) @ w.astype(np.float64)
    assert result.dtype == dtype
    steps = np.abs(result.astype(np.float64) - expected) / np.spacing(np.abs(expected).astype(dtype)).astype(np.float64)
    # Half a step, and the rounding of the f32 (f64) sums before it.
    assert steps.max() < (0.52 if dtype.itemsize == 2 else 64)


def _constant_weights(weights: Array) -> str:
    rows, columns = weights.shape
    return f"""
    func.func @main(%x: tensor<1x{rows}xi8>) -> tensor<1x{columns}xi32> {{
      %w = stablehlo.constant dense<{weights.tolist()}> : tensor<{rows}x{columns}xi8>
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<1x{rows}xi8>, tensor<{rows}x{columns}xi8>) -> tensor<1x{columns}xi32>
      return %0 : tensor<1x{columns}xi32>
    }}"""


@pytest.mark.parametrize("rows", [1024, 1033])
def test_sums_on_both_sides_of_the_f32_limit_are_exact(rows: int):
    # 1024 * 128 * 127 is just below 2^24, and 1033 * 128 * 127 above it: f32 there would lose the odd sums.
    weights = np.full((rows, 1), 127, np.int8)
    weights[0] = 126
    x = np.full((1, rows), -127, np.int8)
    assert execute(_constant_weights(weights), x).item() == -127 * 127 * (rows - 1) - 127 * 126
