"""Sorts, scatters and movement with shapes known at run time: integer programs with the bits of the quantized ones.

Stored integers have the order of the real values they stand for, and moving them needs no arithmetic. Inputs are random
integers of the whole storage; the integer program, its standard form and its machine code are compared exactly.
"""

from __future__ import annotations

import numpy as np
import pytest

from lower.exact import INT32, clamp
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array, element_dtype, shape_of
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import verify
from zeropoint.lower import lower
from zeropoint.report.counts import float_ops
from zeropoint.standard import lower_to_standard

I8, FINE = "!quant.uniform<i8:f32, 0.5:3>", "!quant.uniform<i8:f32, 0.25:-7>"
U8, I16 = "!quant.uniform<u8:f32, 0.5:131>", "!quant.uniform<i16:f32, 0.01:5>"
SUM = "!quant.uniform<i32:f32, 0.5>"


def program(arguments: str, results: str, body: str) -> Program:
    module = 'module attributes {zeropoint.profile = "fixed32"}'
    return parse_program(f"{module} {{ func.func @main({arguments}) -> ({results}) {{\n{body}\n}} }}")


def sort(*kinds: str, comparator: str, along: int = 1) -> Program:
    """Tensors of 4 x 9 sorted together."""
    types = [f"tensor<4x9x{kind}>" for kind in kinds]
    names = [f"%x{n}" for n in range(len(kinds))]
    pairs = ", ".join(f"%a{n}: tensor<{kind}>, %b{n}: tensor<{kind}>" for n, kind in enumerate(kinds))
    results = ", ".join(f"%r#{n}" for n in range(len(kinds))) if len(kinds) > 1 else "%r"
    listed = ", ".join(types)
    body = f"""
      %r{f":{len(kinds)}" if len(kinds) > 1 else ""} = "stablehlo.sort"({", ".join(names)}) <{{dimension = {along} : i64, is_stable = true}}> ({{
        ^bb0({pairs}):
          {comparator}
          stablehlo.return %less : tensor<i1>
      }}) : ({listed}) -> ({listed})
      return {results} : {listed}"""  # noqa: E501 (one line of MLIR)
    arguments = ", ".join(f"{name}: {kind}" for name, kind in zip(names, types, strict=True))
    return program(arguments, listed, body)


def less(kind: str, direction: str = "LT") -> str:
    return f"%less = stablehlo.compare {direction}, %a0, %b0 : (tensor<{kind}>, tensor<{kind}>) -> tensor<i1>"


def scatter(given: str, update: str, inside: str, combined: str) -> Program:
    """Rows of a 6 x 4 tensor combined with three rows of updates; two indices may be equal."""
    body = f"""
      %r = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
          inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
        ^bb0(%a: tensor<{inside}>, %b: tensor<{inside}>):
          {combined}
      }}) : (tensor<6x4x{given}>, tensor<3xi32>, tensor<3x4x{update}>) -> tensor<6x4x{inside}>
      return %r : tensor<6x4x{inside}>"""
    arguments = f"%x: tensor<6x4x{given}>, %i: tensor<3xi32>, %u: tensor<3x4x{update}>"
    return program(arguments, f"tensor<6x4x{inside}>", body)


def combining(op: str, kind: str) -> str:
    return f"%s = stablehlo.{op} %a, %b : tensor<{kind}>\nstablehlo.return %s : tensor<{kind}>"


def inputs(of: Program, seed: int) -> list[Array]:
    """Random integers of the whole storage; indices from -1 to 6, of which 0 to 5 are in bounds."""
    random = np.random.default_rng(seed)
    made: list[Array] = []
    for port in of.inputs:
        dtype, quantized = element_dtype(port.type.element_type), "quant" in str(port.type)
        low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if quantized else (-1, 6)
        made.append(random.integers(low, high, shape_of(port.type), dtype, endpoint=True))
    return made


def agree(quantized: Program, given: list[Array], *, native: bool = True) -> list[Array]:
    lowered = lower(quantized)
    verify(lowered.module)
    assert not list(float_ops(lowered))
    wanted = list(Interpreter(quantized).run_values(given))
    runs = [Interpreter(lowered).run_values(given)]
    if native:
        runs.append(NativeProgram(lowered).run_values(given))
        signless = [x.view(x.dtype.str.replace("u", "i")) for x in given]
        runs.append(Interpreter(lower_to_standard(lowered)).run_values(signless))
    for found in runs:
        for one, other in zip(wanted, found, strict=True):
            np.testing.assert_array_equal(one, other.view(one.dtype))
    return wanted


MEETING = f"""
  %s = stablehlo.add %a0, %a1 : (tensor<{I8}>, tensor<{FINE}>) -> tensor<{I8}>
  %t = stablehlo.add %b0, %b1 : (tensor<{I8}>, tensor<{FINE}>) -> tensor<{I8}>
  %less = stablehlo.compare GT, %s, %t : (tensor<{I8}>, tensor<{I8}>) -> tensor<i1>"""
SORTS = {
    "by value": sort(I8, comparator=less(I8)),
    "descending, of unsigned storage": sort(U8, comparator=less(U8, "GT")),
    "along the first dimension": sort(I16, comparator=less(I16), along=0),
    "with integers beside it": sort(I8, "i32", comparator=less(I8, "GT")),
    "of integers, with a quantized value beside them": sort(
        "i32", I8, comparator="%less = stablehlo.compare LT, %a0, %b0 : (tensor<i32>, tensor<i32>) -> tensor<i1>"
    ),
    "by a rounded sum of two types": sort(I8, FINE, comparator=MEETING),
}


