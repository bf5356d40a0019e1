"""The quantized types that the integers of a program stand for."""

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
    """The type of an op's integers: the one that lowering recorded, or the one that its facts decide; or None.

    Ops that keep their operand's integers, such as a max pool, have only facts. The type of sums that only floats read
    is that of the cast after them: it has a scale per channel, which would be a long fact.
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
    """The type that the last fact about parameters names, in signed storage as in integer programs; or None."""
    named = [fact.value for fact in facts if fact.name == "parameters" and fact.value.startswith(_TYPE)]
    found = ProgramParser(_context(), named[-1], "facts").parse_attribute() if named else None
    return found.signed if isinstance(found, UniformQuantizedType) else None


@cache
def _context() -> Context:
    return new_context()
