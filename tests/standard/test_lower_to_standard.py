"""Programs in standard MLIR compute what the integer programs compute; what has no standard form is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from property_cases import some
from standard.fixed_point_programs import Case, accumulators, cases, requantization
from standard.programs import PROGRAMS, arguments, signless
from zeropoint.errors import Error
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program, print_program
from zeropoint.quant_passes.errors import LoweringError
from zeropoint.quant_passes.lower_quant_ops import lower_quant_ops
from zeropoint.standard import expand_fxpmath, lower_to_loops, lower_to_standard

DIALECTS = {"arith", "builtin", "func", "linalg", "math", "scf", "tensor"}


def standard(program: Program) -> Program:
    """The lowered program, as its text is read back."""
    lowered = lower_to_standard(program)
    assert {op.name.partition(".")[0] for op in lowered.module.walk()} <= DIALECTS
    return parse_program(print_program(lowered), weights=lowered.weights)


def agrees(program: Program, values: list[Array]) -> None:
    expected = signless(Interpreter(program).run_values(values))
    found = Interpreter(standard(program)).run_values(signless(values))
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(other, one)
        assert other.dtype == one.dtype


def test_quantized_types_of_the_signature_become_their_storage() -> None:
    text = """
      func.func @main(%x: tensor<2x4x!quant.uniform<i8:f32, 1.0>>) -> tensor<2x4x!quant.uniform<i8:f32, 1.0>> {
        %0 = quant.scast %x : tensor<2x4x!quant.uniform<i8:f32, 1.0>> to tensor<2x4xi8>
        %1 = stablehlo.maximum %0, %0 : tensor<2x4xi8>
        %2 = quant.scast %1 : tensor<2x4xi8> to tensor<2x4x!quant.uniform<i8:f32, 1.0>>
        return %2 : tensor<2x4x!quant.uniform<i8:f32, 1.0>>
      }"""
    lowered = standard(parse_program(text))
    assert [str(port.type) for port in (*lowered.inputs, *lowered.outputs)] == ["tensor<2x4xi8>"] * 2
    values: Array = np.arange(-4, 4, dtype=np.int8).reshape(2, 4)
    np.testing.assert_array_equal(Interpreter(lowered).run_values([values])[0], values)


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_the_lowered_program_has_the_same_results(text: str) -> None:
    program = parse_program(text)
    agrees(program, arguments(program, np.random.default_rng(0)))


@some(60, deadline=None)
@given(case=cases(), expanded=st.booleans(), seed=st.integers(0, 2**32 - 1))
def test_every_behaviour_keeps_every_bit(case: Case, expanded: bool, seed: int) -> None:
    program, values = requantization(case), [accumulators(case, np.random.default_rng(seed))]
    agrees(expand_fxpmath(program) if expanded else program, values)


def test_a_table_is_read_by_its_index() -> None:
    table = np.random.default_rng(1).permutation(256).astype(np.uint8).view(np.int8)
    text = f"""func.func @main(%x: tensor<3x4xi8>) -> tensor<3x4xi8> {{
      %t = stablehlo.constant dense<{table.tolist()}> : tensor<256xi8>
      %y = "fxpmath.table"(%x, %t) : (tensor<3x4xi8>, tensor<256xi8>) -> tensor<3x4xi8>
      return %y : tensor<3x4xi8>
    }}"""
    agrees(parse_program(text), [np.arange(-128, 124, 21, np.int8).reshape(3, 4)])


@pytest.mark.parametrize(("entries", "element"), [(5, "i8"), (513, "i16"), (1025, "i16")])
@pytest.mark.parametrize("expanded", [False, True])
def test_interpolation_between_entries(entries: int, element: str, expanded: bool) -> None:
    text = f"""func.func @main(%x: tensor<3x4xi16>, %t: tensor<{entries}x{element}>) -> tensor<3x4x{element}> {{
      %y = "fxpmath.interpolate"(%x, %t) : (tensor<3x4xi16>, tensor<{entries}x{element}>) -> tensor<3x4x{element}>
      return %y : tensor<3x4x{element}>
    }}"""
    program, random = parse_program(text), np.random.default_rng(entries)
    x = np.array([-32768, 32767, 0, -1, *random.integers(-32768, 32768, 8)], np.int16).reshape(3, 4)
    dtype = np.dtype(f"i{int(element[1:]) // 8}")
    limits = np.iinfo(dtype)
    table = random.integers(limits.min, limits.max + 1, entries).astype(dtype)
    agrees(expand_fxpmath(program) if expanded else program, [x, table])


@pytest.mark.parametrize("profile", ["stablehlo", "xnnpack", "onnxruntime", "fixed32-double"])
def test_edges_are_quantized_as_the_profile_says(profile: str) -> None:
    text = f"""module attributes {{zeropoint.profile = "{profile}"}} {{
    func.func @main(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {{
      %0 = stablehlo.uniform_quantize %x : (tensor<2x8xf32>) -> tensor<2x8x!quant.uniform<i8:f32, 0.3:5>>
      %1 = quant.scast %0 : tensor<2x8x!quant.uniform<i8:f32, 0.3:5>> to tensor<2x8xi8>
      %2 = quant.scast %1 : tensor<2x8xi8> to tensor<2x8x!quant.uniform<i8:f32:0, {{0.5:5, 0.25:-3}}>>
      %y = stablehlo.uniform_dequantize %2
        : (tensor<2x8x!quant.uniform<i8:f32:0, {{0.5:5, 0.25:-3}}>>) -> tensor<2x8xf32>
      return %y : tensor<2x8xf32>
    }}}}"""
    x = np.array(
        [0, 0.15, 0.45, -0.15, 1e9, -1e9, np.inf, np.nan, 0.44, 37.2, -40, 3, -0.45, 5, 6, -np.inf], np.float32
    )
    agrees(parse_program(text), [x.reshape(2, 8)])


@pytest.mark.parametrize("storage", ["i32", "i32<-2147483647:100>"])
@pytest.mark.parametrize("zero_point", [-(2**31) + 1, -100, 100])
@pytest.mark.parametrize("profile", ["openvino", "onnxruntime"])
def test_words_are_quantized_exactly(profile: str, zero_point: int, storage: str) -> None:
    kind = f"tensor<8x!quant.uniform<{storage}:f32, 0.5:{zero_point}>>"
    text = f"""module attributes {{zeropoint.profile = "{profile}"}} {{
    func.func @main(%x: tensor<8xf32>) -> tensor<8xi32> {{
      %0 = stablehlo.uniform_quantize %x : (tensor<8xf32>) -> {kind}
      %y = quant.scast %0 : {kind} to tensor<8xi32>
      return %y : tensor<8xi32>
    }}}}"""
    agrees(parse_program(text), [np.array([0, 61.5, 9.5, -40, 1e10, -1e10, 37.25, np.nan], np.float32)])


@pytest.mark.parametrize("profile", ["stablehlo", "onnxruntime", "fixed32-double"])
@pytest.mark.parametrize(
    "kind",
    [
        "i8:f32, 0.5:3",
        "u8<1:255>:f32:1, {0.5:255, 0.25:1, 3.5:7}",
        "u16:f32:{0:1, 1:3}, {{0.5:40000}, {0.25:7}}",
    ],
)
def test_casts_of_the_quant_dialect(kind: str, profile: str) -> None:
    quantized, stored = f"tensor<2x3x!quant.uniform<{kind}>>", f"tensor<2x3xi{16 if '16' in kind else 8}>"
    text = f"""module attributes {{zeropoint.profile = "{profile}"}} {{
    func.func @main(%x: tensor<2x3xf32>, %s: {stored}) -> ({stored}, tensor<2x3xf32>) {{
      %0 = quant.qcast %x : tensor<2x3xf32> to {quantized}
      %1 = quant.scast %0 : {quantized} to {stored}
      %2 = quant.scast %s : {stored} to {quantized}
      %3 = quant.dcast %2 : {quantized} to tensor<2x3xf32>
      return %1, %3 : {stored}, tensor<2x3xf32>
    }}}}"""
    program = parse_program(text)
    x = np.array([[np.nan, np.inf, 0.3], [-np.inf, 1e9, -2.25]], np.float32)
    stored_values = np.array([[0, 1, -1], [127, -128, 5]]).astype(f"i{2 if '16' in kind else 1}")
    for form in (program, lower_quant_ops(program)):
        expected, found = (Interpreter(each).run_values([x, stored_values]) for each in (program, standard(form)))
        for one, other in zip(signless(expected), found, strict=True):
            np.testing.assert_array_equal(other, one)


def test_values_with_two_readers_are_computed_once() -> None:
    text = """func.func @main(%x: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>) {
      %0 = stablehlo.add %x, %x : tensor<4xi32>
      %1 = stablehlo.multiply %0, %x : tensor<4xi32>
      %2 = stablehlo.subtract %0, %x : tensor<4xi32>
      return %1, %2 : tensor<4xi32>, tensor<4xi32>
    }"""
    program = parse_program(text)
    agrees(program, [np.arange(4, dtype=np.int32)])
    assert print_program(lower_to_standard(program)).count("arith.addi") == 1


@pytest.mark.parametrize(
    ("name", "named"),
    [("stacks of rows", "matmul"), ("two dimensions contracted", "matmul"), ("heads", "batch_matmul")],
)
def test_products_of_more_dimensions_are_matrix_products(name: str, named: str) -> None:
    lowered = lower_to_standard(parse_program(PROGRAMS[name]))
    assert any(op.name == f"linalg.{named}" for op in lowered.module.walk())


REFUSED = {
    "found tensor<4x!quant.uniform": """func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32> {
      %0 = stablehlo.add %x, %x : tensor<4x!quant.uniform<i8:f32, 0.5>>
      %y = stablehlo.uniform_dequantize %0 : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }""",
    r"found tensor<\?xi8>, expected a static shape": """func.func @main(%x: tensor<?xi8>) -> tensor<?xi8> {
      %y = stablehlo.reverse %x, dims = [0] : tensor<?xi8>
      return %y : tensor<?xi8>
    }""",
    "found tensor<4xcomplex<f32>>, expected a tensor of integers or floats": """
    func.func @main(%x: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
      %y = stablehlo.add %x, %x : tensor<4xcomplex<f32>>
      return %y : tensor<4xcomplex<f32>>
    }""",
    "stablehlo.cholesky: found an op that has no form in arith": """
    func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %y = stablehlo.cholesky %x, lower = true : tensor<4x4xf32>
      return %y : tensor<4x4xf32>
    }""",
    r"found stablehlo.reverse in its body, expected elementwise ops": """
    func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {
      %y = "stablehlo.sort"(%x) ({
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %d = stablehlo.reverse %a, dims = [] : tensor<i32>
        %c = stablehlo.compare LT, %d, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }) : (tensor<4xi32>) -> tensor<4xi32>
      return %y : tensor<4xi32>
    }""",
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_has_no_standard_form_is_refused_with_its_op(sentence: str) -> None:
    with pytest.raises(Error, match=sentence) as error:
        lower_to_standard(parse_program(REFUSED[sentence]))
    assert getattr(error.value, "op", None) is not None


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 33, 100])
def test_sorts_of_every_length_are_stable(count: int) -> None:
    text = f"""func.func @main(%x: tensor<{count}xi8>, %z: tensor<{count}xi32>) -> tensor<{count}xi32> {{
      %y:2 = "stablehlo.sort"(%x, %z) ({{
      ^bb0(%a: tensor<i8>, %b: tensor<i8>, %c: tensor<i32>, %d: tensor<i32>):
        %e = stablehlo.compare LT, %a, %b : (tensor<i8>, tensor<i8>) -> tensor<i1>
        stablehlo.return %e : tensor<i1>
      }}) : (tensor<{count}xi8>, tensor<{count}xi32>) -> (tensor<{count}xi8>, tensor<{count}xi32>)
      return %y#1 : tensor<{count}xi32>
    }}"""
    program = parse_program(text)
    for seed in range(4):
        random = np.random.default_rng(seed)
        keys, places = random.integers(-3, 4, count, np.int8), np.arange(count, dtype=np.int32)
        (found,) = Interpreter(standard(program)).run_values([keys, places])
        assert found.tolist() == sorted(range(count), key=lambda place, keys=keys: keys[place])


def test_a_scatter_into_nothing_and_one_of_nothing() -> None:
    text = """func.func @main(%x: tensor<XxYxi8>, %i: tensor<Zx1xi32>, %u: tensor<ZxYxi8>) -> tensor<XxYxi8> {
      %y = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
        inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
        ^bb0(%a: tensor<i8>, %b: tensor<i8>):
          stablehlo.return %b : tensor<i8>
      }) : (tensor<XxYxi8>, tensor<Zx1xi32>, tensor<ZxYxi8>) -> tensor<XxYxi8>
      return %y : tensor<XxYxi8>
    }"""
    for rows, columns, updates in ((0, 3, 2), (4, 3, 0), (4, 0, 2), (4, 3, 2)):
        shaped = text.replace("Xx", f"{rows}x").replace("Yx", f"{columns}x").replace("Zx", f"{updates}x")
        x, u = np.ones((rows, columns), np.int8), np.full((updates, columns), 5, np.int8)
        agrees(parse_program(shaped), [x, np.arange(updates, dtype=np.int32)[:, None] * 3, u])


def test_ops_in_loops_and_branches_are_expanded_too() -> None:
    program = parse_program("""func.func @main(%x: tensor<4xi8>, %p: tensor<i1>) -> tensor<4xi8> {
      %y = "stablehlo.if"(%p) ({
        %0 = "stablehlo.map"(%x) <{dimensions = array<i64: 0>}> ({
        ^bb0(%a: tensor<i8>):
          %1 = stablehlo.add %a, %a : tensor<i8>
          stablehlo.return %1 : tensor<i8>
        }) : (tensor<4xi8>) -> tensor<4xi8>
        stablehlo.return %0 : tensor<4xi8>
      }, {
        stablehlo.return %x : tensor<4xi8>
      }) : (tensor<i1>) -> tensor<4xi8>
      return %y : tensor<4xi8>
    }""")
    for chosen in (False, True):
        agrees(program, [np.arange(4, dtype=np.int8), np.array(chosen)])


@pytest.mark.parametrize("lower", [lower_to_standard, lower_to_loops])
@pytest.mark.parametrize(
    ("op", "body"),
    [
        ("stablehlo.tuple", '%t = "stablehlo.tuple"(%x) : (tensor<4xi8>) -> tuple<tensor<4xi8>>'),
        ("stablehlo.after_all", "%t = stablehlo.after_all : !stablehlo.token"),
        ("stablehlo.dynamic_iota", "%t = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<4xi8>"),
        (
            "stablehlo.dynamic_reshape",
            "%t = stablehlo.dynamic_reshape %x, %n : (tensor<4xi8>, tensor<1xi32>) -> tensor<?xi8>",
        ),
    ],
)
def test_ops_on_tuples_tokens_and_computed_shapes_are_refused_by_name(
    lower: Callable[[Program], Program], op: str, body: str
) -> None:
    text = (
        f"func.func @main(%x: tensor<4xi8>, %n: tensor<1xi32>) -> tensor<4xi8> {{\n{body}\nreturn %x : tensor<4xi8>\n}}"
    )
    with pytest.raises(LoweringError, match=f"{op}: found "):
        lower(parse_program(text))
