"""Definitions dominate their uses: the sentences, lines and notes of C++ MLIR, and its graph regions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import test
from xdsl.ir import Block, Region

from oracle.mlir import ORACLE, require
from zeropoint.diagnostics import of_error
from zeropoint.ir.dominance import dominator_tree
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import InvalidProgram, verify

PROGRAMS = {
    "its own result": """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %0, %x : tensor<4xf32>
  return %x : tensor<4xf32>
}""",
    "a later result": """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %1 : tensor<4xf32>
  %1 = stablehlo.add %0, %x : tensor<4xf32>
  return %1 : tensor<4xf32>
}""",
    "a later result, in a region": """func.func @main(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.if"(%p) ({
    "stablehlo.return"(%1) : (tensor<4xf32>) -> ()
  }, {
    "stablehlo.return"(%x) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>) -> tensor<4xf32>
  %1 = stablehlo.add %0, %x : tensor<4xf32>
  return %1 : tensor<4xf32>
}""",
    "the result of the op around": """func.func @main(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.if"(%p) ({
    "stablehlo.return"(%x) : (tensor<4xf32>) -> ()
  }, {
    "stablehlo.return"(%0) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}""",
    "an unregistered op": """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "a.b"(%1) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.add %0, %x : tensor<4xf32>
  return %1 : tensor<4xf32>
}""",
    "a graph": """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  "a.b"() ({
    %0 = stablehlo.add %1, %x : tensor<4xf32>
    %1 = stablehlo.add %0, %0 : tensor<4xf32>
    "a.end"() : () -> ()
  }) : () -> ()
  return %x : tensor<4xf32>
}""",
    "a graph that looks out": """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  "a.b"() ({
    %0 = stablehlo.add %1, %x : tensor<4xf32>
    "a.end"() : () -> ()
  }) : () -> ()
  %1 = stablehlo.add %x, %x : tensor<4xf32>
  return %x : tensor<4xf32>
}""",
    "a module": """%0 = "a.b"(%1) : (f32) -> f32
%1 = "a.b"(%0) : (f32) -> f32
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_cpp_mlir_accepts_and_refuses(name: str) -> None:
    require()
    answer = ORACLE.ask("module", PROGRAMS[name], allow_unregistered=True)
    try:
        parse_program(PROGRAMS[name], allow_unregistered=True)
        error = None
    except InvalidProgram as refusal:
        error = of_error(refusal)
    if "errors" not in answer:
        assert error is None
    else:
        assert error is not None
        (theirs,) = answer["errors"]
        assert (error[0].text.partition(": ")[2], error[0].line) == (theirs["message"], theirs["line"])
        assert [note.kind for note in error] == ["error", "note"]


def test_the_note_says_where_the_value_is_defined() -> None:
    notes = {}
    for name in ("its own result", "a later result", "a later result, in a region"):
        with pytest.raises(InvalidProgram, match=r"^stablehlo\.\w+: operand #\d does not dominate this use$") as error:
            parse_program(PROGRAMS[name])
        note = of_error(error.value)[1]
        notes[name] = (note.line, note.text)
    assert notes == {
        "its own result": (2, "operand defined here (op in the same block)"),
        "a later result": (3, "operand defined here (op in the same block)"),
        "a later result, in a region": (7, "operand defined here (op in a parent region)"),
    }


def test_the_first_wrong_use_in_each_function_is_reported() -> None:
    text = "\n".join(PROGRAMS["its own result"].replace("@main", name) for name in ("@main", "@other"))
    with pytest.raises(InvalidProgram) as error:
        parse_program(text)
    assert [d.line for d in of_error(error.value) if d.kind == "error"] == [2, 6]


def test_a_program_that_a_pass_made_is_checked() -> None:
    program = parse_program(PROGRAMS["a later result"].replace("%x, %1", "%x, %x"))
    first, second, _ = program.entry.ops
    first.operands[1] = second.results[0]
    with pytest.raises(InvalidProgram, match="operand #1 does not dominate this use"):
        verify(program.module)


def region_of(edges: list[list[int]]) -> Region:
    blocks = [Block() for _ in edges]
    for block, targets in zip(blocks, edges, strict=True):
        block.add_op(test.TestTermOp.create(successors=[blocks[target] for target in targets]))
    return Region(blocks)


def reached(edges: list[list[int]], without: int | None = None) -> set[int]:
    seen, left = set[int](), [] if without == 0 else [0]
    while left:
        node = left.pop()
        if node not in seen:
            seen.add(node)
            left += [target for target in edges[node] if target != without]
    return seen


GRAPHS = st.integers(1, 9).flatmap(
    lambda count: st.lists(st.lists(st.integers(0, count - 1), max_size=3), min_size=count, max_size=count)
)


@given(GRAPHS)
@settings(max_examples=300, deadline=None)
def test_a_block_dominates_those_that_no_path_reaches_without_it(edges: list[list[int]]) -> None:
    region = region_of(edges)
    number = {block: index for index, block in enumerate(region.blocks)}
    above = {number[child]: number[block] for block, found in dominator_tree(region).items() for child in found}
    assert set(above) == reached(edges) - {0}
    for node in reached(edges):
        ancestors, at = {node}, node
        while at:
            at = above[at]
            ancestors.add(at)
        assert ancestors == {other for other in reached(edges) if node not in reached(edges, other)} | {node}


@pytest.mark.parametrize("forward", [[], [29_999], [29_999, 15_000]], ids=["chain", "ladder", "fan"])
def test_large_graphs_take_no_time_that_grows_with_their_square(forward: list[int]) -> None:
    """With time quadratic in the blocks, this test takes many minutes."""
    count = 30_000
    edges = [[min(node + 1, count - 1), *forward, max(node - 1, 1)] for node in range(count - 1)]
    assert sum(map(len, dominator_tree(region_of([*edges, []])).values())) == count - 1


def test_values_of_other_blocks_are_visible_where_they_dominate() -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  "cf.br"()[^bb2] : () -> ()
^bb1:
  "cf.br"(%{use})[^bb3] : (tensor<4xf32>) -> ()
^bb2:
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  "a.b"()[{after}] : () -> ()
^bb3:
  return %x : tensor<4xf32>
^bb4:
  %1 = stablehlo.add %2, %x : tensor<4xf32>
  %2 = stablehlo.add %1, %x : tensor<4xf32>
  return %2 : tensor<4xf32>
}}"""
    parse_program(text.format(use="0", after="^bb1, ^bb3"), allow_unregistered=True)
    with pytest.raises(InvalidProgram, match=r"cf\.br: operand #0 does not dominate this use") as error:
        parse_program(
            text.format(use="0", after="^bb3").replace('"()[^bb2]', '"()[^bb2, ^bb1]'), allow_unregistered=True
        )
    assert of_error(error.value)[1].text == "operand defined here (op in the same region)"
