"""State unique names for kernels that come from one op of the original model, such as a GRU, and share its name.

```mlir
%0 = "quant.region"(%x) ({...}) {logical_kernel = "fully_connected", ...} loc("gru")
%1 = "quant.region"(%0) ({...}) {logical_kernel = "logistic", ...} loc("gru")
```
becomes
```mlir
%0 = "quant.region"(%x) ({...}) {logical_kernel = "fully_connected", ...} loc("gru")
%1 = "quant.region"(%0) ({...}) {logical_kernel = "logistic", zeropoint.unique_name = "gru_1", ...} loc("gru")
```
These are the names in warnings, statistics and summaries (`ir/result_names.py`). The suffixes count in program order,
so the names have to be stated before propagation adds and removes kernels.
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr

from zeropoint.ir.annotations import UNIQUE_NAME
from zeropoint.ir.locations import value_name
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.result_names import result_names


def name_kernels(program: Program) -> Program:
    """A copy in which a region has `zeropoint.unique_name` if its unique name differs from the name of its op."""
    program = program.for_change()
    names = result_names(program)
    for op in program.entry.ops:
        if isinstance(op, QuantizeRegionOp):
            name = names[op.outputs[0]].partition("#")[0]
            if name != value_name(op.outputs[0]).partition("#")[0]:
                op.attributes[UNIQUE_NAME] = StringAttr(name)
    return program
