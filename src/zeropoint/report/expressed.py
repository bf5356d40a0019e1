"""The quantized types that the integers of a program stand for."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from xdsl.context import Context
from xdsl.ir import Operation

from zeropoint.ir.annotations import EXPRESSED, Fact, facts_of
from zeropoint.ir.context import new_context
from zeropoint.ir.parser import ProgramParser
from zeropoint.ir.quant import UniformQuantizedType

_TYPE = "!quant.uniform<"


def expressed_type(op: Operation) -> UniformQuantizedType | None:
    """The type of an op's integers: the one that lowering recorded, or the one that its facts decide; or None.

    Ops that keep their operand's integers, such as a max pool, have only facts.
    """
    recorded = op.attributes.get(EXPRESSED)
    return recorded if isinstance(recorded, UniformQuantizedType) else decided_type(facts_of(op))


def decided_type(facts: Iterable[Fact]) -> UniformQuantizedType | None:
    """The type that the last fact about parameters names, in signed storage as in integer programs; or None."""
    named = [fact.value for fact in facts if fact.name == "parameters" and fact.value.startswith(_TYPE)]
    found = ProgramParser(_context(), named[-1], "facts").parse_attribute() if named else None
    return found.signed if isinstance(found, UniformQuantizedType) else None


@cache
def _context() -> Context:
    return new_context()
