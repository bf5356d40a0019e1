"""Ops of every kind on every kind of element type, against StableHLO's interpreter."""

from __future__ import annotations

from string import Template

import numpy as np
import pytest

from interp.programs import execute, upstream

ELEMENTS = ["f8E5M2", "f8E4M3FN", "f4E2M1FN", "bf16", "f16", "i1", "i2", "i4", "ui4", "ui64", "complex<f32>"]
BODIES = {
    "reduce": """%0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1]
        : ($M, $S) -> tensor<3x$E>
      %r = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<3x$E>) -> $M""",
    "reduce_window": """%r = "stablehlo.reduce_window"(%a, %z) <{window_dimensions = array<i64: 1, 2>,
        padding = dense<[[0, 0], [1, 0]]> : tensor<2x2xi64>}> ({
        ^bb0(%p: $S, %q: $S):
          %s = stablehlo.add %p, %q : $S
          stablehlo.return %s : $S
      }) : ($M, $S) -> $M""",
    "maximum": "%r = stablehlo.maximum %a, %b : $M",
    "multiply and add": """%0 = stablehlo.multiply %a, %b : $M
      %r = stablehlo.add %0, %a : $M""",
    "compare and select": """%0 = stablehlo.compare GE, %a, %b : ($M, $M) -> tensor<3x5xi1>
      %r = stablehlo.select %0, %a, %b : tensor<3x5xi1>, $M""",
    "clamp": "%r = stablehlo.clamp %z, %a, %b : ($S, $M, $M) -> $M",
    "sort": """%r = "stablehlo.sort"(%a) <{dimension = 1 : i64, is_stable = true}> ({
        ^bb0(%p: $S, %q: $S):
          %s = stablehlo.compare LT, %p, %q : ($S, $S) -> tensor<i1>
          stablehlo.return %s : tensor<i1>
      }) : ($M) -> $M""",
    "pad": "%r = stablehlo.pad %a, %z, low = [0, 1], high = [0, -1], interior = [0, 0] : ($M, $S) -> $M",
    "dot_general": """%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [1] : ($M, $M) -> tensor<3x3x$E>
      %r = stablehlo.pad %0, %z, low = [0, 0], high = [0, 2], interior = [0, 0] : (tensor<3x3x$E>, $S) -> $M""",
    "scatter": """%i = stablehlo.constant dense<[[0], [0], [2]]> : tensor<3x1xi32>
      %r = "stablehlo.scatter"(%a, %i, %b) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
        inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
        ^bb0(%p: $S, %q: $S):
          %s = stablehlo.add %p, %q : $S
          stablehlo.return %s : $S
      }) : ($M, tensor<3x1xi32>, $M) -> $M""",
    "iota": "%r = stablehlo.iota dim = 1 : $M",
}
REFUSED = {("compare and select", "complex<f32>"), ("sort", "complex<f32>"), ("iota", "i1")}
"""The C++ interpreter has no order of complex numbers, and aborts; `iota` has no booleans."""


def _program(body: str, element: str) -> str:
    matrix, scalar = f"tensor<3x5x{element}>", f"tensor<{element}>"
    return f"""
    func.func @main(%x: tensor<3x5xf64>, %y: tensor<3x5xf64>) -> tensor<3x5xf64> {{
      %a = stablehlo.convert %x : (tensor<3x5xf64>) -> {matrix}
      %b = stablehlo.convert %y : (tensor<3x5xf64>) -> {matrix}
      %zero = stablehlo.constant dense<0.0> : tensor<f64>
      %z = stablehlo.convert %zero : (tensor<f64>) -> {scalar}
      {Template(body).substitute(M=matrix, S=scalar, E=element)}
      %o = stablehlo.convert %r : ({matrix}) -> tensor<3x5xf64>
      return %o : tensor<3x5xf64>
    }}"""


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("body", BODIES)
def test_ops_on_every_element_type_equal_upstreams(body: str, element: str):
    if (body, element) in REFUSED:
        pytest.skip("upstream has no result")
    rng = np.random.default_rng(0)
    low = 0 if element.startswith(("u", "i1")) else -2
    step = 0.5 if element[0] in "fbc" else 1.0
    x, y = (rng.integers(low, 2, (3, 5)) * step for _ in range(2))
    text = _program(BODIES[body], element)
    np.testing.assert_array_equal(execute(text, x, y), upstream(text, x, y)[0])


def test_sums_of_products_of_narrow_integers_wrap_at_their_width():
    text = """
    func.func @main(%x: tensor<3xi8>) -> tensor<i8> {
      %0 = stablehlo.convert %x : (tensor<3xi8>) -> tensor<3xi4>
      %1 = stablehlo.dot_general %0, %0, contracting_dims = [0] x [0] : (tensor<3xi4>, tensor<3xi4>) -> tensor<i4>
      %2 = stablehlo.convert %1 : (tensor<i4>) -> tensor<i8>
      return %2 : tensor<i8>
    }"""
    assert execute(text, np.array([2, 2, 1], np.int8)) == -7
