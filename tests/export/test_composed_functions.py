"""Functions that LiteRT does not have, as several of its operators."""

from __future__ import annotations

import numpy as np
import pytest

from oracle.litert import evaluate, evaluate_by_default
from zeropoint.export.litert.model import litert_model
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program

RANGES = {
    "chlo.acos": (-1, 1), "chlo.acosh": (1, 100), "chlo.asin": (-1, 1), "chlo.asinh": (-50, 50),
    "chlo.atan": (-50, 50), "chlo.atanh": (-0.99, 0.99), "chlo.cosh": (-5, 5), "chlo.erf": (-4, 4),
    "chlo.sinh": (-5, 5), "stablehlo.cbrt": (-50, 50), "stablehlo.tan": (-1.4, 1.4),
}  # fmt: skip


@pytest.mark.parametrize("run", [evaluate, evaluate_by_default])
@pytest.mark.parametrize("name", RANGES)
def test_a_function_is_equal_up_to_rounding(name: str, run: object) -> None:
    arrow = "tensor<401xf32> -> tensor<401xf32>" if name.startswith("chlo") else "tensor<401xf32>"
    program = parse_program(
        f"""func.func @main(%x: tensor<401xf32>) -> tensor<401xf32> {{
  %y = {name} %x : {arrow}
  return %y : tensor<401xf32>
}}"""
    )
    low, high = RANGES[name]
    x = np.linspace(low, high, 401).astype(np.float32)
    assert callable(run)
    (found,) = run(litert_model(program), x)
    (expected,) = Interpreter(program)({program.inputs[0].name: x}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_angle_of_a_point_is_atan2() -> None:
    program = parse_program(
        """func.func @main(%a: tensor<9xf32>, %b: tensor<9xf32>) -> tensor<9xf32> {
  %y = stablehlo.atan2 %a, %b : tensor<9xf32>
  return %y : tensor<9xf32>
}"""
    )
    first, second = np.meshgrid([-1.5, 0, 2], [-0.5, 0, 3])
    values = [first.ravel().astype(np.float32), second.ravel().astype(np.float32)]
    (found,) = evaluate(litert_model(program), *values)
    names = [port.name for port in program.inputs]
    (expected,) = Interpreter(program)(dict(zip(names, values, strict=True))).values()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
