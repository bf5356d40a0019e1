"""Casts for the types that a model states of float tensors, by `quantization_annotation`.

```mlir
%1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!quant.uniform<u8:f32, 0.5:128>>
%2 = quant.dcast %1 {zeropoint.annotated} : tensor<4x!quant.uniform<u8:f32, 0.5:128>> to tensor<4xf32>
```

Our own files for OpenVINO annotate the results of convolutions that OpenVINO does not round, because it computes the
next op in the same kernel. A float network that is run as it is rounds there, too, as at every cast; only a kernel of
target `openvino` may leave the rounding out. Annotations of inputs, of constants and of integers are not read, nor
those with several scales or with scales of f64.

Source: `TensorAnnotation` in ONNX's `onnx.proto`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np
from onnx import GraphProto
from xdsl.dialects.builtin import UnitAttr, f32
from xdsl.ir import SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.quantization import STORAGE
from zeropoint.ir.annotations import ANNOTATED
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, UniformQuantizedType
from zeropoint.ir.tensors import element_of, with_element

SCALE, ZERO_POINT = "SCALE_TENSOR", "ZERO_POINT_TENSOR"
"""The keys of an annotation that ONNX names."""


def annotated_parameters(graph: GraphProto) -> Mapping[str, tuple[str, str]]:
    """The names of the scale and of the zero point, by annotated tensor."""
    found: dict[str, tuple[str, str]] = {}
    for annotation in graph.quantization_annotation:
        parts = {entry.key: entry.value for entry in annotation.quant_parameter_tensor_names}
        if {SCALE, ZERO_POINT} <= parts.keys():
            found[annotation.tensor_name] = parts[SCALE], parts[ZERO_POINT]
    return found


def annotated(name: str, value: SSAValue, build: Builder) -> SSAValue:
    """The value of a tensor, with casts to and from the type that the model states of it."""
    if name not in build.annotated or element_of(value) != f32:
        return value
    scale, point = map(build.array, build.annotated[name])
    if scale is None or point is None or scale.size != 1 or point.size != 1:
        return value
    if scale.dtype == np.dtype(np.float64) or point.dtype not in STORAGE:
        return value
    step, zero = float(scale.reshape(())), int(point.reshape(()))
    if not 0 < step < inf:
        return value
    kind = UniformQuantizedType.per_layer(STORAGE[point.dtype], step, zero)
    stored = build.insert(QuantizeCastOp(value, with_element(value, kind)))
    made = DequantizeCastOp(stored, value.type)
    made.attributes[ANNOTATED] = UnitAttr()
    return build.insert(made)
