"""Whether the body of a region fits its kernel: a text can name any kernel.

```mlir
%y = quant.region "convolution"(%a: tensor<4xf32> = %x) -> tensor<4xf32> { tanh of %a }
```
is refused where its types are decided, and where a region with such types is lowered. A body needs the op that its
kernel is about (`NEEDED`), has none of another kind of kernel (`FOREIGN`), and a kernel that moves elements computes
none. Index arithmetic is no computation of elements, and normalizations may be composites of any ops.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation

from zeropoint.ir.locations import named_kernel
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
from zeropoint.solve.errors import PropagationError
from zeropoint.targets.logical_kernels import BINARY, CONTRACTIONS, FUNCTIONS, MOVEMENTS, REDUCTIONS

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
"""Ops that compute no elements; annotations and simulated quantizations are dropped from bodies."""
NEEDED: Mapping[str, Kinds] = {
    **dict.fromkeys(("batch_matmul", "fully_connected"), (DotGeneralOp,)),
    **dict.fromkeys(("convolution", "depthwise_convolution", "transpose_convolution"), (ConvolutionOp,)),
    **dict.fromkeys(REDUCTIONS, (ReduceOp, ReduceWindowOp)),
    **dict.fromkeys(("reduce_max", "reduce_min"), (ReduceOp,)),
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
    "subtract": (SubtractOp,),
    "transpose": (TransposeOp,),
}
"""Kernel -> ops of which its body has at least one. The rows of single reductions replace those of all."""
REDUCED_BY: Mapping[str, type[Operation]] = {
    **dict.fromkeys(("average_pool", "mean", "sum"), AddOp),
    **dict.fromkeys(("max_pool", "reduce_max"), MaximumOp),
    "reduce_min": MinimumOp,
}
"""Kernel -> the op by which its reductions combine elements."""
FOREIGN: Mapping[str, Kinds] = dict.fromkeys((*BINARY, *FUNCTIONS, *MOVEMENTS, *REDUCTIONS), CONTRACTING)
"""Kernel -> ops of which its body has none."""


def check_body(region: QuantizeRegionOp) -> None:
    """Raise PropagationError if the body of a region does not fit its kernel."""
    kernel = region.logical_kernel.data
    ops = list(region.body.block.ops)
    needed = NEEDED.get(kernel)
    if needed is not None and not any(isinstance(op, needed) for op in ops):
        raise _misfit(region, f"found no {' or '.join(kind.name for kind in needed)} in the region, expected one")
    for op in ops:
        if reason := _foreign(kernel, op):
            raise _misfit(region, reason)


def check_contractions(region: QuantizeRegionOp) -> None:
    """Raise PropagationError if a contraction is in a region of another kernel, or not in one of its own.

    What is checked of every region before its types are decided; of those that get types, `check_body` checks more.
    """
    kernel = region.logical_kernel.data
    if kernel in CONTRACTIONS:
        check_body(region)
    for op in region.body.block.ops:
        if isinstance(op, FOREIGN.get(kernel, ())) and (reason := _foreign(kernel, op)):
            raise _misfit(region, reason)


def _foreign(kernel: str, op: Operation) -> str | None:
    """Why an op is not one of a kernel's; None if it may be."""
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
    computes = op.results and not isinstance(op, MOVING) and isinstance(element_of(op.results[0]), AnyFloat)
    if kernel in MOVEMENTS and computes:
        return f"found {op.name} in the region, which computes elements, expected ops that move them"
    return None


def _misfit(region: QuantizeRegionOp, reason: str) -> PropagationError:
    return PropagationError(
        f"{named_kernel(region.logical_kernel.data, region.outputs[0])}: {reason}; name the kernel that computes its "
        f"ops, or unfuse it (pass 'unfuse')",
        region,
    )
