"""The ops of the chlo dialect: text, verification, meaning."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from xdsl.utils.exceptions import ParseError, VerifyException

from zeropoint.interp import Interpreter, run
from zeropoint.ir.chlo import Chlo
from zeropoint.ir.text import parse_program, print_program
from zeropoint.quant_passes import legalize_chlo

ERF = "  %0 = chlo.erf %x : tensor<5xf32> -> tensor<5xf32>\n  return %0 : tensor<5xf32>\n"
PROGRAM = "func.func @main(%x: tensor<5xf32>) -> tensor<5xf32> {\n" + ERF + "}\n"
GENERIC = '%0 = "chlo.erf"(%x) : (tensor<5xf32>) -> tensor<5xf32>'


def test_erf_prints_as_it_was_written_in_both_forms() -> None:
    assert "chlo.erf %x : tensor<5xf32> -> tensor<5xf32>" in print_program(parse_program(PROGRAM))
    assert '"chlo.erf"(%x) : (tensor<5xf32>) -> tensor<5xf32>' in print_program(parse_program(PROGRAM), generic=True)
    short = "chlo.erf %x : tensor<5xf32> -> tensor<5xf32>"
    assert "chlo.erf %x :" in print_program(parse_program(PROGRAM.replace(f"%0 = {short}", GENERIC)))


def test_erf_is_the_error_function() -> None:
    points = np.array([-3.0, -0.5, 0.0, 0.25, 2.0], np.float32)
    expected = np.array([math.erf(x) for x in points.tolist()], np.float32)
    (found,) = run(parse_program(PROGRAM), {"arg0": points}).values()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (
            "(tensor<5xi32>) -> tensor<5xi32>",
            "operand #0 must be tensor of 4/6/8/16/32/64-bit float values, but got 'tensor<5xi32>'",
        ),
        ("(tensor<5xf32>) -> tensor<4xf32>", "requires compatible types for all operands and results"),
    ],
)
def test_erf_of_other_types_is_refused(types: str, message: str) -> None:
    operand = types[1 : types.index(")")]
    text = f'"func.func"() ({{^bb0(%x: {operand}): %0 = "chlo.erf"(%x) : {types}\n "func.return"() : () -> () }}) '
    header = f'{{sym_name = "main", function_type = ({operand}) -> ()}} : () -> ()'
    with pytest.raises(VerifyException, match=message.replace("(", r"\(")):
        parse_program(text + header)


SYNTAX = Path(__file__).with_name("syntax.mlir").read_text()
LINES = [line.strip() for line in SYNTAX.splitlines()[1:]]


def _unnumbered(line: str) -> str:
    return re.sub(r"%\w+", "%", line).replace("builtin.module", "module").replace("func.return", "return")


def test_every_op_has_its_text() -> None:
    assert {op.name for op in Chlo.operations} <= set(re.findall(r"chlo\.\w+", SYNTAX))


@pytest.mark.parametrize("generic", [False, True])
def test_the_text_is_read_and_printed_as_upstream_prints_it(generic: bool) -> None:
    text = print_program(parse_program(print_program(parse_program(SYNTAX), generic=generic)))
    assert [_unnumbered(line.strip()) for line in text.splitlines()] == [_unnumbered(line) for line in LINES]


ARGUMENTS = "%a: tensor<2x3xf32>, %b: tensor<3xf32>, %i: tensor<2x3xi32>, %c: tensor<2x3xcomplex<f32>>, %s: tensor<f32>"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "chlo.lgamma %c : tensor<2x3xcomplex<f32>> -> tensor<2x3xcomplex<f32>>",
            "operand #0 must be tensor of 4/6/8/16/32/64-bit float values, but got 'tensor<2x3xcomplex<f32>>'",
        ),
        (
            "chlo.square %i : tensor<2x3xi32> -> tensor<2x3xi32>",
            "operand #0 must be tensor of 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements "
            "values, but got 'tensor<2x3xi32>'",
        ),
        (
            "chlo.broadcast_add %a, %i : (tensor<2x3xf32>, tensor<2x3xi32>) -> tensor<2x3xf32>",
            "requires compatible element types for all operands and results",
        ),
        (
            "chlo.broadcast_add %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x4xf32>",
            "inferred type(s) 'tensor<2x3xf32>' are incompatible with return type(s) of operation 'tensor<2x4xf32>'",
        ),
        (
            "chlo.broadcast_add %a, %b {broadcast_dimensions = array<i64: 0>} "
            ": (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>",
            "found sizes 2 and 3 of dimension 0; expected equal ones, or 1",
        ),
        (
            "chlo.broadcast_add %a, %b {broadcast_dimensions = array<i64: 0, 1>} "
            ": (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>",
            "found broadcast_dimensions [0, 1] for an operand of shape [3]; expected one dimension for each",
        ),
        (
            "chlo.broadcast_add %a, %b {broadcast_dimensions = array<i64: 2>} "
            ": (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>",
            "found broadcast dimension 2, expected one in [0, 2)",
        ),
        (
            "chlo.broadcast_select %a, %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>",
            "operand #0 must be ranked tensor of bool values, but got 'tensor<2x3xf32>'",
        ),
        (
            "chlo.is_inf %a : tensor<2x3xf32> -> tensor<3xi1>",
            "all non-scalar operands/results must have the same shape and base type",
        ),
        (
            "chlo.next_after %a, %i : tensor<2x3xf32>, tensor<2x3xi32> -> tensor<2x3xf32>",
            "operand #1 must be tensor of 4/6/8/16/32/64-bit float values, but got 'tensor<2x3xi32>'",
        ),
        (
            '"chlo.constant_like"(%a) <{value = 1 : i32}> : (tensor<2x3xf32>) -> tensor<2x3xf32>',
            "value's type doesn't match element return type",
        ),
        (
            "chlo.top_k(%a, k = 4) : tensor<2x3xf32> -> (tensor<2x4xf32>, tensor<2x4xi32>)",
            "operand's last dimension must be at least 4",
        ),
        (
            "chlo.top_k(%s, k = 1) : tensor<f32> -> (tensor<f32>, tensor<i32>)",
            "operand's rank must be at least 1",
        ),
        (
            "chlo.top_k(%a, k = 2) : tensor<2x3xf32> -> (tensor<2x2xf32>, tensor<2x2xi64>)",
            "inferred type(s) 'tensor<2x2xf32>', 'tensor<2x2xi32>' are incompatible",
        ),
        (
            '"chlo.broadcast_add"(%a, %a) : (tensor<2x3xf32>, tensor<2x3xf32>) -> f32',
            "chlo.broadcast_add: found f32, expected a ranked tensor",
        ),
    ],
)
def test_wrong_ops_are_refused(line: str, sentence: str) -> None:
    results = "%r:2" if "top_k" in line else "%r"
    with pytest.raises((ParseError, VerifyException)) as error:
        parse_program(f"func.func @main({ARGUMENTS}) {{\n  {results} = {line}\n  return\n}}")
    assert sentence in str(error.value)


def _legalized(line: str, arguments: str, *arrays: np.ndarray) -> np.ndarray:
    result = line[line.rindex("-> ") + 3 :]
    text = f"func.func @main({arguments}) -> {result} {{\n  %r = {line}\n  return %r : {result}\n}}"
    return Interpreter(legalize_chlo(parse_program(text))).run_values(list(arrays))[0]


def test_operands_of_lower_rank_have_the_last_dimensions_or_those_that_are_named() -> None:
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([10, 20, 30], np.float32)
    line = "chlo.broadcast_add %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>"
    assert _legalized(line, "%x: tensor<2x3xf32>, %y: tensor<3xf32>", x, y).tolist() == (x + y).tolist()
    named = "chlo.broadcast_subtract %y, %x {broadcast_dimensions = array<i64: 0>} "
    line = named + ": (tensor<2xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>"
    found = _legalized(line, "%x: tensor<2x3xf32>, %y: tensor<2xf32>", x, y[:2])
    assert found.tolist() == (y[:2, None] - x).tolist()


def test_both_operands_may_be_repeated() -> None:
    x, y = np.array([[1], [2]], np.int32), np.array([[5, 7]], np.int32)
    line = "chlo.broadcast_maximum %x, %y : (tensor<2x1xi32>, tensor<1x2xi32>) -> tensor<2x2xi32>"
    assert _legalized(line, "%x: tensor<2x1xi32>, %y: tensor<1x2xi32>", x, y).tolist() == [[5, 7], [5, 7]]


def test_dynamic_shapes_are_not_legalized() -> None:
    text = """
    func.func @main(%x: tensor<?xf32>, %y: tensor<f32>) -> tensor<?xf32> {
      %0 = chlo.broadcast_add %x, %y : (tensor<?xf32>, tensor<f32>) -> tensor<?xf32>
      return %0 : tensor<?xf32>
    }"""
    with pytest.raises(ValueError, match=r"chlo.broadcast_add.*: found a dynamic shape, expected static ones"):
        legalize_chlo(parse_program(text))


def test_conjugates() -> None:
    line = "chlo.conj %x : tensor<2xcomplex<f32>> -> tensor<2xcomplex<f32>>"
    found = _legalized(line, "%x: tensor<2xcomplex<f32>>", np.array([1 + 2j, -3j], np.complex64))
    assert found.tolist() == [1 - 2j, 3j]


@pytest.mark.parametrize(("op", "expected"), [("is_inf", [1, 1, 0, 0]), ("is_pos_inf", [1, 0, 0, 0])])
def test_infinities(op: str, expected: list[int]) -> None:
    line = f"chlo.{op} %x : tensor<4xf32> -> tensor<4xi1>"
    found = _legalized(line, "%x: tensor<4xf32>", np.array([np.inf, -np.inf, np.nan, 1], np.float32))
    assert found.tolist() == [bool(entry) for entry in expected]


@pytest.mark.parametrize("element", ["i4", "i8", "ui8", "i16", "ui32", "i64", "ui64"])
def test_mulhi_is_the_upper_half_of_the_product(element: str) -> None:
    width = int(element.lstrip("ui"))
    dtype = np.dtype(f"{element.rstrip('0123456789').replace('i', 'int')}{max(8, width)}")
    low, high = (0, 2**width - 1) if element.startswith("u") else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
    pairs = [(low, low), (low, high), (high, high), (high, 2), (1, low), (3, high // 2)]
    lhs, rhs = (np.array(column, dtype) for column in zip(*pairs, strict=True))
    kind = f"tensor<6x{element}>"
    found = _legalized(f"chlo.mulhi %x, %y : {kind}, {kind} -> {kind}", f"%x: {kind}, %y: {kind}", lhs, rhs)
    assert found.tolist() == [(one * other) >> width for one, other in pairs]


def _scan(
    attributes: str = "", body: str = "tensor<2xf32>", result: str = "tensor<2x3xf32>", dimension: int = 1
) -> str:
    carried = "tensor<2xf32>"
    return f"""func.func @main(%x: tensor<2x3xf32>, %z: {carried}, %k: {carried}) -> ({result}, {carried}) {{
      %0:2 = chlo.scan(%x) inits(%z) dimension={dimension} {attributes} {{
      ^bb0(%a: {body}, %b: {body}):
        %scaled = stablehlo.multiply %b, %k : {body}
        %sum = stablehlo.add %a, %scaled : {body}
        stablehlo.return %sum, %sum : {body}, {body}
      }} : (tensor<2x3xf32>, tensor<2xf32>) -> ({result}, tensor<2xf32>)
      return %0#0, %0#1 : {result}, tensor<2xf32>
    }}"""


@pytest.mark.parametrize("is_reverse", [False, True])
def test_scan_carries_values_along_a_dimension_and_uses_those_from_around_it(is_reverse: bool) -> None:
    text = _scan("attributes {is_reverse = true}" if is_reverse else "")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    start, scale = np.array([1, 2], np.float32), np.array([2, 3], np.float32)
    outputs, carried = Interpreter(parse_program(text)).run_values([x, start, scale])
    expected, now = np.empty_like(x), start
    for place in (2, 1, 0) if is_reverse else (0, 1, 2):
        expected[:, place] = now = x[:, place] + now * scale
    np.testing.assert_array_equal(outputs, expected)
    np.testing.assert_array_equal(carried, now)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (_scan(dimension=2), "dimension 2 is out of range for rank 2"),
        (
            _scan(result="tensor<2x4xf32>"),
            "inputs and outputs must have the same size along dimension 1",
        ),
        (
            _scan(dimension=0, result="tensor<2x3xf32>"),
            "body arguments must be 'tensor<3xf32>', 'tensor<2xf32>', but found 'tensor<2xf32>', 'tensor<2xf32>'",
        ),
    ],
)
def test_scans_that_do_not_fit_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(VerifyException) as error:
        parse_program(text)
    assert sentence in str(error.value)


DIMENSIONS = (
    "lhs_batching_dimensions = [1], rhs_batching_dimensions = [2], lhs_contracting_dimensions = [2], "
    "rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [0], rhs_group_dimensions = [1]"
)


def _ragged(element: str, dimensions: str = DIMENSIONS, result: str = "2x6x4", groups: int = 3) -> str:
    types = f"tensor<6x2x5x{element}>", f"tensor<5x3x2x4x{element}>", f"tensor<{groups}xi32>"
    numbers = f"ragged_dot_dimension_numbers = #chlo.ragged_dot<{dimensions}>"
    return f"""func.func @main(%x: {types[0]}, %y: {types[1]}, %n: {types[2]}) -> tensor<{result}x{element}> {{
      %0 = "chlo.ragged_dot"(%x, %y, %n) {{{numbers}}} : ({", ".join(types)}) -> tensor<{result}x{element}>
      return %0 : tensor<{result}x{element}>
    }}"""


@pytest.mark.parametrize("element", ["f32", "f16", "i8", "i32"])
@pytest.mark.parametrize("sizes", [[1, 2, 3], [0, 6, 0], [2, 0, 1]])
def test_ragged_dot_is_a_product_of_each_group_of_rows(element: str, sizes: list[int]) -> None:
    random = np.random.default_rng(0)
    dtype = np.dtype(element.replace("f", "float").replace("i", "int"))
    x = random.integers(-9, 9, (6, 2, 5)).astype(dtype)
    y = random.integers(-9, 9, (5, 3, 2, 4)).astype(dtype)
    found = Interpreter(parse_program(_ragged(element))).run_values([x, y, np.array(sizes, np.int32)])[0]
    expected = np.zeros((2, 6, 4), np.int64)
    groups = np.repeat(np.arange(3), sizes)
    for row, group in enumerate(groups.tolist()):
        expected[:, row] = np.einsum("bk,kbn->bn", x[row].astype(np.int64), y[:, group].astype(np.int64))
    np.testing.assert_array_equal(found, expected.astype(dtype))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (_ragged("f32", result="6x2x4"), "found a result of shape [6, 2, 4]; expected [2, 6, 4]"),
        (_ragged("f32", groups=2), "found 2 group sizes; expected 3"),
        (
            _ragged("f32", DIMENSIONS.replace("ragged_dimensions = [0]", "ragged_dimensions = [0, 1]")),
            "There should be exactly one ragged dimension in the lhs.",
        ),
        (
            _ragged("f32", DIMENSIONS.replace("group_dimensions = [1]", "group_dimensions = [2]")),
            "rhs dimensions [2, 0, 2] have a duplicate",
        ),
        (
            _ragged("f32", DIMENSIONS.replace("group_dimensions = [1]", "group_dimensions = [4]")),
            "rhs dimension 4 is out of range for rank 4",
        ),
        (
            _ragged("f32", DIMENSIONS.replace("rhs_contracting_dimensions = [0]", "rhs_contracting_dimensions = [3]")),
            "dimensions [2] of lhs and [3] of rhs must have the same sizes",
        ),
    ],
)
def test_ragged_dots_that_do_not_fit_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(VerifyException) as error:
        parse_program(text)
    assert sentence in str(error.value)


def test_a_ragged_dimension_that_is_summed_is_not_computed() -> None:
    text = _ragged("f32", DIMENSIONS.replace("ragged_dimensions = [0]", "ragged_dimensions = [2]"))
    with pytest.raises(ValueError, match="expected groups of rows"):
        Interpreter(parse_program(text))


FUNCTIONS = {
    "acos": (math.acos, [-1.0, -0.5, 0.0, 1.0]),
    "acosh": (math.acosh, [1.0, 1.5, 100.0]),
    "asin": (math.asin, [-1.0, -0.5, 0.0, 1.0]),
    "asinh": (math.asinh, [-100.0, 0.0, 0.5]),
    "atan": (math.atan, [-100.0, 0.0, 0.5]),
    "atanh": (math.atanh, [-0.5, 0.0, 0.999]),
    "cosh": (math.cosh, [-2.0, 0.0, 3.0]),
    "erfc": (math.erfc, [-3.0, -0.1, 0.0, 0.4, 1.0, 5.0, 9.0]),
    "lgamma": (math.lgamma, [-2.5, -0.3, 0.1, 1.0, 1.5, 2.0, 9.0, 300.0]),
    "sinh": (math.sinh, [-2.0, 0.0, 1e-3, 3.0]),
}


@pytest.mark.parametrize("op", FUNCTIONS)
def test_functions_are_rounded_once(op: str) -> None:
    function, points = FUNCTIONS[op]
    line = f"chlo.{op} %x : tensor<{len(points)}xf32> -> tensor<{len(points)}xf32>"
    arguments = np.array(points, np.float32)
    found = _legalized(line, f"%x: tensor<{len(points)}xf32>", arguments)
    np.testing.assert_array_equal(found, np.array([function(float(x)) for x in arguments], np.float32))


def test_the_next_float() -> None:
    line = "chlo.next_after %x, %y : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>"
    x, y = np.array([1, 1], np.float32), np.array([2, -2], np.float32)
    assert _legalized(line, "%x: tensor<2xf32>, %y: tensor<2xf32>", x, y).tolist() == [1 + 2**-23, 1 - 2**-24]