@pytest.mark.parametrize("name", SORTS)
def test_a_sort_compares_and_moves_stored_integers(name: str) -> None:
    agree(SORTS[name], inputs(SORTS[name], 0))


SCATTERS = {
    "replaced": scatter(I8, I8, I8, f"stablehlo.return %b : tensor<{I8}>"),
    "replaced, of unsigned storage": scatter(U8, U8, U8, f"stablehlo.return %b : tensor<{U8}>"),
    "the greatest": scatter(I8, I8, I8, combining("maximum", I8)),
    "rounded sums": scatter(I8, I8, I8, combining("add", I8)),
    "accumulated": scatter(I8, I8, SUM, combining("add", SUM)),
}


@pytest.mark.parametrize("name", SCATTERS)
def test_a_scatter_combines_stored_integers(name: str) -> None:
    agree(SCATTERS[name], inputs(SCATTERS[name], 0))


def test_a_scatter_whose_sums_pass_the_type_saturates_after_every_update() -> None:
    quantized = scatter(SUM, SUM, SUM, combining("add", SUM))
    x, i, u = inputs(quantized, 0)
    x[2:] = 2**31 - 1
    u[:] = 2**31 - 1
    (found,) = agree(quantized, [x, i, u])
    wanted = [[int(number) for number in row] for row in x]
    for row, update in zip(i, u, strict=True):
        if 0 <= row < len(wanted):
            wanted[row] = [clamp(a + int(b), INT32) for a, b in zip(wanted[row], update, strict=True)]
    assert found.tolist() == wanted


def one(op: str, result: str, *arguments: str) -> Program:
    listed = ", ".join(f"%a{n}: {kind}" for n, kind in enumerate(arguments))
    text = f"{op.split(' ', 1)[0]}({', '.join(f'%a{n}' for n in range(len(arguments)))}) {op.split(' ', 1)[1]}"
    return program(listed, result, f"%r = {text} : ({', '.join(arguments)}) -> {result}\nreturn %r : {result}")


WHOLE, SIZES = f"tensor<4x5x{I8}>", "tensor<2xi32>"
MOVES = {
    "broadcast": (
        one('"stablehlo.dynamic_broadcast_in_dim" <{broadcast_dimensions = array<i64: 1, 2>}>', f"tensor<?x4x5x{I8}>",
            WHOLE, "tensor<3xi32>"),
        [[2, 4, 5]],
    ),
    "reshape": (one('"stablehlo.dynamic_reshape" ', f"tensor<?x?x{I8}>", WHOLE, SIZES), [[2, 10]]),
    "pad": (
        one('"stablehlo.dynamic_pad" ', f"tensor<?x?x{I8}>", WHOLE, f"tensor<{I8}>", SIZES, SIZES, SIZES),
        [[1, 2], [0, 1], [1, 0]],
    ),
    "gather": (
        one('"stablehlo.dynamic_gather" <{dimension_numbers = #stablehlo.gather<offset_dims = [1], '
            "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}>", f"tensor<3x?x{I8}>",
            WHOLE, "tensor<3xi32>", SIZES),
        [[3, 0, 1], [1, 5]],
    ),
}  # fmt: skip
"""Movement by sizes that are inputs, and these."""


@pytest.mark.parametrize("name", MOVES)
def test_movement_by_sizes_known_at_run_time_moves_stored_integers(name: str) -> None:
    quantized, sizes = MOVES[name]
    given = [array for array in inputs(quantized, 0) if array.dtype == np.int8]
    agree(quantized, [*given, *(np.array(each, np.int32) for each in sizes)], native=False)


def test_the_size_of_a_quantized_value_is_that_of_its_integers() -> None:
    kind = f"tensor<?x5x{I8}>"
    quantized = program(
        f"%x: {kind}", "tensor<i32>", f"%r = stablehlo.get_dimension_size %x, dim = 0 : ({kind}) -> tensor<i32>\n"
        "return %r : tensor<i32>",
    )  # fmt: skip
    (found,) = agree(quantized, [np.zeros((3, 5), np.int8)], native=False)
    assert found == 3


def test_a_barrier_lets_integers_through() -> None:
    kinds = f"tensor<3x{I8}>, tensor<3xi32>, tensor<3x{U8}>"
    quantized = program(
        f"%x: tensor<3x{I8}>, %y: tensor<3xi32>, %z: tensor<3x{U8}>", kinds,
        f"%r:3 = stablehlo.optimization_barrier %x, %y, %z : {kinds}\nreturn %r#0, %r#1, %r#2 : {kinds}",
    )  # fmt: skip
    agree(quantized, inputs(quantized, 0), native=False)


@pytest.mark.parametrize(
    "op",
    [
        '"stablehlo.all_gather" <{all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>}>',
        '"stablehlo.all_to_all" <{split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 1 : i64, '
        "replica_groups = dense<0> : tensor<1x1xi64>}>",
    ],
    ids=["gathered", "exchanged"],
)
def test_a_process_by_itself_keeps_the_integers_that_it_shares(op: str) -> None:
    quantized = one(op, WHOLE, WHOLE)
    given = inputs(quantized, 0)
    (found,) = agree(quantized, given, native=False)
    np.testing.assert_array_equal(found, given[0])
