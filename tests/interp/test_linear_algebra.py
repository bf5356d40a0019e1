"""cholesky, triangular_solve and fft: literal values, what they have to satisfy, and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from oracle.mlir import checked
from zeropoint.interp import Interpreter
from zeropoint.ir.tensors import Array


def run(line: str, arguments: str, result: str, *values: Array) -> Array:
    text = f"func.func @main({arguments}) -> {result} {{\n  %r = {line}\n  return %r : {result}\n}}"
    return Interpreter(checked(text)).run_values(list(values))[0]


def random_matrix(*shape: int, complex_: bool = False, seed: int = 0) -> Array:
    random = np.random.default_rng(seed)
    real = random.normal(size=shape)
    return real + 1j * random.normal(size=shape) if complex_ else real


def adjoint(matrix: Array) -> Array:
    return np.conj(np.swapaxes(matrix, -1, -2))


def test_cholesky_of_round_numbers():
    a = np.array([[4.0, 99.0], [2.0, 10.0]], np.float32)  # only the lower half is read
    found = run("stablehlo.cholesky %a, lower = true : tensor<2x2xf32>", "%a: tensor<2x2xf32>", "tensor<2x2xf32>", a)
    assert found.tolist() == [[2.0, 0.0], [1.0, 3.0]]


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_cholesky_factors_a_batch(lower: bool, complex_: bool):
    root = random_matrix(2, 3, 4, 4, complex_=complex_)
    a = root @ adjoint(root) + np.eye(4)
    of = f"tensor<2x3x4x4x{'complex<f64>' if complex_ else 'f64'}>"
    given = np.tril(a) + 5 * np.triu(np.ones((4, 4)), 1) if lower else np.triu(a) + 5 * np.tril(np.ones((4, 4)), -1)
    found = run(f"stablehlo.cholesky %a, lower = {str(lower).lower()} : {of}", f"%a: {of}", of, given)
    product = found @ adjoint(found) if lower else adjoint(found) @ found
    np.testing.assert_allclose(product, a, rtol=1e-12, atol=1e-12)
    assert np.array_equal(found, np.tril(found) if lower else np.triu(found))


def test_a_matrix_without_a_factor_gives_nan_and_leaves_the_others():
    a = np.stack([np.eye(2), -np.eye(2), 4 * np.eye(2)]).astype(np.float32)
    of = "tensor<3x2x2xf32>"
    found = run(f"stablehlo.cholesky %a, lower = true : {of}", f"%a: {of}", of, a)
    assert np.isnan(found[1]).all()
    assert found[2].tolist() == [[2.0, 0.0], [0.0, 2.0]]


@pytest.mark.parametrize("kind", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_triangular_solve_solves(left: bool, lower: bool, unit: bool, kind: str):
    a, b = random_matrix(2, 3, 3, complex_=True), random_matrix(2, *((3, 2) if left else (2, 3)), complex_=True, seed=1)
    a = a + 3 * np.eye(3)
    shapes = "tensor<2x3x3xcomplex<f64>>", f"tensor<2x{'3x2' if left else '2x3'}xcomplex<f64>>"
    line = (
        f'"stablehlo.triangular_solve"(%a, %b) <{{left_side = {str(left).lower()}, lower = {str(lower).lower()}, '
        f"transpose_a = #stablehlo<transpose {kind}>, unit_diagonal = {str(unit).lower()}}}> "
        f": ({shapes[0]}, {shapes[1]}) -> {shapes[1]}"
    )
    x = run(line, f"%a: {shapes[0]}, %b: {shapes[1]}", shapes[1], a, b)
    matrix = np.tril(a) if lower else np.triu(a)
    if unit:
        matrix = matrix - matrix * np.eye(3) + np.eye(3)
    used = {"NO_TRANSPOSE": matrix, "TRANSPOSE": np.swapaxes(matrix, -1, -2), "ADJOINT": adjoint(matrix)}[kind]
    np.testing.assert_allclose(used @ x if left else x @ used, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("kind", "operand", "result", "lengths"),
    [
        ("FFT", "3x4x6xcomplex<f64>", "3x4x6xcomplex<f64>", (4, 6)),
        ("IFFT", "3x5xcomplex<f64>", "3x5xcomplex<f64>", (5,)),
        ("RFFT", "3x4x6xf64", "3x4x4xcomplex<f64>", (4, 6)),
        ("IRFFT", "3x4x4xcomplex<f64>", "3x4x7xf64", (3, 4, 7)),
    ],
)
def test_fft_is_numpys(kind: str, operand: str, result: str, lengths: tuple[int, ...]):
    shape = [int(size) for size in operand.replace("complex<f64>", "").replace("f64", "").split("x") if size]
    x = random_matrix(*shape, complex_="complex" in operand)
    line = f"stablehlo.fft %x, type = {kind}, length = {list(lengths)} : (tensor<{operand}>) -> tensor<{result}>"
    found = run(line, f"%x: tensor<{operand}>", f"tensor<{result}>", x)
    axes = tuple(range(-len(lengths), 0))
    functions = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}
    np.testing.assert_allclose(found, functions[kind](x, s=lengths, axes=axes), rtol=1e-12, atol=1e-12)


def test_fft_of_round_numbers():
    of = "tensor<4xf32>"
    x = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    line = f"stablehlo.fft %x, type = RFFT, length = [4] : ({of}) -> tensor<3xcomplex<f32>>"
    assert run(line, f"%x: {of}", "tensor<3xcomplex<f32>>", x).tolist() == [10, -2 + 2j, -2]
