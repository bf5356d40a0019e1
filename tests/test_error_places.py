"""Every error of a pass has the line and the column of the op at fault, and the name of the value in the text."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import zeropoint as zp
from zeropoint.cli import main
from zeropoint.targets.logical_kernels import MOVEMENTS

T, Q = "tensor<4xf32>", "tensor<4x!quant.uniform<i8:f32, 0.5>>"
Q8 = "!quant.uniform<i8:f32, 0.5>"
CHANNELS = "tensor<4x!quant.uniform<i8:f32:0, {0.5, 0.5, 0.25, 1.0}>>"


def stats(name: str, value: str, low: str = "-1.0", high: str = "1.0") -> str:
    return f'%{name} = "quant.stats"(%{value}) {{layerStats = dense<[{low}, {high}]> : tensor<2xf32>}} : ({T}) -> {T}'


TANH = f"%y = stablehlo.tanh %x : {T}"
CASES: dict[str, tuple[str, tuple[str, ...], str]] = {
    # pass: (pipeline, the body with the line at fault marked, the message)
    "a range that is not finite": (
        "fuse,propagate",
        (f">{stats('s', 'x', '0x7FC00000')}", f"%y = stablehlo.tanh %s : {T}"),
        "'%x': found the range [nan, 1] in quant.stats '%s'",
    ),
    "no statistics": ("fuse,propagate", (stats("s", "x"), f">%y = stablehlo.abs %x : {T}"), ""),
    "no statistics of an inner value": (
        "fuse{target=litert},propagate{target=litert}",
        (
            stats("s", "x"),
            f"%t = stablehlo.cbrt %s : {T}",
            f">%z = stablehlo.multiply %t, %s : {T}",
            f"%y = stablehlo.tanh %z : {T}",
        ),
        "found no statistics for '%t', expected quant.stats after it for multiply '%z'",
    ),
    "NaN in a constant": (
        "fuse,propagate",
        (
            stats("s", "x"),
            f"%c = stablehlo.constant dense<[0.0, 1.0, 0x7FC00000, 1.0]> : {T}",
            f">%z = stablehlo.add %s, %c : {T}",
            stats("y", "z"),
        ),
        "add '%z': found NaN or infinities in a constant",
    ),
    "a kernel that its body does not compute": (
        "propagate",
        (
            stats("s", "x"),
            f'>%z = quant.region "convolution"(%a: {T} = %s) -> {T} {{',
            f"%r = stablehlo.tanh %a : {T}",
            f"quant.return %r : {T}",
            "}",
            stats("y", "z"),
        ),
        "convolution '%z': found no stablehlo.convolution in the region, expected one",
    ),
    "a quantized kernel that its body does not compute": (
        "materialize",
        (
            f'>%y = quant.region "max_pool"(%a: {T} = %x as {Q8}) -> {T} as {Q8} {{',
            f"%r = stablehlo.tanh %a : {T}",
            f"quant.return %r : {T}",
            "}",
        ),
        "max_pool '%y': found no stablehlo.reduce_window in the region",
    ),
    "ports without parameters": (
        "fuse,check-fully-quantized",
        (f">{TANH}",),
        "found 2 ports without parameters, expected none: tanh '%y': input has f32",
    ),
    "an integer op of another target": (
        "propagate{target=tosa}",
        (
            f"%q = stablehlo.uniform_quantize %x : ({T}) -> {Q}",
            f">%a = stablehlo.abs %q : {Q}",
            f"%y = stablehlo.uniform_dequantize %a : ({Q}) -> {T}",
        ),
        'stablehlo.abs: found a quantized op of target "cpu"',
    ),
    "storage without an integer form": (
        "lower",
        (
            f"%q = stablehlo.uniform_quantize %x : ({T}) -> {CHANNELS}",
            f">%a = stablehlo.add %q, %q : {CHANNELS}",
            f"%y = stablehlo.uniform_dequantize %a : ({CHANNELS}) -> {T}",
        ),
        "stablehlo.add: found per-channel operands",
    ),
    "statistics that a file lacks": (
        "state-statistics{file=FILE}",
        (f'>%y = "quant.stats_ref"(%x) {{statsKey = "here"}} : ({T}) -> {T}',),
        "found no statistics of 'here'",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_pass_reports_the_line_of_the_op_at_fault(tmp_path: Path, name: str) -> None:
    passes, body, message = CASES[name]
    lines = [line.removeprefix(">") for line in body]
    file, statistics = tmp_path / "m.mlir", tmp_path / "s.json"
    statistics.write_text('{"format": "zeropoint statistics 1", "values": {}, "samples": 1}')
    attributes = 'module attributes {zeropoint.target = "cpu"} {'
    file.write_text(
        "\n".join([attributes, f"func.func @main(%x: {T}) -> {T} {{", *lines, f"return %y : {T}", "}", "}"])
    )
    ran = CliRunner().invoke(main, ["opt", str(file), "-p", passes.replace("FILE", str(statistics))])
    assert ran.exit_code == 2
    line = 3 + next(number for number, text in enumerate(body) if text.startswith(">"))
    column = lines[line - 3].index(" = ") + 4
    assert f"{file}:{line}:{column}: " in ran.stderr
    assert message in ran.stderr
    assert "argument 0" not in ran.stderr
    assert "'quant." not in ran.stderr.replace("quant.stats '%s'", "")


def test_calibration_names_values_as_the_text_does_and_has_the_line_of_one_that_is_never_finite() -> None:
    text = f"""func.func @main(%x: {T}) -> {T} {{
  %l = stablehlo.log %x : {T}
  %y = stablehlo.multiply %l, %x : {T}
  return %y : {T}
}}"""
    with pytest.raises(zp.Error, match=r"'y': found 32 values in 8 samples, all NaN or infinite") as caught:
        zp.quantize(text, -np.ones((8, 4), np.float32), effort="none")
    assert "elementwise_unary" not in str(caught.value)


SHAPE = "tensor<1x4x4x4xf32>"
STATED = '"quant.stats"(%VALUE) {layerStats = dense<[-4.0, 4.0]> : tensor<2xf32>} : (SHAPE) -> SHAPE'


def _wrapping(kernel: str, body: str, result: str) -> str:
    """A region of a kernel that reads two stated arguments; nothing reads the statistics of the third."""
    lines = [
        "func.func @main(%x: SHAPE, %y: SHAPE, %z: SHAPE) -> SHAPE {",
        *(f"%{name}1 = {STATED.replace('VALUE', name)}" for name in "xyz"),
        f'%0 = quant.region "{kernel}"(%a: SHAPE = %x1, %b: SHAPE = %y1) -> SHAPE {{',
        *([body] if body else []),
        f"quant.return {result} : SHAPE",
        "}",
        f"%1 = {STATED.replace('VALUE', '0')}",
        "return %1 : SHAPE",
        "}",
    ]
    return "\n".join(lines).replace("SHAPE", SHAPE)


@pytest.mark.parametrize("kernel", sorted({"mean", *MOVEMENTS} - {"reverse", "select"}))
def test_a_region_whose_kernel_does_not_fit_its_body_is_refused_by_name(kernel: str, tmp_path: Path) -> None:
    file = tmp_path / "m.mlir"
    file.write_text(_wrapping(kernel, "%r = stablehlo.tanh %a : SHAPE", "%r"))
    ran = CliRunner().invoke(main, ["opt", str(file), "-p", "propagate,materialize"])
    assert ran.exit_code == 2
    assert re.search(rf"m.mlir:5:\d+: .*{kernel}: found no stablehlo\.", ran.stderr), ran.stderr


MISFITS = {
    "broadcast": (
        "%r = stablehlo.add %a, %b : SHAPE",
        "found no stablehlo.broadcast_in_dim in the region, expected one",
    ),
    "divide": ("%r = stablehlo.multiply %a, %b : SHAPE", "found no stablehlo.divide in the region"),
    "subtract": ("%r = stablehlo.add %a, %b : SHAPE", "found no stablehlo.subtract in the region"),
    "depthwise_convolution": (
        """%w = stablehlo.constant dense<1.0> : tensor<4x4x1x1xf32>
