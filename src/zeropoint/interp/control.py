"""Ops that only contain or refer to other ops. Their bodies are inlined.

The function of a `func.call`, the decomposition of a `stablehlo.composite` and the float body of a `quant.region` are
inlined before the program runs. `quant.stats`, `quant.stats_ref` and `quant.coupled_ref` are the identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Block, Operation

from zeropoint.interp.binding import Scope, Unary
from zeropoint.interp.errors import UnsupportedError
from zeropoint.ir.calls import CallOp
from zeropoint.ir.inline_calls import Functions
from zeropoint.ir.quant import CoupledRefOp, QuantizeRegionOp, StatisticsOp, StatisticsRefOp
from zeropoint.ir.stablehlo import CompositeOp


def function_body(functions: Functions, name: str) -> Block:
    """The block of a function. Raises UnsupportedError if the function does not exist or has no body."""
    if name not in functions:
        known = ", ".join(f"@{function}" for function in functions)
        raise UnsupportedError(f"found a use of @{name}; expected one of the module's functions: {known}")
    blocks = functions[name].body.blocks
    if not blocks:
        raise UnsupportedError(f"found @{name} without a body; expected a function with one")
    return functions[name].body.block


def call(op: CallOp, functions: Functions) -> Block:
    """The callee's body."""
    return function_body(functions, op.callee.root_reference.data)


def composite(op: CompositeOp, functions: Functions) -> Block:
    """The body of the decomposition, which defines the composite's semantics."""
    return function_body(functions, op.decomposition.root_reference.data)


def region(op: QuantizeRegionOp, functions: Functions) -> Block:
    """The region's body."""
    return op.body.block


INLINED: dict[type[Operation], Callable[[Any, Functions], Block]] = {
    CallOp: call,
    CompositeOp: composite,
    QuantizeRegionOp: region,
}
"""Ops that are replaced by a block. The operands become its arguments, and the results those of its terminator."""


def statistics(op: StatisticsOp | StatisticsRefOp | CoupledRefOp, scope: Scope) -> Unary:
    """The identity. The interpreter passes the value of a `quant.stats_ref` to its observer."""
    return lambda arg: arg
