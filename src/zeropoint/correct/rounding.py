"""Round weights to minimize the error of the results instead of the error of the weights (GPTQ).

Weights V (outputs, terms) are rounded to integers Q with scales s, one column at a time, in descending order of the
variance of their inputs. With H, the second moments of the inputs, and H = U U^T, U upper triangular, the error is

    E H E^T = |E U|^2,   E = V - sQ,   (E U)_j = E_j U_jj + sum over i < j of E_i U_ij

so that the best integers for column j, with those before it known, are V_j + (sum of E_i U_ij) / U_jj rounded to
nearest. GPTQ computes the same from the inverse of H, in five times the operations.

Source: Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers", section 3:
order and blocks of columns. Chen et al., "The Geometry of LLM Quantization: GPTQ as Babai's Nearest Plane Algorithm":
the factor of H.
"""

from __future__ import annotations

import numpy as np

from zeropoint.correct.positive_systems import LowerMatrix, factor_in_place
from zeropoint.ir.tensors import Array

BLOCK = 64


def error_aware_rounding(
    matrix: Array, moments: Array, damping: Array, scales: Array, least: int, greatest: int
) -> Array:
    """Integers (groups, outputs, terms) in [least, greatest] for weights of this shape, f64.

    H is `moments`, (groups, terms, terms), symmetric, with `damping`, (groups, 1, 1), on its diagonal. `scales` is
    (groups, outputs, 1). Raises numpy.linalg.LinAlgError if H is not positive definite.
    """
    order = np.argsort(-np.diagonal(moments, axis1=1, axis2=2), axis=1, kind="stable")
    real = np.take_along_axis(matrix, order[:, None, :], axis=2)
    factor = _factor(moments, damping, order)
    found, errors = np.empty_like(real), np.empty_like(real)
    terms = real.shape[2]
    for first in range(0, terms, BLOCK):
        end = min(first + BLOCK, terms)
        upper = factor.columns(terms - end, terms - first)[:, ::-1, ::-1]  # of U, rows 0 to `end`
        carried = errors[:, :, :first] @ upper[:, :first]
        for column in range(first, end):
            wanted = real[:, :, column] + carried[:, :, column - first] / upper[:, column, column - first][:, None]
            integers = np.clip(np.rint(wanted / scales[:, :, 0]), least, greatest)
            error = real[:, :, column] - integers * scales[:, :, 0]
            found[:, :, column], errors[:, :, column] = integers, error
            carried[:, :, column + 1 - first :] += error[:, :, None] * upper[:, column, None, column + 1 - first :]
    result = np.empty_like(found)
    np.put_along_axis(result, np.broadcast_to(order[:, None, :], found.shape), found, axis=2)
    return result


def _factor(moments: Array, damping: Array, order: Array) -> LowerMatrix:
    """U in this order of terms (groups, terms), f64, with rows and columns backwards: U U^T = H is L L^T then."""
    backwards = order[:, ::-1]

    def made(rows: slice, columns: slice) -> Array:
        parts = [own[np.ix_(places[rows], places[columns])] for own, places in zip(moments, backwards, strict=True)]
        found = np.array(parts, np.float64)
        diagonal = range(found.shape[2])
        found[:, diagonal, diagonal] += damping[:, :, 0]
        return found

    return factor_in_place(LowerMatrix.of(order.shape[1], made))
