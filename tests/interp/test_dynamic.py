"""Ops whose attributes are operands compute what their static forms compute."""

from __future__ import annotations

import re

import numpy as np
import pytest

from oracle.mlir import checked
from zeropoint.interp import InputError, Interpreter
from zeropoint.interp.errors import UnsupportedError
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.text import parse_program
from zeropoint.limits import LimitExceeded


def run(text: str, *values: Array) -> list[Array]:
    return Interpreter(checked(text)).run_values(list(values))


def sizes(*entries: int) -> Array:
    return np.array(entries, np.int64)


X = np.arange(6, dtype=np.float32).reshape(2, 3)


RESHAPE = """func.func @main(%x: tensor<2x3xf32>, %s: tensor<2xi64>) -> tensor<?x2xf32> {
  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<?x2xf32>
  return %0 : tensor<?x2xf32>
}"""
BROADCAST = """func.func @main(%x: tensor<?x3xf32>, %s: tensor<2xi64>) -> tensor<?x3xf32> {
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0, 1]
    : (tensor<?x3xf32>, tensor<2xi64>) -> tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}"""
IOTA = """func.func @main(%s: tensor<2xi64>) -> tensor<?x3xi8> {
  %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<2xi64>) -> tensor<?x3xi8>
  return %0 : tensor<?x3xi8>
}"""
PAD = """func.func @main(%x: tensor<3xf32>, %z: tensor<f32>, %l: tensor<1xi64>, %h: tensor<1xi64>, %i: tensor<1xi64>)
    -> tensor<5xf32> {
  %0 = stablehlo.dynamic_pad %x, %z, %l, %h, %i
    : (tensor<3xf32>, tensor<f32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}"""
GATHER = """func.func @main(%x: tensor<2x3xf32>, %i: tensor<4x1xi64>, %s: tensor<2xi64>) -> tensor<4x?xf32> {
  %0 = "stablehlo.dynamic_gather"(%x, %i, %s) <{
    dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0],
      index_vector_dim = 1>, indices_are_sorted = false}>
    : (tensor<2x3xf32>, tensor<4x1xi64>, tensor<2xi64>) -> tensor<4x?xf32>
  return %0 : tensor<4x?xf32>
}"""
CONVOLUTION = """func.func @main(%x: tensor<1x4x4x1xi32>, %k: tensor<3x3x1x1xi32>, %p: tensor<2x2xi64>)
    -> tensor<1x4x4x1xi32> {
  %0 = "stablehlo.dynamic_conv"(%x, %k, %p) <{
    dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,
    batch_group_count = 1 : i64, feature_group_count = 1 : i64}>
    : (tensor<1x4x4x1xi32>, tensor<3x3x1x1xi32>, tensor<2x2xi64>) -> tensor<1x4x4x1xi32>
  return %0 : tensor<1x4x4x1xi32>
}"""


def test_shapes_come_from_operands():
    text = """func.func @main(%x: tensor<2x3xf32>, %s: tensor<2xi64>, %t: tensor<3xi64>)
        -> (tensor<i32>, tensor<?x?xf32>, tensor<?x?x?xf32>, tensor<?x?xi8>) {
      %0 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<2x3xf32>) -> tensor<i32>
      %1 = stablehlo.dynamic_reshape %x, %s : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<?x?xf32>
      %2 = stablehlo.dynamic_broadcast_in_dim %x, %t, dims = [2, 0]
        : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<?x?x?xf32>
      %3 = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi64>) -> tensor<?x?xi8>
      return %0, %1, %2, %3 : tensor<i32>, tensor<?x?xf32>, tensor<?x?x?xf32>, tensor<?x?xi8>
    }"""
    size, reshaped, broadcast, counted = run(text, X, sizes(3, 2), sizes(3, 4, 2))
    assert size == 3
    assert reshaped.tolist() == X.reshape(3, 2).tolist()
    assert broadcast.tolist() == np.broadcast_to(X.T[:, None, :], (3, 4, 2)).tolist()
    assert counted.tolist() == [[0, 1]] * 3
    assert counted.dtype == np.int8


