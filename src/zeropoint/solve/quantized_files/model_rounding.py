"""The rounding that a model says itself, by pairs of casts, where no kernel's type rounds.

```mlir
%q = quant.qcast %x : ... to tensor<4x!quant.uniform<u8:f32, 0.5>>
%d = quant.dcast %q : ... to tensor<4xf32>
%0 = "quant.region"(%d) ({ transpose }) ...       the kernel quantizes %x to that type
%1 = stablehlo.sine %d : tensor<4xf32>            the float op reads %d, not %x
```
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import OpResult, SSAValue, Use

from zeropoint.ir.constants import is_constant
from zeropoint.ir.locations import location_of
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.tensors import with_element
from zeropoint.solve.constraints import Constraints
from zeropoint.solve.ports import PortGraph


def insert_rounding(
    program: Program, value: SSAValue, quantized: UniformQuantizedType, reads: Callable[[Use], bool] = lambda use: True
) -> None:
    """Insert a pair of casts on a value, in place, for some of its uses (default all)."""
    stored = QuantizeCastOp(value, with_element(value, quantized))
    real = DequantizeCastOp(stored.result, value.type)
    stored.location = real.location = location_of(value)
    if isinstance(value, OpResult):
        program.entry.insert_ops_after([stored, real], value.op)
    else:
        first = program.entry.first_op
        assert first is not None
        program.entry.insert_ops_before([stored, real], first)
    value.replace_uses_with_if(real.result, lambda use: use.operation is not stored and reads(use))


def round_as_the_model(program: Program, graph: PortGraph, constraints: Constraints) -> None:
    """Reinsert the model's casts before readers that no kernel's type rounds: float ops, and results of the program."""
    makers = {kernel.region for kernel in graph.kernels}
    copies = set(constraints.copies)

    def rounds(use: Use) -> bool:
        op = use.operation
        quantizes = op in copies or (isinstance(op, QuantizeRegionOp) and op.is_quantized)
        return not quantizes and (op, use.index) not in constraints.unrounded

    for value, quantized in constraints.simulated.items():
        made = value in graph.value_nodes and value.owner in makers
        if not made and not is_constant(value) and any(map(rounds, value.uses)):
            insert_rounding(program, value, quantized, rounds)
