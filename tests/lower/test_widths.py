"""Elementwise kernels of several storage types: valid StableHLO before lowering, one op after it."""

from __future__ import annotations

import numpy as np

from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program, print_program
from zeropoint.lower import lower

WIDE = "tensor<4x!quant.uniform<i16:f32, 0.5>>"
TEXT = f"""module attributes {{zeropoint.profile = "fixed16"}} {{
func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>, %y: tensor<4x!quant.uniform<i16:f32, 0.1>>)
    -> tensor<4x!quant.uniform<i16<-4096:4095>:f32, 0.2>> {{
  %0 = stablehlo.uniform_quantize %x {{zeropoint.same_integers}} : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> {WIDE}
  %1 = stablehlo.multiply %0, %y : ({WIDE}, tensor<4x!quant.uniform<i16:f32, 0.1>>)
    -> tensor<4x!quant.uniform<i16:f32, 0.2>>
  %2 = stablehlo.uniform_quantize %1 {{zeropoint.same_integers}} : (tensor<4x!quant.uniform<i16:f32, 0.2>>)
    -> tensor<4x!quant.uniform<i16<-4096:4095>:f32, 0.2>>
  return %2 : tensor<4x!quant.uniform<i16<-4096:4095>:f32, 0.2>>
}}
}}"""


def test_the_casts_become_part_of_the_op() -> None:
    program = parse_program(TEXT)
    text = print_program(lower(program))
    assert text.count("fxpmath.requantize") == 1
    assert "-4096" in text
    run, expected = Interpreter(lower(program)), Interpreter(program)
    values = {"0": np.array([-128, 3, 100, 127], np.int8), "1": np.array([32767, -7, 300, -32768], np.int16)}
    keys = [port.name for port in program.inputs]
    given = dict(zip(keys, values.values(), strict=True))
    for found, wanted in zip(run(given).values(), expected(given).values(), strict=True):
        np.testing.assert_array_equal(found, wanted)