def test_a_size_of_one_is_repeated():
    text = """func.func @main(%x: tensor<?x3xf32>, %t: tensor<2xi64>) -> tensor<?x?xf32> {
      %0 = stablehlo.dynamic_broadcast_in_dim %x, %t, dims = [0, 1]
        : (tensor<?x3xf32>, tensor<2xi64>) -> tensor<?x?xf32>
      return %0 : tensor<?x?xf32>
    }"""
    assert run(text, X[:1].copy(), sizes(4, 3))[0].tolist() == [[0.0, 1.0, 2.0]] * 4


def test_padding_comes_from_operands_and_may_be_negative():
    text = """func.func @main(%x: tensor<2x3xf32>, %z: tensor<f32>, %l: tensor<2xi64>, %h: tensor<2xi64>,
        %i: tensor<2xi64>) -> tensor<?x?xf32> {
      %0 = stablehlo.dynamic_pad %x, %z, %l, %h, %i
        : (tensor<2x3xf32>, tensor<f32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x?xf32>
      return %0 : tensor<?x?xf32>
    }"""
    found = run(text, X, np.array(9, np.float32), sizes(1, -1), sizes(0, 1), sizes(0, 1))[0]
    assert found.tolist() == [[9, 9, 9, 9, 9], [9, 1, 9, 2, 9], [9, 4, 9, 5, 9]]


def test_convolutions_of_several_paddings_in_one_program():
    random = np.random.default_rng(0)
    x, kernel = random.integers(-9, 9, (1, 4, 4, 1), np.int32), random.integers(-9, 9, (3, 3, 1, 1), np.int32)
    interpreter = Interpreter(checked(CONVOLUTION))
    for low, high in ((1, 1), (2, 0), (0, 2), (1, 1)):
        found = interpreter.run_values([x, kernel, np.array([[low, high]] * 2)])[0]
        around = np.pad(x[0, :, :, 0], ((low, high),) * 2)
        windows = np.lib.stride_tricks.sliding_window_view(around, (3, 3))
        assert np.array_equal(found[0, :, :, 0], np.einsum("ijkl,kl->ij", windows, kernel[:, :, 0, 0]))


def test_gather_of_slices_whose_size_is_an_operand():
    text = """func.func @main(%x: tensor<2x3xf32>, %i: tensor<4x1xi64>, %s: tensor<2xi64>) -> tensor<4x2xf32> {
      %0 = "stablehlo.dynamic_gather"(%x, %i, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}>
        : (tensor<2x3xf32>, tensor<4x1xi64>, tensor<2xi64>) -> tensor<4x2xf32>
      return %0 : tensor<4x2xf32>
    }"""
    found = run(text, X, np.array([[1], [0], [7], [-7]]), sizes(1, 2))[0]
    assert found.tolist() == X[[1, 0, 1, 0], :2].tolist()


BODY = """{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }"""
SUM = BODY.replace("f32", "i32")
QUANTIZED = "!quant.uniform<i8:f32, 0.5:3>"

