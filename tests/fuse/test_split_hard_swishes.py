"""Hard swishes become products for targets that have kernels for the factors only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from zeropoint.fuse import fuse
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.text import parse_program
from zeropoint.targets import target

BODIES = {
    "relu6": """
  %three = stablehlo.constant dense<3.0> : tensor<5xf32>
  %six = stablehlo.constant dense<6.0> : tensor<5xf32>
  %low = stablehlo.constant dense<0.0> : tensor<f32>
  %high = stablehlo.constant dense<6.0> : tensor<f32>
  %0 = stablehlo.add %x, %three : tensor<5xf32>
  %1 = stablehlo.clamp %low, %0, %high : (tensor<f32>, tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %2 = stablehlo.multiply %x, %1 : tensor<5xf32>
  %r = stablehlo.divide %2, %six : tensor<5xf32>""",
    "product": """
  %sixth = stablehlo.constant dense<0.16666667> : tensor<5xf32>
  %half = stablehlo.constant dense<0.5> : tensor<5xf32>
  %low = stablehlo.constant dense<0.0> : tensor<f32>
  %high = stablehlo.constant dense<1.0> : tensor<f32>
  %0 = stablehlo.multiply %x, %sixth : tensor<5xf32>
  %1 = stablehlo.add %0, %half : tensor<5xf32>
  %2 = stablehlo.clamp %low, %1, %high : (tensor<f32>, tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %r = stablehlo.multiply %x, %2 : tensor<5xf32>""",
}


def program(body: str) -> Program:
    return parse_program(
        f"func.func @main(%x: tensor<5xf32>) -> tensor<5xf32> {{{BODIES[body]}\nreturn %r : tensor<5xf32>\n}}"
    )


def kernels(program: Program) -> list[str]:
    return [op.logical_kernel.data for op in program.entry.ops if isinstance(op, QuantizeRegionOp)]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("onnxruntime", ["hard_sigmoid", "multiply"]),
        ("litert", ["hard_swish"]),
        ("openvino", ["hard_swish"]),
        ("cpu", ["elementwise_unary"]),
    ],
)
def test_a_target_gets_the_kernels_that_it_has(body: str, name: str, expected: list[str]) -> None:
    given = program(body)
    fused = fuse(given, target(name))
    assert kernels(fused) == expected
    x = np.array([-4, -1.3, 0, 0.7, 5], np.float32)
    (before,), (after,) = (Interpreter(each).run_values([x]) for each in (given, fused))
    np.testing.assert_allclose(after, before, rtol=3e-7)
    if body == "product":
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(("body", "expected"), [("relu6", ["hard_swish"]), ("product", ["hard_sigmoid", "multiply"])])
def test_a_target_without_kernels_for_the_factors_keeps_what_the_model_has(
    body: str, expected: list[str], tmp_path: Path
) -> None:
    (tmp_path / "own.toml").write_text('name = "own"\nextends = "onnxruntime"\nwithout = ["hard_sigmoid"]\n')
    assert kernels(fuse(program(body), target(str(tmp_path / "own.toml")))) == expected
