"""The ops that define values."""

from __future__ import annotations

from xdsl.ir import Operation, OpResult, SSAValue


def defining_op(value: SSAValue) -> Operation | None:
    """The op that computes a value; None for an argument of a block."""
    return value.op if isinstance(value, OpResult) else None
