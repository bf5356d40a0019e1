"""Weights-only quantization of tables: a gather reads rows of 8-bit integers, which are dequantized after it.

```mlir
%1 = "quant.region"(%table, %ids) ({ gather }) {zeropoint.demands = [{name = "activations", value = "float"}]}
```
becomes
```mlir
%q = stablehlo.constant dense<...> : tensor<30522x384xi8>
%s = stablehlo.constant dense<...> : tensor<30522x1xf32>
%2 = stablehlo.gather(%q, %ids) ...  : tensor<1x128x384xi8>
%3 = stablehlo.gather(%s, %ids) ...  : tensor<1x128x1xf32>
%1 = stablehlo.multiply (convert %2), (broadcast %3) : tensor<1x128x384xf32>
```
Each row of the table has its own scale and no zero point, whatever form the recipe demands for other weights. A gather
of a quantized type cannot express this, because the scales of its result would depend on the indices.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import Float32Type, StringAttr, f32
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from zeropoint.ir.annotations import DEMANDS, FLOAT_ACTIVATIONS, FLOAT_REASON, KERNEL, carry, facts_of
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.locations import location_of
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConvertOp, GatherOp, MultiplyOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_of, shape_of, with_element
from zeropoint.ir.weights import Weights
from zeropoint.numerics import quantize
from zeropoint.numerics.storage import StorageType
from zeropoint.numerics.weight_scales import least_error

BYTE = StorageType(True, 8)


def table_of(region: QuantizeRegionOp) -> GatherOp | None:
    """The op of a region that gathers whole rows of a matrix; None for any other region."""
    op = region.body.block.first_op
    if not isinstance(op, GatherOp) or op.next_op is not region.body.block.last_op:
        return None
    dims, shape = op.dimension_numbers.data, shape_of(op.operand)
    whole = len(shape) == 2 and array_values(op.slice_sizes) == (1, shape[1])
    last = tuple(dims.offset_dims) == (len(shape_of(op.result)) - 1,)
    rows = tuple(dims.collapsed_slice_dims) == (0,) == tuple(dims.start_index_map)
    return op if whole and last and rows and op.operand is region.body.block.args[0] else None


def store_table(region: QuantizeRegionOp, weights: Weights) -> bool:
    """Replace a float gather from a constant by one from integers, in place, if a recipe demands it.

    Returns whether it was replaced.
    """
    demands = {fact.name: fact.value for fact in facts_of(region, DEMANDS)}
    op = table_of(region)
    if op is None or not FLOAT_ACTIVATIONS.items() <= demands.items():
        return False
    table, ids = region.inputs[0], region.inputs[1]
    array = constant_array(table, weights)
    if array is None or not isinstance(element_of(table), Float32Type) or not np.isfinite(array).all():
        return False
    scales, _ = least_error(array.astype(np.float64), BYTE)
    stored = quantize(array, scales[:, None], 0, BYTE.min, BYTE.max, expressed=np.float64, dtype=np.int8)
    location, sizes = location_of(table), array_values(op.slice_sizes)
    integers = constant_op(stored, weights, location=location)
    factors = constant_op(scales[:, None].astype(np.float32), weights, location=location)
    rows = GatherOp(integers.output, ids, op.dimension_numbers.data, sizes)
    real = ConvertOp(rows.result, with_element(op.result, f32))
    scale = GatherOp(factors.output, ids, op.dimension_numbers.data, (1, 1))
    spread = BroadcastInDimOp(scale.result, op.result.type, range(len(shape_of(op.result))))
    made: list[Operation] = [rows, real, scale, spread, MultiplyOp(real.result, spread.result)]
    for each in made:
        each.location = op.location
        carry(region, each, FLOAT_REASON)
        each.attributes[KERNEL] = StringAttr(region.logical_kernel.data)
    assert region.parent is not None
    region.parent.insert_ops_before([integers, factors, *made], region)
    Rewriter.replace_op(region, [], [made[-1].results[0]])
    return True
