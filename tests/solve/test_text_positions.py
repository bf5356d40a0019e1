"""Errors of propagation and of grouping have the line and column of the op."""

from __future__ import annotations

from pathlib import Path

import pytest

from solve.own_targets import row, table
from zeropoint.codegen.group import group
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.fuse import fuse
from zeropoint.ir.locations import text_position
from zeropoint.ir.text import parse_program
from zeropoint.solve import PropagationError, propagate
from zeropoint.solve.check import check_fully_quantized
from zeropoint.targets import target

T = "tensor<4xf32>"


def stats(name: str, of: str) -> str:
    return f'%{name} = "quant.stats"(%{of}) {{layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>}} : ({T}) -> {T}'


CASES = {
    "no statistics": ["%0 = stablehlo.exponential %x : " + T],
    "a constant that is not a number": [
        stats("1", "x"),
        f"%n = stablehlo.constant dense<[0x7FC00000, 1.0, 2.0, 3.0]> : {T}",
        f"%2 = stablehlo.add %1, %n : {T}",
        stats("0", "2"),
    ],
    "a function that fails": [stats("1", "x"), f"%2 = stablehlo.tanh %1 : {T}", stats("0", "2")],
}
LINES = {"no statistics": 2, "a constant that is not a number": 4, "a function that fails": 3}


@pytest.mark.parametrize("case", CASES)
def test_an_error_of_propagation_has_the_place_of_the_op(tmp_path: Path, case: str) -> None:
    (tmp_path / "f.py").write_text("def fails(inputs, outputs):\n    raise KeyError('x')\n")
    mine = table(tmp_path, row(name="tanh", relation="python:f.py:fails"), "cpu")
    body = "\n".join(CASES[case])
    program = parse_program(f"func.func @main(%x: {T}) -> {T} {{\n{body}\nreturn %0 : {T}\n}}")
    with pytest.raises(PropagationError) as caught:
        propagate(fuse(program, mine), mine)
    assert caught.value.op is not None
    position = text_position(caught.value.op)
    assert position is not None
    assert position.line == LINES[case]


def test_an_op_that_is_not_quantized_and_one_without_native_form_have_their_positions() -> None:
    given = parse_program(f"func.func @main(%x: {T}) -> {T} {{\n%0 = stablehlo.tanh %x : {T}\nreturn %0 : {T}\n}}")
    with pytest.raises(PropagationError) as caught:
        check_fully_quantized(fuse(given, target("cpu")))
    assert text_position(caught.value.op).line == 2
    pairs = "source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>"
    given = parse_program(
        f"func.func @main(%x: {T}) -> {T} {{\n\n"
        f'%0 = "stablehlo.collective_permute"(%x) <{{{pairs}}}> : ({T}) -> {T}\nreturn %0 : {T}\n}}'
    )
    with pytest.raises(CodegenError, match="native code runs one process") as refused:
        group(given, isa="avx2")
    assert text_position(refused.value.op).line == 3
