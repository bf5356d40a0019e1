"""Quantized conversions of integers become look-ups with the same results, beyond the table's ends too."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program
from zeropoint.lower import lower
from zeropoint.report.counts import float_ops

TEXT = """
func.func @main(%x: tensor<{n}x{given}>) -> tensor<{n}xf32> {{
  %0 = stablehlo.convert %x : (tensor<{n}x{given}>) -> tensor<{n}xf32>
  %1 = stablehlo.uniform_quantize %0 : (tensor<{n}xf32>) -> tensor<{n}x!quant.uniform<{kind}>>
  %2 = stablehlo.uniform_dequantize %1 : (tensor<{n}x!quant.uniform<{kind}>>) -> tensor<{n}xf32>
  return %2 : tensor<{n}xf32>
}}
"""


@pytest.mark.parametrize("given", ["i64", "i32", "i8", "ui8"])
@pytest.mark.parametrize("kind", ["i8:f32, 0.3:5", "u8:f32, 0.004", "i8<-127:127>:f32, 7.5:100", "i16:f32, 0.01:-7"])
def test_every_integer_has_its_result(given: str, kind: str) -> None:
    limits = np.iinfo({"i64": np.int64, "i32": np.int32, "i8": np.int8, "ui8": np.uint8}[given])
    x = np.concatenate([np.arange(max(limits.min, -1500), min(limits.max, 1500) + 1), [limits.min, limits.max]])
    x = x.astype(limits.dtype)
    program = parse_program(TEXT.format(n=x.size, given=given, kind=kind))
    program = lower(program, "fixed16")
    assert float_ops(program) == []
    (expected,) = Interpreter(parse_program(TEXT.format(n=x.size, given=given, kind=kind)))({"arg0": x}).values()
    (found,) = Interpreter(program)({"arg0": x}).values()
    np.testing.assert_array_equal(found, expected)


def test_many_results_stay_a_conversion() -> None:
    program = lower(parse_program(TEXT.format(n=3, given="i64", kind="i16:f32, 1.0")), "fixed16")
    assert len(float_ops(program)) == 1
