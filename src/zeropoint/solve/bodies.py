"""Whether the body of a region has the op that its kernel is about: a text can name any kernel.

```mlir
%y = quant.region "convolution"(%a: tensor<4xf32> = %x) -> tensor<4xf32> { tanh of %a }
```
is refused where its types are decided, and where a region with such types is lowered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from xdsl.ir import Operation

from zeropoint.ir.locations import named_kernel
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    CompareOp,
    ConcatenateOp,
    ConvolutionOp,
    DivideOp,
    DotGeneralOp,
    GatherOp,
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
from zeropoint.solve.errors import PropagationError
from zeropoint.targets.logical_kernels import CONTRACTIONS, REDUCTIONS

Kinds = tuple[type[Operation], ...]
_ARITHMETIC: Kinds = (AddOp, DivideOp, MultiplyOp, SubtractOp)
NEEDED: Mapping[str, Kinds] = {
    **dict.fromkeys(CONTRACTIONS, (ConvolutionOp, DotGeneralOp)),
    **dict.fromkeys(("add", "divide", "multiply", "subtract"), _ARITHMETIC),
    **dict.fromkeys(REDUCTIONS, (ReduceOp, ReduceWindowOp)),
    **dict.fromkeys(("reduce_max", "reduce_min"), (ReduceOp,)),
    "max_pool": (ReduceWindowOp,),
    "broadcast": (BroadcastInDimOp,),
    "compare": (CompareOp,),
    "concatenate": (ConcatenateOp,),
    "gather": (GatherOp,),
    "pad": (PadOp,),
    "prelu": (MultiplyOp,),
    "reshape": (ReshapeOp,),
    "reverse": (ReverseOp,),
    "select": (SelectOp,),
    "slice": (SliceOp,),
    "transpose": (TransposeOp,),
}
"""Kernel -> ops of which its body has at least one. The rows of single reductions replace those of all."""


def check_body(region: QuantizeRegionOp, kernels: Collection[str] = NEEDED) -> None:
    """Raise PropagationError if a region of one of `kernels` has none of the ops that the kernel needs."""
    kernel = region.logical_kernel.data
    needed = NEEDED.get(kernel) if kernel in kernels else None
    if needed is None or any(isinstance(op, needed) for op in region.body.block.ops):
        return
    expected = " or ".join(kind.name for kind in needed)
    raise PropagationError(
        f"{named_kernel(kernel, region.outputs[0])}: found no {expected} in the region, expected one; name the kernel "
        f"that computes its ops, or unfuse it (pass 'unfuse')",
        region,
    )