%r = stablehlo.convolution(%a, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {}
  {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (SHAPE, tensor<4x4x1x1xf32>) -> SHAPE""",
        "found stablehlo.convolution with 1 groups in the region, expected 4, one for each channel",
    ),
    "maximum": ("%r = stablehlo.add %a, %b : SHAPE", "found no stablehlo.maximum in the region"),
    "concatenate": (
        """%s = stablehlo.add %a, %b : SHAPE
%r = stablehlo.concatenate %s, dim = 0 : (SHAPE) -> SHAPE""",
        "found stablehlo.add in the region, which computes elements, expected ops that move them",
    ),
    "add": (
        """%w = stablehlo.constant dense<1.0> : tensor<4x4x1x1xf32>
%s = stablehlo.convolution(%a, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {}
  {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (SHAPE, tensor<4x4x1x1xf32>) -> SHAPE
%r = stablehlo.add %s, %b : SHAPE""",
        "found stablehlo.convolution in the region, which the kernel does not compute",
    ),
    "sum": (
        """%i = stablehlo.constant dense<0xFF800000> : tensor<f32>
%r = "stablehlo.reduce_window"(%a, %i) <{window_dimensions = array<i64: 1, 1, 1, 1>}> ({
^bb0(%p: tensor<f32>, %q: tensor<f32>):
  %m = stablehlo.maximum %p, %q : tensor<f32>
  stablehlo.return %m : tensor<f32>
}) : (SHAPE, tensor<f32>) -> SHAPE""",
        "found stablehlo.reduce_window by stablehlo.maximum in the region, expected it by stablehlo.add",
    ),
}


@pytest.mark.parametrize("kernel", MISFITS)
def test_a_body_of_another_kernel_is_refused_by_name(kernel: str, tmp_path: Path) -> None:
    body, message = MISFITS[kernel]
    file = tmp_path / "m.mlir"
    file.write_text(_wrapping(kernel, body, "%r"))
    ran = CliRunner().invoke(main, ["opt", str(file), "-p", "propagate,materialize"])
    assert ran.exit_code == 2
    assert f": {kernel}: {message}" in ran.stderr


def test_statistics_of_arguments_survive_unfuse_whether_they_are_read_or_not(tmp_path: Path) -> None:
    file = tmp_path / "m.mlir"
    file.write_text(_wrapping("abs", "", "%a"))
    ran = CliRunner().invoke(main, ["opt", str(file), "-p", "unfuse"])
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert "quant.region" not in ran.stdout


def test_a_kernel_that_stays_float_is_refused_as_well_if_its_body_is_of_another(tmp_path: Path) -> None:
    body = """%w = stablehlo.constant dense<1.0> : tensor<4x4xf32>
%r = stablehlo.dot_general %a, %w, contracting_dims = [3] x [0] : (SHAPE, tensor<4x4xf32>) -> SHAPE"""
    file = tmp_path / "m.mlir"
    file.write_text(_wrapping("maximum", body, "%r"))
    ran = CliRunner().invoke(main, ["opt", str(file), "-p", "propagate"])
    assert ran.exit_code == 2
    assert "found stablehlo.dot_general in the region, which the kernel does not compute" in ran.stderr
