"""Quotients of 16-bit values, exported to LiteRT, give our integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.export import ExportOptions, export_program
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program
from zeropoint.pipeline import Options, quantize

SHAPE = "tensor<1x4000xf32>"


@pytest.mark.parametrize("divisors", [(1.0, 1.9), (-1.9, -1.0)])
def test_quotients_of_16_bit_values(divisors: tuple[float, float], tmp_path: Path) -> None:
    """LiteRT has an integer kernel for the scales of such quotients; one of some 3,000 is not the nearest integer."""
    program = parse_program(f"""
      func.func @main(%a: {SHAPE} {{zeropoint.name = "a"}}, %b: {SHAPE} {{zeropoint.name = "b"}})
          -> ({SHAPE} {{zeropoint.name = "y"}}) {{
        %0 = stablehlo.divide %a, %b : {SHAPE}
        return %0 : {SHAPE}
      }}""")
    random = np.random.default_rng(0)
    x = {
        "a": random.normal(0, 1, (1, 4000)).astype(np.float32),
        "b": random.uniform(*divisors, (1, 4000)).astype(np.float32),
    }
    made = quantize(program, [x], Options(target="litert-16x8", effort="none"))
    assert "stablehlo.divide" not in str(made.quantized.module)
    export_program(made.propagated, tmp_path / "m.tflite", ExportOptions())
    given = {**x, "a": np.where(np.arange(4000) % 7, x["a"], x["a"] * 1e-4).astype(np.float32)}
    found = LiteRTFile(tmp_path / "m.tflite", reference=True)(given)["y"]
    for run in (Interpreter(made.quantized), Interpreter(made.integer), NativeProgram(made.integer)):
        np.testing.assert_array_equal(found, run(given)["y"])
