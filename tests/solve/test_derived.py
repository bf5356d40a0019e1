"""Kernels of several data operands that are coarser than our ops: integers between the ports, of types that follow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from solve.own_targets import row, table
from solve.rfc import names
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.fuse import fuse
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program
from zeropoint.lower import integer_program
from zeropoint.materialize import materialize
from zeropoint.report.counts import float_ops
from zeropoint.solve import propagate


def program(body: str) -> Program:
    def stated(value: str, low: float, high: float) -> str:
        of = f"dense<[{low}, {high}]> : tensor<2xf32>}} : (tensor<512xf32>) -> tensor<512xf32>"
        return f'"quant.stats"({value}) {{layerStats = {of}'

    return parse_program(f"""
    func.func @main(%x: tensor<512xf32>, %y: tensor<512xf32>) -> tensor<512xf32> {{
      %0 = {stated("%x", -2.0, 2.0)}
      %1 = {stated("%y", -3.0, 1.0)}
      %2 = stablehlo.composite "my.gate" %0, %1 {{decomposition = @gate}}
        : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
      %3 = {stated("%2", -2.0, 2.0)}
      return %3 : tensor<512xf32>
    }}
    func.func private @gate(%x: tensor<512xf32>, %y: tensor<512xf32>) -> tensor<512xf32> {{
      %c = stablehlo.constant dense<0.5> : tensor<512xf32>
      {body}
      return %r : tensor<512xf32>
    }}""")


X, Y = (np.random.default_rng(0).uniform(*ends, 512).astype(np.float32) for ends in ((-2, 2), (-3, 1)))
BODIES = {
    "a gate": (
        "%0 = stablehlo.logistic %y : tensor<512xf32>\n%r = stablehlo.multiply %x, %0 : tensor<512xf32>",
        ["uniform_quantize", "uniform_quantize", "uniform_dequantize", "logistic", "uniform_quantize", "multiply"],
    ),
    "a mixture": (
        """%0 = stablehlo.tanh %y : tensor<512xf32>
        %1 = stablehlo.multiply %0, %c : tensor<512xf32>
        %2 = stablehlo.subtract %x, %1 : tensor<512xf32>
        %3 = stablehlo.maximum %2, %y : tensor<512xf32>
        %r = stablehlo.minimum %3, %c : tensor<512xf32>""",
        None,
    ),
    "a function of a sum": (
        "%0 = stablehlo.add %x, %y : tensor<512xf32>\n%r = stablehlo.tanh %0 : tensor<512xf32>",
        None,
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_kernel_of_two_operands_has_integers_in_between(tmp_path: Path, name: str) -> None:
    body, expected = BODIES[name]
    mine = table(tmp_path, row(composites=["my.gate"], inputs=["act i8", "act i8"]), "cpu")
    given = program(body)
    quantized = materialize(propagate(fuse(given, mine), mine))
    if expected is not None:
        assert names(quantized)[:-1] == expected
    integers = integer_program(quantized)
    # The edges of the program apart.
    assert not [op for op, _ in float_ops(integers) if "quantize" not in op]
    x = {"arg0": X, "arg1": Y}
    (real,) = Interpreter(given)(x).values()
    (found,) = Interpreter(quantized)(x).values()
    np.testing.assert_allclose(found, real, atol=5 / 127)
    for run in (Interpreter(integers), NativeProgram(integers)):
        np.testing.assert_array_equal(next(iter(run(x).values())), found)


@pytest.mark.parametrize(
    ("body", "port", "reason"),
    [
        (
            "%0 = stablehlo.exponential %y : tensor<512xf32>\n%r = stablehlo.divide %x, %0 : tensor<512xf32>",
            "act i8",
            "kernel 'gate' has an op without an integer form, stablehlo.divide",
        ),
        (
            "%r = stablehlo.add %x, %y : tensor<512xf32>",
            "act i16",
            "kernel 'gate' is computed in integers only if all its ports have one 8-bit storage",
        ),
    ],
)
def test_a_kernel_with_an_op_without_an_integer_form_stays_float_and_names_it(
    tmp_path: Path, body: str, port: str, reason: str
) -> None:
    mine = table(tmp_path, row(composites=["my.gate"], inputs=[port, port], output=port), "cpu")
    quantized = materialize(propagate(fuse(program(body), mine), mine))
    reasons = {reason for op, reason in float_ops(integer_program(quantized)) if "quantize" not in op}
    assert reasons == {reason}
