"""A composite of the user's with a contraction or a quotient becomes integer kernels; other ops stay float alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import zeropoint as zp
from solve.own_targets import row, table
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.report.counts import float_ops

T = "tensor<4x8xf32>"
BODIES = {
    "a layer": f"""%w = stablehlo.constant dense<[{", ".join(str(0.1 * n - 0.35) for n in range(8))}]> : tensor<8xf32>
    %m = stablehlo.broadcast_in_dim %w, dims = [0] : (tensor<8xf32>) -> tensor<8x8xf32>
    %d = stablehlo.dot_general %x, %m, contracting_dims = [1] x [0] : ({T}, tensor<8x8xf32>) -> {T}
    %r = stablehlo.add %d, %y : {T}""",
    "a product of both": f"""%d = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [1] x [1]
      : ({T}, {T}) -> tensor<4xf32>
    %b = stablehlo.broadcast_in_dim %d, dims = [0] : (tensor<4xf32>) -> {T}
    %r = stablehlo.tanh %b : {T}""",
    "a quotient": f"""%s = func.call @function(%x) : ({T}) -> {T}
    %c = stablehlo.constant dense<0.5> : {T}
    %z = stablehlo.add %s, %c : {T}
    %m = stablehlo.multiply %s, %y : {T}
    %r = stablehlo.divide %m, %z : {T}""",
}


def text(body: str) -> str:
    return f"""
    func.func @main(%x: {T}, %y: {T}) -> {T} {{
      %t = stablehlo.tanh %x : {T} loc("t")
      %r = stablehlo.composite "my.gate" %t, %y {{decomposition = @gate}} : ({T}, {T}) -> {T} loc("g")
      return %r : {T}
    }}
    func.func private @gate(%x: {T}, %y: {T}) -> {T} {{
      {body}
      return %r : {T}
    }}
    func.func private @function(%x: {T}) -> {T} {{
      %0 = stablehlo.logistic %x : {T}
      return %0 : {T}
    }}"""


def target(folder: Path) -> str:
    table(folder, row(composites=["my.gate"], inputs=["act i8", "act i8"]), "cpu")
    (file,) = folder.glob("*.toml")
    return str(file)


def data() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {name: random.uniform(-2, 2, (16, 4, 8)).astype(np.float32) for name in "xy"}


@pytest.mark.parametrize("name", BODIES)
def test_every_op_of_a_composite_with_an_integer_form_is_integer(tmp_path: Path, name: str) -> None:
    samples = data()
    made = zp.quantize(text(BODIES[name]), samples, target=target(tmp_path), effort="none")
    assert not [op for op, _ in float_ops(made.program) if "quantize" not in op]
    first = {key: values[0] for key, values in samples.items()}
    (found,) = Interpreter(made.program)(first).values()
    np.testing.assert_array_equal(next(iter(NativeProgram(made.program)(first).values())), found)
    (real,) = zp.load(text(BODIES[name]))(**first).values()
    np.testing.assert_allclose(found, real, atol=0.03 * np.abs(real).max())


def test_an_op_without_a_kernel_stays_float_alone_with_its_reason(tmp_path: Path) -> None:
    body = f"%s = stablehlo.logistic %x : {T}\n%a = stablehlo.atan2 %s, %y : {T}\n%r = stablehlo.multiply %a, %s : {T}"
    made = zp.quantize(text(body), data(), target=target(tmp_path), effort="none")
    reasons = [(op, reason) for op, reason in float_ops(made.program) if "quantize" not in op]
    assert reasons == [("stablehlo.atan2 'g.atan2'", "target mine has no kernel for stablehlo.atan2")]


def test_an_operand_that_a_kernel_does_not_take_is_called_by_its_name(tmp_path: Path) -> None:
    table(tmp_path, row(composites=["my.gate"], inputs=["act i16", "act i16"], output="act i16"), "cpu")
    body = f"""%s = stablehlo.logistic %x : {T}
      %m = stablehlo.multiply %s, %y : {T}
      %a = stablehlo.tanh %m : {T}
      %r = stablehlo.add %a, %x : {T}"""
    made = zp.quantize(text(body), data(), target=str(tmp_path / "mine.toml"), effort="none")
    reasons = [reason for op, reason in float_ops(made.program) if "quantize" not in op]
    assert any("no kernel 'logistic' for its input: 't' is pinned to !quant.uniform<i16" in one for one in reasons)


def test_a_composite_whose_ports_allow_far_more_than_was_observed_inside_has_the_observed_ranges(
    tmp_path: Path,
) -> None:
    body = f"""%l = stablehlo.maximum %x, %y : {T}
    %m = stablehlo.minimum %x, %y : {T}
    %e = stablehlo.exponential %m : {T}
    %r = stablehlo.subtract %l, %e : {T}"""
    random = np.random.default_rng(3)
    samples = {name: random.normal(0, 1 + n, (32, 4, 8)).astype(np.float32) for n, name in enumerate("xy")}
    given = text(body).replace("stablehlo.tanh %x", "stablehlo.negate %x")
    made = zp.quantize(given, samples, target=target(tmp_path), effort="none")
    assert not [op for op, _ in float_ops(made.program) if "quantize" not in op]
    (found,) = zp.compare(given, made, samples).outputs
    assert found.sqnr > 30
