"""Terminators, and all other ops, where no function or region of theirs is around them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from xdsl.traits import IsTerminator

import zeropoint as zp
from zeropoint.ir.context import STANDARD_DIALECTS, new_context
from zeropoint.ir.text import parse_program

T = "tensor<4xf32>"
AROUND = {
    "nothing": "OP",
    "a module": "module {\nOP\n}",
    "another function before it": f"func.func @main(%x: {T}) -> {T} {{\nreturn %x : {T}\n}}\nOP",
    "an op of another dialect": 'module {\n"test.op"() ({\nOP\n}) : () -> ()\n}',
    "a kernel": f"""func.func @main(%x: {T}) -> {T} {{
%y = quant.region "abs"(%a: {T} = %x) -> {T} {{
OP
}}
return %y : {T}
}}""",
    "the body of a loop": f"""func.func @main(%x: {T}) -> {T} {{
%y = "stablehlo.while"(%x) ({{
^bb0(%a: {T}):
OP
}}, {{
^bb0(%a: {T}):
OP
}}) : ({T}) -> {T}
return %y : {T}
}}""",
}


def _names() -> tuple[list[str], list[str]]:
    """The names of all ops, and those of terminators."""
    context = new_context()
    for name in STANDARD_DIALECTS:
        context.load_registered_dialect(name)
    ops = [op for dialect in context.loaded_dialects for op in dialect.operations]
    return sorted({op.name for op in ops}), sorted({op.name for op in ops if op.has_trait(IsTerminator)})


ALL, TERMINATORS = _names()


@pytest.mark.parametrize("around", AROUND)
def test_an_op_without_its_parent_is_accepted_or_refused(around: str) -> None:
    assert {"func.return", "quant.return", "stablehlo.return", "scf.yield"} <= set(TERMINATORS)
    for name in ALL:
        text = AROUND[around].replace("OP", f'"{name}"() : () -> ()')
        with suppress(zp.Error):
            parse_program(text, allow_unregistered=True)


@pytest.mark.parametrize("op", ["func.return", "quant.return"])
@pytest.mark.parametrize("around", ["nothing", "a module", "another function before it"])
def test_a_return_without_what_it_returns_from_is_refused_by_a_sentence(op: str, around: str) -> None:
    parent = {"func.return": "func.func", "quant.return": "quant.region"}[op]
    with pytest.raises(zp.Error, match=rf"^{op}: '{op}' expects parent op '{parent}'"):
        parse_program(AROUND[around].replace("OP", op))
