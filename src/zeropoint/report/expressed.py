"""The quantized types that the integers of a program represent."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from xdsl.context import Context
from xdsl.ir import Operation

from zeropoint.ir.annotations import EXPRESSED, EXPRESSED_SUMS, Fact, facts_of
from zeropoint.ir.context import new_context
from zeropoint.ir.parser import ProgramParser
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.tensors import element_of

_TYPE = "!quant.uniform<"


def expressed_type(op: Operation) -> UniformQuantizedType | None:
    """The quantized type of an op's integers: the one that lowering recorded, or the one in its facts; None without.

    An op that keeps the integers of its operand, such as a max pool, has only facts. The fact of sums that only floats
    read does not state their type, because it has a scale for each channel. It is read from the cast after the sums.
    """
    recorded = op.attributes.get(EXPRESSED)
    if isinstance(recorded, UniformQuantizedType):
        return recorded
    facts = facts_of(op)
    return _cast_type(op) if EXPRESSED_SUMS in facts else decided_type(facts)


def _cast_type(op: Operation) -> UniformQuantizedType | None:
    casts = [use.operation for use in op.results[0].uses if isinstance(use.operation, StorageCastOp)]
    found = element_of(casts[0].results[0]) if casts else None
    return found if isinstance(found, UniformQuantizedType) else None


def decided_type(facts: Iterable[Fact]) -> UniformQuantizedType | None:
    """The type of the last fact about parameters, with signed storage as integer programs have it; None without."""
    named = [fact.value for fact in facts if fact.name == "parameters" and fact.value.startswith(_TYPE)]
    found = ProgramParser(_context(), named[-1], "facts").parse_attribute() if named else None
    return found.signed if isinstance(found, UniformQuantizedType) else None


@cache
def _context() -> Context:
    return new_context()
