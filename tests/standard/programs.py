"""Integer StableHLO programs of one op each, in the forms that `lower-to-standard` treats differently."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from standard.rare_programs import RARE
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of


def _program(arguments: str, body: str, result: str) -> str:
    return f"func.func @main({arguments}) -> {result} {{\n{body}\n  return %y : {result}\n}}"


def _convolution(x: str, w: str, y: str, numbers: str, window: str, groups: int = 1) -> str:
    body = (
        f"  %y = stablehlo.convolution(%x, %w) dim_numbers = {numbers}, window = {{{window}}} "
        f"{{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : ({x}, {w}) -> {y}"
    )
    return _program(f"%x: {x}, %w: {w}", body, y)


NCHW = "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]"
REDUCE = '"stablehlo.reduce_window"(%x, %0) <{{{}}}> ({{\n  ^bb0(%a: tensor<{e}>, %b: tensor<{e}>):\n' + (
    "    %c = stablehlo.{} %a, %b : tensor<{e}>\n    stablehlo.return %c : tensor<{e}>\n  }})"
)


def _windows(x: str, y: str, element: str, init: int, op: str, attributes: str) -> str:
    window = REDUCE.format(attributes, op, e=element)
    start = f"  %0 = stablehlo.constant dense<{init}> : tensor<{element}>"
    body = f"{start}\n  %y = {window} : ({x}, tensor<{element}>) -> {y}"
    return _program(f"%x: {x}", body, y)


def _one(x: str, y: str, op: str) -> str:
    return _program(f"%x: {x}", f"  %y = {op}", y)


PROGRAMS = {
    **RARE,
    "steps of fixed-point kernels": _program(
        "%x: tensor<5x7xi32>, %a: tensor<5x7xi8>, %b: tensor<5x7xi16>",
        '  %0 = "fxpmath.rounding_divide_by_pot"(%x) <{exponent = 5 : i64}> : (tensor<5x7xi32>) -> tensor<5x7xi32>\n'
        '  %1 = "fxpmath.saturating_rounding_doubling_high_mul"(%x) <{multiplier = -2147483648 : i64}> '
        ": (tensor<5x7xi32>) -> tensor<5x7xi32>\n"
        '  %2 = "fxpmath.quotient"(%a, %b) <{multiplier = 1518500250 : i64, shift = 24 : i64, '
        "zero_points = array<i64: 3, -7>, zero_point = 5 : i64, storage_min = -32768 : i64, "
        "storage_max = 32767 : i64}> : (tensor<5x7xi8>, tensor<5x7xi16>) -> tensor<5x7xi16>\n"
        "  %3 = stablehlo.convert %2 : (tensor<5x7xi16>) -> tensor<5x7xi32>\n"
        '  %4 = "fxpmath.saturating_add"(%0, %1) <{storage_min = -2147483648 : i64, storage_max = 2000000000 : i64}> '
        ": (tensor<5x7xi32>, tensor<5x7xi32>) -> tensor<5x7xi32>\n"
        '  %y = "fxpmath.saturating_add"(%3, %4) <{storage_min = -2147483648 : i64, storage_max = 2147483647 : i64}> '
        ": (tensor<5x7xi32>, tensor<5x7xi32>) -> tensor<5x7xi32>",
        "tensor<5x7xi32>",
    ),
    "matrices": _program(
        "%x: tensor<3x5xi8>, %w: tensor<4x5xi8>",
        "  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1] "
        ": (tensor<3x5xi8>, tensor<4x5xi8>) -> tensor<3x4xi32>",
        "tensor<3x4xi32>",
    ),
    "batches": _program(
        "%x: tensor<2x3x5xi16>, %w: tensor<2x5x4xi16>",
        "  %y = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1] "
        ": (tensor<2x3x5xi16>, tensor<2x5x4xi16>) -> tensor<2x3x4xi64>",
        "tensor<2x3x4xi64>",
    ),
    "stacks of rows": _program(
        "%x: tensor<2x3x5xi8>, %w: tensor<4x5x2xi8>",
        "  %0 = stablehlo.constant dense<[[[1, -2], [3, 4], [-128, 127], [7, 0], [5, 6]]]> : tensor<1x5x2xi8>\n"
        "  %1 = stablehlo.dot_general %x, %0, contracting_dims = [2] x [1] "
        ": (tensor<2x3x5xi8>, tensor<1x5x2xi8>) -> tensor<2x3x1x2xi32>\n"
        "  %2 = stablehlo.dot_general %x, %w, contracting_dims = [2] x [1] "
        ": (tensor<2x3x5xi8>, tensor<4x5x2xi8>) -> tensor<2x3x4x2xi32>\n"
        "  %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<2x3x1x2xi32>) -> tensor<2x3x4x2xi32>\n"
        "  %y = stablehlo.subtract %3, %2 : tensor<2x3x4x2xi32>",
        "tensor<2x3x4x2xi32>",
    ),
    "two dimensions contracted": _program(
        "%x: tensor<3x2x4xi8>, %w: tensor<4x2x5xi8>",
        "  %y = stablehlo.dot_general %x, %w, contracting_dims = [2, 1] x [0, 1] "
        ": (tensor<3x2x4xi8>, tensor<4x2x5xi8>) -> tensor<3x5xi32>",
        "tensor<3x5xi32>",
    ),
    "heads": _program(
        "%x: tensor<2x3x4x5xi8>, %w: tensor<2x3x6x5xi8>",
        "  %y = stablehlo.dot_general %x, %w, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] "
        ": (tensor<2x3x4x5xi8>, tensor<2x3x6x5xi8>) -> tensor<2x3x4x6xi32>",
        "tensor<2x3x4x6xi32>",
    ),
    "convolution": _convolution(
        "tensor<2x3x6x7xi8>", "tensor<4x3x3x2xi8>", "tensor<2x4x4x4xi32>", NCHW,
        "stride = [2, 2], pad = [[1, 2], [0, 2]]",
    ),
    "dilated": _convolution(
        "tensor<1x3x8x7xi8>", "tensor<4x3x3x2xi8>", "tensor<1x4x4x5xi32>", NCHW, "rhs_dilate = [2, 2]"
    ),
    "transposed convolution": _convolution(
        "tensor<1x3x3x3xi8>", "tensor<4x3x3x3xi8>", "tensor<1x4x5x5xi32>", NCHW,
        "pad = [[1, 1], [1, 1]], lhs_dilate = [2, 2]",
    ),
    "convolution of sums with widened weights": _program(
        "%x: tensor<1x2x4x4xi8>",
        """
  %a = stablehlo.convert %x : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xi32>
  %b = stablehlo.add %a, %a : tensor<1x2x4x4xi32>
  %s = stablehlo.constant dense<[[[[100]], [[-128]]], [[[3]], [[127]]]]> : tensor<2x2x1x1xi8>
  %w = stablehlo.convert %s : (tensor<2x2x1x1xi8>) -> tensor<2x2x1x1xi32>
  %y = stablehlo.convolution(%b, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x2x4x4xi32>, tensor<2x2x1x1xi32>) -> tensor<1x2x4x4xi32>""",
        "tensor<1x2x4x4xi32>",
    ),
    "depthwise": _convolution(
        "tensor<1x6x5x5xi8>", "tensor<6x1x3x3xi8>", "tensor<1x6x3x3xi32>", NCHW, "", 6
    ),
    "groups": _convolution("tensor<1x6x5x5xi8>", "tensor<4x3x3x3xi8>", "tensor<1x4x3x3xi32>", NCHW, "", 2),
    "channels last": _convolution(
        "tensor<1x5x5x6xi8>", "tensor<3x3x3x4xi8>", "tensor<1x3x3x4xi32>", "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
        "", 2,
    ),
    "one dimension": _convolution(
        "tensor<2x3x9xi8>", "tensor<4x3x3xi8>", "tensor<2x4x4xi32>", "[b, f, 0]x[o, i, 0]->[b, f, 0]", "stride = [2]"
    ),
    "maximum": _windows(
        "tensor<1x2x5x6xi8>", "tensor<1x2x3x3xi8>", "i8", -128, "maximum",
        "window_dimensions = array<i64: 1, 1, 3, 2>, window_strides = array<i64: 1, 1, 2, 2>, "
        "padding = dense<[[0, 0], [0, 0], [1, 1], [0, 0]]> : tensor<4x2xi64>",
    ),
    "sum": _windows(
        "tensor<1x2x5x6xi32>", "tensor<1x2x4x5xi32>", "i32", 7, "add", "window_dimensions = array<i64: 1, 1, 2, 2>"
    ),
    "least of a window": _windows(
        "tensor<4x6xi8>", "tensor<3x3xi8>", "i8", 127, "minimum",
        "window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 1, 2>",
    ),
    "reduce to the greatest and its position": _program(
        "%x: tensor<3x7x2xi16>",
        "  %low = stablehlo.constant dense<-32768> : tensor<i16>\n"
        "  %zero = stablehlo.constant dense<0> : tensor<i32>\n"
        "  %n = stablehlo.iota dim = 1 : tensor<3x7x2xi32>\n"
        '  %z, %y = "stablehlo.reduce"(%x, %n, %low, %zero) ({\n'
        "  ^bb0(%a: tensor<i16>, %i: tensor<i32>, %b: tensor<i16>, %j: tensor<i32>):\n"
        "    %p = stablehlo.compare GE, %a, %b : (tensor<i16>, tensor<i16>) -> tensor<i1>\n"
        "    %v = stablehlo.select %p, %a, %b : tensor<i1>, tensor<i16>\n"
        "    %k = stablehlo.select %p, %i, %j : tensor<i1>, tensor<i32>\n"
        "    stablehlo.return %v, %k : tensor<i16>, tensor<i32>\n"
        "  }) {dimensions = array<i64: 1>} : (tensor<3x7x2xi16>, tensor<3x7x2xi32>, tensor<i16>, tensor<i32>)\n"
        "     -> (tensor<3x2xi16>, tensor<3x2xi32>)",
        "tensor<3x2xi32>",
    ),
    "reduce in order": _program(
        "%x: tensor<3x2x5xi32>",
        "  %0 = stablehlo.constant dense<7> : tensor<i32>\n"
        '  %y = "stablehlo.reduce"(%x, %0) ({\n  ^bb0(%a: tensor<i32>, %b: tensor<i32>):\n'
        "    %s = stablehlo.subtract %a, %b : tensor<i32>\n    stablehlo.return %s : tensor<i32>\n"
        "  }) {dimensions = array<i64: 0, 2>} : (tensor<3x2x5xi32>, tensor<i32>) -> tensor<2xi32>",
        "tensor<2xi32>",
    ),
    "pad with a computed number": _program(
        "%x: tensor<3x4xi8>, %v: tensor<i8>",
        "  %y = stablehlo.pad %x, %v, low = [1, -1], high = [0, 2], interior = [0, 1] "
        ": (tensor<3x4xi8>, tensor<i8>) -> tensor<4x8xi8>",
        "tensor<4x8xi8>",
    ),
    "reduce": _program(
        "%x: tensor<3x4x5xi32>",
        "  %0 = stablehlo.constant dense<3> : tensor<i32>\n"
        "  %y = stablehlo.reduce(%x init: %0) applies stablehlo.add across dimensions = [0, 2] "
        ": (tensor<3x4x5xi32>, tensor<i32>) -> tensor<4xi32>",
        "tensor<4xi32>",
    ),
    "pad": _program(
        "%x: tensor<3x4xi8>",
        "  %0 = stablehlo.constant dense<-7> : tensor<i8>\n"
        "  %y = stablehlo.pad %x, %0, low = [1, -1], high = [0, 2], interior = [2, 0] "
        ": (tensor<3x4xi8>, tensor<i8>) -> tensor<8x5xi8>",
        "tensor<8x5xi8>",
    ),
    "reshape": _one(
        "tensor<2x3x4x1xi8>", "tensor<6x2x2xi8>", "stablehlo.reshape %x : (tensor<2x3x4x1xi8>) -> tensor<6x2x2xi8>"
    ),
    "reshape across": _one(
        "tensor<4x3xi8>", "tensor<1x6x2xi8>", "stablehlo.reshape %x : (tensor<4x3xi8>) -> tensor<1x6x2xi8>"
    ),
    "reshape of one": _one(
        "tensor<1x1xi8>", "tensor<i8>", "stablehlo.reshape %x : (tensor<1x1xi8>) -> tensor<i8>"
    ),
    "transpose": _one(
        "tensor<2x3x4xi8>", "tensor<4x2x3xi8>",
        "stablehlo.transpose %x, dims = [2, 0, 1] : (tensor<2x3x4xi8>) -> tensor<4x2x3xi8>",
    ),
    "slice": _one(
        "tensor<5x6xi8>", "tensor<2x3xi8>",
        "stablehlo.slice %x [1:4:2, 0:6:2] : (tensor<5x6xi8>) -> tensor<2x3xi8>",
    ),
    "reverse": _one("tensor<3x4xi8>", "tensor<3x4xi8>", "stablehlo.reverse %x, dims = [1] : tensor<3x4xi8>"),
    "broadcast": _one(
        "tensor<1x4xi8>", "tensor<3x2x4xi8>",
        "stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<1x4xi8>) -> tensor<3x2x4xi8>",
    ),
    "concatenate": _program(
        "%x: tensor<2x3xi8>, %z: tensor<2x2xi8>",
        "  %y = stablehlo.concatenate %x, %z, dim = 1 : (tensor<2x3xi8>, tensor<2x2xi8>) -> tensor<2x5xi8>",
        "tensor<2x5xi8>",
    ),
    "rows": _program(
        "%x: tensor<7x3xi8>, %i: tensor<2x4xi32>",
        '  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], '
        "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, "
        "slice_sizes = array<i64: 1, 3>}> : (tensor<7x3xi8>, tensor<2x4xi32>) -> tensor<2x4x3xi8>",
        "tensor<2x4x3xi8>",
    ),
    "elementwise": _program(
        "%x: tensor<2x6xi32>, %z: tensor<6xi32>",
        "  %0 = stablehlo.broadcast_in_dim %z, dims = [1] : (tensor<6xi32>) -> tensor<2x6xi32>\n"
        "  %1 = stablehlo.subtract %x, %0 : tensor<2x6xi32>\n"
        "  %2 = stablehlo.negate %1 : tensor<2x6xi32>\n"
        "  %3 = stablehlo.abs %2 : tensor<2x6xi32>\n"
        "  %4 = stablehlo.compare GE, %3, %x : (tensor<2x6xi32>, tensor<2x6xi32>) -> tensor<2x6xi1>\n"
        "  %5 = stablehlo.select %4, %1, %x : tensor<2x6xi1>, tensor<2x6xi32>\n"
        "  %6 = stablehlo.constant dense<3> : tensor<2x6xi32>\n"
        "  %7 = stablehlo.divide %5, %6 : tensor<2x6xi32>\n"
        "  %8 = stablehlo.sign %7 : tensor<2x6xi32>\n"
        "  %9 = stablehlo.xor %7, %8 : tensor<2x6xi32>\n"
        "  %y = stablehlo.shift_right_arithmetic %9, %6 : tensor<2x6xi32>",
        "tensor<2x6xi32>",
    ),
    "iota": _program(
        "%x: tensor<2x3xi32>",
        "  %0 = stablehlo.iota dim = 1 : tensor<2x3xi32>\n  %y = stablehlo.multiply %0, %x : tensor<2x3xi32>",
        "tensor<2x3xi32>",
    ),
    "unsigned arithmetic": _program(
        "%x: tensor<2x40xui8>, %z: tensor<40xui8>",
        "  %0 = stablehlo.broadcast_in_dim %z, dims = [1] : (tensor<40xui8>) -> tensor<2x40xui8>\n"
        "  %1 = stablehlo.add %x, %0 : tensor<2x40xui8>\n"
        "  %2 = stablehlo.maximum %1, %x : tensor<2x40xui8>\n"
        "  %3 = stablehlo.minimum %2, %0 : tensor<2x40xui8>\n"
        "  %4 = stablehlo.constant dense<200> : tensor<2x40xui8>\n"
        "  %5 = stablehlo.compare LT, %3, %4 : (tensor<2x40xui8>, tensor<2x40xui8>) -> tensor<2x40xi1>\n"
        "  %6 = stablehlo.select %5, %1, %4 : tensor<2x40xi1>, tensor<2x40xui8>\n"
        "  %7 = stablehlo.constant dense<7> : tensor<2x40xui8>\n"
        "  %8 = stablehlo.divide %6, %7 : tensor<2x40xui8>\n"
        "  %9 = stablehlo.remainder %6, %7 : tensor<2x40xui8>\n"
        "  %10 = stablehlo.clamp %7, %6, %4 : tensor<2x40xui8>\n"
        "  %11 = stablehlo.shift_right_logical %10, %9 : tensor<2x40xui8>\n"
        "  %12 = stablehlo.subtract %8, %11 : tensor<2x40xui8>\n"
        "  %13 = stablehlo.convert %12 : (tensor<2x40xui8>) -> tensor<2x40xi32>\n"
        "  %14 = stablehlo.convert %3 : (tensor<2x40xui8>) -> tensor<2x40xui16>\n"
        "  %15 = stablehlo.convert %14 : (tensor<2x40xui16>) -> tensor<2x40xi32>\n"
        "  %y = stablehlo.add %13, %15 : tensor<2x40xi32>",
        "tensor<2x40xi32>",
    ),
    "unsigned results": _program(
        "%x: tensor<3x5xui16>, %z: tensor<3x5xui32>",
        "  %0 = stablehlo.convert %x : (tensor<3x5xui16>) -> tensor<3x5xui32>\n"
        "  %1 = stablehlo.constant dense<4294967295> : tensor<3x5xui32>\n"
        "  %2 = stablehlo.subtract %1, %0 : tensor<3x5xui32>\n"
        "  %y = stablehlo.maximum %2, %z : tensor<3x5xui32>",
        "tensor<3x5xui32>",
    ),
    "unsigned floats": _program(
        "%x: tensor<3x7xui8>, %z: tensor<3x7xui32>",
        "  %0 = stablehlo.convert %x : (tensor<3x7xui8>) -> tensor<3x7xf32>\n"
        "  %1 = stablehlo.convert %z : (tensor<3x7xui32>) -> tensor<3x7xf32>\n"
        "  %2 = stablehlo.multiply %0, %1 : tensor<3x7xf32>\n"
        "  %y = stablehlo.convert %2 : (tensor<3x7xf32>) -> tensor<3x7xui16>",
        "tensor<3x7xui16>",
    ),
    "unsigned products": _program(
        "%x: tensor<3x5xui8>, %w: tensor<4x5xui8>",
        "  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1] "
        ": (tensor<3x5xui8>, tensor<4x5xui8>) -> tensor<3x4xui32>",
        "tensor<3x4xui32>",
    ),
    "unsigned convolution": _convolution(
        "tensor<2x3x6x7xui8>", "tensor<4x3x3x2xui8>", "tensor<2x4x4x4xui32>", NCHW,
        "stride = [2, 2], pad = [[1, 2], [0, 2]]",
    ),
    "unsigned maximum": _windows(
        "tensor<1x2x5x6xui8>", "tensor<1x2x3x3xui8>", "ui8", 0, "maximum",
        "window_dimensions = array<i64: 1, 1, 3, 2>, window_strides = array<i64: 1, 1, 2, 2>, "
        "padding = dense<[[0, 0], [0, 0], [1, 1], [0, 0]]> : tensor<4x2xi64>",
    ),
    "unsigned padding": _program(
        "%x: tensor<3x4xui8>",
        "  %0 = stablehlo.constant dense<250> : tensor<ui8>\n"
        "  %1 = stablehlo.pad %x, %0, low = [1, -1], high = [0, 2], interior = [2, 0] "
        ": (tensor<3x4xui8>, tensor<ui8>) -> tensor<8x5xui8>\n"
        "  %y = stablehlo.reduce(%1 init: %0) applies stablehlo.minimum across dimensions = [0] "
        ": (tensor<8x5xui8>, tensor<ui8>) -> tensor<5xui8>",
        "tensor<5xui8>",
    ),
    "unsigned rows": _program(
        "%x: tensor<300x3xui8>, %i: tensor<2x4xui8>",
        '  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], '
        "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, "
        "slice_sizes = array<i64: 1, 3>}> : (tensor<300x3xui8>, tensor<2x4xui8>) -> tensor<2x4x3xui8>",
        "tensor<2x4x3xui8>",
    ),
    "unsigned table": _program(
        "%x: tensor<3x7xui8>",
        f"  %0 = stablehlo.constant dense<{[(37 * n) % 256 - 128 for n in range(256)]}> : tensor<256xi8>\n"
        '  %y = "fxpmath.table"(%x, %0) : (tensor<3x7xui8>, tensor<256xi8>) -> tensor<3x7xi8>',
        "tensor<3x7xi8>",
    ),
    "booleans": _program(
        "%x: tensor<4x9xi8>, %z: tensor<4x9xi8>",
        "  %0 = stablehlo.constant dense<0> : tensor<4x9xi8>\n"
        "  %1 = stablehlo.compare LT, %x, %0 : (tensor<4x9xi8>, tensor<4x9xi8>) -> tensor<4x9xi1>\n"
        "  %2 = stablehlo.compare LT, %z, %0 : (tensor<4x9xi8>, tensor<4x9xi8>) -> tensor<4x9xi1>\n"
        "  %3 = stablehlo.compare LT, %1, %2 : (tensor<4x9xi1>, tensor<4x9xi1>) -> tensor<4x9xi1>\n"
        "  %4 = stablehlo.maximum %1, %2 : tensor<4x9xi1>\n"
        "  %5 = stablehlo.add %1, %2 : tensor<4x9xi1>\n"
        "  %6 = stablehlo.minimum %4, %5 : tensor<4x9xi1>\n"
        "  %7 = stablehlo.multiply %1, %2 : tensor<4x9xi1>\n"
        "  %8 = stablehlo.not %7 : tensor<4x9xi1>\n"
        "  %9 = stablehlo.xor %8, %3 : tensor<4x9xi1>\n"
        "  %10 = stablehlo.and %9, %6 : tensor<4x9xi1>\n"
        "  %11 = stablehlo.convert %10 : (tensor<4x9xi1>) -> tensor<4x9xi8>\n"
        "  %12 = stablehlo.constant dense<false> : tensor<i1>\n"
        "  %13 = stablehlo.reduce(%3 init: %12) applies stablehlo.maximum across dimensions = [0] "
        ": (tensor<4x9xi1>, tensor<i1>) -> tensor<9xi1>\n"
        "  %14 = stablehlo.convert %13 : (tensor<9xi1>) -> tensor<9xi8>\n"
        "  %15 = stablehlo.broadcast_in_dim %14, dims = [1] : (tensor<9xi8>) -> tensor<4x9xi8>\n"
        "  %16 = stablehlo.add %15, %15 : tensor<4x9xi8>\n"
        "  %y = stablehlo.add %16, %11 : tensor<4x9xi8>",
        "tensor<4x9xi8>",
    ),
    "floats out of range": _program(
        "%x: tensor<3x5xi32>",
        "  %0 = stablehlo.convert %x : (tensor<3x5xi32>) -> tensor<3x5xf32>\n"
        "  %1 = stablehlo.multiply %0, %0 : tensor<3x5xf32>\n"
        "  %2 = stablehlo.multiply %1, %0 : tensor<3x5xf32>\n"
        "  %3 = stablehlo.convert %2 : (tensor<3x5xf32>) -> tensor<3x5xi32>\n"
        "  %4 = stablehlo.convert %0 : (tensor<3x5xf32>) -> tensor<3x5xi8>\n"
        "  %5 = stablehlo.convert %4 : (tensor<3x5xi8>) -> tensor<3x5xi32>\n"
        "  %6 = stablehlo.sqrt %0 : tensor<3x5xf32>\n"
        "  %7 = stablehlo.convert %6 : (tensor<3x5xf32>) -> tensor<3x5xi32>\n"
        "  %8 = stablehlo.xor %3, %5 : tensor<3x5xi32>\n"
        "  %y = stablehlo.xor %7, %8 : tensor<3x5xi32>",
        "tensor<3x5xi32>",
    ),
    "shifts": _program(
        "%x: tensor<8x8xi8>, %n: tensor<8x8xi8>",
        "  %0 = stablehlo.constant dense<15> : tensor<8x8xi8>\n"
        "  %1 = stablehlo.and %n, %0 : tensor<8x8xi8>\n"
        "  %2 = stablehlo.shift_left %x, %1 : tensor<8x8xi8>\n"
        "  %3 = stablehlo.shift_right_arithmetic %x, %1 : tensor<8x8xi8>\n"
        "  %4 = stablehlo.shift_right_logical %x, %n : tensor<8x8xi8>\n"
        "  %5 = stablehlo.popcnt %2 : tensor<8x8xi8>\n"
        "  %6 = stablehlo.count_leading_zeros %4 : tensor<8x8xi8>\n"
        "  %7 = stablehlo.xor %2, %3 : tensor<8x8xi8>\n"
        "  %8 = stablehlo.add %5, %6 : tensor<8x8xi8>\n"
        "  %y = stablehlo.subtract %7, %8 : tensor<8x8xi8>",
        "tensor<8x8xi8>",
    ),
    "quotients": _program(
        "%x: tensor<16x16xi8>, %n: tensor<16x16xi8>",
        "  %0 = stablehlo.constant dense<3> : tensor<16x16xi8>\n"
        "  %1 = stablehlo.shift_right_arithmetic %n, %0 : tensor<16x16xi8>\n"
        "  %2 = stablehlo.divide %x, %1 : tensor<16x16xi8>\n"
        "  %3 = stablehlo.remainder %x, %1 : tensor<16x16xi8>\n"
        "  %4 = stablehlo.multiply %3, %0 : tensor<16x16xi8>\n"
        "  %y = stablehlo.xor %2, %4 : tensor<16x16xi8>",
        "tensor<16x16xi8>",
    ),
    "quotients of the least number": _program(
        "%x: tensor<4xi8>",
        "  %0 = stablehlo.constant dense<[-128, -128, 5, -128]> : tensor<4xi8>\n"
        "  %1 = stablehlo.constant dense<[-1, 0, 0, 3]> : tensor<4xi8>\n"
        "  %2 = stablehlo.divide %0, %1 : tensor<4xi8>\n"
        "  %3 = stablehlo.remainder %0, %1 : tensor<4xi8>\n"
        "  %4 = stablehlo.xor %2, %x : tensor<4xi8>\n"
        "  %y = stablehlo.add %3, %4 : tensor<4xi8>",
        "tensor<4xi8>",
    ),
    "dynamic slice": _program(
        "%x: tensor<7x6xi8>, %i: tensor<i8>, %j: tensor<i8>",
        '  %0 = stablehlo.dynamic_slice %x, %i, %j, sizes = [3, 2] '
        ": (tensor<7x6xi8>, tensor<i8>, tensor<i8>) -> tensor<3x2xi8>\n"
        "  %1 = stablehlo.constant dense<2> : tensor<i8>\n"
        '  %y = stablehlo.dynamic_slice %0, %1, %i, sizes = [1, 1] '
        ": (tensor<3x2xi8>, tensor<i8>, tensor<i8>) -> tensor<1x1xi8>",
        "tensor<1x1xi8>",
    ),
    "dynamic update": _program(
        "%x: tensor<7x6xi8>, %u: tensor<3x2xi8>, %i: tensor<2xi8>",
        "  %0 = stablehlo.slice %i [0:1] : (tensor<2xi8>) -> tensor<1xi8>\n"
        "  %1 = stablehlo.reshape %0 : (tensor<1xi8>) -> tensor<i8>\n"
        "  %2 = stablehlo.constant dense<3> : tensor<i8>\n"
        "  %3 = stablehlo.dynamic_update_slice %x, %u, %1, %2 "
        ": (tensor<7x6xi8>, tensor<3x2xi8>, tensor<i8>, tensor<i8>) -> tensor<7x6xi8>\n"
        "  %y = stablehlo.dynamic_update_slice %3, %u, %2, %1 "
        ": (tensor<7x6xi8>, tensor<3x2xi8>, tensor<i8>, tensor<i8>) -> tensor<7x6xi8>",
        "tensor<7x6xi8>",
    ),
    "select and scatter": _program(
        "%x: tensor<6x7xi8>, %s: tensor<3x3xi8>",
        "  %0 = stablehlo.constant dense<5> : tensor<i8>\n"
        '  %y = "stablehlo.select_and_scatter"(%x, %s, %0) <{window_dimensions = array<i64: 2, 3>, '
        "window_strides = array<i64: 2, 2>}> ({\n  ^bb0(%a: tensor<i8>, %b: tensor<i8>):\n"
        "    %c = stablehlo.compare GE, %a, %b : (tensor<i8>, tensor<i8>) -> tensor<i1>\n"
        "    stablehlo.return %c : tensor<i1>\n  }, {\n  ^bb0(%a: tensor<i8>, %b: tensor<i8>):\n"
        "    %c = stablehlo.add %a, %b : tensor<i8>\n    stablehlo.return %c : tensor<i8>\n  }) "
        ": (tensor<6x7xi8>, tensor<3x3xi8>, tensor<i8>) -> tensor<6x7xi8>",
        "tensor<6x7xi8>",
    ),
    "branches": _program(
        "%x: tensor<4xi32>, %i: tensor<i32>",
        "  %0 = stablehlo.constant dense<0> : tensor<i32>\n"
        "  %1 = stablehlo.compare LT, %i, %0 : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "  %2 = stablehlo.add %x, %x : tensor<4xi32>\n"
        '  %3:2 = "stablehlo.if"(%1) ({\n    %a = stablehlo.multiply %2, %x : tensor<4xi32>\n'
        "    stablehlo.return %a, %i : tensor<4xi32>, tensor<i32>\n  }, {\n"
        "    stablehlo.return %x, %0 : tensor<4xi32>, tensor<i32>\n  }) "
        ": (tensor<i1>) -> (tensor<4xi32>, tensor<i32>)\n"
        "  %4 = stablehlo.constant dense<3> : tensor<i32>\n"
        "  %5 = stablehlo.and %i, %4 : tensor<i32>\n"
        '  %6 = "stablehlo.case"(%5) ({\n    stablehlo.return %3#0 : tensor<4xi32>\n  }, {\n'
        "    %b = stablehlo.broadcast_in_dim %3#1, dims = [] : (tensor<i32>) -> tensor<4xi32>\n"
        "    stablehlo.return %b : tensor<4xi32>\n  }, {\n    %c = stablehlo.negate %2 : tensor<4xi32>\n"
        "    stablehlo.return %c : tensor<4xi32>\n  }) : (tensor<i32>) -> tensor<4xi32>\n"
        "  %y = stablehlo.subtract %6, %2 : tensor<4xi32>",
        "tensor<4xi32>",
    ),
    "scatter of rows": _program(
        "%x: tensor<9x4xi8>, %i: tensor<6x1xi8>, %u: tensor<6x4xi8>",
        "  %0 = stablehlo.constant dense<15> : tensor<6x1xi8>\n"
        "  %1 = stablehlo.and %i, %0 : tensor<6x1xi8>\n"
        '  %2 = "stablehlo.scatter"(%x, %1, %u) <{scatter_dimension_numbers = #stablehlo.scatter<'
        "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
        "index_vector_dim = 1>}> ({\n  ^bb0(%a: tensor<i8>, %b: tensor<i8>):\n"
        "    %k = stablehlo.constant dense<3> : tensor<i8>\n    %m = stablehlo.multiply %a, %k : tensor<i8>\n"
        "    %s = stablehlo.add %m, %b : tensor<i8>\n    stablehlo.return %s : tensor<i8>\n  }) "
        ": (tensor<9x4xi8>, tensor<6x1xi8>, tensor<6x4xi8>) -> tensor<9x4xi8>\n"
        "  %y = stablehlo.subtract %2, %x : tensor<9x4xi8>",
        "tensor<9x4xi8>",
    ),
    "scatter of batches": _program(
        "%x: tensor<3x5x4xui8>, %i: tensor<2x3x2xui8>, %u: tensor<2x2x3xui8>",
        "  %0 = stablehlo.constant dense<7> : tensor<2x3x2xui8>\n"
        "  %1 = stablehlo.and %i, %0 : tensor<2x3x2xui8>\n"
        '  %y = "stablehlo.scatter"(%x, %1, %u) <{scatter_dimension_numbers = #stablehlo.scatter<'
        "update_window_dims = [0], inserted_window_dims = [2], input_batching_dims = [0], "
        "scatter_indices_batching_dims = [1], scatter_dims_to_operand_dims = [2, 1], index_vector_dim = 2>}> ({\n"
        "  ^bb0(%a: tensor<ui8>, %b: tensor<ui8>):\n    %s = stablehlo.maximum %a, %b : tensor<ui8>\n"
        "    stablehlo.return %s : tensor<ui8>\n  }) "
        ": (tensor<3x5x4xui8>, tensor<2x3x2xui8>, tensor<2x2x3xui8>) -> tensor<3x5x4xui8>",
        "tensor<3x5x4xui8>",
    ),
    "scatter in a wider type": _program(
        "%x: tensor<7xi8>, %i: tensor<5xi8>, %u: tensor<5xi8>",
        "  %0 = stablehlo.constant dense<7> : tensor<5xi8>\n"
        "  %1 = stablehlo.and %i, %0 : tensor<5xi8>\n"
        '  %y = "stablehlo.scatter"(%x, %1, %u) <{scatter_dimension_numbers = #stablehlo.scatter<'
        "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({\n"
        "  ^bb0(%a: tensor<i32>, %b: tensor<i32>):\n    %s = stablehlo.multiply %a, %b : tensor<i32>\n"
        "    stablehlo.return %s : tensor<i32>\n  }) : (tensor<7xi8>, tensor<5xi8>, tensor<5xi8>) -> tensor<7xi32>",
        "tensor<7xi32>",
    ),
    "gather of batches": _program(
        "%x: tensor<3x5x4xi8>, %i: tensor<2x3x1xi8>",
        '  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], '
        "collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [1], "
        "start_index_map = [1], index_vector_dim = 2>, "
        "slice_sizes = array<i64: 1, 1, 4>}> : (tensor<3x5x4xi8>, tensor<2x3x1xi8>) -> tensor<2x3x4xi8>",
        "tensor<2x3x4xi8>",
    ),
    "sort": _program(
        "%x: tensor<3x37xi8>, %z: tensor<3x37xi16>",
        "  %0 = stablehlo.constant dense<7> : tensor<3x37xi8>\n"
        "  %1 = stablehlo.and %x, %0 : tensor<3x37xi8>\n"
        '  %2:2 = "stablehlo.sort"(%1, %z) <{dimension = 1 : i64, is_stable = true}> ({\n'
        "  ^bb0(%a: tensor<i8>, %b: tensor<i8>, %c: tensor<i16>, %d: tensor<i16>):\n"
        "    %less = stablehlo.compare GT, %a, %b : (tensor<i8>, tensor<i8>) -> tensor<i1>\n"
        "    stablehlo.return %less : tensor<i1>\n  }) "
        ": (tensor<3x37xi8>, tensor<3x37xi16>) -> (tensor<3x37xi8>, tensor<3x37xi16>)\n"
        "  %3 = stablehlo.convert %2#0 : (tensor<3x37xi8>) -> tensor<3x37xi16>\n"
        "  %y = stablehlo.xor %3, %2#1 : tensor<3x37xi16>",
        "tensor<3x37xi16>",
    ),
    "sort by two keys": _program(
        "%x: tensor<16x3xui8>, %z: tensor<16x3xi32>",
        "  %0 = stablehlo.constant dense<129> : tensor<16x3xui8>\n"
        "  %1 = stablehlo.and %x, %0 : tensor<16x3xui8>\n"
        '  %2:2 = "stablehlo.sort"(%1, %z) <{dimension = 0 : i64}> ({\n'
        "  ^bb0(%a: tensor<ui8>, %b: tensor<ui8>, %c: tensor<i32>, %d: tensor<i32>):\n"
        "    %3 = stablehlo.compare LT, %a, %b : (tensor<ui8>, tensor<ui8>) -> tensor<i1>\n"
        "    %4 = stablehlo.compare EQ, %a, %b : (tensor<ui8>, tensor<ui8>) -> tensor<i1>\n"
        "    %5 = stablehlo.compare GT, %c, %d : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "    %6 = stablehlo.and %4, %5 : tensor<i1>\n    %7 = stablehlo.or %3, %6 : tensor<i1>\n"
        "    stablehlo.return %7 : tensor<i1>\n  }) "
        ": (tensor<16x3xui8>, tensor<16x3xi32>) -> (tensor<16x3xui8>, tensor<16x3xi32>)\n"
        "  %8 = stablehlo.convert %2#0 : (tensor<16x3xui8>) -> tensor<16x3xi32>\n"
        "  %y = stablehlo.xor %8, %2#1 : tensor<16x3xi32>",
        "tensor<16x3xi32>",
    ),
    "float remainders": _program(
        "%x: tensor<16x16xi16>, %z: tensor<16x16xi16>",
        "  %0 = stablehlo.convert %x : (tensor<16x16xi16>) -> tensor<16x16xf32>\n"
        "  %1 = stablehlo.convert %z : (tensor<16x16xi16>) -> tensor<16x16xf32>\n"
        "  %2 = stablehlo.constant dense<3.7> : tensor<16x16xf32>\n"
        "  %3 = stablehlo.divide %1, %2 : tensor<16x16xf32>\n"
        "  %4 = stablehlo.remainder %0, %3 : tensor<16x16xf32>\n"
        "  %y = stablehlo.convert %4 : (tensor<16x16xf32>) -> tensor<16x16xi32>",
        "tensor<16x16xi32>",
    ),
    "total order": _program(
        "%x: tensor<4x6xi8>, %z: tensor<4x6xi8>",
        "  %0 = stablehlo.constant dense<0.0> : tensor<4x6xf32>\n"
        "  %1 = stablehlo.convert %x : (tensor<4x6xi8>) -> tensor<4x6xf32>\n"
        "  %2 = stablehlo.multiply %1, %0 : tensor<4x6xf32>\n"
        "  %3 = stablehlo.convert %z : (tensor<4x6xi8>) -> tensor<4x6xf32>\n"
        "  %4 = stablehlo.multiply %3, %0 : tensor<4x6xf32>\n"
        "  %5 = stablehlo.compare LT, %2, %4, TOTALORDER : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>\n"
        "  %y = stablehlo.convert %5 : (tensor<4x6xi1>) -> tensor<4x6xi8>",
        "tensor<4x6xi8>",
    ),
    "dilated windows": _windows(
        "tensor<4x6xi8>", "tensor<6x10xi8>", "i8", 9, "minimum",
        "window_dimensions = array<i64: 2, 2>, base_dilations = array<i64: 2, 2>",
    ),
    "four bits": _program(
        "%x: tensor<16x16xi8>, %z: tensor<16x16xi8>",
        "  %0 = stablehlo.convert %x : (tensor<16x16xi8>) -> tensor<16x16xi4>\n"
        "  %1 = stablehlo.convert %z : (tensor<16x16xi8>) -> tensor<16x16xi4>\n"
        "  %2 = stablehlo.add %0, %1 : tensor<16x16xi4>\n  %3 = stablehlo.multiply %2, %1 : tensor<16x16xi4>\n"
        "  %4 = stablehlo.subtract %3, %0 : tensor<16x16xi4>\n  %5 = stablehlo.negate %4 : tensor<16x16xi4>\n"
        "  %6 = stablehlo.divide %5, %1 : tensor<16x16xi4>\n  %7 = stablehlo.shift_left %6, %0 : tensor<16x16xi4>\n"
        "  %8 = stablehlo.shift_right_logical %0, %1 : tensor<16x16xi4>\n"
        "  %9 = stablehlo.xor %7, %8 : tensor<16x16xi4>\n"
        "  %y = stablehlo.convert %9 : (tensor<16x16xi4>) -> tensor<16x16xi8>",
        "tensor<16x16xi8>",
    ),
    "bits of floats": _program(
        "%x: tensor<4x6xi32>, %z: tensor<4x6xui8>",
        "  %0 = stablehlo.convert %x : (tensor<4x6xi32>) -> tensor<4x6xf32>\n"
        "  %1 = stablehlo.bitcast_convert %0 : (tensor<4x6xf32>) -> tensor<4x6xi32>\n"
        "  %2 = stablehlo.bitcast_convert %z : (tensor<4x6xui8>) -> tensor<4x6xi8>\n"
        "  %3 = stablehlo.convert %2 : (tensor<4x6xi8>) -> tensor<4x6xi32>\n"
        "  %4:2 = stablehlo.optimization_barrier %1, %3 : tensor<4x6xi32>, tensor<4x6xi32>\n"
        "  %y = stablehlo.xor %4#0, %4#1 : tensor<4x6xi32>",
        "tensor<4x6xi32>",
    ),
    "bits in parts, and floats of fewer bits": _program(
        "%x: tensor<4x6xi32>, %w: tensor<4x6xi32>",
        "  %z = stablehlo.convert %w : (tensor<4x6xi32>) -> tensor<4x6xf32>\n"
        "  %0 = stablehlo.bitcast_convert %x : (tensor<4x6xi32>) -> tensor<4x6x2xi16>\n"
        "  %1 = stablehlo.reverse %0, dims = [2] : tensor<4x6x2xi16>\n"
        "  %2 = stablehlo.bitcast_convert %1 : (tensor<4x6x2xi16>) -> tensor<4x6xi32>\n"
        "  %3 = stablehlo.reduce_precision %z, format = e4m3 : tensor<4x6xf32>\n"
        "  %4 = stablehlo.bitcast_convert %3 : (tensor<4x6xf32>) -> tensor<4x6xi32>\n"
        "  %5 = stablehlo.get_dimension_size %z, dim = 1 : (tensor<4x6xf32>) -> tensor<i32>\n"
        "  %6 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<i32>) -> tensor<4x6xi32>\n"
        "  %7 = stablehlo.add %4, %6 : tensor<4x6xi32>\n"
        "  %y = stablehlo.xor %2, %7 : tensor<4x6xi32>",
        "tensor<4x6xi32>",
    ),
}  # fmt: skip
"""By what they show."""


def signless(arrays: Sequence[Array]) -> list[Array]:
    """Unsigned integers as the signless ones with the same bits, which arguments of programs in standard form are."""
    return [array.view(f"i{array.dtype.itemsize}") if array.dtype.kind == "u" else array for array in arrays]


def arguments(program: Program, random: np.random.Generator) -> list[Array]:
    """Random integers of the whole storage range; of 32 bits and more, of half the bits, so that products fit."""
    found: list[Array] = []
    for port in program.inputs:
        dtype = element_dtype(element_of(port.type))
        limits = np.iinfo(dtype)
        bits = 0 if dtype.itemsize < 4 else 4 * dtype.itemsize
        found.append(random.integers(limits.min >> bits, limits.max >> bits, shape_of(port.type), dtype, endpoint=True))
    return found
