"""Chains of equal form compute the same: tables of functions are kept by form, for all steps of a recurrence."""

from __future__ import annotations

import pytest

from zeropoint.ir.functions import chain_form
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.text import parse_program


def form(*ops: str, shape: str = "4") -> tuple[object, ...]:
    """The form of the last of some ops as a function of `%x`. `T` stands for the type."""
    type_ = f"tensor<{shape}xf32>"
    text = "\n".join(ops).replace("T", type_)
    last = ops[-1].split()[0]
    program = parse_program(f"func.func @main(%x: {type_}) -> {type_} {{\n{text}\nreturn {last} : {type_} }}")
    made = [op for op in program.entry.ops if not isinstance(op, ConstantOp)][-2]
    return chain_form(made.results[0], program.entry.args[0], program.weights)


def divided(number: str) -> tuple[object, ...]:
    return form(f"%c = stablehlo.constant dense<{number}> : T", "%y = stablehlo.divide %x, %c : T")


def test_names_and_shapes_have_no_part_in_a_form() -> None:
    first = form("%a = stablehlo.tanh %x : T", "%b = stablehlo.add %a, %x : T")
    assert first == form("%c = stablehlo.tanh %x : T", "%d = stablehlo.add %c, %x : T", shape="9x2")
    assert first != form("%a = stablehlo.tanh %x : T", "%b = stablehlo.add %a, %a : T")
    assert first != form("%a = stablehlo.logistic %x : T", "%b = stablehlo.add %a, %x : T")


@pytest.mark.parametrize("other", ["-0.0", "1.0"])
def test_numbers_have_a_part_by_their_bits(other: str) -> None:
    assert divided("0.0") == divided("0.0")
    assert divided("0.0") != divided(other)
