"""Copies of programs: those of xDSL, without its insertions."""

import pytest
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block

from zeropoint.ir.cloning import cloned
from zeropoint.ir.text import parse_program

TEXT = """
func.func @main(%x: tensor<2xf32> loc("image"), %n: tensor<i32>) -> tensor<2xf32> {
  %r:2 = stablehlo.while(%a = %n, %b = %x) : tensor<i32>, tensor<2xf32>
   cond {
    %limit = stablehlo.constant dense<3> : tensor<i32>
    %less = stablehlo.compare LT, %a, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  } do {
    %sum = stablehlo.add %b, %x : tensor<2xf32>
    %next = stablehlo.add %a, %n : tensor<i32>
    stablehlo.return %next, %sum : tensor<i32>, tensor<2xf32>
  }
  func.return %r#1 : tensor<2xf32>
}
"""


def test_a_copy_is_that_of_xdsl() -> None:
    module = parse_program(TEXT).module
    expected, found = module.clone(), cloned(module)
    assert found.is_structurally_equivalent(expected)
    assert str(found) == str(expected) == str(module)
    inner, outer = set(found.walk()), set(module.walk())
    assert not inner & outer
    assert all(operand.owner not in outer for op in inner for operand in op.operands)
    block, old = (next(op for op in of_one.walk() if isinstance(op, FuncOp)).body.block for of_one in (found, module))
    assert [(one.location, one.name_hint) for one in block.args] == [(one.location, one.name_hint) for one in old.args]


def test_arguments_are_not_inserted_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    program = parse_program(TEXT)
    monkeypatch.delattr(Block, "insert_arg")
    assert str(program.clone().module) == str(program.module)
