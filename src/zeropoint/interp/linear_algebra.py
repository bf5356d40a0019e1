"""`cholesky`, `triangular_solve` and `fft`, computed in f64 (or complex128) and rounded once to the element type.

Source: the StableHLO specification.
"""

from __future__ import annotations

import math

import numpy as np

from zeropoint.interp.affine import dequantization, is_quantized, quantization
from zeropoint.interp.binding import Binary, Scope, Unary
from zeropoint.ir.stablehlo import CholeskyOp, FftOp, TriangularSolveOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.attributes import FftType, Transpose
from zeropoint.ir.tensors import Array, element_dtype, element_of


def _wide(values: Array) -> Array:
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def cholesky(op: CholeskyOp, scope: Scope) -> Unary:
    """result @ adjoint(result) = a if lower, else adjoint(result) @ result = a. The other half of the result is 0.

    The result of a matrix that is not positive definite is NaN.
    """
    lower, element = op.lower is not None and bool(op.lower.value.data), element_of(op.a)

    def run(a: Array) -> Array:
        matrix = _wide(a)
        half = np.tril(matrix, -1) if lower else np.conj(np.swapaxes(np.triu(matrix, 1), -1, -2))
        diagonal = np.eye(matrix.shape[-1]) * np.real(matrix)
        factor = _factor(half + diagonal + np.conj(np.swapaxes(half, -1, -2)))
        return (factor if lower else np.conj(np.swapaxes(factor, -1, -2))).astype(a.dtype)

    if not is_quantized(element):
        return run
    into, out_of = dequantization(element), quantization(element, scope.profile)
    return lambda a: out_of(run(into(a)))


def _factor(matrices: Array) -> Array:
    try:
        return np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        flat = matrices.reshape(math.prod(matrices.shape[:-2]), *matrices.shape[-2:])
        if len(flat) == 1:
            return np.full_like(matrices, np.nan)
        return np.stack([_factor(matrix) for matrix in flat]).reshape(matrices.shape)


def triangular_solve(op: TriangularSolveOp, scope: Scope) -> Binary:
    """op(a) @ result = b if left_side, else result @ op(a) = b. Only one half of a is read."""
    left, lower, unit = (bool(flag.value.data) for flag in (op.left_side, op.lower, op.unit_diagonal))
    kind = op.transpose_a.data

    def run(a: Array, b: Array) -> Array:
        matrix = np.tril(_wide(a)) if lower else np.triu(_wide(a))
        is_lower = lower
        if kind in (Transpose.TRANSPOSE, Transpose.ADJOINT):
            matrix, is_lower = np.swapaxes(matrix, -1, -2), not lower
        if kind is Transpose.ADJOINT:
            matrix = np.conj(matrix)
        right = _wide(b)
        if not left:  # x a = b is equivalent to a^T x^T = b^T
            matrix, right, is_lower = np.swapaxes(matrix, -1, -2), np.swapaxes(right, -1, -2), not is_lower
        solved = _substituted(matrix, right, is_lower, unit)
        return (solved if left else np.swapaxes(solved, -1, -2)).astype(b.dtype)

    return run


def _substituted(matrix: Array, right: Array, lower: bool, unit: bool) -> Array:
    """The solution by substitution, row by row, vectorised over the batch."""
    size = matrix.shape[-1]
    result = np.zeros(right.shape, np.result_type(matrix, right))
    for row in range(size) if lower else reversed(range(size)):
        known = np.einsum("...k,...kj->...j", matrix[..., row, :], result)
        rest = right[..., row, :] - known
        result[..., row, :] = rest if unit else rest / matrix[..., row, row, np.newaxis]
    return result


def fft(op: FftOp, scope: Scope) -> Unary:
    """The transform over the last dimensions: FFT, IFFT, RFFT or IRFFT."""
    kind, lengths = op.fft_type.data, array_values(op.fft_length)
    axes, dtype = tuple(range(-len(lengths), 0)), element_dtype(element_of(op.result))

    def run(operand: Array) -> Array:
        values = _wide(operand)
        if kind is FftType.FFT:
            return np.fft.fftn(values, axes=axes).astype(dtype)
        if kind is FftType.IFFT:
            return np.fft.ifftn(values, axes=axes).astype(dtype)
        if kind is FftType.RFFT:
            return np.fft.rfftn(values, axes=axes).astype(dtype)
        return np.fft.irfftn(values, s=lengths, axes=axes).astype(dtype)

    return run
