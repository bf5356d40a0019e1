"""A type that the spec of a region states holds, too, if the target has no such kernel: casts stand around the op."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.interp import Interpreter
from zeropoint.ir.quant import DequantizeCastOp, QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import verify
from zeropoint.lower import lower
from zeropoint.materialize import materialize
from zeropoint.solve import propagate
from zeropoint.targets import target

WIDE = "!quant.uniform<i16:f32, 0.25:4>"
PLACES = {"the output": ("", f" as {WIDE}"), "an input": (f" as {WIDE}", ""), "both": (f" as {WIDE}", f" as {WIDE}")}


@pytest.mark.parametrize("place", PLACES)
def test_a_stated_type_of_a_region_that_stays_float_rounds_its_value(place: str) -> None:
    """`materialize` failed with an AssertionError, also for a recipe with `scale` and `bits: 16` on target cpu."""
    given, made = PLACES[place]
    program = parse_program(f"""
    func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {{
      %w = stablehlo.constant dense<[[1.0, 2.0], [0.5, 3.0]]> : tensor<2x2xf32>
      %m = quant.region "fully_connected"(%0: tensor<2x2xf32> = %x{given}, %1: tensor<2x2xf32> = %w) -> tensor<2x2xf32>{made} {{
        %p = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
        quant.return %p : tensor<2x2xf32>
      }}
      return %m : tensor<2x2xf32>
    }}""")  # noqa: E501 (one op a line)
    found = propagate(program, target("cpu"))
    (region,) = (op for op in found.entry.ops if isinstance(op, QuantizeRegionOp))
    assert not any(isinstance(spec, UniformQuantizedType) for spec in (*region.input_specs, *region.output_specs))
    assert sum(isinstance(op, DequantizeCastOp) for op in found.entry.ops) == (2 if place == "both" else 1)
    integers = lower(materialize(found))
    verify(integers.module)
    x = np.array([[0.3, 1.1], [-2.2, 5.4]], np.float32)
    read = np.round(x * 4) / 4 if given else x
    product = read @ np.array([[1, 2], [0.5, 3]], np.float32)
    (result,) = Interpreter(integers).run_values([x])
    np.testing.assert_allclose(result, np.round(product * 4) / 4 if made else product, rtol=1e-6)
