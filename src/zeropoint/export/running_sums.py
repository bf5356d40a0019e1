"""Running sums: windows that cover all elements up to each one, as `jnp.cumsum` has.

```mlir
%1 = "stablehlo.reduce_window"(%0, %zero) <{padding = [[0, 0], [6, 0]], window_dimensions = array<i64: 1, 7>}> ({ add })
    : (tensor<3x7xf32>, tensor<f32>) -> tensor<3x7xf32>
```
ONNX and LiteRT have an operator for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from zeropoint.ir.stablehlo import AddOp, ReduceWindowOp
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import Array, shape_of


@dataclass(frozen=True)
class RunningSum:
    """The dimension along which elements are summed, and whether the sums begin at its end."""

    axis: int
    reverse: bool


def running_sum(op: ReduceWindowOp, start: Array | None) -> RunningSum | None:
    """The running sum that a window is, if its initial value `start` is 0; None for any other window."""
    if len(op.inputs) != 1 or body_op(op.body) is not AddOp or start is None or start.any():
        return None
    shape = shape_of(op.inputs[0])
    ones = (1,) * len(shape)
    if any(array_values(a, ones) != ones for a in (op.window_strides, op.base_dilations, op.window_dilations)):
        return None
    rows = zip(array_values(op.window_dimensions), padding_values(op.padding, len(shape)), strict=True)
    covered = [(axis, size, pair) for axis, (size, pair) in enumerate(rows) if (size, pair) != (1, (0, 0))]
    if len(covered) != 1:
        return None
    axis, size, pair = covered[0]
    if size != shape[axis] or pair not in ((size - 1, 0), (0, size - 1)):
        return None
    return RunningSum(axis, pair[0] == 0)
