"""Contractions of quantized files that OpenVINO computes of integers, and no row of a table describes.

```mlir
%a = quant.dcast %q : ... to tensor<1x4x8x8xf32>
%1 = "quant.region"(%a, %w, %b) ({ convolution, add })    %w is pinned to i8
%2 = quant.qcast %1 : ... to tensor<1x4x8x8x!quant.uniform<u8:f32:1, {0.1,0.2,0.1,0.3}>>
```
Propagation leaves such a kernel float if the result is not quantized, or if the data of a depthwise convolution or the
result have a scale per channel, as in NNCF's files. The sums are exact, and scaled in f32, as in other kernels.
onnxruntime adds floats there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.annotations import PINNED
from zeropoint.ir.bounds import Bounds
from zeropoint.ir.constants import constant_array
from zeropoint.ir.contractions import ContractionOp
from zeropoint.ir.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    QuantizeRegionOp,
    StorageCastOp,
    UniformQuantizedType,
    stored_array,
)
from zeropoint.ir.stablehlo import ConstantOp, ConvolutionOp, UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensors import element_of, shape_of, with_element
from zeropoint.ir.weights import Weights
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.openvino import real_contraction, rounded_contraction

BYTE, CHANNELS = 8, 1
CONTRACTIONS = ("convolution", "depthwise_convolution", "fully_connected")


@dataclass(frozen=True)
class FileContraction:
    """A float region with the types that its file gives it. `result` is None if nothing quantizes the result."""

    region: QuantizeRegionOp
    data: UniformQuantizedType
    filters: UniformQuantizedType
    result: UniformQuantizedType | None

    @staticmethod
    def of(region: QuantizeRegionOp, weights: Weights) -> FileContraction | None:
        """The contraction of a float region; None if OpenVINO computes it of floats."""
        if region.logical_kernel.data not in CONTRACTIONS or constant_array(region.inputs[1], weights) is None:
            return None
        data, filters = _dequantized(region.inputs[0]), _pinned(region.inputs[1])
        if data is None or filters is None or not isinstance(region.body.block.first_op, ContractionOp):
            return None
        result = _quantized(region.outputs[0])
        found = FileContraction(region, data, filters, result)
        return found if found._is_integer() and (result is None or found._is_clamped_by(result, weights)) else None

    def _is_integer(self) -> bool:
        if self.filters.is_sub_channel or self.filters.zero_points.any() or not self.filters.storage.type.signed:
            return False
        kinds = [kind for kind in (self.data, self.filters, self.result) if kind is not None]
        if any(kind.storage.type.width != BYTE for kind in kinds):
            return False
        by_channel = [kind for kind in kinds if kind is not self.filters and not kind.is_per_layer]
        if any(kind.axis != CHANNELS or len(shape_of(self.region.outputs[0])) < CHANNELS + 2 for kind in by_channel):
            return False
        if any((kind.zero_points != kind.zero_points.flat[0]).any() for kind in by_channel):
            return False
        return self.data.is_per_layer or (self._has_a_channel_per_group() and not self.data.zero_points.any())

    def _has_a_channel_per_group(self) -> bool:
        op = self.region.body.block.first_op
        return isinstance(op, ConvolutionOp) and op.feature_group_count.value.data == len(self.data.scales)

    def _is_clamped_by(self, kind: UniformQuantizedType, weights: Weights) -> bool:
        """Whether the range of a type clamps the result as the body does."""
        bounds = Bounds()
        for op in self.region.body.block.ops:
            bounds.then(op, weights)
        if kind.is_per_layer:
            return True
        ends = [np.broadcast_to(np.float64(end), (len(kind.scales),)) for end in (bounds.low, bounds.high)]
        low, high = (stored_array(end, _along_first(kind)) for end in ends)
        return bool((low <= kind.storage.minimum).all() and (high >= kind.storage.maximum).all())

    def emit(self, kernel: MaterializedKernel, filters: SSAValue) -> None:
        """Replace the region by sums of integers. `filters` is the quantized constant."""
        region, (data, _, *biases) = self.region, self.region.inputs
        assert isinstance(data.owner, Operation)
        given = data.owner.operands[0]
        values = [self._of_one_scale(kernel, given), filters, *biases]
        kernel.values.update(zip(kernel.arguments, values, strict=True))
        factors = None if self.data.is_per_layer else self._factors()
        if self.result is None:
            region.outputs[0].replace_all_uses_with(real_contraction(kernel, factors))
            return
        region.output_specs = ArrayAttr[Attribute]([self.result])
        made = rounded_contraction(kernel, factors)
        for use in list(region.outputs[0].uses):
            use.operation.results[0].replace_all_uses_with(made)
            Rewriter.erase_op(use.operation)

    def _of_one_scale(self, kernel: MaterializedKernel, data: SSAValue) -> SSAValue:
        """The data with one scale, 1, for the same integers; data with one scale as they are."""
        if self.data.is_per_layer:
            return data
        integers = kernel.insert(StorageCastOp(data, with_element(data, self.data.storage.mlir_type)), self.region)
        one = UniformQuantizedType.per_layer(self.data.storage, 1.0)
        return kernel.insert(StorageCastOp(integers.result, with_element(data, one)), self.region).result

    def _factors(self) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        """The scale of each channel's sums."""
        filters = np.broadcast_to(self.filters.scales, (shape_of(self.region.outputs[0])[CHANNELS],))
        data = np.repeat(self.data.scales, len(filters) // len(self.data.scales))
        return data.astype(np.float32) * filters.astype(np.float32)


def _along_first(kind: UniformQuantizedType) -> UniformQuantizedType:
    return UniformQuantizedType.per_channel(kind.storage, 0, kind.scales.tolist(), kind.zero_points.tolist())


def _dequantized(value: SSAValue) -> UniformQuantizedType | None:
    maker = value.owner
    kind = element_of(maker.operands[0]) if isinstance(maker, DequantizeCastOp | UniformDequantizeOp) else None
    return kind if isinstance(kind, UniformQuantizedType) else None


def _pinned(value: SSAValue) -> UniformQuantizedType | None:
    found = value.owner.attributes.get(PINNED) if isinstance(value.owner, ConstantOp) else None
    return found if isinstance(found, UniformQuantizedType) else None


def _quantized(value: SSAValue) -> UniformQuantizedType | None:
    """The one type that all readers of a value quantize it to; None if there is none."""
    readers = [use.operation for use in value.uses]
    kinds = {element_of(op.results[0]) for op in readers if isinstance(op, QuantizeCastOp | UniformQuantizeOp)}
    casts = all(isinstance(op, QuantizeCastOp | UniformQuantizeOp) for op in readers)
    (kind,) = kinds if casts and len(kinds) == 1 else (None,)
    return kind if isinstance(kind, UniformQuantizedType) else None
