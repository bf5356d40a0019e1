"""Brings quantized constants into the one form that lowering reads: a `stablehlo.constant` of a quantized type.

```mlir
%f = stablehlo.constant dense<[1.0, -0.5]> : tensor<2xf32>
%0 = stablehlo.uniform_quantize %f : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.25>>
```
becomes
```mlir
%0 = "stablehlo.constant"() {value = dense<[4, -2]> : tensor<2xi8>} : () -> tensor<2x!quant.uniform<i8:f32, 0.25>>
```
`quant.scast` and `stablehlo.bitcast_convert` of integer constants become the same, unless only dequantizations read
them. A weight that is stored in integers and read as floats is not changed.
"""

from __future__ import annotations

from xdsl.ir import Block, Operation
from xdsl.rewriter import Rewriter

from zeropoint.ir.annotations import own_profile
from zeropoint.ir.constants import constant_op, is_constant
from zeropoint.ir.quant import DequantizeCastOp, StorageCastOp, quantize
from zeropoint.ir.quantized_constants import QuantizeArray, quantized_constant
from zeropoint.ir.stablehlo import BitcastConvertOp, BroadcastInDimOp, UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.weights import Weights
from zeropoint.numerics.profile import Profile

_MAKES = (BitcastConvertOp, StorageCastOp, UniformQuantizeOp)


def fold_quantized_constants(block: Block, weights: Weights, profile: Profile) -> None:
    """Replace quantized constants of other forms, in place. Floats are rounded by `profile`, or the op's own."""
    for op in list(block.ops):
        if not isinstance(op, _MAKES) or _is_only_dequantized(op):
            continue
        found = quantized_constant(op.results[0], weights, rounding(own_profile(op) or profile.name))
        if found is None or found[1].is_sub_channel or not found[1].storage.is_integer:
            continue
        stored, kind = found
        # Keep the broadcast of a number. Other constants may have been transposed or reshaped.
        number = stored.reshape(-1)[:1]
        is_number = (
            not is_constant(op.operands[0]) and kind.is_per_layer and bool(stored.size and (stored == number).all())
        )
        made: list[Operation] = [
            constant_op(number.reshape(()) if is_number else stored, weights, quantized=kind, location=op.location)
        ]
        if is_number:
            made.append(BroadcastInDimOp(made[0].results[0], op.results[0].type, []))
            made[-1].location = op.location
        Rewriter.replace_op(op, made)


def rounding(profile: str) -> QuantizeArray:
    """A function that quantizes constants as `uniform_quantize` does at run time under a profile."""
    return lambda array, kind: quantize(array, kind, profile)


def _is_only_dequantized(op: Operation) -> bool:
    """Whether an op reinterprets integers that only dequantizations read."""
    readers = [use.operation for use in op.results[0].uses]
    return not isinstance(op, UniformQuantizeOp) and all(
        isinstance(reader, UniformDequantizeOp | DequantizeCastOp) for reader in readers
    )
