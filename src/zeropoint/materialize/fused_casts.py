"""The cast of a function of a contraction becomes a kernel, if the runtime computes all three in one.

```mlir
%1 = "quant.region"(%a, %w) ({ convolution })      integers, with a float result that nothing else reads
%2 = "quant.region"(%1) ({ leaky relu })
%3 = quant.qcast %2 : ... to tensor<1x4x8x8x!quant.uniform<i8:f32, 0.02>>
```
becomes
```mlir
%1 = "quant.region"(%a, %w) ({ convolution })
%2 = "quant.region"(%1) ({ leaky relu })
%4 = "quant.region"(%2) ({})
       {logical_kernel = "quantize_product", output_specs = [!quant.uniform<i8:f32, 0.02>], ...}
%3 = quant.qcast %4 : ... to tensor<1x4x8x8x!quant.uniform<i8:f32, 0.02>>
```
OpenVINO's contractions multiply and shift with one rounding before that to integers, its other kernels with two
(`joins_functions` in a target's table).
"""

from __future__ import annotations

from xdsl.ir import Block, Region

from zeropoint.ir.annotations import Fact, state_facts
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp, UniformQuantizedType
from zeropoint.ir.tensors import element_of
from zeropoint.materialize.contraction import ACCUMULATOR
from zeropoint.materialize.file_contractions import BYTE, type_at
from zeropoint.materialize.join_functions import following, function_of, joined
from zeropoint.targets.logical_kernels import CONTRACTIONS, QUANTIZE_PRODUCT

FUNCTIONS = frozenset(
    {"abs", "elu", "gelu", "hard_sigmoid", "hard_swish", "leaky_relu", "logistic", "relu", "relu6", "silu", "softplus"}
    | {"sqrt", "tanh"}
)
"""What OpenVINO computes in a contraction."""


def fuse_cast(region: QuantizeRegionOp, program: Program) -> None:
    """Insert a kernel for the cast of the function of a contraction that returns floats, in place."""
    if region.logical_kernel.data not in CONTRACTIONS or not _is_real(region):
        return
    regions = following(region)
    kinds = {type_at(use) for last in regions[-1:] for use in last.outputs[0].uses}
    kind = next(iter(kinds)) if len(kinds) == 1 else None
    if kind is None or not _is_byte(kind):
        return
    block = joined(region.outputs, regions)
    if function_of(block, block.args[0], program.weights) not in FUNCTIONS:
        return
    value = regions[-1].outputs[0]
    body = Block(arg_types=[value.type])
    body.add_op(ReturnOp([body.args[0]]))
    made = QuantizeRegionOp([value], [value.type], QUANTIZE_PRODUCT, [element_of(value)], [kind], Region(body))
    made.location = regions[-1].location
    state_facts(made, [Fact("parameters", str(kind), "user", "the model")])
    program.entry.insert_ops_after([made], regions[-1])
    value.replace_uses_with_if(made.outputs[0], lambda use: use.operation is not made)


def _is_real(region: QuantizeRegionOp) -> bool:
    """Whether a kernel of integers returns floats: its accumulators, scaled."""
    kinds = region.output_specs.data
    return len(kinds) == 1 and isinstance(kinds[0], UniformQuantizedType) and kinds[0].storage == ACCUMULATOR


def _is_byte(kind: UniformQuantizedType) -> bool:
    return kind.storage.type.width == BYTE and bool((kind.zero_points == kind.zero_points.flat[0]).all())
