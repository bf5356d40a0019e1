"""A function of a contraction's floats and its cast are one kernel, if the runtime computes both in the contraction.

```mlir
%1 = "quant.region"(%a, %w) ({ convolution })      integers, with a float result that nothing else reads
%2 = "quant.region"(%1) ({ leaky relu })
%3 = quant.qcast %2 : ... to tensor<1x4x8x8x!quant.uniform<i8:f32, 0.02>>
```
becomes
```mlir
%1 = "quant.region"(%a, %w) ({ convolution })
%2 = "quant.region"(%1) ({ leaky relu })
       {logical_kernel = "function_of_product", output_specs = [!quant.uniform<i8:f32, 0.02>], ...}
```
OpenVINO's contractions multiply and shift with one rounding before that to integers, its other kernels with two
(`joins_functions` in a target's table).
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Region
from xdsl.rewriter import Rewriter

from zeropoint.ir.annotations import FUNCTION, Fact, state_facts
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.tensors import element_of
from zeropoint.materialize.contraction import ACCUMULATOR
from zeropoint.materialize.file_contractions import BYTE, type_at
from zeropoint.materialize.join_functions import following, function_of, joined
from zeropoint.targets.logical_kernels import CONTRACTIONS, FUNCTION_OF_PRODUCT

FUNCTIONS = frozenset(
    {"abs", "elu", "gelu", "hard_sigmoid", "hard_swish", "leaky_relu", "logistic", "relu", "relu6", "silu", "softplus"}
    | {"sqrt", "tanh"}
)
"""What OpenVINO computes in a contraction."""


def join_function(region: QuantizeRegionOp, program: Program) -> None:
    """Join the regions of the function of a contraction that returns floats, in place."""
    if region.logical_kernel.data not in CONTRACTIONS or not _is_real(region):
        return
    regions = following(region)
    found = {type_at(use) for last in regions[-1:] for use in last.outputs[0].uses}
    kind = next(iter(found)) if len(found) == 1 else None
    if kind is None or not _is_byte(kind):
        return
    block, last = joined(region.outputs, regions), regions[-1]
    if (name := function_of(block, block.args[0], program.weights)) not in FUNCTIONS:
        return
    (value,) = region.outputs
    kinds = [element_of(value)], [kind]
    made = QuantizeRegionOp([value], [last.outputs[0].type], FUNCTION_OF_PRODUCT, *kinds, Region(block))
    made.location = last.location
    made.attributes[FUNCTION] = StringAttr(name)
    state_facts(made, [Fact("parameters", str(kind), "user", "the model")])
    program.entry.insert_ops_before([made], last)
    last.outputs[0].replace_all_uses_with(made.outputs[0])
    for joined_region in reversed(regions):
        Rewriter.erase_op(joined_region)


def _is_real(region: QuantizeRegionOp) -> bool:
    """Whether a kernel of integers returns floats: its accumulators, scaled."""
    kinds = region.output_specs.data
    return len(kinds) == 1 and isinstance(kinds[0], UniformQuantizedType) and kinds[0].storage == ACCUMULATOR


def _is_byte(kind: UniformQuantizedType) -> bool:
    return kind.storage.type.width == BYTE and bool((kind.zero_points == kind.zero_points.flat[0]).all())
