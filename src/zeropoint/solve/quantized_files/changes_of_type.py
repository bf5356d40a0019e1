"""Changes of type between which no kernel is: a rescale, as the integer operator QUANTIZE of LiteRT computes it.

```mlir
%1 = quant.qcast %x : ... to tensor<4x!quant.uniform<i8:f32, 0.5>>        // and %2, its dcast
%3 = quant.qcast %2 : ... to tensor<4x!quant.uniform<i8:f32, 0.25>>
```
Without a kernel that reads or makes %x, these casts are no constraints of any port. The region of a rescale is put
before the second one, and has its types.
"""

from __future__ import annotations

from typing import TypeGuard

from xdsl.ir import Attribute, SSAValue

from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.quant.statements import STATES
from zeropoint.ir.tensors import element_of
from zeropoint.solve.constraints import DEQUANTIZES, QUANTIZES, WIDEST, meets_region, requantized, root


def rescale_between_casts(program: Program) -> None:
    """Put a rescale, in place, before each cast to another type of integers that no kernel makes or reads."""
    for op in list(program.entry.ops):
        if not isinstance(op, QUANTIZES):
            continue
        value = op.operands[0]
        while isinstance(value.owner, STATES):
            value = value.owner.operands[0]
        given, wanted = _stored(value), element_of(op.results[0])
        if _is_activation(given) and _is_activation(wanted) and given != wanted and not meets_region(root(value)):
            op.operands[0] = requantized(value, given, wanted, op)


def _stored(value: SSAValue) -> Attribute | None:
    """The element type of what is dequantized to a value; None for other values."""
    owner = value.owner
    return element_of(owner.operands[0]) if isinstance(owner, DEQUANTIZES) else None


def _is_activation(kind: Attribute | None) -> TypeGuard[UniformQuantizedType]:
    return isinstance(kind, UniformQuantizedType) and kind.is_per_layer and kind.storage.type.width <= WIDEST
