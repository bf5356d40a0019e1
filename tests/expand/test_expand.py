"""Rare ops in terms of frequent ones: the same bits from the op, from what it expands to, and from native code."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.expand import ExpansionError, expand
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import element_dtype, shape_of
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import verify


def operands(program: Program, seed: int = 0) -> dict[str, np.ndarray]:
    """Few distinct numbers, so that elements tie; negative zeros among the floats."""
    random = np.random.default_rng(seed)
    made: dict[str, np.ndarray] = {}
    for port in program.inputs:
        numbers = random.integers(-3, 4, shape_of(port.type))
        dtype = element_dtype(port.type.element_type)
        made[port.name] = (numbers * 0.3).astype(dtype) if dtype.kind in "fV" else numbers.astype(dtype)
    return made


def agree(text: str, *, seeds: int = 1) -> Program:
    program = parse_program(text)
    expanded = expand(program)
    verify(expanded.module)
    runs = Interpreter(program), Interpreter(expanded), NativeProgram(program)
    for seed in range(seeds):
        given = operands(program, seed)
        first, *others = (list(run(given).values()) for run in runs)
        for other in others:
            for wanted, made in zip(first, other, strict=True):
                assert wanted.dtype == made.dtype
                assert wanted.tobytes() == made.tobytes(), (wanted, made)
    return expanded


def names(program: Program) -> set[str]:
    return {op.name.partition(".")[2] for op in program.entry.ops}


def batch_norm(kind: str, element: str) -> str:
    whole, features = f"tensor<5x3x7x{element}>", f"tensor<3x{element}>"
    given = {"inference": "xsomv", "training": "xso", "grad": "xsmvg"}[kind]
    types = [whole if name in "xg" else features for name in given]
    results = [whole] if kind == "inference" else [whole, features, features]
    arguments = ", ".join(f"%{name}: {found}" for name, found in zip(given, types, strict=True))
    values = [f"%{name}" for name in given]
    body = ""
    if "v" in given:  # a variance is positive
        body = f"%v1 = stablehlo.multiply %v, %v : {features}"
        values[given.index("v")] = "%v1"
    returned = ", ".join(f"%0#{i}" for i in range(len(results))) if len(results) > 1 else "%0"
    return f"""func.func @main({arguments}) -> ({", ".join(results)}) {{
      {body}
      %0{f":{len(results)}" if len(results) > 1 else ""} = "stablehlo.batch_norm_{kind}"({", ".join(values)})
        <{{epsilon = 0.1 : f32, feature_index = 1 : i64}}> : ({", ".join(types)}) -> ({", ".join(results)})
      return {returned} : {", ".join(results)}
    }}"""


@pytest.mark.parametrize("element", ["f32", "f64", "f16"])
@pytest.mark.parametrize("kind", ["inference", "training", "grad"])
def test_batch_norms_of_floats(kind: str, element: str) -> None:
    expanded = agree(batch_norm(kind, element))
    assert f"batch_norm_{kind}" not in names(expanded)


def selecting(
    shape: tuple[int, ...],
    window: tuple[int, ...],
    strides: tuple[int, ...],
    padding: list[tuple[int, int]],
    element: str = "f32",
    direction: str = "GE",
    scatter: str = "add",
) -> str:
    sizes = [(n + lo + hi - w) // s + 1 for n, (lo, hi), w, s in zip(shape, padding, window, strides, strict=True)]
    x, source, scalar = (f"tensor<{''.join(f'{n}x' for n in dims)}{element}>" for dims in (shape, sizes, ()))
    numbers = [", ".join(map(str, found)) for found in (window, strides)]
    return f"""func.func @main(%x: {x}, %s: {source}, %i: {scalar}) -> {x} {{
      %y = "stablehlo.select_and_scatter"(%x, %s, %i) <{{
        window_dimensions = array<i64: {numbers[0]}>, window_strides = array<i64: {numbers[1]}>,
        padding = dense<{[list(pair) for pair in padding]}> : tensor<{len(shape)}x2xi64>}}> ({{
      ^bb0(%a: {scalar}, %b: {scalar}):
        %c = stablehlo.compare {direction}, %a, %b : ({scalar}, {scalar}) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }}, {{
      ^bb0(%a: {scalar}, %b: {scalar}):
        %c = stablehlo.{scatter} %a, %b : {scalar}
        stablehlo.return %c : {scalar}
      }}) : ({x}, {source}, {scalar}) -> {x}
      return %y : {x}
    }}"""


@pytest.mark.parametrize(
    "text",
    [
        selecting((6,), (2,), (2,), [(0, 0)]),
        selecting((5, 6), (3, 2), (1, 1), [(0, 0), (0, 0)]),
        selecting((5, 6), (3, 2), (2, 1), [(1, 1), (0, 1)], direction="GT"),
        selecting((5, 6), (3, 2), (1, 2), [(2, 0), (1, 1)], "f64", scatter="subtract"),
        selecting((5, 6), (2, 2), (3, 3), [(1, 0), (2, 2)], "i32", "LE", "maximum"),
        selecting((4,), (2,), (1,), [(3, 2)], "i8", scatter="multiply"),
        selecting((4, 3), (1, 1), (1, 1), [(-1, 0), (0, -1)]),
        selecting((2, 3, 4), (2, 1, 3), (1, 2, 1), [(0, 1), (0, 0), (1, 1)]),
    ],
)
def test_select_and_scatter(text: str) -> None:
    assert "select_and_scatter" not in names(agree(text, seeds=3))


def test_large_windows_and_other_bodies_are_refused() -> None:
    large = parse_program(selecting((100,), (65,), (1,), [(0, 0)]))
    with pytest.raises(ExpansionError, match="found windows of 65 elements, expected at most 64; run it with"):
        expand(large)
    with pytest.raises(CodegenError, match="found windows of 65 elements"):
        NativeProgram(large)


def collective(kind: str, groups: str, properties: str = "", body: str = "add") -> str:
    reducing = kind in ("all_reduce", "reduce_scatter", "collective_reduce")
    region = (
        f"({{ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %c = stablehlo.{body} %a, %b : tensor<f32> "
        "stablehlo.return %c : tensor<f32> })"
    )
    return f"""func.func @main(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {{
      %y = "stablehlo.{kind}"(%x) <{{replica_groups = {groups}{properties}}}> {region if reducing else ""}
        : (tensor<4x2xf32>) -> tensor<4x2xf32> loc("together")
      return %y : tensor<4x2xf32>
    }}"""


ONE, TWO, NONE = "dense<0> : tensor<1x1xi64>", "dense<[[0, 1]]> : tensor<1x2xi64>", "dense<> : tensor<0x0xi64>"


@pytest.mark.parametrize("groups", [ONE, NONE])
@pytest.mark.parametrize(
    ("kind", "properties"),
    [
        ("all_reduce", ""),
        ("reduce_scatter", ", scatter_dimension = 0 : i64"),
        ("all_gather", ", all_gather_dim = 0 : i64"),
        ("collective_broadcast", ""),
        ("all_to_all", ", split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 1 : i64"),
    ],
)
def test_a_collective_of_one_process_is_its_operand(kind: str, properties: str, groups: str) -> None:
    assert names(agree(collective(kind, groups, properties))) == {"return"}


def test_a_collective_of_several_processes_is_refused_with_the_reason() -> None:
    with pytest.raises(CodegenError, match=r"'together': found the groups \[\[0, 1\]\].*native code runs one process"):
        NativeProgram(parse_program(collective("all_reduce", TWO)))


@pytest.mark.parametrize("element", ["f32", "i32", "i8", "f16"])
def test_padding_by_a_computed_value(element: str) -> None:
    x, scalar = f"tensor<3x4x{element}>", f"tensor<{element}>"
    agree(f"""func.func @main(%x: {x}, %v: {scalar}) -> tensor<7x5x{element}> {{
      %w = stablehlo.add %v, %v : {scalar}
      %y = stablehlo.pad %x, %w, low = [1, -1], high = [1, 2], interior = [1, 0]
        : ({x}, {scalar}) -> tensor<7x5x{element}>
      return %y : tensor<7x5x{element}>
    }}""")


@pytest.mark.parametrize("body", ["add", "maximum", "multiply"])
@pytest.mark.parametrize("element", ["f32", "f64", "i32"])
def test_windows_padded_by_a_computed_initial_value(element: str, body: str) -> None:
    x, scalar = f"tensor<4x5x{element}>", f"tensor<{element}>"
    expanded = agree(f"""func.func @main(%x: {x}, %v: {scalar}) -> tensor<3x6x{element}> {{
      %w = stablehlo.add %v, %v : {scalar}
      %y = "stablehlo.reduce_window"(%x, %w) <{{window_dimensions = array<i64: 3, 2>, window_strides = array<i64: 2, 1>,
        base_dilations = array<i64: 1, 1>, padding = dense<[[1, 2], [1, 1]]> : tensor<2x2xi64>}}> ({{
      ^bb0(%a: {scalar}, %b: {scalar}):
        %c = stablehlo.{body} %a, %b : {scalar}
        stablehlo.return %c : {scalar}
      }}) : ({x}, {scalar}) -> tensor<3x6x{element}>
      return %y : tensor<3x6x{element}>
    }}""")
    assert {"pad", "select", "reduce_window"} <= names(expanded)


def test_the_only_process_has_the_id_0_and_sends_to_itself_or_to_nobody() -> None:
    for pairs in ("dense<0> : tensor<1x2xi64>", "dense<> : tensor<0x2xi64>"):
        agree(f"""func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<ui32>, tensor<ui32>) {{
          %y = "stablehlo.collective_permute"(%x) <{{source_target_pairs = {pairs}}}> : (tensor<4xf32>) -> tensor<4xf32>
          %p = stablehlo.partition_id : tensor<ui32>
          %r = stablehlo.replica_id : tensor<ui32>
          return %y, %p, %r : tensor<4xf32>, tensor<ui32>, tensor<ui32>
        }}""")


def test_a_map_is_its_body_on_tensors() -> None:
    expanded = agree("""func.func @main(%x: tensor<3x4xf32>, %y: tensor<3x4xf32>) -> tensor<3x4xi1> {
      %z = "stablehlo.map"(%x, %y) <{dimensions = array<i64: 0, 1>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.constant dense<0.25> : tensor<f32>
        %0 = stablehlo.multiply %a, %c : tensor<f32>
        %1 = stablehlo.compare LT, %0, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      }) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xi1>
      return %z : tensor<3x4xi1>
    }""")
    assert "map" not in names(expanded)


@pytest.mark.parametrize(("low", "high"), [([0, -4], [0, 3]), ([-5, 0], [3, 0])])
def test_padding_that_removes_the_whole_operand_leaves_the_value_alone(low: list[int], high: list[int]) -> None:
    """Nothing computes an operand of which no element is left."""
    rows, columns = (4 + first + last for first, last in zip(low, high, strict=True))
    expanded = agree(f"""func.func @main(%x: tensor<4x4xi8>) -> tensor<{rows}x{columns}xi8> {{
      %v = stablehlo.constant dense<1> : tensor<i8>
      %s = stablehlo.add %x, %x : tensor<4x4xi8>
      %y = stablehlo.pad %s, %v, low = {low}, high = {high}, interior = [0, 0] :
        (tensor<4x4xi8>, tensor<i8>) -> tensor<{rows}x{columns}xi8>
      return %y : tensor<{rows}x{columns}xi8>
    }}""")
    assert "pad" not in names(expanded)
    steps = steps_of(expanded, INSTRUCTION_SETS["avx2"]).steps
    assert not any("add" in step.name for step in steps)


@pytest.mark.parametrize(("element", "converts"), [("i8", False), ("i16", False), ("i8", True)])
def test_a_product_over_a_dimension_inside_transposes_its_operand(element: str, *, converts: bool) -> None:
    wide = "i16" if converts else element
    lines = f"%w = stablehlo.convert %x : (tensor<2x19x5x{element}>) -> tensor<2x19x5x{wide}>" if converts else ""
    made = agree(f"""
      func.func @main(%x: tensor<2x19x5x{element}>) -> tensor<2x5x4xi32> {{
        {lines}
        %m = stablehlo.constant dense<{np.arange(-38, 38).reshape(19, 4).tolist()}> : tensor<19x4x{wide}>
        %y = stablehlo.dot_general {"%w" if converts else "%x"}, %m, contracting_dims = [1] x [0]
          : (tensor<2x19x5x{wide}>, tensor<19x4x{wide}>) -> tensor<2x5x4xi32>
        return %y : tensor<2x5x4xi32>
      }}
    """)
    assert {"transpose", "dot_general"} <= names(made)


def test_products_of_floats_and_of_two_computed_operands_stay() -> None:
    for element, second in (("f32", "%m = stablehlo.constant dense<0.5> : tensor<6x4xf32>"), ("i8", "")):
        operand = "" if second else ", %m: tensor<6x4xi8>"
        made = agree(f"""
          func.func @main(%x: tensor<6x5x{element}>{operand}) -> tensor<5x4x{"f32" if second else "i32"}> {{
            {second}
            %y = stablehlo.dot_general %x, %m, contracting_dims = [0] x [0]
              : (tensor<6x5x{element}>, tensor<6x4x{element}>) -> tensor<5x4x{"f32" if second else "i32"}>
            return %y : tensor<5x4x{"f32" if second else "i32"}>
          }}
        """)
        assert "transpose" not in names(made)
