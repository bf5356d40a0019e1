"""LiteRT's softmax and log_softmax of 8-bit scores in f32, its kernels unless reference kernels are selected.

```mlir
%1 = "quant.region"(%0) ({ softmax }) {logical_kernel = "softmax"} : ... i8 to i8 at 1/256 from -128
```
becomes, under profile `xnnpack`,
```mlir
%e = (gather of exp(-scale * i), at i = greatest score - score)
%f = 1 / (%e summed from first to last, times 1/256)                 one number a row
%1 = (%e * %f, rounded half away from zero, as i32 at the result's scale; `uniform_quantize` clamps it)
```
A log_softmax is %0 * fl(s_in / s_out) - fl(fl(fl(s_in * greatest) + log(sum)) / s_out), rounded to even.

Sources: TFLite's optimized_ops.h (Softmax, LogSoftmax).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.materialize.elementwise import encased
from zeropoint.materialize.float_arithmetic import FloatArithmetic
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.tabulated_rows import TabulatedRows
from zeropoint.numerics.litert_exponentials import f32_exponentials

REASON = "LiteRT's kernel computes in floats"


def softmax(kernel: MaterializedKernel) -> SSAValue:
    """Exponentials from a table, times the reciprocal of their sum."""
    run = FloatArithmetic(kernel, REASON)
    rows = TabulatedRows.of(run)
    if rows is None:
        return encased(kernel)
    exponentials = rows.exponentials(rows.greatest(), f32_exponentials(kernel.type_of(kernel.arguments[0]).scale))
    scaled = run.times(rows.sums(exponentials), np.float32(kernel.output_type.scale))
    factor = rows.along(run.made(hlo.DivideOp(run.filled(scaled, np.float32(1)), scaled)))
    shares = run.made(hlo.RoundNearestAfzOp(run.made(hlo.MultiplyOp(exponentials, factor))))
    return run.stored(run.to(shares, i32))


def log_softmax(kernel: MaterializedKernel) -> SSAValue:
    """Scores at the scale of the result, minus the greatest score and the logarithm of the sum of exponentials."""
    run = FloatArithmetic(kernel, REASON)
    rows = TabulatedRows.of(run)
    if rows is None:
        return encased(kernel)
    given, wanted = kernel.type_of(kernel.arguments[0]), np.float32(kernel.output_type.scale)
    scale, greatest = np.float32(given.scale), rows.greatest()
    total = rows.sums(rows.exponentials(greatest, f32_exponentials(given.scale)))
    # The runtime multiplies stored integers, and its sum is rounded at their magnitude.
    top = run.times(run.plus(run.to(greatest, f32), given.zero_point), scale)
    offset = run.made(hlo.AddOp(top, run.made(hlo.LogOp(total))))
    offset = run.made(hlo.DivideOp(offset, run.filled(offset, wanted)))
    stored = run.plus(run.to(rows.scores, f32), given.zero_point)
    scaled = run.times(stored, np.float32(scale / wanted))
    return run.rounded(run.made(hlo.SubtractOp(scaled, rows.along(offset))))


KERNELS: Mapping[str, Callable[[MaterializedKernel], SSAValue]] = {"log_softmax": log_softmax, "softmax": softmax}
"""By logical kernel."""
