"""Constant operands of elementwise float ops before their broadcast, for operators that repeat dimensions of size 1.

```mlir
%c = stablehlo.constant dense<2.0> : tensor<f32>
%b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<1x8x8x4xf32>
%y = stablehlo.multiply %x, %b          // reads a constant [1, 1, 1, 1] in the file
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation, SSAValue

from zeropoint.ir.stablehlo import BroadcastInDimOp
from zeropoint.ir.tensors import Array, shape_of


def before_broadcasts(op: Operation, array_of: Callable[[SSAValue], Array | None]) -> Sequence[Array | None]:
    """For each operand, the constant before its broadcast, in the rank of the result; None for one that stays as it is.

    `array_of` gives the elements of a constant. All operands stay if no computed one has the shape of the result,
    because the operator would compute a smaller result.
    """
    shape = shape_of(op.results[0])
    if not any(array_of(value) is None and shape_of(value) == shape for value in op.operands):
        return [None] * len(op.operands)
    return [_before_broadcast(value, array_of) for value in op.operands]


def _before_broadcast(value: SSAValue, array_of: Callable[[SSAValue], Array | None]) -> Array | None:
    owner = value.owner
    if not isinstance(owner, BroadcastInDimOp):
        return None
    inner = array_of(owner.operand)
    return None if inner is None else owner.aligned(inner)
