"""Systems of linear equations with a symmetric positive definite matrix, and its Cholesky factor, in blocks.

    [A  B] [X]   [R]                                       X + A^-1 B Y = A^-1 R
    [B' D] [Y] = [S]      is, with the first row solved,   (D - B' A^-1 B) Y = S - B' A^-1 R

No pivoting is needed, and D - B' A^-1 B is symmetric, so only its upper half is computed. Almost all operations are
then products of matrices, which NumPy does at three times the speed of `numpy.linalg.solve`, in half the operations.

The factor L of a matrix L L^T is made of the same blocks: L_A of A, B' L_A^-T below it, and that of D - B' A^-1 B.
`numpy.linalg.cholesky` has three more matrices of this size in memory.

Source: Golub and Van Loan, "Matrix Computations", block Cholesky factorization.
"""

from __future__ import annotations

import numpy as np

from zeropoint.ir.tensors import Array

BLOCK = 256
"""The rows of a block. Systems with at most one are solved, and factored, by `numpy.linalg`."""


def solve_in_place(matrix: Array, right: Array) -> Array:
    """X of `matrix` X = `right`, for matrices (systems, terms, terms) and (systems, terms, columns) of one float dtype.

    Overwrites both; the result may be `right`. Raises LinAlgError if a block is singular.
    """
    terms = matrix.shape[1]
    if terms <= BLOCK:
        return np.linalg.solve(matrix, right)
    starts = range(0, terms, BLOCK)
    for first in starts:
        _eliminate(matrix, right, slice(first, min(first + BLOCK, terms)))
    for first in reversed(starts):
        end = min(first + BLOCK, terms)
        right[:, first:end] -= matrix[:, first:end, end:] @ right[:, end:]
    return right


def _eliminate(matrix: Array, right: Array, block: slice) -> None:
    """Solve the rows of a block, and subtract what they determine from the rows below."""
    inverse = np.linalg.inv(matrix[:, block, block])
    end, terms = block.stop, matrix.shape[1]
    below = matrix[:, block, end:].copy()
    matrix[:, block, end:] = inverse @ below
    right[:, block] = inverse @ right[:, block]
    for first in range(end, terms, BLOCK):
        rows = slice(first, min(first + BLOCK, terms))
        coupled = below[:, :, first - end : rows.stop - end].swapaxes(1, 2)
        matrix[:, rows, first:] -= coupled @ matrix[:, block, first:]
    right[:, end:] -= below.swapaxes(1, 2) @ right[:, block]


def factor_in_place(matrix: Array) -> Array:
    """L, lower triangular, with L L^T = `matrix` (systems, terms, terms), which it may overwrite.

    Raises LinAlgError if a matrix is not positive definite.
    """
    terms = matrix.shape[1]
    if terms <= BLOCK:
        return np.linalg.cholesky(matrix)
    for first in range(0, terms, BLOCK):
        end = min(first + BLOCK, terms)
        block = slice(first, end)
        matrix[:, block, block] = np.linalg.cholesky(matrix[:, block, block])
        matrix[:, block, end:] = 0
        inverse = np.linalg.inv(matrix[:, block, block])
        matrix[:, end:, block] = matrix[:, end:, block] @ inverse.swapaxes(1, 2)
        for start in range(end, terms, BLOCK):  # of a symmetric matrix, only the lower half is read
            columns = slice(start, min(start + BLOCK, terms))
            matrix[:, start:, columns] -= matrix[:, start:, block] @ matrix[:, columns, block].swapaxes(1, 2)
    return matrix
