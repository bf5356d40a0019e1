"""Give every port that reads a constant its own copy of it.

```mlir
%w = stablehlo.constant dense<...>
%0 = "quant.region"(%x, %w) ...
%1 = "quant.region"(%y, %w) ...
```
The second region gets a copy of `%w`, so that each port can have its own parameters. The array is not copied: both
constants refer to it by the same handle.

Source: the RFC on quantization transformations, section "Propagation pass"; the 2019 converter also started with this.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.solve.constraints import Constraints


def duplicate_constants(program: Program, constraints: Constraints | None = None) -> None:
    """Copy constants, in place, until at most one region port reads each of them."""
    taken: set[SSAValue] = set()
    for op in list(program.entry.ops):
        if not isinstance(op, QuantizeRegionOp):
            continue
        for index, value in enumerate(op.inputs):
            if not isinstance(value.owner, ConstantOp):
                continue
            if value not in taken:
                taken.add(value)
                continue
            # A constant has one type, but two kernels may require different types.
            copy = value.owner.clone()
            program.entry.insert_op_before(copy, op)
            op.operands[index] = copy.output
            taken.add(copy.output)
            known = constraints.get(value) if constraints is not None else None
            if constraints is not None and known is not None:
                constraints.of_value[copy.output] = known