OF_SOME_SIZE = {
    "reduce": f"""func.func @main(%x: tensor<4?x6?xi8>, %y: tensor<i8>) -> tensor<4?xi8> {{
      %0 = "stablehlo.reduce"(%x, %y) ({SUM}) {{dimensions = array<i64: 1>}}
        : (tensor<4?x6?xi8>, tensor<i8>) -> tensor<4?xi8>
      return %0 : tensor<4?xi8>
    }}""",
    "reduce, quantized": f"""func.func @main(%x: tensor<4?x6?x{QUANTIZED}>, %y: tensor<{QUANTIZED}>)
        -> tensor<6?x{QUANTIZED}> {{
      %0 = "stablehlo.reduce"(%x, %y) ({BODY.replace("f32", QUANTIZED)}) {{dimensions = array<i64: 0>}}
        : (tensor<4?x6?x{QUANTIZED}>, tensor<{QUANTIZED}>) -> tensor<6?x{QUANTIZED}>
      return %0 : tensor<6?x{QUANTIZED}>
    }}""",
    "reduce_window": f"""func.func @main(%x: tensor<4?x6?xi32>, %y: tensor<i32>) -> tensor<7?x4?xi32> {{
      %0 = "stablehlo.reduce_window"(%x, %y) ({SUM}) {{window_dimensions = array<i64: 2, 3>,
        window_strides = array<i64: 1, 2>, base_dilations = array<i64: 2, 1>, window_dilations = array<i64: 1, 2>,
        padding = dense<[[1, 0], [2, 3]]> : tensor<2x2xi64>}}
        : (tensor<4?x6?xi32>, tensor<i32>) -> tensor<7?x4?xi32>
      return %0 : tensor<7?x4?xi32>
    }}""",
    "select_and_scatter": f"""func.func @main(%x: tensor<4?x6?xf32>, %y: tensor<4?x3?xf32>, %z: tensor<f32>)
        -> tensor<4?x6?xf32> {{
      %0 = "stablehlo.select_and_scatter"(%x, %y, %z) ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }}, {BODY}) {{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}}
        : (tensor<4?x6?xf32>, tensor<4?x3?xf32>, tensor<f32>) -> tensor<4?x6?xf32>
      return %0 : tensor<4?x6?xf32>
    }}""",
    "batch_norm_training": """func.func @main(%x: tensor<4?x6?xf32>, %y: tensor<6?xf32>, %z: tensor<6?xf32>)
        -> (tensor<4?x6?xf32>, tensor<6?xf32>) {
      %0, %m, %v = "stablehlo.batch_norm_training"(%x, %y, %z) {epsilon = 1.0e-3 : f32, feature_index = 1 : i64}
        : (tensor<4?x6?xf32>, tensor<6?xf32>, tensor<6?xf32>) -> (tensor<4?x6?xf32>, tensor<6?xf32>, tensor<6?xf32>)
      return %0, %v : tensor<4?x6?xf32>, tensor<6?xf32>
    }""",
    "map": f"""func.func @main(%x: tensor<4?x6?xi32>, %y: tensor<4?x6?xi32>) -> tensor<4?x6?xi32> {{
      %0 = "stablehlo.map"(%x, %y) ({SUM}) {{dimensions = array<i64: 0, 1>}}
        : (tensor<4?x6?xi32>, tensor<4?x6?xi32>) -> tensor<4?x6?xi32>
      return %0 : tensor<4?x6?xi32>
    }}""",
    "dot_general": """func.func @main(%x: tensor<4?x6?x5?xi8>, %y: tensor<4?x5?x3?xi8>) -> tensor<4?x6?x3?xi8> {
      %0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1]
        : (tensor<4?x6?x5?xi8>, tensor<4?x5?x3?xi8>) -> tensor<4?x6?x3?xi8>
      return %0 : tensor<4?x6?x3?xi8>
    }""",
    "ragged_dot": """func.func @main(%x: tensor<4?x6?xi32>, %y: tensor<2x6?x3?xi32>, %z: tensor<2xi64>)
        -> tensor<4?x3?xi32> {
      %0 = "chlo.ragged_dot"(%x, %y, %z) {ragged_dot_dimension_numbers = #chlo.ragged_dot<
        lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1],
        rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>,
        precision_config = []} : (tensor<4?x6?xi32>, tensor<2x6?x3?xi32>, tensor<2xi64>) -> tensor<4?x3?xi32>
      return %0 : tensor<4?x3?xi32>
    }""",
    "scan": """func.func @main(%x: tensor<4?x6?xi32>, %y: tensor<4?xi32>) -> (tensor<4?x6?xi32>, tensor<4?xi32>) {
      %0, %1 = chlo.scan(%x) inits(%y) dimension=1 attributes {is_reverse = true} {
      ^bb0(%a: tensor<4?xi32>, %b: tensor<4?xi32>):
        %s = stablehlo.add %a, %b : tensor<4?xi32>
        stablehlo.return %s, %s : tensor<4?xi32>, tensor<4?xi32>
      } : (tensor<4?x6?xi32>, tensor<4?xi32>) -> (tensor<4?x6?xi32>, tensor<4?xi32>)
      return %0, %1 : tensor<4?x6?xi32>, tensor<4?xi32>
    }""",
    "bitcast_convert": """func.func @main(%x: tensor<4?x6?xi32>) -> tensor<4?x6?x2xi16> {
      %0 = stablehlo.bitcast_convert %x : (tensor<4?x6?xi32>) -> tensor<4?x6?x2xi16>
      return %0 : tensor<4?x6?x2xi16>
    }""",
    "broadcast_in_dim": """func.func @main(%x: tensor<4?x1?xi32>) -> tensor<4x6xi32> {
      %0 = stablehlo.broadcast_in_dim %x, dims = [0, 1] : (tensor<4?x1?xi32>) -> tensor<4x6xi32>
      return %0 : tensor<4x6xi32>
    }""",
}
"""Programs with dynamic dimensions, each with a size before its question mark."""


