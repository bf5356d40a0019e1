"""Systems of linear equations with a symmetric positive definite matrix, and its Cholesky factor, in blocks.

    [A  B] [X]   [R]                                       X + A^-1 B Y = A^-1 R
    [B' D] [Y] = [S]      is, with the first row solved,   (D - B' A^-1 B) Y = S - B' A^-1 R

No pivoting is needed, and D - B' A^-1 B is symmetric, so only its upper half is computed. Almost all operations are
then products of matrices, which NumPy does at three times the speed of `numpy.linalg.solve`, in half the operations.

The factor L of a matrix L L^T is made of the same blocks: L_A of A, B' L_A^-T below it, and that of D - B' A^-1 B.
Only the lower halves of both are stored. `numpy.linalg.cholesky` has three more matrices of full size in memory.

Source: Golub and Van Loan, "Matrix Computations", block Cholesky factorization.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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


@dataclass(frozen=True, eq=False)
class LowerMatrix:
    """The lower half of square matrices (systems, terms, terms), by blocks of columns: each from its diagonal down,
    (systems, terms - first column, columns of the block)."""

    blocks: list[Array]

    @staticmethod
    def of(terms: int, made: Callable[[slice, slice], Array]) -> LowerMatrix:
        """The matrix whose rows and columns `made` gives, (systems, rows, columns)."""
        starts = range(0, terms, BLOCK)
        return LowerMatrix([made(slice(first, terms), slice(first, min(first + BLOCK, terms))) for first in starts])

    def columns(self, first: int, end: int) -> Array:
        """Some columns, at most `BLOCK`, from the diagonal of the first one down: (systems, terms - first, columns)."""
        number, offset = divmod(first, BLOCK)
        block = self.blocks[number][:, offset:, offset : offset + end - first]
        more = end - first - block.shape[2]
        if not more:
            return block
        made = np.zeros((*block.shape[:2], end - first), block.dtype)
        made[:, :, :-more] = block
        made[:, block.shape[2] :, -more:] = self.blocks[number + 1][:, :, :more]
        return made


def factor_in_place(matrix: LowerMatrix) -> LowerMatrix:
    """L, lower triangular, with L L^T = `matrix`, which it overwrites.

    Raises LinAlgError if a matrix is not positive definite.
    """
    blocks = matrix.blocks
    for number, block in enumerate(blocks):
        size = block.shape[2]
        block[:, :size] = np.linalg.cholesky(block[:, :size])
        if number + 1 == len(blocks):
            break
        inverse = np.linalg.inv(block[:, :size])
        block[:, size:] = block[:, size:] @ inverse.swapaxes(1, 2)
        for below, other in enumerate(blocks[number + 1 :], start=1):
            start, columns = below * BLOCK, other.shape[2]
            other -= block[:, start:] @ block[:, start : start + columns].swapaxes(1, 2)
    return matrix
