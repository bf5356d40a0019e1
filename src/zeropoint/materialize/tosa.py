"""TOSA kernels on storage integers, where their arithmetic differs from StableHLO's on quantized types.

```mlir
%1 = "quant.region"(%0) ({ reduce_window with add, divide by 9 }) {logical_kernel = "average_pool"} : ...
```
becomes, under profile `tosa-double`,
```mlir
%s = quant.scast %0 : tensor<1x8x9x9x!quant.uniform<i8:f32, 0.1:-3>> to tensor<1x8x9x9xi8>
%c = (convert %s to i32, minus the zero point)
%a = reduce_window with stablehlo.add : ... -> tensor<1x8x3x3xi32>
%r = "fxpmath.requantize"(%a, %multiplier, %shift) {behaviour = "fixed32", ...} : ... -> tensor<1x8x3x3xi8>
%1 = quant.scast %r : tensor<1x8x3x3xi8> to tensor<1x8x3x3x!quant.uniform<i8:f32, 0.1:-3>>
```
Source: TOSA 1.0, AVG_POOL2D: the sum of values without their zero point, apply_scale_32 by the reciprocal of the number
of values, with a single rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.ir.stablehlo import ReduceWindowOp, ReshapeOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, shape_of, with_shape
from zeropoint.materialize.counted_padding import counted_padding
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.reduction import summed
from zeropoint.materialize.storage import (
    centred,
    counts_of,
    division_of,
    expressed,
    is_plain,
    reduced,
    requantized,
    window_counts,
)
from zeropoint.numerics.multiplier import tosa_reciprocal
from zeropoint.numerics.requantize import Multiplier, RequantizeBehaviour


def average_pool(kernel: MaterializedKernel) -> SSAValue:
    """Sums of centred integers times the reciprocal of the count, which may depend on the position."""
    op = next(op for op in kernel.body if isinstance(op, ReduceWindowOp))
    division = division_of(kernel)
    counts = None if division is None else counts_of(kernel, division)
    if counts is None or not is_plain(kernel) or kernel.type_of(kernel.arguments[0]) != kernel.output_type:
        return summed(kernel)
    if any(step != 1 for array in (op.base_dilations, op.window_dilations) for step in array_values(array)):
        return summed(kernel)
    if window_counts(op).min() < 1 or counted_padding(op, counts) is None:
        return summed(kernel)
    kernel.values[kernel.arguments[0]] = centred(kernel)
    return expressed(kernel, _divided(kernel, reduced(kernel), np.broadcast_to(counts, shape_of(op.results[0]))))


def _divided(kernel: MaterializedKernel, total: SSAValue, counts: Array) -> SSAValue:
    """Sums divided by their counts.

    `fxpmath.requantize` takes different multipliers along one dimension only, so the dimensions along which counts
    differ are merged into one.
    """
    if (counts == counts.reshape(-1)[0]).all():
        multiplier = Multiplier(RequantizeBehaviour.FIXED32, *tosa_reciprocal(counts.reshape(-1)[0]))
        return requantized(kernel, total, multiplier)
    shape = shape_of(total)
    varied = [axis for axis in range(len(shape)) if (counts != counts.take([0], axis)).any()]
    first, end = varied[0], varied[-1] + 1
    merged = (*shape[:first], prod(shape[first:end]), *shape[end:])
    along = np.moveaxis(counts.reshape(merged), first, 0).reshape(merged[first], -1)[:, 0]
    multiplier = Multiplier(RequantizeBehaviour.FIXED32, *tosa_reciprocal(along))
    flat = kernel.insert(ReshapeOp(total, with_shape(total, merged)), kernel.region).result
    made = requantized(kernel, flat, multiplier, first)
    return kernel.insert(ReshapeOp(made, with_shape(made, shape)), kernel.region).result


KERNELS: Mapping[str, Callable[[MaterializedKernel], SSAValue]] = {"average_pool": average_pool}
"""By logical kernel. Other kernels are those of `materialize.KERNELS`."""
