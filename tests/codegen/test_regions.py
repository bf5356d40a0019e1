"""Ops with a body, and updates at places that are read: reductions of several operands, sort, scatter; exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from codegen.exactness import HERE, assert_native_is_exact
from codegen.guarded_program import GuardedProgram
from codegen.loop_programs import inputs_for
from codegen.region_programs import compared, program_of, sort
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array


def check(program: Program, samples: Sequence[Mapping[str, Array]], isa: InstructionSet = HERE[0]) -> None:
    """Exact by one thread and by several, and between guard pages."""
    assert_native_is_exact(program, [dict(sample) for sample in samples], isa, threads=(1, 3))
    guarded, expected = GuardedProgram(program, isa=isa), Interpreter(program)(samples[0])
    for name, array in guarded(samples[0]).items():
        np.testing.assert_array_equal(array, expected[name])


def argmax(shape: str, axis: int, result: str, element: str = "f32") -> Program:
    """As JAX spells it: the greatest element and its place; NaN is greatest, of equal ones the first."""
    lowest = "0xFF800000" if element == "f32" else "-128"
    # Of integers nothing is unequal to itself.
    return program_of(f"""
    func.func @main(%x: tensor<{shape}x{element}>) -> (tensor<{result}x{element}>, tensor<{result}xi32>) {{
      %n = stablehlo.iota dim = {axis} : tensor<{shape}xi32>
      %l = stablehlo.constant dense<{lowest}> : tensor<{element}>
      %z = stablehlo.constant dense<0> : tensor<i32>
      %v, %i = stablehlo.reduce(%x init: %l), (%n init: %z) across dimensions = [{axis}] :
        (tensor<{shape}x{element}>, tensor<{shape}xi32>, tensor<{element}>, tensor<i32>) ->
        (tensor<{result}x{element}>, tensor<{result}xi32>)
        reducer(%a: tensor<{element}>, %b: tensor<{element}>) (%c: tensor<i32>, %d: tensor<i32>) {{
          %gt = stablehlo.compare GT, %a, %b : (tensor<{element}>, tensor<{element}>) -> tensor<i1>
          %nan = stablehlo.compare NE, %a, %a : (tensor<{element}>, tensor<{element}>) -> tensor<i1>
          %first = stablehlo.or %gt, %nan : tensor<i1>
          %eq = stablehlo.compare EQ, %a, %b : (tensor<{element}>, tensor<{element}>) -> tensor<i1>
          %lt = stablehlo.compare LT, %c, %d : (tensor<i32>, tensor<i32>) -> tensor<i1>
          %tie = stablehlo.and %eq, %lt : tensor<i1>
          %index = stablehlo.or %first, %tie : tensor<i1>
          %best = stablehlo.select %first, %a, %b : tensor<i1>, tensor<{element}>
          %at = stablehlo.select %index, %c, %d : tensor<i1>, tensor<i32>
          stablehlo.return %best, %at : tensor<{element}>, tensor<i32>
        }}
      return %v, %i : tensor<{result}x{element}>, tensor<{result}xi32>
    }}""")


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("shape", "axis", "result", "element"),
    [("3x5x37", 2, "3x5", "f32"), ("2x21x3x7", 1, "2x3x7", "f32"), ("1x1", 1, "1", "f32"), ("4x33", 1, "4", "i8")],
)
def test_the_place_of_the_greatest(isa: InstructionSet, shape: str, axis: int, result: str, element: str) -> None:
    program = argmax(shape, axis, result, element)
    samples = [inputs_for(program, seed) for seed in (0, 1)]
    if element == "f32":
        samples[1] = {"arg0": np.round(samples[1]["arg0"])}
        samples[1]["arg0"].reshape(-1)[::9] = np.nan
    check(program, samples, isa)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 7, 8, 100])
def test_a_body_that_is_not_associative_is_applied_in_the_interpreters_order(length: int) -> None:
    whole = f"tensor<{length}x5xi32>"
    program = program_of(f"""
    func.func @main(%x: {whole}, %s: tensor<i32>) -> tensor<5xi32> {{
      %y = stablehlo.reduce(%x init: %s) across dimensions = [0] : ({whole}, tensor<i32>) -> tensor<5xi32>
        reducer(%a: tensor<i32>, %b: tensor<i32>) {{
          %three = stablehlo.constant dense<3> : tensor<i32>
          %c = stablehlo.multiply %a, %three : tensor<i32>
          %d = stablehlo.subtract %c, %b : tensor<i32>
          stablehlo.return %d : tensor<i32>
        }}
      return %y : tensor<5xi32>
    }}""")
    check(program, [inputs_for(program)])


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
def test_lines_are_sorted_with_what_belongs_to_them(isa: InstructionSet) -> None:
    program = sort(compared("LT", "i8"), "3x41x2", "i8", "f32")
    few = {
        "arg0": inputs_for(program)["arg0"] // 40,
        "arg1": inputs_for(program)["arg1"],
    }
    check(program, [inputs_for(program), few], isa)


@pytest.mark.parametrize("length", [1, 5, 100])
@pytest.mark.parametrize("direction", ["LT", "GT", "LE", "NE"])
def test_any_comparator_gives_the_interpreters_permutation(direction: str, length: int) -> None:
    """LE and NE are no orders, and neither is LT of NaN."""
    program = sort(compared(direction, "f32"), f"3x{length}", "f32", "i32")
    values = np.random.default_rng(length).integers(-9, 9, (3, length)).astype(np.float32)
    holes = np.where(values > 6, np.nan, values)
    places = np.arange(3 * length, dtype=np.int32).reshape(3, length)
    check(program, [{"arg0": values, "arg1": places}, {"arg0": holes, "arg1": places}])


def test_a_comparator_that_is_computed_and_the_total_order() -> None:
    key = """%m = stablehlo.negate %a0 : tensor<f32>
             %n = stablehlo.negate %b0 : tensor<f32>
             %r = stablehlo.compare LT, %m, %n, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>"""
    program = sort(key, "4x23", "f32")
    x = np.random.default_rng(0).normal(size=(4, 23)).astype(np.float32)
    x[:, ::5] = np.array([[np.nan], [-np.nan], [0.0], [-0.0]], np.float32)
    check(program, [{"arg0": x}])


@pytest.mark.parametrize(
    ("element", "number"),
    [
        ("f32", "0x7FC00000"),
        ("f32", "0xFF800000"),
        ("f64", "0x7FF8000000000000"),
        ("i64", f"{(1 << 53) + 1}"),
    ],
)
@pytest.mark.parametrize("outside", [False, True], ids=["inside", "outside"])
def test_a_body_with_a_number_that_a_splat_does_not_give(element: str, number: str, *, outside: bool) -> None:
    """As JAX sorts: every NaN becomes the positive one, the greatest in the total order. `jax.export` moves it out."""
    kind = ", TOTALORDER" if element != "i64" else ""
    constants = {x: f"%{x}c = stablehlo.constant dense<{number}> : tensor<{element}>" for x in "ab"}
    before = "\n".join(constants.values()) if outside else ""
    key = "\n".join(
        f"""{"" if outside else constants[x]}
            %{x}n = stablehlo.compare NE, %{x}0, %{x}0 : (tensor<{element}>, tensor<{element}>) -> tensor<i1>
            %{x}k = stablehlo.select %{x}n, %{x}c, %{x}0 : tensor<i1>, tensor<{element}>
            %{x}s = stablehlo.maximum %{x}k, %{x}c : tensor<{element}>"""
        for x in "ab"
    )
    last = "s" if element == "i64" else "k"
    less = f"%r = stablehlo.compare LT, %a{last}, %b{last}{kind} : (tensor<{element}>, tensor<{element}>) -> tensor<i1>"
    program = sort(f"{key}\n{less}", "4x23", element, before=before)
    sample = inputs_for(program)
    if element != "i64":
        sample["arg0"][:, ::5] = np.array([[np.nan], [-np.nan], [0.0], [-0.0]], sample["arg0"].dtype)
    else:
        sample["arg0"] = np.arange(92).reshape(4, 23)[:, ::-1] + (1 << 53) - 40
    check(program, [sample])


@pytest.mark.parametrize(
    ("index", "element", "isa"),
    [("i64", "f32", HERE[0]), ("ui8", "i8", HERE[0]), *(("i32", "i8", isa) for isa in HERE)],
    ids=lambda part: getattr(part, "name", part),
)
def test_updates_of_a_slice_stay_inside(isa: InstructionSet, index: str, element: str) -> None:
    whole, part = f"tensor<3x9x21x{element}>", f"tensor<1x4x21x{element}>"
    program = program_of(f"""
    func.func @main(%x: {whole}, %u: {part}, %i: tensor<{index}>, %j: tensor<{index}>) -> {whole} {{
      %a = stablehlo.add %x, %x : {whole}
      %z = stablehlo.constant dense<0> : tensor<{index}>
      %y = stablehlo.dynamic_update_slice %a, %u, %i, %j, %z :
        ({whole}, {part}, tensor<{index}>, tensor<{index}>, tensor<{index}>) -> {whole}
      return %y : {whole}
    }}""")
    dtype = np.dtype(f"{'u' if index[0] == 'u' else ''}int{index.strip('ui')}")
    info = np.iinfo(dtype)
    samples = []
    for i, j in ((0, 0), (2, 5), (1, 8), (info.min, info.max), (info.max, info.min)):
        sample = inputs_for(program)
        samples.append(sample | {"arg2": np.array(i, dtype), "arg3": np.array(j, dtype)})
    check(program, samples, isa)


def scatter(dims: str, operand: str, indices: str, update: str, element: str, body: str) -> Program:
    tensors = f"tensor<{operand}x{element}>, tensor<{indices}>, tensor<{update}x{element}>"
    return program_of(f"""
    func.func @main(%x: tensor<{operand}x{element}>, %i: tensor<{indices}>, %u: tensor<{update}x{element}>)
        -> tensor<{operand}x{element}> {{
      %y = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<{dims}>}}> ({{
        ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
          {body}
          stablehlo.return %r : tensor<{element}>
      }}) : ({tensors}) -> tensor<{operand}x{element}>
      return %y : tensor<{operand}x{element}>
    }}""")


ROWS = "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"
POINTS = "inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 0"
WINDOWS = "update_window_dims = [0, 2], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1"
BATCHES = (
    "update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [0], "
    "scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2"
)
SCATTERS = [
    (ROWS, "9x20", "7xi32", "7x20"),
    (ROWS, "9x20", "7x1xi64", "7x20"),
    (POINTS, "6x8", "2x30xi32", "30"),
    (WINDOWS, "6x8", "11x2xi32", "2x11x3"),
    (BATCHES, "3x6x8", "3x5xi32", "3x5x8"),
]


UPDATES = [("i32", "subtract"), ("f32", "add"), ("i8", "maximum"), ("f32", None)]


@pytest.mark.parametrize(
    ("dims", "operand", "indices", "update", "element", "op"),
    [(*SCATTERS[0], *update) for update in UPDATES] + [(*where, *UPDATES[0]) for where in SCATTERS[1:]],
)
def test_updates_in_their_order(
    dims: str, operand: str, indices: str, update: str, element: str, op: str | None
) -> None:
    """Those that meet are applied one after the other; those outside are left out."""
    tensor = f"tensor<{element}>"
    body = f"%r = stablehlo.{op} %a, %b : {tensor}" if op else f"%r = stablehlo.convert %b : ({tensor}) -> {tensor}"
    program = scatter(dims, operand, indices, update, element, body)
    samples = [inputs_for(program, seed) for seed in (0, 1)]
    for sample, most in zip(samples, (6, 12), strict=True):
        positions = np.random.default_rng(most).integers(-2, most, sample["arg1"].shape)
        sample["arg1"] = positions.astype(sample["arg1"].dtype)
    check(program, samples)


def test_a_body_without_native_form_is_named() -> None:
    tensor = "tensor<4xf32>"
    body = "%r = chlo.next_after %a, %b : tensor<f32>, tensor<f32> -> tensor<f32>"
    program = scatter(POINTS.replace("[0, 1]", "[0]").replace("[1, 0]", "[0]"), "4", "1x3xi32", "3", "f32", body)
    assert str(program.main.function_type.outputs.data[0]) == tensor
    with pytest.raises(CodegenError, match=r"stablehlo.scatter: found chlo.next_after in its body; run it with the"):
        NativeProgram(program)
