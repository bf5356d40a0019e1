"""Round weights to minimize the error of the results instead of the error of the weights (GPTQ).

Weights V (outputs, terms) are rounded to integers Q with scales s, one column at a time, in descending order of the
variance of their inputs. The columns not yet rounded compensate the error of a column, using the inverse of H, the
second moments of the inputs. The remaining error is (V - sQ) H (V - sQ)^T.

Source: Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers", section 3:
Cholesky form, blocks of columns.
"""

from __future__ import annotations

import numpy as np

from zeropoint.ir.tensors import Array

BLOCK = 64


def error_aware_rounding(matrix: Array, moments: Array, scales: Array, least: int, greatest: int) -> Array:
    """Integers (groups, outputs, terms) in [least, greatest] for weights of this shape.

    `moments` is (groups, terms, terms), symmetric and positive definite. `scales` is (groups, outputs, 1). All are f64.
    Raises numpy.linalg.LinAlgError if the moments are not positive definite.
    """
    order = np.argsort(-np.diagonal(moments, axis1=1, axis2=2), axis=1, kind="stable")
    left = np.take_along_axis(matrix, order[:, None, :], axis=2)
    moments = np.take_along_axis(np.take_along_axis(moments, order[:, :, None], axis=1), order[:, None, :], axis=2)
    factor = np.linalg.cholesky(np.linalg.inv(moments)).swapaxes(1, 2)  # upper triangular: inverse(H) = U^T U
    found = np.empty_like(left)
    terms = left.shape[2]
    for first in range(0, terms, BLOCK):
        end = min(first + BLOCK, terms)
        errors = np.empty((*left.shape[:2], end - first))
        for column in range(first, end):
            real = left[:, :, column]
            integers = np.clip(np.rint(real / scales[:, :, 0]), least, greatest)
            found[:, :, column] = integers
            error = (real - integers * scales[:, :, 0]) / factor[:, column, column][:, None]
            errors[:, :, column - first] = error
            left[:, :, column + 1 : end] -= error[:, :, None] * factor[:, column, None, column + 1 : end]
        left[:, :, end:] -= errors @ factor[:, first:end, end:]
    result = np.empty_like(found)
    np.put_along_axis(result, np.broadcast_to(order[:, None, :], found.shape), found, axis=2)
    return result
