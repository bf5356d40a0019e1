"""Ranges of operands that are constants or computed from constants only, and infinite numbers among them.

```mlir
%b = stablehlo.broadcast_in_dim %minus_infinity ...
%0 = "quant.region"(%x, %b) ({ concatenate })    observed in [-4, 5]
%1 = "quant.region"(%0) ({ reduce_max })
```
Calibration does not observe these values: the range of `%b` follows from its numbers. No quantized type holds an
infinite number. A kernel that only passes elements on saturates an infinite number at the end of its result's range. So
the pass replaces the number by that end, here -4. If a reader could tell the difference, `masks/hidden_results.py`
keeps the value float.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation, OpResult, SSAValue

from zeropoint.ir.constants import constant_array, constant_op, is_constant
from zeropoint.ir.program import Program
from zeropoint.ir.quant import NoQuantizedType, QuantizeRegionOp
from zeropoint.ir.stablehlo import BroadcastInDimOp, IotaOp, ReshapeOp, TransposeOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.solve.constraints import Constraints
from zeropoint.targets.logical_kernels import PASSES_ELEMENTS

MOVES = BroadcastInDimOp | ReshapeOp | TransposeOp


def bound_constant_operands(program: Program, constraints: Constraints) -> None:
    """State the ranges of computed constants that regions read, and replace infinite constants by finite ones, in
    place."""
    for op in list(program.entry.ops):
        for index in range(len(op.operands)) if isinstance(op, QuantizeRegionOp) else ():
            _bound(op, index, program, constraints)


def _bound(region: Operation, index: int, program: Program, constraints: Constraints) -> None:
    value = region.operands[index]
    known, source = constraints.get(value), _source(value)
    array = _ends_of(source, program.weights)
    is_stated = known is not None and (known.minimum is not None or known.pinned is not None)
    if is_stated or array is None or array.dtype.kind != "f" or not array.size or np.isnan(array).any():
        return
    least, greatest = _passed_on(region, constraints)
    if not np.isfinite(array).all() and np.isfinite([least, greatest]).all():
        bounded = constant_op(np.clip(array, least, greatest).astype(array.dtype), program.weights)
        bounded.location = value.owner.location if isinstance(value.owner, Operation) else bounded.location
        program.entry.insert_op_before(bounded, region)
        value = region.operands[index] = _moved_like(value, bounded.output, region)
    elif not is_constant(value):
        value = region.operands[index] = _moved_like(value, source, region)
    low, high = np.clip([array.min(), array.max()], least, greatest).tolist()
    if not is_constant(value) and np.isfinite([low, high]).all():
        constraints.of(value).observe(low, high, "default", "the numbers of the constant")


def _source(value: SSAValue) -> SSAValue:
    """The value whose elements `value` repeats or moves."""
    while isinstance(value.owner, MOVES):
        value = value.owner.operands[0]
    return value


def _ends_of(source: SSAValue, weights: Weights) -> Array | None:
    """The numbers of a constant, or the first and last number of an iota; None for anything else."""
    if isinstance(source.owner, IotaOp):
        count = shape_of(source)[source.owner.iota_dimension.value.data]
        return np.array([0, count - 1][: 1 + (count > 0)], element_dtype(element_of(source)))
    return constant_array(source, weights)


def _passed_on(region: Operation, constraints: Constraints) -> tuple[float, float]:
    """The range at whose ends a region saturates the elements that it passes on; infinite if it saturates none."""
    known = constraints.get(region.results[0])
    if known is None or known.float_reason is not None or known.minimum is None or known.maximum is None:
        return -np.inf, np.inf
    if not isinstance(region, QuantizeRegionOp) or region.logical_kernel.data not in PASSES_ELEMENTS:
        return -np.inf, np.inf
    if any(isinstance(spec, NoQuantizedType) for spec in region.output_specs):
        return -np.inf, np.inf
    return known.minimum, known.maximum


def _moved_like(value: SSAValue, source: SSAValue, reader: Operation) -> SSAValue:
    """Copy the ops that move `source` to `value`, for one reader, so that each reader has its own range."""
    if not isinstance(value, OpResult) or not isinstance(value.op, MOVES):
        return source
    copy = value.op.clone()
    copy.operands[0] = _moved_like(copy.operands[0], source, reader)
    assert reader.parent is not None
    reader.parent.insert_op_before(copy, reader)
    return copy.results[0]
