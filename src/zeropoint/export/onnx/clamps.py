"""Bounds of clamps, of which OpenVINO would round those of a dequantized value.

OpenVINO moves a clamp before the dequantization of its operand and truncates the bounds to stored integers: a clamp to
1 of a value in steps of 0.3 gives 0.9. It does so with one bound for all elements, as a `Clip`, or as `Max` and `Min`
of a scalar. With a bound for each element along a dimension it computes floats. It moves dequantizations over products
and sums with constants and over ops that move elements, too.
"""

from __future__ import annotations

import numpy as np

from zeropoint.export.onnx.emission import OnnxEmission, Tensor
from zeropoint.ir.stablehlo import ClampOp
from zeropoint.ir.tensors import Array, element_of

LINEAR = frozenset({"Add", "Div", "Mul", "Neg", "Reshape", "Slice", "Sub", "Transpose"})


def repeated_bounds(op: ClampOp, value: Tensor, emit: OnnxEmission) -> tuple[Tensor, Tensor] | None:
    """The scalar bounds of a clamp, repeated along a dimension of its operand, if OpenVINO would round them; else None.

    A value whose dimensions have one element each is left to OpenVINO.
    """
    low, high = (emit.array(bound) for bound in (op.min, op.max))
    if low is None or high is None or low.size != 1 or high.size != 1:
        return None
    axis = next((axis for axis, size in enumerate(value.shape) if size > 1), None)
    is_dequantized = emit.for_openvino and _is_dequantized(value.name, emit)
    if not is_dequantized or axis is None or (_is_exact(low) and _is_exact(high)):
        return None
    shape = [size if dimension == axis else 1 for dimension, size in enumerate(value.shape)]
    name, kind = emit.name(op.result), element_of(op.result)
    first, second = (
        emit.constant(np.broadcast_to(end.reshape(()), shape).copy(), kind, f"{name}/{role}")
        for end, role in ((low, "low"), (high, "high"))
    )
    return first, second


def _is_dequantized(name: str, emit: OnnxEmission) -> bool:
    """Whether only ops over which OpenVINO moves a dequantization stand between it and a value."""
    makers = {made: node for node in emit.builder.nodes for made in node.output}
    while name not in emit.reals.values():
        node = makers.get(name)
        computed = [] if node is None else [each for each in node.input if each not in emit.builder.constants]
        if node is None or node.op_type not in LINEAR or len(computed) != 1:
            return False
        (name,) = computed
    return True


def _is_exact(bound: Array) -> bool:
    """Whether a bound is a stored integer in every type: 0, or infinite."""
    return bound.item() == 0 or not np.isfinite(bound.item())