@pytest.mark.parametrize("name", OF_SOME_SIZE)
def test_a_dynamic_dimension_has_the_size_of_the_arrays(name: str):
    static = parse_program(OF_SOME_SIZE[name].replace("?", ""))
    dynamic = parse_program(re.sub(r"\d+\?", "?", OF_SOME_SIZE[name]))
    random = np.random.default_rng(0)
    values = [
        np.asarray(random.integers(0, 3, shape_of(port)), element_dtype(element_of(port))) for port in static.entry.args
    ]
    expected = Interpreter(static).run_values(values)
    for found, wanted in zip(Interpreter(dynamic).run_values(values), expected, strict=True):
        assert np.array_equal(found, wanted)


def test_operands_of_two_shapes_are_refused() -> None:
    program = parse_program("""func.func @main(%x: tensor<2x?xi32>, %y: tensor<2x?xi32>) -> tensor<2x?xi32> {
      %0 = stablehlo.add %x, %y : tensor<2x?xi32>
      return %0 : tensor<2x?xi32>
    }""")
    given = [np.zeros((2, size), np.int32) for size in (4, 1)]
    with pytest.raises(InputError, match=r"stablehlo\.add: found operands of shapes \(2, 4\) and \(2, 1\)"):
        Interpreter(program).run_values(given)


ZERO = np.array(0, np.float32)
ROWS = np.zeros((4, 1), np.int64)
PICTURE, KERNEL = np.ones((1, 4, 4, 1), np.int32), np.ones((3, 3, 1, 1), np.int32)


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        (RESHAPE, [X, sizes(2, 3)], "found the computed shape [2, 3], expected one that fits tensor<?x2xf32>"),
        (RESHAPE, [X, sizes(-1, 2)], "found the computed shape [-1, 2], expected one that fits tensor<?x2xf32>"),
        (
            RESHAPE,
            [X, sizes(4, 2)],
            "found the computed shape [4, 2] of 8 elements, expected 6, as many as the operand of shape [2, 3] has",
        ),
        (BROADCAST, [X, sizes(2, 4)], "found the computed shape [2, 4], expected one that fits tensor<?x3xf32>"),
        (
            BROADCAST,
            [X, sizes(5, 3)],
            "found size 2 of operand dimension 0 and the computed shape [5, 3], expected size 1 or 5",
        ),
        (IOTA, [sizes(2, 4)], "found the computed shape [2, 4], expected one that fits tensor<?x3xi8>"),
        (IOTA, [sizes(-2, 3)], "found the computed shape [-2, 3], expected one that fits tensor<?x3xi8>"),
        (
            PAD,
            [X[0], ZERO, sizes(1), sizes(0), sizes(0)],
            "found the computed shape [4], expected one that fits tensor<5xf32>",
        ),
        (
            PAD,
            [X[0], ZERO, sizes(1), sizes(1), sizes(-2)],
            "found interior padding [-2], expected no negative amount",
        ),
        (GATHER, [X, ROWS, sizes(1, 4)], "found slice sizes [1, 4], which the op cannot take: "),
        (GATHER, [X, ROWS, sizes(1, 1 << 40)], "found slice sizes [1, 1099511627776], which the op cannot take: "),
        (GATHER, [X, ROWS, sizes(2, 3)], "found slice sizes [2, 3], which the op cannot take: "),
        (GATHER, [X, ROWS, sizes(1, -1)], "found slice sizes [1, -1], which the op cannot take: "),
        (
            CONVOLUTION,
            [PICTURE, KERNEL, np.array([[1, 1], [1, 2]])],
            "found padding [[1, 1], [1, 2]], which the op cannot take: ",
        ),
    ],
)
def test_computed_shapes_that_do_not_fit_are_refused_by_the_op(text: str, values: list[Array], expected: str):
    name = re.search(r"stablehlo\.dynamic_\w+", text)
    assert name is not None
    with pytest.raises(InputError, match=re.escape(expected)) as error:
        run(text, *values)
    assert str(error.value).startswith(name[0])


