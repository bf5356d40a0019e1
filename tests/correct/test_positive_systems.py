"""Linear systems in blocks, against NumPy and systems of integers."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from zeropoint.correct import positive_systems
from zeropoint.correct.positive_systems import BLOCK, LowerMatrix, UpperMatrix, factor_in_place, solve_in_place
from zeropoint.ir.tensors import Array


def upper(matrix: Array) -> UpperMatrix:
    """A copy of the upper half of matrices."""
    return UpperMatrix.of(matrix.shape[1], lambda rows, columns: matrix[:, rows, columns].copy())


def lower(matrix: Array) -> LowerMatrix:
    """A copy of the lower half of matrices."""
    return LowerMatrix.of(matrix.shape[1], lambda rows, columns: matrix[:, rows, columns].copy())


def whole(factor: LowerMatrix, terms: int) -> Array:
    """A factor with the zeros above its diagonal."""
    made = np.zeros((len(factor.blocks[0]), terms, terms))
    for column in range(terms):
        made[:, column:, column : column + 1] = factor.columns(column, column + 1)
    return made


def system(terms: int, columns: int, systems: int = 2) -> tuple[Array, Array]:
    random = np.random.default_rng(terms)
    rows = random.normal(0, 1, (systems, 2 * terms, terms)) * np.exp(random.normal(0, 1, terms))
    matrix = rows.swapaxes(1, 2) @ rows / terms
    matrix[:, range(terms), range(terms)] += 1
    return matrix, random.normal(0, 1, (systems, terms, columns))


@pytest.mark.parametrize("terms", [1, BLOCK, BLOCK + 1, 2 * BLOCK, 700])
@pytest.mark.parametrize(("dtype", "error"), [(np.float32, 2e-5), (np.float64, 1e-13)])
def test_the_solution_is_that_of_numpy(terms: int, dtype: type, error: float) -> None:
    matrix, right = system(terms, 30)
    expected = np.linalg.solve(matrix, right)
    found = solve_in_place(upper(matrix.astype(dtype)), right.astype(dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=error * np.abs(expected).max())


def test_integers_that_solve_a_system_are_found_in_blocks_of_two_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positive_systems, "BLOCK", 2)
    random = np.random.default_rng(0)
    half = random.integers(-3, 4, (5, 5))
    matrix = half.T @ half + 5 * np.eye(5, dtype=int)
    wanted = random.integers(-9, 10, (5, 3))
    right = matrix @ wanted  # exact: small integers
    found = solve_in_place(upper(matrix[None].astype(np.float64)), right[None].astype(np.float64))
    np.testing.assert_allclose(found[0], wanted, atol=1e-12)


def test_a_singular_block_is_an_error() -> None:
    matrix = np.zeros((1, BLOCK + 5, BLOCK + 5))
    with pytest.raises(np.linalg.LinAlgError):
        solve_in_place(upper(matrix), np.ones((1, BLOCK + 5, 1)))


def test_the_diagonal_is_read_and_changed_in_all_blocks() -> None:
    matrix, _ = system(BLOCK + 5, 1)
    half = upper(matrix)
    added = np.array([[1.0], [2.0]])
    half.add_to_diagonal(added)
    np.testing.assert_array_equal(half.diagonal(), np.diagonal(matrix, axis1=1, axis2=2) + added)


@pytest.mark.parametrize("terms", [1, BLOCK, BLOCK + 1, 2 * BLOCK, 700])
def test_the_factor_is_that_of_numpy(terms: int) -> None:
    matrix, _ = system(terms, 1)
    expected = np.linalg.cholesky(matrix)
    found = whole(factor_in_place(lower(matrix)), terms)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_integers_that_are_a_factor_are_found_in_blocks_of_two_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positive_systems, "BLOCK", 2)
    wanted = np.tril(np.random.default_rng(0).integers(-3, 4, (5, 5)), -1) + 2 * np.eye(5, dtype=int)
    matrix = (wanted @ wanted.T).astype(np.float64)
    found = factor_in_place(lower(matrix[None]))
    np.testing.assert_allclose(whole(found, 5)[0], wanted, atol=1e-12)
    np.testing.assert_allclose(found.columns(1, 3)[0], wanted[1:, 1:3], atol=1e-12)  # of two blocks


def test_a_matrix_that_is_not_positive_definite_has_no_factor() -> None:
    matrix = np.eye(BLOCK + 5)
    matrix[-1, -1] = -1
    with pytest.raises(np.linalg.LinAlgError):
        factor_in_place(lower(matrix[None]))


def test_a_matrix_and_its_factor_take_the_memory_of_little_more_than_half_a_matrix() -> None:
    matrix = system(8 * BLOCK, 1, systems=1)[0]
    tracemalloc.start()
    try:
        factor_in_place(lower(matrix))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 0.8 * matrix.nbytes
