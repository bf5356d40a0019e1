"""Weights that a program writes as integers are constants with pinned parameters, as quantized floats are."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from zeropoint.ir.quant import UniformQuantizedType, dequantize
from zeropoint.ir.tensors import Array, element_of
from zeropoint.ir.text import parse_program, print_program
from zeropoint.options import Options
from zeropoint.pipeline import Quantization, quantize
from zeropoint.report.counts import float_ops

K, N = 32, 4
INTEGERS = np.random.default_rng(0).integers(-100, 101, (K, N)).astype(np.int8)
SCALES = [0.01, 0.02, 0.03, 0.04]
LISTED = ", ".join(map(str, SCALES))
KINDS = {
    "per layer": "i8:f32, 0.01",
    "per channel": f"i8:f32:1, {{{LISTED}}}",
    "per block": f"i8:f32:{{0:16, 1:1}}, {{{{{LISTED}}}, {{{LISTED}}}}}",
}


def _listed(array: Array, element: str) -> str:
    return f"dense<{json.dumps(array.tolist())}> : tensor<{'x'.join(map(str, array.shape))}x{element}>"


def _stated(form: str, held: str, integers: Array) -> str:
    """The lines that make the quantized weight %w, in one of the forms of a program."""
    given, turned = _listed(integers, "i8"), _listed(np.ascontiguousarray(integers.T), "i8")
    a, b = given.partition(" : ")[2], turned.partition(" : ")[2]
    if form == "floats":
        program = parse_program(f"func.func @main(%x: {held}) -> {held} {{ return %x : {held} }}")
        element = element_of(program.entry.args[0])
        assert isinstance(element, UniformQuantizedType)
        real = dequantize(integers, element, expressed=np.float64)
        floats = _listed(real, "f32")
        return f"%c = stablehlo.constant {floats}\n%w = quant.qcast %c : {floats.partition(' : ')[2]} to {held}"
    return {
        "cast": f"%c = stablehlo.constant {given}\n%w = quant.scast %c : {a} to {held}",
        "bits": f"%c = stablehlo.constant {given}\n%w = stablehlo.bitcast_convert %c : ({a}) -> {held}",
        "turned": f"""%c = stablehlo.constant {turned}
          %t = stablehlo.transpose %c, dims = [1, 0] : ({b}) -> {a}
          %w = quant.scast %t : {a} to {held}""",
    }[form]


def quantized(form: str, kind: str, target: str) -> Quantization:
    held, x, y = f"tensor<{K}x{N}x!quant.uniform<{kind}>>", f"tensor<2x{K}xf32>", f"tensor<2x{N}xf32>"
    program = parse_program(f"""func.func @main(%x: {x}) -> {y} {{
      {_stated(form, held, INTEGERS)}
      %d = quant.dcast %w : {held} to tensor<{K}x{N}xf32>
      %0 = stablehlo.dot_general %x, %d, contracting_dims = [1] x [0] : ({x}, tensor<{K}x{N}xf32>) -> {y}
      return %0 : {y}
    }}""")
    random = np.random.default_rng(1)
    samples = [{program.inputs[0].name: random.normal(size=(2, K)).astype(np.float32)} for _ in range(2)]
    return quantize(program, samples, Options(target=target, effort="none"))


def unnamed(result: Quantization) -> str:
    return re.sub(r"%\w+", "%", print_program(result.integer))


FORMS = [("cast", kind) for kind in KINDS] + [("turned", kind) for kind in KINDS] + [("bits", "per channel")]


@pytest.mark.parametrize(("form", "kind"), FORMS)
def test_integers_of_a_weight_give_the_program_that_quantized_floats_give(form: str, kind: str) -> None:
    found, expected = (quantized(each, KINDS[kind], "cpu") for each in (form, "floats"))
    assert float_ops(found.integer) == []
    assert unnamed(found) == unnamed(expected)


@pytest.mark.parametrize("form", ["cast", "turned"])
def test_a_weight_with_a_scale_for_each_block_says_why_it_stays_float(form: str) -> None:
    ((_, reason),) = float_ops(quantized(form, KINDS["per block"], "litert").integer)
    assert reason is not None
    assert "requires one scale, or one per channel, at its weight" in reason
    assert "which has one for each block" in reason
