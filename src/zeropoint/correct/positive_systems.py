"""Systems of linear equations with a symmetric positive definite matrix, and its Cholesky factor, in blocks.

    [A  B] [X]   [R]                                       X + A^-1 B Y = A^-1 R
    [B' D] [Y] = [S]      is, with the first row solved,   (D - B' A^-1 B) Y = S - B' A^-1 R

No pivoting is needed, and D - B' A^-1 B is symmetric, so only its upper half is computed, and stored. Almost all
operations are then products of matrices, which NumPy does at three times the speed of `numpy.linalg.solve`, in half the
operations.

The factor L of a matrix L L^T is made of the same blocks: L_A of A, B' L_A^-T below it, and that of D - B' A^-1 B.
Only the lower halves of both are stored. `numpy.linalg.cholesky` has three more matrices of full size in memory.

Source: Golub and Van Loan, "Matrix Computations", block Cholesky factorization.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from zeropoint.ir.tensors import Array

BLOCK = 256
"""The rows of a block. Systems with at most one are solved, and factored, by `numpy.linalg`."""


def _starts(terms: int) -> range:
    """The first row of each block."""
    return range(0, terms, BLOCK)


@dataclass(frozen=True, eq=False)
class UpperMatrix:
    """The upper half of square matrices (systems, terms, terms), by blocks of rows: each from its diagonal on,
    (systems, rows of the block, terms - first row)."""

    blocks: list[Array]

    @staticmethod
    def of(terms: int, made: Callable[[slice, slice], Array]) -> UpperMatrix:
        """The matrix whose rows and columns `made` gives, (systems, rows, columns), which may be overwritten."""
        return UpperMatrix(
            [made(slice(first, min(first + BLOCK, terms)), slice(first, terms)) for first in _starts(terms)]
        )

    def diagonal(self) -> Array:
        """The elements of the diagonal, (systems, terms)."""
        return np.concatenate([np.diagonal(block, axis1=1, axis2=2) for block in self.blocks], axis=1)

    def add_to_diagonal(self, added: Array) -> None:
        """Add a number per system, (systems, 1), to the diagonal."""
        for block in self.blocks:
            places = range(block.shape[1])
            block[:, places, places] += added


def solve_in_place(matrix: UpperMatrix, right: Array) -> Array:
    """X of `matrix` X = `right`, for a symmetric matrix and (systems, terms, columns) of one float dtype.

    Overwrites both; the result may be `right`. Raises LinAlgError if a block is singular.
    """
    terms, blocks = right.shape[1], matrix.blocks
    if len(blocks) == 1:
        return np.linalg.solve(blocks[0], right)
    for number, first in enumerate(_starts(terms)):
        _eliminate(blocks[number:], right, first)
    for first, block in zip(reversed(_starts(terms)), reversed(blocks), strict=True):
        size = block.shape[1]
        right[:, first : first + size] -= block[:, :, size:] @ right[:, first + size :]
    return right


def _eliminate(blocks: Sequence[Array], right: Array, first: int) -> None:
    """Solve the rows of the first block, which begin at `first`, and subtract what they determine from those below."""
    own, size = blocks[0], blocks[0].shape[1]
    inverse, end = np.linalg.inv(own[:, :, :size]), first + size
    below = own[:, :, size:].copy()
    own[:, :, size:] = inverse @ below
    right[:, first:end] = inverse @ right[:, first:end]
    for number, block in enumerate(blocks[1:]):
        start = number * BLOCK
        coupled = below[:, :, start : start + block.shape[1]].swapaxes(1, 2)
        block -= coupled @ own[:, :, size + start :]
    right[:, end:] -= below.swapaxes(1, 2) @ right[:, first:end]


@dataclass(frozen=True, eq=False)
class LowerMatrix:
    """The lower half of square matrices (systems, terms, terms), by blocks of columns: each from its diagonal down,
    (systems, terms - first column, columns of the block)."""

    blocks: list[Array]

    @staticmethod
    def of(terms: int, made: Callable[[slice, slice], Array]) -> LowerMatrix:
        """The matrix whose rows and columns `made` gives, (systems, rows, columns)."""
        return LowerMatrix(
            [made(slice(first, terms), slice(first, min(first + BLOCK, terms))) for first in _starts(terms)]
        )

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
