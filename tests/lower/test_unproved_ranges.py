"""Numbers whose bounds do not follow from shapes or types: they are refused, as others that may wrap around.

These are constants that a conversion changes, sums of windows beside a dimension of unknown size, convolutions by
computed padding, and integers that a cast declares to be narrow.
"""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program
from zeropoint.lower import LoweringError, lower
from zeropoint.ranges import ranges_of

I8 = "!quant.uniform<i8:f32, 1.0>"
NARROW = "!quant.uniform<i8<-7:7>:f32, 1.0>"


def program(body: str, arguments: list[str], result: str) -> Program:
    given = ", ".join(f"%{name}: {kind}" for name, kind in zip("xyz", arguments, strict=False))
    return parse_program(
        f'module attributes {{zeropoint.profile = "fixed32"}} {{\n'
        f"func.func @main({given}) -> {result} {{\n{body}\nreturn %r : {result}\n}}\n}}"
    )


def product_by(number: int, given: str, made: str) -> Program:
    """Four inputs of 8 bits by a constant that is converted, in 16 bits."""
    return program(
        f"""%0 = quant.scast %x : tensor<1x4x{I8}> to tensor<1x4xi8>
      %1 = stablehlo.convert %0 : (tensor<1x4xi8>) -> tensor<1x4xi16>
      %c = stablehlo.constant dense<{number}> : tensor<4x1x{given}>
      %d = stablehlo.convert %c : (tensor<4x1x{given}>) -> tensor<4x1x{made}>
      %w = stablehlo.convert %d : (tensor<4x1x{made}>) -> tensor<4x1xi16>
      %r = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<1x4xi16>, tensor<4x1xi16>)
        -> tensor<1x1xi16>""",
        [f"tensor<1x4x{I8}>"],
        "tensor<1x1xi16>",
    )


def test_weights_that_a_conversion_changes_are_not_taken_as_they_were() -> None:
    with pytest.raises(LoweringError, match=r"found sums of products up to 130560, expected at most 32767 \(i16\)"):
        lower(product_by(-1, "i8", "ui8"))


def test_weights_that_became_booleans_are_ones() -> None:
    given = product_by(-1, "i16", "i1")
    assert given.entry.last_op is not None
    found = ranges_of(given).of(given.entry.last_op.operands[0])
    assert (found.least, found.greatest) == (-512, 508)


def test_weights_that_a_conversion_keeps_have_their_own_range() -> None:
    lowered = lower(product_by(63, "i32", "i8"))
    (found,) = Interpreter(lowered).run_values([np.full((1, 4), -128, np.int8)])
    assert found.tolist() == [[-4 * 128 * 63]]


def test_a_sum_of_windows_beside_a_dynamic_dimension_saturates_or_is_refused() -> None:
    given = program(
        f"""%c = stablehlo.constant() <{{value = dense<0> : tensor<i8>}}> : () -> tensor<{I8}>
      %r = "stablehlo.reduce_window"(%x, %c) <{{window_dimensions = array<i64: 1, 2>}}> ({{
        ^bb0(%a: tensor<{I8}>, %b: tensor<{I8}>):
          %s = stablehlo.add %a, %b : tensor<{I8}>
          stablehlo.return %s : tensor<{I8}>
      }}) : (tensor<?x4x{I8}>, tensor<{I8}>) -> tensor<?x3x{I8}>""",
        [f"tensor<?x4x{I8}>"],
        f"tensor<?x3x{I8}>",
    )
    x = np.full((2, 4), 127, np.int8)
    for each in (given, lower(given)):
        (found,) = Interpreter(each).run_values([x])
        assert found.tolist() == [[127] * 3] * 2


def test_a_sum_of_windows_along_a_dynamic_dimension_is_refused() -> None:
    given = program(
        f"""%0 = quant.scast %x : tensor<?x{I8}> to tensor<?xi8>
      %c = stablehlo.constant dense<0> : tensor<i8>
      %r = "stablehlo.reduce_window"(%0, %c) <{{window_dimensions = array<i64: 2>}}> ({{
        ^bb0(%a: tensor<i8>, %b: tensor<i8>):
          %s = stablehlo.add %a, %b : tensor<i8>
          stablehlo.return %s : tensor<i8>
      }}) : (tensor<?xi8>, tensor<i8>) -> tensor<?xi8>""",
        [f"tensor<?x{I8}>"],
        "tensor<?xi8>",
    )
    with pytest.raises(LoweringError, match="found sums up to 256, expected at most 127"):
        lower(given)


