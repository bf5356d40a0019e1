"""The region of a rescale, which only changes quantization parameters.

```mlir
%1 = "quant.region"(%0) ({ ^bb0(%x: tensor<4xf32>): "quant.return"(%x) }) {logical_kernel = "rescale",
       input_specs = [!quant.uniform<i8:f32, 0.5>], output_specs = [!quant.uniform<i8:f32, 0.25:3>],
       zeropoint.rescale = "'x': <what the value has>; <what its reader requires>"} : ...
```
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.annotations import RESCALE, Fact, state_facts
from zeropoint.ir.locations import location_of, written_name
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp, UniformQuantizedType
from zeropoint.ir.tensors import element_of

RESCALE_KERNEL = "rescale"
"""The logical kernel of a rescale."""


def is_rescale(op: object) -> bool:
    """Whether an op is a rescale."""
    return isinstance(op, QuantizeRegionOp) and op.logical_kernel.data == RESCALE_KERNEL


def rescale_region(
    value: SSAValue, given: UniformQuantizedType | None, wanted: UniformQuantizedType, demands: tuple[str, str]
) -> QuantizeRegionOp:
    """A region that converts `value` from one type to another. Without a given type, it takes the type of the value.

    `demands` are the two conflicting demands, of the value and of its reader. They are recorded on the region. Raises
    VerifyException for invalid types.
    """
    block = Block(arg_types=[value.type])
    block.add_op(ReturnOp([block.args[0]]))
    region = QuantizeRegionOp(
        [value], [value.type], RESCALE_KERNEL, [given or element_of(value)], [wanted], Region(block)
    )
    region.location = location_of(value)
    has, required = demands
    region.attributes[RESCALE] = StringAttr(f"'{written_name(value)}': {has}; {required}")
    state_facts(region, [Fact("has", has, "kernel", str(given)), Fact("required", required, "kernel", str(wanted))])
    return region


__all__ = ["RESCALE_KERNEL", "VerifyException", "is_rescale", "rescale_region"]
