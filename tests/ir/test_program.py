"""What a program says of itself: entry, inputs, outputs, profile; where its errors point."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f32
from xdsl.rewriter import Rewriter

from zeropoint.ir.locations import describe, name_location, value_name
from zeropoint.ir.program import Port
from zeropoint.ir.text import parse_program, print_program
from zeropoint.ir.verification import InvalidProgram, verify

NAMED = """module attributes {zeropoint.profile = "fixed32"} {
  func.func @main(%x: tensor<2xf32> {zeropoint.name = "image"}, %y: tensor<2xf32> loc("mask"))
      -> (tensor<2xf32> {zeropoint.name = "sum"}) {
    %0 = stablehlo.add %x, %y : tensor<2xf32> loc("head/add")
    func.return %0 : tensor<2xf32>
  }
  func.func private @other(tensor<2xf32>) -> tensor<2xf32>
}
"""


def test_ports_have_the_names_of_the_model_or_a_number() -> None:
    program = parse_program(NAMED)
    tensor = TensorType(f32, [2])
    assert program.inputs == [Port("image", tensor), Port("arg1", tensor)]
    assert program.outputs == [Port("sum", tensor)]
    assert program.profile == "fixed32"


def test_main_is_the_entry_and_so_is_the_only_function() -> None:
    assert parse_program(NAMED).main.sym_name.data == "main"
    assert parse_program("func.func @net() {\n  func.return\n}").main.sym_name.data == "net"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("module {}", "no function"),
        ("func.func private @a()\nfunc.func private @b()", "@a, @b"),
    ],
)
def test_a_program_without_an_entry(text: str, found: str) -> None:
    with pytest.raises(ValueError, match=f"found {found}; expected a function @main"):
        _ = parse_program(text).main


def test_a_clone_may_be_changed() -> None:
    program = parse_program(NAMED)
    before = print_program(program)
    clone = program.clone()
    clone.module.attributes.clear()
    assert print_program(program) == before


def test_ops_and_values_are_described_by_their_place() -> None:
    program = parse_program(NAMED)
    add = program.entry.first_op
    assert add is not None
    assert describe(add) == "stablehlo.add 'head/add'"
    assert value_name(add.results[0]) == "head/add"
    assert value_name(program.entry.args[0]) == "image"
    assert value_name(program.entry.args[1]) == "mask"


def test_an_error_of_verification_names_the_innermost_op() -> None:
    program = parse_program(NAMED)
    add = program.entry.first_op
    assert add is not None
    add.location = name_location("broken")
    add.results[0].name_hint = None
    add.operands = [add.operands[0]]
    with pytest.raises(InvalidProgram, match=r"^stablehlo\.add 'broken': ") as error:
        verify(program.module)
    assert error.value.op is add
    assert "\n" not in str(error.value)


def test_a_program_whose_values_are_named_by_numbers_can_be_cloned_and_printed() -> None:
    # As exporters name them, and so as our files do: 363 becomes %_363.
    text = "func.func @main(%_5: tensor<2xf32>) -> tensor<2xf32> {\n  %_363 = stablehlo.add %_5, %_5 : tensor<2xf32>\n"
    program = parse_program(text + "  func.return %_363 : tensor<2xf32>\n}")
    assert print_program(program.clone()) == print_program(program)


def test_a_program_whose_values_are_named_by_several_numbers_can_be_cloned_again_and_again() -> None:
    text = "func.func @main(%_5_1: tensor<2xf32>) -> tensor<2xf32> {\n  %_363_1_2 = stablehlo.add %_5_1, %_5_1 : "
    program = parse_program(text + "tensor<2xf32>\n  func.return %_363_1_2 : tensor<2xf32>\n}")
    copy = program.clone().clone().clone()
    assert print_program(copy) == print_program(program)
    add = copy.entry.first_op
    assert add is not None
    add.results[0].replace_all_uses_with(copy.entry.args[0])
    Rewriter.erase_op(add)


@pytest.mark.parametrize(
    ("type_", "plain"),
    [
        ("tensor<2x3xf32>", ((2, 3), "float32")),
        ("tensor<i8>", ((), "int8")),
        ("tensor<4xui16>", ((4,), "uint16")),
        ("tensor<2xbf16>", ((2,), "bfloat16")),
        ("tensor<4xi1>", None),
        ("tensor<4xi4>", None),
        ("tensor<?x3xf32>", None),
        ("tensor<4x!quant.uniform<i8<-127:127>:f32, 0.5>>", None),
    ],
)
def test_a_port_of_one_shape_that_takes_all_values_is_plain(type_, plain) -> None:
    (port,) = parse_program(f"func.func @main(%x: {type_}) -> {type_} {{ return %x : {type_} }}").inputs
    assert port.plain == (None if plain is None else (plain[0], np.dtype(plain[1])))
