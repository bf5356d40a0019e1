"""Padding by a value that is computed: by zeros, which the value then replaces.

```mlir
%y = stablehlo.pad %x, %v, low = [1], high = [0], interior = [0]
```
becomes
```mlir
%0 = stablehlo.pad %x, 0.0, low = [1], high = [0], interior = [0]
%y = stablehlo.select [true, false, ...], (broadcast %v), %0
```
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.expand.emission import Emission
from zeropoint.ir.constants import is_constant
from zeropoint.ir.stablehlo import PadOp, SelectOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of


def filled(
    emit: Emission, value: SSAValue, by: SSAValue, low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> SSAValue:
    """`value` padded by a computed scalar."""
    zero = emit.constant(np.zeros((), element_dtype(element_of(value))))
    made = emit.add(PadOp(value, zero, low, high, interior))
    is_padding = emit.constant(~inside(shape_of(value), shape_of(made), low, interior))
    return emit.add(SelectOp(is_padding, emit.spread(by, shape_of(made), ()), made))


def inside(shape: Sequence[int], padded: Sequence[int], low: Sequence[int], interior: Sequence[int]) -> Array:
    """A bool per element of a padded tensor: whether it comes from the tensor of `shape`."""
    kept: list[Array] = []
    for size, total, before, between in zip(shape, padded, low, interior, strict=True):
        index = np.arange(total) - before
        kept.append((index % (between + 1) == 0) & (index >= 0) & (index <= (size - 1) * (between + 1)))
    return everywhere(kept)


def everywhere(along: Sequence[Array]) -> Array:
    """A bool array of one dimension for each given one: whether all hold."""
    found = np.ones([len(part) for part in along], np.bool_)
    for dim, part in enumerate(along):
        found &= part.reshape([-1 if other == dim else 1 for other in range(len(along))])
    return found


def is_computed(op: PadOp) -> bool:
    """Whether a `pad` inserts a computed value."""
    return not is_constant(op.padding_value)


def pad(emit: Emission, op: PadOp) -> Sequence[SSAValue]:
    """A `pad` by a computed value."""
    widths = (op.edge_padding_low, op.edge_padding_high, op.interior_padding)
    return [filled(emit, op.operand, op.padding_value, *map(array_values, widths))]
