"""Differences that OpenVINO would compute in the convolution or product before them, without rounding its result.

Sources: measured with OpenVINO 2026.4.1. Sums are integer kernels, whose rounding is in `materialize/openvino_sums.py`;
quotients, maxima and minima have the predicted bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import BlockArgument, Operation, SSAValue

from zeropoint.export.onnx.emission import EXPANDED, OnnxEmission, Tensor
from zeropoint.export.onnx.graph import STORED
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.targets.logical_kernels import CONTRACTIONS


def is_fused_difference(op: Operation, emit: OnnxEmission) -> bool:
    """Whether OpenVINO computes a difference of computed values in the kernel of one of them."""
    is_computed = all(emit.array(value) is None for value in op.operands)
    return emit.for_openvino and is_computed and any(map(_is_product, op.operands))


def difference(op: Operation, operands: Sequence[Tensor], emit: OnnxEmission) -> None:
    """Sub with one dimension more, between reshapes, which OpenVINO does not compute in a convolution."""
    result, rank = op.results[0], len(shape_of(op.results[0]))
    apart = [
        emit.reshaped(tensor, (*[1] * (1 + rank - len(tensor.shape)), *tensor.shape), _stem(tensor))
        for tensor in operands
    ]
    made = emit.apply("Sub", apart, element_of(result), (1, *shape_of(result)), f"{emit.name(result)}/apart")
    emit.put(result, emit.reshaped(made, shape_of(result), emit.name(result)))


def _is_product(value: SSAValue) -> bool:
    """Whether a quantized convolution or product computes a value."""
    if isinstance(value, BlockArgument) and isinstance(region := value.owner.parent_op(), QuantizeRegionOp):
        value = region.inputs[value.index]
    made = value.owner
    return isinstance(made, QuantizeRegionOp) and made.is_quantized and made.logical_kernel.data in CONTRACTIONS


def _stem(tensor: Tensor) -> str:
    """The name of a tensor without that of the `Expand` that repeats it. The tensor has a number, as it has after an
    import; its value may have none."""
    return EXPANDED.sub("", tensor.name.removesuffix(STORED))
