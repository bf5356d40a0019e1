"""Sequences of passes copy a program once, and leave the caller's as it is."""

from __future__ import annotations

from xdsl.dialects.builtin import UnitAttr

from zeropoint.ir.program import Program
from zeropoint.ir.sequence import in_sequence
from zeropoint.ir.text import parse_program

TEXT = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.tanh %x : tensor<4xf32>
  return %y : tensor<4xf32>
}"""


class Marking:
    """A pass that sets an attribute of the module; it notes which program it changed."""

    def __init__(self, name: str):
        self.name = name
        self.changed: Program | None = None

    def __call__(self, program: Program) -> Program:
        self.changed = program.for_change()
        self.changed.module.attributes[self.name] = UnitAttr()
        return self.changed


def nothing(program: Program) -> Program:
    return program


def test_the_given_program_stays_as_it_is_and_is_copied_once() -> None:
    given, marks = parse_program(TEXT), [Marking("a"), Marking("b"), Marking("c")]
    made = in_sequence([nothing, marks[0], nothing, *marks[1:]], given)
    assert not given.module.attributes
    assert list(made.module.attributes) == ["a", "b", "c"]
    assert {id(mark.changed.module) for mark in marks if mark.changed is not None} == {id(made.module)}


def test_the_result_is_the_callers_and_is_copied_by_the_next_sequence() -> None:
    made = in_sequence([Marking("a")], parse_program(TEXT))
    again = in_sequence([Marking("b"), nothing], made)
    assert list(made.module.attributes) == ["a"]
    assert list(again.module.attributes) == ["a", "b"]


def test_passes_that_change_nothing_return_the_program_itself() -> None:
    given = parse_program(TEXT)
    assert in_sequence([nothing, nothing], given) is given
    assert in_sequence([], given) is given


def test_a_sequence_in_a_sequence_changes_what_only_they_have() -> None:
    given, outer, inner = parse_program(TEXT), Marking("outer"), Marking("inner")
    made = in_sequence([outer, lambda program: in_sequence([inner], program)], given)
    assert not given.module.attributes
    assert list(made.module.attributes) == ["outer", "inner"]
