"""Programs whose ops are expanded before they become standard forms, and programs of values without elements."""

from __future__ import annotations

SELECT_GREATER = """
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
    %g = stablehlo.compare GE, %a, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %v = stablehlo.select %g, %a, %c : tensor<i1>, tensor<i32>
    %w = stablehlo.select %g, %b, %d : tensor<i1>, tensor<i32>
    stablehlo.return %v, %w : tensor<i32>, tensor<i32>
  }"""


def _greatest(x: str, y: str, op: str, attributes: str) -> str:
    """The greatest elements of %x and their indices."""
    return f"""func.func @main(%x: {x}) -> ({y}, {y}) {{
  %n = stablehlo.iota dim = 1 : {x}
  %i = stablehlo.constant dense<-2147483648> : tensor<i32>
  %z = stablehlo.constant dense<7> : tensor<i32>
  %y:2 = "stablehlo.{op}"(%x, %n, %i, %z) <{{{attributes}}}> ({{{SELECT_GREATER})
    : ({x}, {x}, tensor<i32>, tensor<i32>) -> ({y}, {y})
  return %y#0, %y#1 : {y}, {y}
}}"""


def _reduced(x: str, y: str, body: str, dims: str = "1", element: str = "i32") -> str:
    """A reduction of %x with a computed initial value; `body` is of %a and %b and ends with %r."""
    given = x.removesuffix(">").rpartition("x")[2]
    return f"""func.func @main(%x: {x}, %v: tensor<{given}>) -> {y} {{
  %k = stablehlo.constant dense<3> : tensor<{element}>
  %y = "stablehlo.reduce"(%x, %v) <{{dimensions = array<i64: {dims}>}}> ({{
  ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
    {body}
    stablehlo.return %r : tensor<{element}>
  }}) : ({x}, tensor<{given}>) -> {y}
  return %y : {y}
}}"""


def _convolution(x: str, w: str, y: str, window: str, groups: int) -> str:
    return f"""func.func @main(%x: {x}, %w: {w}) -> {y} {{
  %y = stablehlo.convolution(%x, %w) dim_numbers = [0, b, 1, f]x[o, i, 0, 1]->[b, f, 0, 1], window = {{{window}}}
    {{batch_group_count = {groups} : i64, feature_group_count = 1 : i64}} : ({x}, {w}) -> {y}
  return %y : {y}
}}"""


