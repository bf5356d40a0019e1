"""The elements of values that a file computes from constants and shapes: RESHAPE's operand behind SHAPE and PACK.

Shapes are static in a program, so SHAPE is a constant. What moves its elements and computes with them can be evaluated.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import constant_array
from zeropoint.ir.evaluation import function_of
from zeropoint.ir.stablehlo import DivideOp
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.ir.weights import Weights

ELEMENTS = 8192
"""The greatest number of elements that are evaluated."""


def evaluated(value: SSAValue, weights: Weights) -> Array | None:
    """The elements of a value of integers; None if it depends on an input, or is computed otherwise."""
    return _evaluated(value, weights, {})


def _evaluated(value: SSAValue, weights: Weights, found: dict[SSAValue, Array | None]) -> Array | None:
    """Like `evaluated`. `found` has the values that were evaluated before, of which each is read many times."""
    if value not in found:
        found[value] = _computed(value, weights, found)
    return found[value]


def _computed(value: SSAValue, weights: Weights, found: dict[SSAValue, Array | None]) -> Array | None:
    op = value.owner
    if not isinstance(op, Operation) or np.prod(shape_of(value), dtype=np.int64) > ELEMENTS:
        return None
    known = constant_array(value, weights)
    if known is not None:
        return known if known.dtype.kind in "iu" else None
    function = function_of(op)
    operands = [_evaluated(operand, weights, found) for operand in op.operands] if function else [None]
    arrays = [array for array in operands if array is not None]
    if function is None or len(arrays) < len(operands) or (isinstance(op, DivideOp) and not arrays[1].all()):
        return None
    return function(*arrays)
