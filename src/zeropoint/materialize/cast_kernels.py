"""Float kernels whose operands and result have types in any case become kernels of integers, if the runtime has such.

```mlir
%0 = "quant.region"(%a, %b) ({ subtract })      %a and %b are results of integer kernels of 8 bits
%1 = quant.qcast %0 : ... to tensor<4x!quant.uniform<u8:f32, 0.02:128>>
```
OpenVINO computes one operand of a difference in steps of the other, as those of a sum. A row of its table would give
types to other differences, too, which need none (`cast_kernels` in a target's table). The same holds for sums, products
and concatenations of values with a scale per channel, which no row covers (`channel_scales`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute, SSAValue

from zeropoint.ir.annotations import DEMANDS, FLOAT_REASON, Fact, state_facts
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.tensors import shape_of
from zeropoint.ir.weights import Weights
from zeropoint.materialize.file_contractions import BYTE, read_type, type_at
from zeropoint.materialize.join_functions import is_byte, without_casts
from zeropoint.materialize.openvino_sums import is_alone_behind_convolution
from zeropoint.targets.logical_kernels import CONTRACTIONS

BY_CHANNEL = ("add", "concatenate", "multiply")
"""Kernels with rows for operands of one scale each."""


def take_cast_types(region: QuantizeRegionOp, weights: Weights) -> None:
    """Give a region the types of its operands and readers, in place, if they are as follows.

    Each has 8 bits. The result has one scale; the operands may have one for each index of one dimension. Kernels with
    rows have such an operand.
    """
    if region.is_quantized or DEMANDS in region.attributes or len({*region.inputs}) < len(region.inputs):
        return
    given = [read_type(value) for value in region.inputs]
    made = list({type_at(use) for value in region.outputs for use in value.uses})
    if len(made) != 1 or not all(map(is_byte, made)) or not _have_bytes(given):
        return
    if region.logical_kernel.data in BY_CHANNEL and all(map(is_byte, given)):
        return
    # Files keep differences with the results of other contractions apart (`export/onnx/differences.py`).
    products = [value for value in map(without_casts, region.inputs) if _is_product(value)]
    if len(products) > 1 or not all(is_alone_behind_convolution(value, weights) for value in products):
        return
    if products and any(shape_of(value) != shape_of(region.outputs[0]) for value in region.inputs):
        return
    specs = [[kind for kind in kinds if kind is not None] for kinds in (given, made)]
    region.input_specs, region.output_specs = (ArrayAttr[Attribute](kinds) for kinds in specs)
    region.operands = list(map(without_casts, region.inputs))
    region.attributes.pop(FLOAT_REASON, None)
    state_facts(region, [Fact("parameters", str(kind), "kernel", "its readers") for kind in specs[1]])


def _have_bytes(kinds: Sequence[UniformQuantizedType | None]) -> bool:
    """Whether values have 8 bits, and one scale or one for each index of one dimension."""
    found = [kind for kind in kinds if kind is not None and kind.storage.type.width == BYTE and not kind.is_sub_channel]
    return len(found) == len(kinds) and len({kind.axis for kind in found if kind.axis is not None}) <= 1


def _is_product(value: SSAValue) -> bool:
    """Whether a contraction computes a value."""
    while isinstance(value.owner, DequantizeCastOp | QuantizeCastOp):
        value = value.owner.operands[0]
    maker = value.owner
    return isinstance(maker, QuantizeRegionOp) and maker.logical_kernel.data in CONTRACTIONS
