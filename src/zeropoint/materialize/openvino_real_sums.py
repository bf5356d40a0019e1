"""Contractions whose result a quantized file leaves float: OpenVINO computes them of integers, too.

```mlir
%a = quant.dcast %q : ... to tensor<4x20xf32>
%1 = "quant.region"(%a, %w, %b) ({ dot_general, add })    %w is pinned to i8; nothing quantizes %1
```
The sums are exact, and scaled to real numbers in f32. onnxruntime adds floats there.
"""

from __future__ import annotations

from zeropoint.ir.annotations import PINNED
from zeropoint.ir.constants import constant_array
from zeropoint.ir.contractions import ContractionOp
from zeropoint.ir.quant import DequantizeCastOp, QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, ClampOp, ConstantOp, MaximumOp, MinimumOp, UniformDequantizeOp
from zeropoint.ir.tensors import element_of
from zeropoint.ir.weights import Weights
from xdsl.ir import SSAValue

BYTE = 8
CONTRACTIONS = ("convolution", "depthwise_convolution", "fully_connected")
Operand = tuple[SSAValue, UniformQuantizedType | None]


def operands(region: QuantizeRegionOp, weights: Weights) -> list[Operand] | None:
    """The operands of a float region with the types in which they are integers; None if the sums are of floats."""
    if region.logical_kernel.data not in CONTRACTIONS:
        return None
    data, filters, *biases = region.inputs
    given, pinned = _dequantized(data), _pinned(filters)
    first, *others = region.body.block.ops
    if given is None or pinned is None or constant_array(filters, weights) is None or not isinstance(first, ContractionOp):
        return None
    if not given.is_per_layer or pinned.is_sub_channel or pinned.zero_points.any() or not pinned.storage.type.signed:
        return None
    if any(kind.storage.type.width != BYTE for kind in (given, pinned)):
        return None
    return [(data, given), (filters, pinned), *((bias, None) for bias in biases)]


def _dequantized(value: SSAValue) -> UniformQuantizedType | None:
    maker = value.owner
    kind = element_of(maker.operands[0]) if isinstance(maker, DequantizeCastOp | UniformDequantizeOp) else None
    return kind if isinstance(kind, UniformQuantizedType) else None


def _pinned(value: SSAValue) -> UniformQuantizedType | None:
    found = value.owner.attributes.get(PINNED) if isinstance(value.owner, ConstantOp) else None
    return found if isinstance(found, UniformQuantizedType) else None
