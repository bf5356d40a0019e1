"""Damaged annotations in a text are refused when it is read, with the op's place; no command meets them later."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from zeropoint.cli import main
from zeropoint.ir.annotations import Fact, facts_of
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import InvalidProgram

FACT = '{name = "range", salience = "calibrated", source = "s", value = "[0, 1]"}'
ENTRIES = "expected a dictionary of strings: name, value, salience, source"
LISTS = {
    "5 : i64": "found 5 : i64, expected a list of facts",
    "{}": "found {}, expected a list of facts",
    "[5 : i64]": f"found the fact 5 : i64, {ENTRIES}",
    "[{}]": f"found the fact {{}}, {ENTRIES}",
    FACT.replace('"range"', "5 : i64").join("[]"): f"found the fact .*5 : i64.*, {ENTRIES}",
    FACT.replace("calibrated", "zz").join("[]"): (
        "found a fact of salience 'zz', expected one of: default, calibrated, user, kernel"
    ),
}
COMMANDS = {
    "explain": ["explain", "m.mlir"],
    "report": ["report", "m.mlir", "-o", "r.html"],
    "run": ["run", "m.mlir", "--input", "d.npz", "-o", "o.npz"],
    "native": ["run", "m.mlir", "--input", "d.npz", "-o", "o.npz", "--engine", "native"],
    "opt": ["opt", "m.mlir", "-o", "o.mlir"],
}


def product(op: str = "", *, argument: str = "", result: str = "", module: str = "") -> str:
    """A product of i8 with attributes on the op (line 4), the argument, the result and the module."""
    port = f'zeropoint.name = "x"{argument and ", " + argument}'
    return f"""builtin.module attributes {{zeropoint.profile = "fixed16", zeropoint.target = "cpu"{module and ", " + module}}} {{
func.func @main(%x: tensor<1x8xi8> {{{port}}}) -> (tensor<1x4xi32> {{zeropoint.name = "y"{result and ", " + result}}}) {{
  %w = stablehlo.constant dense<1> : tensor<8x4xi8>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {{{op}}} : (tensor<1x8xi8>, tensor<8x4xi8>) -> tensor<1x4xi32>
  return %0 : tensor<1x4xi32>
}}
}}
"""  # noqa: E501 (a type has to be in one line)


@pytest.mark.parametrize("value", LISTS)
@pytest.mark.parametrize("name", ["facts", "facts1", "demands"])
def test_facts_are_a_list_of_dictionaries_of_strings(name: str, value: str) -> None:
    with pytest.raises(InvalidProgram, match=rf"dot_general.*: attribute 'zeropoint\.{name}': {LISTS[value]}"):
        parse_program(product(f"zeropoint.{name} = {value}"))


@pytest.mark.parametrize("where", ["argument", "result", "module"])
def test_facts_are_checked_wherever_they_may_be(where: str) -> None:
    name = "zeropoint.corrections" if where == "module" else "zeropoint.facts"
    with pytest.raises(InvalidProgram, match=f"attribute '{name}': found 5 : i64, expected a list of facts"):
        parse_program(product(**{where: f"{name} = 5 : i64"}))


@pytest.mark.parametrize("form", ['"zz"', "7 : i64"])
def test_the_dot_form_is_a_known_one(form: str) -> None:
    found = form.strip('"')
    with pytest.raises(InvalidProgram, match=f"'zeropoint.dot_form': found dot form '{found}', expected one of: u8s8_"):
        parse_program(product(f"zeropoint.dot_form = {form}"))


WORDS = """func.func @main(%x: tensor<1x8xTYPE>, %w: tensor<8x2xTYPE>) -> tensor<1x2xRESULT> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {zeropoint.dot_form = "u8s8_quads"}
    : (tensor<1x8xTYPE>, tensor<8x2xTYPE>) -> tensor<1x2xRESULT>
  return %0 : tensor<1x2xRESULT>
}"""


@pytest.mark.parametrize(
    ("element", "result", "message"),
    [
        ("i16", "i32", "is for products of i8, but got lhs of 'tensor<1x8xi16>'"),
        ("ui8", "i32", "is for products of i8, but got lhs of 'tensor<1x8xui8>'"),
        ("f32", "f32", "is for sums of integers, but got 'tensor<1x2xf32>'"),
    ],
)
def test_a_dot_form_is_for_8_bit_numbers(element: str, result: str, message: str) -> None:
    text = WORDS.replace("TYPE", element).replace("RESULT", result)
    with pytest.raises(InvalidProgram, match=f"dot_general: 'zeropoint.dot_form' {message}"):
        parse_program(text)


def test_a_dot_form_is_for_contractions() -> None:
    text = """func.func @main(%x: tensor<8xi8>) -> tensor<8xi8> {
      %0 = stablehlo.add %x, %x {ATTRIBUTE} : tensor<8xi8>
      return %0 : tensor<8xi8>
    }""".replace("ATTRIBUTE", 'zeropoint.dot_form = "u8s8_quads"')
    with pytest.raises(InvalidProgram, match=r"'zeropoint\.dot_form' is for dot_general and convolution"):
        parse_program(text)


def test_facts_that_are_whole_are_read() -> None:
    program = parse_program(product(f"zeropoint.facts = [{FACT}]"))
    (op,) = [op for op in program.entry.ops if op.name == "stablehlo.dot_general"]
    assert facts_of(op) == [Fact("range", "[0, 1]", "calibrated", "s")]


@pytest.mark.parametrize(
    "attribute", ["zeropoint.facts = 5 : i64", "zeropoint.facts = [{}]", 'zeropoint.dot_form = "zz"']
)
def test_every_command_refuses_a_damaged_annotation_in_a_line_with_its_place(
    attribute: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(product(attribute))
    np.savez("d.npz", x=np.ones((1, 8), np.int8))
    for command, arguments in COMMANDS.items():
        done = CliRunner().invoke(main, arguments)
        assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1), (command, done.stderr)
        assert "m.mlir:4:" in done.stderr, (command, done.stderr)
        assert attribute.partition(" ")[0] in done.stderr, (command, done.stderr)


def test_an_op_without_facts_is_explained_as_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(product("zeropoint.facts = []"))
    for command in ("explain", "report"):
        done = CliRunner().invoke(main, COMMANDS[command])
        assert done.exit_code == 0, (command, done.stderr)


@pytest.mark.parametrize(
    ("name", "entries", "kind"), [("arg_attrs", "[{}, {}]", "argument"), ("res_attrs", "[]", "result")]
)
def test_attributes_of_more_or_fewer_ports_than_a_function_has_are_refused(name, entries, kind) -> None:
    text = f"""
"func.func"() <{{sym_name = "main", function_type = (tensor<4xf32>) -> tensor<4xf32>, {name} = {entries}}}> ({{
^bb0(%x: tensor<4xf32>):
  "func.return"(%x) : (tensor<4xf32>) -> ()
}}) : () -> ()
"""
    with pytest.raises(
        InvalidProgram,
        match=f"expects {kind} attribute array to have the same number of elements as the number of function {kind}s, "
        f"got {entries.count('{')}, but expected 1",
    ):
        parse_program(text)