RARE = {
    "greatest of windows": _greatest(
        "tensor<3x7xi32>",
        "tensor<2x4xi32>",
        "reduce_window",
        "window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 1, 2>, "
        "padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>",
    ),
    "reduction by two ops": _reduced(
        "tensor<3x7xi32>",
        "tensor<3xi32>",
        "%m = stablehlo.multiply %a, %k : tensor<i32>\n    %r = stablehlo.add %m, %b : tensor<i32>",
    ),
    "reduction to its last": _reduced(
        "tensor<3x6xi32>", "tensor<3xi32>", "%r = stablehlo.maximum %b, %b : tensor<i32>"
    ),
    "reduction by xor": _reduced("tensor<3x6xi32>", "tensor<3xi32>", "%r = stablehlo.xor %a, %b : tensor<i32>"),
    "reduction of nothing": _reduced(
        "tensor<3x0xi32>", "tensor<3xi32>", "%r = stablehlo.subtract %a, %b : tensor<i32>"
    ),
    "reduction in a wider type": _reduced("tensor<3x7xi8>", "tensor<3xi32>", "%r = stablehlo.add %a, %b : tensor<i32>"),
    "sums of four bits": """func.func @main(%x: tensor<3x7xi8>, %w: tensor<7x2xi8>) -> (tensor<3xi8>, tensor<3x2xi8>) {
  %0 = stablehlo.convert %x : (tensor<3x7xi8>) -> tensor<3x7xi4>
  %1 = stablehlo.convert %w : (tensor<7x2xi8>) -> tensor<7x2xi4>
  %2 = stablehlo.constant dense<5> : tensor<i4>
  %3 = stablehlo.reduce(%0 init: %2) applies stablehlo.add across dimensions = [1]
    : (tensor<3x7xi4>, tensor<i4>) -> tensor<3xi4>
  %4 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : (tensor<3x7xi4>, tensor<7x2xi4>) -> tensor<3x2xi4>
  %5 = stablehlo.convert %3 : (tensor<3xi4>) -> tensor<3xi8>
  %6 = stablehlo.convert %4 : (tensor<3x2xi4>) -> tensor<3x2xi8>
  return %5, %6 : tensor<3xi8>, tensor<3x2xi8>
}""",
    "products of booleans": """func.func @main(%x: tensor<3x7xi8>, %w: tensor<7x2xi8>) -> tensor<3x2xi8> {
  %k = stablehlo.constant dense<60> : tensor<i8>
  %a = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<i8>) -> tensor<3x7xi8>
  %b = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<i8>) -> tensor<7x2xi8>
  %0 = stablehlo.compare GT, %x, %a : (tensor<3x7xi8>, tensor<3x7xi8>) -> tensor<3x7xi1>
  %1 = stablehlo.compare LT, %w, %b : (tensor<7x2xi8>, tensor<7x2xi8>) -> tensor<7x2xi1>
  %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : (tensor<3x7xi1>, tensor<7x2xi1>) -> tensor<3x2xi1>
  %3 = stablehlo.convert %2 : (tensor<3x2xi1>) -> tensor<3x2xi8>
  return %3 : tensor<3x2xi8>
}""",
    "powers": """func.func @main(%x: tensor<40xi8>, %n: tensor<40xi8>, %u: tensor<40xui8>)
    -> (tensor<40xi8>, tensor<40xui8>, tensor<40xi8>) {
  %k = stablehlo.constant dense<5> : tensor<i8>
  %five = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<i8>) -> tensor<40xi8>
  %three = stablehlo.constant dense<3> : tensor<40xi8>
  %few = stablehlo.remainder %n, %three : tensor<40xi8>
  %small = stablehlo.remainder %x, %three : tensor<40xi8>
  %0 = stablehlo.power %small, %n : tensor<40xi8>
  %1 = stablehlo.power %x, %few : tensor<40xi8>
  %2 = stablehlo.add %0, %1 : tensor<40xi8>
  %3 = stablehlo.power %u, %u : tensor<40xui8>
  %4 = stablehlo.power %x, %five : tensor<40xi8>
  return %2, %3, %4 : tensor<40xi8>, tensor<40xui8>, tensor<40xi8>
}""",
    "padding with a computed number": """func.func @main(%x: tensor<4x3xi8>, %v: tensor<i8>) -> tensor<10x3xi8> {
  %0 = stablehlo.add %v, %v : tensor<i8>
  %1 = stablehlo.pad %x, %0, low = [1, -1], high = [2, 1], interior = [1, 0] : (tensor<4x3xi8>, tensor<i8>)
    -> tensor<10x3xi8>
  return %1 : tensor<10x3xi8>
}""",
    "groups of batches": _convolution(
        "tensor<5x4x6x2xi8>", "tensor<6x2x3x2xi8>", "tensor<2x6x3x6xi32>", "pad = [[0, 0], [1, 0]]", 2
    ),
    "a reversed window": _convolution(
        "tensor<5x4x6x2xi8>", "tensor<6x2x3x2xi8>", "tensor<4x6x3x5xi32>", "reverse = [true, false]", 1
    ),
    "values without elements": """func.func @main(%x: tensor<2x0xi8>, %w: tensor<0x3xi8>, %v: tensor<4xi8>)
    -> (tensor<2x3xi32>, tensor<4xi8>, tensor<0x7xi8>, tensor<0xi8>) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x0xi8>, tensor<0x3xi8>) -> tensor<2x3xi32>
  %1 = stablehlo.reshape %x : (tensor<2x0xi8>) -> tensor<0xi8>
  %2 = stablehlo.concatenate %1, %v, %1, dim = 0 : (tensor<0xi8>, tensor<4xi8>, tensor<0xi8>) -> tensor<4xi8>
  %3 = stablehlo.reshape %x : (tensor<2x0xi8>) -> tensor<0x7xi8>
  %4 = stablehlo.slice %v [4:4] : (tensor<4xi8>) -> tensor<0xi8>
  return %0, %2, %3, %4 : tensor<2x3xi32>, tensor<4xi8>, tensor<0x7xi8>, tensor<0xi8>
}""",
}
"""By what they show."""
