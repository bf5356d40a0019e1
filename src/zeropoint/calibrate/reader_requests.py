"""Request what readers of observed values read and compute, so that they can run again (`repeated_noise.py`).

```mlir
%1 = "quant.stats_ref"(%0) {statsKey = "scores"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
%2 = "quant.region"(%1, %k) ({ dot_general }) ...
%3 = stablehlo.tanh %2
```
becomes
```mlir
%1 = "quant.stats_ref"(%0) {statsKey = "scores"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
%4 = "quant.stats_ref"(%k) {statsKey = "of a reader"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
%2 = "quant.region"(%1, %k) ({ dot_general }) ...
%5 = "quant.stats_ref"(%2) {statsKey = "of a reader_1"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
%3 = stablehlo.tanh %2
```
No range of these values is wanted, so no observer sees them.
"""

from __future__ import annotations

from xdsl.dialects.builtin import f32
from xdsl.ir import BlockArgument, Operation, SSAValue

from zeropoint.calibrate.range_noise import is_kernel
from zeropoint.ir.isolation import activations
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StatisticsOp, StatisticsRefOp
from zeropoint.ir.tensors import element_of
from zeropoint.ir.value_names import Names

KEY = "of a reader"


def with_reader_requests(program: Program) -> Program:
    """A copy that also requests the f32 values which kernels read or compute; the program if none is missing."""
    missing = _missing(program)
    if not missing:
        return program
    names = Names()
    for op in program.module.walk():
        if isinstance(op, StatisticsRefOp):
            names.free(op.stats_key.data)
    copy = program.clone()
    for value in _missing(copy):
        _request(copy, value, names.free(KEY))
    return copy


def _missing(program: Program) -> list[SSAValue]:
    """The f32 values that kernels read or compute, without a request."""
    kernels = [op for op in program.entry.ops if is_kernel(op)]
    values = dict.fromkeys(_original(value) for op in kernels for value in (*activations(op), *op.results))
    return [value for value in values if element_of(value) == f32 and not _is_requested(value)]


def _original(value: SSAValue) -> SSAValue:
    """The value behind its statistics."""
    while isinstance(value.owner, StatisticsOp | StatisticsRefOp):
        value = value.owner.arg
    return value


def _is_requested(value: SSAValue) -> bool:
    """Whether a value has a request, which may follow its known statistics."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, StatisticsRefOp) or (isinstance(op, StatisticsOp) and _is_requested(op.res)):
            return True
    return False


def _request(program: Program, value: SSAValue, key: str) -> None:
    request = StatisticsRefOp(value, key)
    if isinstance(value, BlockArgument):
        first = program.entry.first_op
        assert first is not None
        program.entry.insert_op_before(request, first)
    else:
        assert isinstance(value.owner, Operation)
        program.entry.insert_op_after(request, value.owner)
