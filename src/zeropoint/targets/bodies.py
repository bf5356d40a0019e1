"""Check that the body of a region computes what its kernel's name says, because a text can name any kernel.

```mlir
%y = quant.region "convolution"(%a: tensor<4xf32> = %x) -> tensor<4xf32> { tanh of %a }
```
This is a misfit: passes and exporters that recognize a kernel by its name would compute another function than the body.
A body must contain the op that characterizes its kernel (`NEEDED`) and no op of another kind of kernel (`FOREIGN`). Its
ops must have the form that fusion gives them (`body_forms.py`). A kernel that moves elements must not compute any,
except indices.

Kernels that only a program's text or a user's table has (`WRITTEN`, `composites`) are defined by their bodies. Only
those that move elements are checked: they must not compute any.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation

from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, QuantizeRegionOp
from zeropoint.ir.quant.statements import STATES
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    CompareOp,
    ConcatenateOp,
    ConstantOp,
    ConvolutionOp,
    DivideOp,
    DotGeneralOp,
    GatherOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    PadOp,
    ReduceOp,
    ReduceWindowOp,
    ReshapeOp,
    ReverseOp,
    SelectOp,
    SliceOp,
    SubtractOp,
    TransposeOp,
)
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.targets.body_forms import misformed
from zeropoint.targets.logical_kernels import (
    BINARY,
    FUNCTIONS,
    MOVEMENTS,
    NORMALIZATIONS,
    PASSES_ELEMENTS,
    POSITIONS,
    REDUCTIONS,
    WRITTEN,
)

Kinds = tuple[type[Operation], ...]
CONTRACTING: Kinds = (ConvolutionOp, DotGeneralOp)
MOVING: Kinds = (
    BroadcastInDimOp,
    ConcatenateOp,
    ConstantOp,
    GatherOp,
    PadOp,
    ReshapeOp,
    ReverseOp,
    SelectOp,
    SliceOp,
    TransposeOp,
    *STATES,
    DequantizeCastOp,
    QuantizeCastOp,
)
"""Ops that compute no elements. Annotations and simulated quantizations are dropped from bodies."""
NEEDED: Mapping[str, Kinds] = {
    **dict.fromkeys(("batch_matmul", "fully_connected"), (DotGeneralOp,)),
    **dict.fromkeys(("convolution", "depthwise_convolution", "transpose_convolution"), (ConvolutionOp,)),
    **dict.fromkeys(REDUCTIONS, (ReduceOp, ReduceWindowOp)),
    **dict.fromkeys(("reduce_max", "reduce_min"), (ReduceOp,)),
    "linear_resize": (DotGeneralOp,),
    "max_pool": (ReduceWindowOp,),
    "add": (AddOp,),
    "broadcast": (BroadcastInDimOp,),
    "compare": (CompareOp,),
    "concatenate": (ConcatenateOp,),
    "divide": (DivideOp,),
    "gather": (GatherOp,),
    "maximum": (MaximumOp,),
    "minimum": (MinimumOp,),
    "multiply": (MultiplyOp,),
    "pad": (PadOp,),
    "prelu": (MultiplyOp,),
    "reshape": (ReshapeOp,),
    "reverse": (ReverseOp,),
    "select": (SelectOp,),
    "slice": (SliceOp,),
    "squared_difference": (SubtractOp,),
    "subtract": (SubtractOp,),
    "transpose": (TransposeOp,),
}
"""For each kernel, ops of which its body has at least one. The rows of single reductions replace those of all."""
REDUCED_BY: Mapping[str, type[Operation]] = {
    **dict.fromkeys(("average_pool", "mean", "sum"), AddOp),
    **dict.fromkeys(("max_pool", "reduce_max"), MaximumOp),
    "reduce_min": MinimumOp,
}
"""For each kernel, the op with which its reductions combine elements."""
MOVING_KERNELS = {*MOVEMENTS, *(PASSES_ELEMENTS & WRITTEN)}
FOREIGN: Mapping[str, Kinds] = dict.fromkeys(
    (*BINARY, *FUNCTIONS, *MOVING_KERNELS, *NORMALIZATIONS, *POSITIONS, *REDUCTIONS), CONTRACTING
)
"""For each kernel, ops of which its body has none."""


def misfit(region: QuantizeRegionOp, weights: Weights) -> str | None:
    """The reason why the body of a region does not compute what its kernel's name says; None if it does."""
    return lacks(region) or misformed(region, weights)


def lacks(region: QuantizeRegionOp) -> str | None:
    """The reason why a region lacks the ops of its kernel, in whatever form; None if it has them."""
    kernel = region.logical_kernel.data
    ops = list(region.body.block.ops)
    needed = NEEDED.get(kernel)
    if needed is not None and not any(isinstance(op, needed) for op in ops):
        return f"found no {' or '.join(kind.name for kind in needed)} in the region, expected one"
    return next((reason for op in ops if (reason := _foreign(kernel, op))), None)


def foreign_contraction(region: QuantizeRegionOp) -> str | None:
    """The reason why a contraction in a region does not belong to its kernel; None without one."""
    kernel = region.logical_kernel.data
    ops = [op for op in region.body.block.ops if isinstance(op, FOREIGN.get(kernel, ()))]
    return next((reason for op in ops if (reason := _foreign(kernel, op))), None)


def _foreign(kernel: str, op: Operation) -> str | None:
    """The reason why an op does not belong to a kernel; None if it may."""
    if isinstance(op, FOREIGN.get(kernel, ())):
        return f"found {op.name} in the region, which the kernel does not compute"
    if isinstance(op, ReduceOp | ReduceWindowOp) and kernel in REDUCED_BY:
        found, expected = body_op(op.body), REDUCED_BY[kernel]
        if found is not expected:
            by = "several ops" if found is None else found.name
            return f"found {op.name} by {by} in the region, expected it by {expected.name}"
    if isinstance(op, ConvolutionOp) and kernel == "depthwise_convolution":
        groups = op.feature_group_count.value.data
        channels = shape_of(op.lhs)[op.dimension_numbers.data.input_feature_dimension]
        if groups != channels:
            return f"found {op.name} with {groups} groups in the region, expected {channels}, one for each channel"
    moves = kernel not in MOVING_KERNELS or not op.results or isinstance(op, MOVING)
    if not moves and isinstance(element_of(op.results[0]), AnyFloat):
        return f"found {op.name} in the region, which computes elements, expected ops that move them"
    return None