@pytest.mark.parametrize("text", [BROADCAST, IOTA])
def test_computed_shapes_beyond_the_memory_limit_are_refused(text: str):
    values = [sizes(1 << 50, 3)] if text is IOTA else [X[:1].copy(), sizes(1 << 50, 3)]
    with pytest.raises(LimitExceeded, match=re.escape("stablehlo.dynamic_")):
        run(text, *values)


def test_a_computed_constant_shape_that_does_not_fit_is_refused_before_the_run_with_the_name_once():
    text = """func.func @main() -> tensor<?x3xi8> {
      %l = stablehlo.constant dense<1> : tensor<2xi64>
      %x = stablehlo.constant dense<1> : tensor<2x3xi8>
      %h = stablehlo.add %l, %l : tensor<2xi64>
      %0 = stablehlo.dynamic_reshape %x, %h : (tensor<2x3xi8>, tensor<2xi64>) -> tensor<?x3xi8>
      return %0 : tensor<?x3xi8>
    }"""
    with pytest.raises(UnsupportedError) as error:
        Interpreter(checked(text))
    assert str(error.value).splitlines()[1:] == [
        "  stablehlo.dynamic_reshape: found the computed shape [2, 2], expected one that fits tensor<?x3xi8>"
    ]


V = np.ones(2, np.float32)


@pytest.mark.parametrize(
    ("op", "types", "result", "values", "found"),
    [
        (
            "stablehlo.dynamic_update_slice %0, %1, %2",
            ["tensor<?xf32>", "tensor<?xf32>", "tensor<i64>"],
            "tensor<?xf32>",
            [V, np.ones(5, np.float32), np.array(0)],
            "(2,) and (5,) and ()",
        ),
        (
            "stablehlo.dynamic_slice %0, %1, sizes = [5]",
            ["tensor<?xf32>", "tensor<i64>"],
            "tensor<5xf32>",
            [V, np.array(0)],
            "(2,) and ()",
        ),
        ("stablehlo.slice %0 [2:5]", ["tensor<?xf32>"], "tensor<3xf32>", [V], "(2,)"),
        ("stablehlo.reshape %0", ["tensor<?xf32>"], "tensor<3x2xf32>", [np.ones(5, np.float32)], "(5,)"),
        (
            "stablehlo.concatenate %0, %1, dim = 1",
            ["tensor<?x3xf32>"] * 2,
            "tensor<?x6xf32>",
            [X, np.ones((4, 3), np.float32)],
            "(2, 3) and (4, 3)",
        ),
        (
            "stablehlo.dot_general %0, %1, contracting_dims = [1] x [0]",
            ["tensor<2x?xf32>", "tensor<?x2xf32>"],
            "tensor<2x2xf32>",
            [X, np.ones((2, 2), np.float32)],
            "(2, 3) and (2, 2)",
        ),
    ],
)
def test_operands_of_dynamic_shapes_that_contradict_each_other_are_refused_by_the_op(
    op: str, types: list[str], result: str, values: list[Array], found: str
):
    arguments = ", ".join(f"%{index}: {type}" for index, type in enumerate(types))
    text = f"""func.func @main({arguments}) -> {result} {{
      %r = {op} : ({", ".join(types)}) -> {result}
      return %r : {result}
    }}"""
    with pytest.raises(InputError) as error:
        run(text, *values)
    name = op.split(" ")[0]
    assert str(error.value).startswith(f"{name}: found operands of shapes {found}, which the op cannot take: ")