def test_a_convolution_by_computed_padding_is_proved() -> None:
    def made(element: str) -> Program:
        return program(
            f"""%0 = quant.scast %x : tensor<1x1x4x4x{I8}> to tensor<1x1x4x4xi8>
          %r = "stablehlo.dynamic_conv"(%0, %y, %z) <{{
            dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>,
            batch_group_count = 1 : i64, feature_group_count = 1 : i64}}>
            : (tensor<1x1x4x4xi8>, tensor<1x1x3x3xi8>, tensor<2x2xi64>) -> tensor<1x1x2x2x{element}>""",
            [f"tensor<1x1x4x4x{I8}>", "tensor<1x1x3x3xi8>", "tensor<2x2xi64>"],
            f"tensor<1x1x2x2x{element}>",
        )

    with pytest.raises(LoweringError, match=r"found sums of products up to 147456, expected at most 32767 \(i16\)"):
        lower(made("i16"))
    values = [np.full(shape, -128, np.int8) for shape in ((1, 1, 4, 4), (1, 1, 3, 3))]
    (found,) = Interpreter(lower(made("i32"))).run_values([*values, np.zeros((2, 2), np.int64)])
    assert (found == 9 * 128 * 128).all()


def test_a_concatenation_along_a_dynamic_dimension_has_a_range() -> None:
    given = program(
        f"""%0 = quant.scast %x : tensor<?x2x{I8}> to tensor<?x2xi8>
      %1 = stablehlo.convert %0 : (tensor<?x2xi8>) -> tensor<?x2xi16>
      %c = stablehlo.constant dense<[[1000, -2000], [3, 4]]> : tensor<2x2xi16>
      %d = stablehlo.concatenate %1, %c, dim = 0 : (tensor<?x2xi16>, tensor<2x2xi16>) -> tensor<?x2xi16>
      %r = stablehlo.add %d, %d : tensor<?x2xi16>""",
        [f"tensor<?x2x{I8}>"],
        "tensor<?x2xi16>",
    )
    (found,) = Interpreter(lower(given)).run_values([np.full((1, 2), -128, np.int8)])
    assert found.tolist() == [[-256, -256], [2000, -4000], [6, 8]]


def test_integers_that_a_cast_declares_to_be_narrow_keep_their_range() -> None:
    given = program(
        f"""%0 = quant.scast %x : tensor<1x16xi8> to tensor<1x16x{NARROW}>
      %1 = quant.scast %0 : tensor<1x16x{NARROW}> to tensor<1x16xi8>
      %w = stablehlo.constant dense<1> : tensor<16x1xi8>
      %r = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<1x16xi8>, tensor<16x1xi8>)
        -> tensor<1x1xi8>""",
        ["tensor<1x16xi8>"],
        "tensor<1x1xi8>",
    )
    with pytest.raises(LoweringError, match=r"found sums of products up to 2048, expected at most 127 \(i8\)"):
        lower(given)


def test_integer_ops_on_quantized_values_are_proved_where_no_cast_is_left() -> None:
    given = program(
        f"""%0 = quant.scast %x : tensor<4xi8> to tensor<4x{I8}>
      %1 = quant.scast %y : tensor<4xi8> to tensor<4x{I8}>
      %2 = stablehlo.maximum %0, %1 : tensor<4x{I8}>
      %3 = quant.scast %2 : tensor<4x{I8}> to tensor<4xi8>
      %r = stablehlo.add %3, %3 : tensor<4xi8>""",
        ["tensor<4xi8>", "tensor<4xi8>"],
        "tensor<4xi8>",
    )
    with pytest.raises(LoweringError, match=r"found sums up to 256, expected at most 127 \(i8\)"):
        lower(given)


def test_the_maximum_of_a_dimension_that_may_be_empty_may_be_the_initial_value() -> None:
    kind = "!quant.uniform<i8<50:100>:f32, 1.0:50>"
    given = program(
        f"""%0 = quant.scast %x : tensor<?x{kind}> to tensor<?xi8>
      %c = stablehlo.constant dense<-128> : tensor<i8>
      %1 = "stablehlo.reduce"(%0, %c) ({{
        ^bb0(%a: tensor<i8>, %b: tensor<i8>):
          %s = stablehlo.maximum %a, %b : tensor<i8>
          stablehlo.return %s : tensor<i8>
      }}) {{dimensions = array<i64: 0>}} : (tensor<?xi8>, tensor<i8>) -> tensor<i8>
      %d = stablehlo.constant dense<100> : tensor<i8>
      %r = stablehlo.subtract %1, %d : tensor<i8>""",
        [f"tensor<?x{kind}>"],
        "tensor<i8>",
    )
    with pytest.raises(LoweringError, match=r"found differences up to 228, expected at most 127 \(i8\)"):
        lower(given)
