"""Batch normalizations of quantized values: a table for each channel; statistics stay float, with the reason."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import GatherOp
from zeropoint.ir.text import parse_program
from zeropoint.lower import lower
from zeropoint.report.counts import float_ops

PARAMETERS = {"scale": [3, -7, 90], "offset": [-4, 5, 100], "mean": [1, 2, -120], "variance": [8, 0, 127]}


def inference(operand: str, parameter: str, *, constant: bool = True, shape: str = "2x3x5") -> Program:
    stored = parameter.split("<")[1].split(":")[0]
    constants = "\n".join(
        f"%{name} = stablehlo.constant() <{{value = dense<{numbers}> : tensor<3xi{stored[1:]}>}}> : () -> "
        f"tensor<3x{parameter}>"
        for name, numbers in PARAMETERS.items()
    )
    arguments = "".join(f", %{name}: tensor<3x{parameter}>" for name in PARAMETERS)
    four = ", ".join([f"tensor<3x{parameter}>"] * 4)
    return parse_program(f"""module attributes {{zeropoint.profile = "fixed32"}} {{
    func.func @main(%x: tensor<{shape}x{operand}>{"" if constant else arguments}) -> tensor<{shape}x{operand}> {{
      {constants if constant else ""}
      %r = "stablehlo.batch_norm_inference"(%x, %scale, %offset, %mean, %variance)
        <{{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}}>
        : (tensor<{shape}x{operand}>, {four}) -> tensor<{shape}x{operand}>
      return %r : tensor<{shape}x{operand}>
    }}
    }}""")


@pytest.mark.parametrize("operand", ["!quant.uniform<i8:f32, 0.05:-3>", "!quant.uniform<u8:f32, 0.02:7>"])
def test_inference_is_a_table_for_each_channel(operand: str) -> None:
    program = inference(operand, operand.replace("0.02:7", "0.05:0"))
    lowered = lower(program)
    assert float_ops(lowered) == []
    assert [op.name for op in lowered.entry.ops if isinstance(op, GatherOp)] == ["stablehlo.gather"]
    dtype = np.dtype(np.uint8 if "u8" in operand else np.int8)
    x = np.resize(np.arange(256), 30).astype(dtype).reshape(2, 3, 5)
    x[1] = np.random.default_rng(0).integers(0, 256, (3, 5)).astype(dtype)
    wanted = Interpreter(program).run_values([x])[0]
    assert len(np.unique(wanted)) > 3
    np.testing.assert_array_equal(Interpreter(lowered).run_values([x])[0], wanted)
    np.testing.assert_array_equal(NativeProgram(lowered)({"arg0": x})["result0"], wanted)


def test_inference_gives_what_is_computed_by_hand() -> None:
    program = inference("!quant.uniform<i8:f32, 0.5>", "!quant.uniform<i8:f32, 0.25>", shape="1x3x1")
    # Real parameters are a quarter of the stored ones; channel 0: 0.75 (x - 0.25) / sqrt(2.001) - 1.
    # x = 20: 0.75 * 19.75 / 1.41457 - 1 = 9.4713, by 0.5 and rounded 19.
    lowered = lower(program)
    x = np.array([40, 1, 1], np.int8).reshape(1, 3, 1)
    assert int(Interpreter(lowered).run_values([x])[0][0, 0, 0]) == 19


COMPUTED = {
    "computed parameters": ("i8", False, "a batch normalization by computed parameters has no integer form"),
    "16 bits": ("i16", True, "only batch normalizations of 8-bit values have a table"),
}


@pytest.mark.parametrize("case", COMPUTED)
def test_other_inference_is_float_with_the_reason(case: str) -> None:
    storage, constant, reason = COMPUTED[case]
    kind = f"!quant.uniform<{storage}:f32, 0.05>"
    program = inference(kind, kind, constant=constant)
    lowered = lower(program)
    assert [found for _, found in float_ops(lowered)] == [reason]
    dtype = np.dtype(np.int8 if storage == "i8" else np.int16)
    values = [np.random.default_rng(0).integers(-128, 128, (2, 3, 5)).astype(dtype)]
    values += [] if constant else [np.array(numbers, dtype) for numbers in PARAMETERS.values()]
    wanted = Interpreter(program).run_values(values)[0]
    np.testing.assert_array_equal(Interpreter(lowered).run_values(values)[0], wanted)


Q = "!quant.uniform<i8:f32, 0.05:3>"
SEVERAL = {
    "training": (
        f"""func.func @main(%x: tensor<4x3x{Q}>, %s: tensor<3x{Q}>, %o: tensor<3x{Q}>)
          -> (tensor<4x3x{Q}>, tensor<3x{Q}>, tensor<3x{Q}>) {{
        %0:3 = "stablehlo.batch_norm_training"(%x, %s, %o) <{{epsilon = 0.001 : f32, feature_index = 1 : i64}}>
          : (tensor<4x3x{Q}>, tensor<3x{Q}>, tensor<3x{Q}>) -> (tensor<4x3x{Q}>, tensor<3x{Q}>, tensor<3x{Q}>)
        return %0#0, %0#1, %0#2 : tensor<4x3x{Q}>, tensor<3x{Q}>, tensor<3x{Q}>
        }}""",
        [(4, 3), (3,), (3,)],
        "statistics of a batch have no integer form",
    ),
    "gradient": (
        f"""func.func @main(%x: tensor<4x3x{Q}>, %s: tensor<3x{Q}>, %m: tensor<3x{Q}>, %v: tensor<3x{Q}>,
          %g: tensor<4x3x{Q}>) -> (tensor<4x3x{Q}>, tensor<3x{Q}>, tensor<3x{Q}>) {{
        %0:3 = "stablehlo.batch_norm_grad"(%x, %s, %m, %v, %g) <{{epsilon = 0.001 : f32, feature_index = 1 : i64}}>
          : (tensor<4x3x{Q}>, tensor<3x{Q}>, tensor<3x{Q}>, tensor<3x{Q}>, tensor<4x3x{Q}>)
            -> (tensor<4x3x{Q}>, tensor<3x{Q}>, tensor<3x{Q}>)
        return %0#0, %0#1, %0#2 : tensor<4x3x{Q}>, tensor<3x{Q}>, tensor<3x{Q}>
        }}""",
        [(4, 3), (3,), (3,), (3,), (4, 3)],
        "the gradient of a batch normalization has no integer form",
    ),
}


@pytest.mark.parametrize("case", SEVERAL)
def test_training_and_gradient_are_float_with_the_reason(case: str) -> None:
    text, shapes, reason = SEVERAL[case]
    program = parse_program(text)
    lowered = lower(program)
    ((name, found),) = float_ops(lowered)
    assert name.startswith("stablehlo.batch_norm")
    assert reason in found
    random = np.random.default_rng(0)
    values = [random.integers(10, 100, shape).astype(np.int8) for shape in shapes]
    pairs = zip(Interpreter(lowered).run_values(values), Interpreter(program).run_values(values), strict=True)
    for given, wanted in pairs:
        np.testing.assert_array_equal(given, wanted)


def between_casts(given: str, result: str) -> Program:
    """A batch norm of floats by constants, dequantized before and quantized after it."""
    return parse_program(f"""module attributes {{zeropoint.profile = "fixed32"}} {{
    func.func @main(%x: tensor<2x3x5x{given}>) -> tensor<2x3x5x{result}> {{
      %s = stablehlo.constant dense<[1.0, 2.0, -0.5]> : tensor<3xf32>
      %m = stablehlo.constant dense<[0.0, 0.5, -0.5]> : tensor<3xf32>
      %one = stablehlo.constant dense<1.0> : tensor<f32>
      %v = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<3xf32>
      %f = stablehlo.uniform_dequantize %x : (tensor<2x3x5x{given}>) -> tensor<2x3x5xf32>
      %y = "stablehlo.batch_norm_inference"(%f, %s, %m, %m, %v) <{{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}}>
        : (tensor<2x3x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x5xf32>
      %z = stablehlo.uniform_quantize %y : (tensor<2x3x5xf32>) -> tensor<2x3x5x{result}>
      return %z : tensor<2x3x5x{result}>
    }}
    }}""")


@pytest.mark.parametrize("result", ["!quant.uniform<i8:f32, 0.02:-3>", "!quant.uniform<u8:f32, 0.03:100>"])
def test_a_float_batch_norm_between_casts_is_the_same_table(result: str) -> None:
    program = between_casts("!quant.uniform<i8:f32, 0.05:3>", result)
    lowered = lower(program)
    assert float_ops(lowered) == []
    x = np.resize(np.arange(-128, 128), 30 * 26).astype(np.int8).reshape(26, 2, 3, 5)
    native = NativeProgram(lowered)
    for sample in x:
        wanted = Interpreter(program).run_values([sample])[0]
        np.testing.assert_array_equal(Interpreter(lowered).run_values([sample])[0], wanted)
        np.testing.assert_array_equal(native({"arg0": sample})["result0"], wanted)


@pytest.mark.parametrize(
    ("given", "result"),
    [("i16:f32, 0.05", "i8:f32, 0.02"), ("i8:f32:1, {0.1, 0.2, 0.3}", "i8:f32, 0.02")],
)
def test_a_float_batch_norm_without_a_table_has_a_reason(given: str, result: str) -> None:
    lowered = lower(between_casts(f"!quant.uniform<{given}>", f"!quant.uniform<{result}>"))
    (reason,) = (reason for name, reason in float_ops(lowered) if name.startswith("stablehlo.batch_norm"))
    assert reason == "only batch normalizations of 8-bit values per layer, which are quantized again, have a table"


P = "!quant.uniform<i8:f32, 0.05:-2>"
INTEGERS, REALS = "dense<[3, -7, 90]> : tensor<3xi8>", "dense<[0.25, -0.26, 4.6]> : tensor<3xf32>"
WRITTEN = {
    "quantized floats": f"""%c = stablehlo.constant {REALS}
      %p = stablehlo.uniform_quantize %c : (tensor<3xf32>) -> tensor<3x{P}>""",
    "cast floats": f"""%c = stablehlo.constant {REALS}
      %p = quant.qcast %c : tensor<3xf32> to tensor<3x{P}>""",
    "cast integers": f"""%c = stablehlo.constant {INTEGERS}
      %p = quant.scast %c : tensor<3xi8> to tensor<3x{P}>""",
    "the bits of integers": f"""%c = stablehlo.constant {INTEGERS}
      %p = stablehlo.bitcast_convert %c : (tensor<3xi8>) -> tensor<3x{P}>""",
    "a broadcast number": f"""%c = "stablehlo.constant"() {{value = dense<9> : tensor<i8>}} : () -> tensor<{P}>
      %p = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<{P}>) -> tensor<3x{P}>""",
    "a broadcast number, quantized": f"""%c = stablehlo.constant dense<0.26> : tensor<f32>
      %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<3xf32>
      %p = stablehlo.uniform_quantize %b : (tensor<3xf32>) -> tensor<3x{P}>""",
}
FOUR = "%x, %p, %p, %p, %p) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}>"
USES = {
    "quantized": f"""%r = "stablehlo.batch_norm_inference"({FOUR}
      : (tensor<256x3x{Q}>, tensor<3x{P}>, tensor<3x{P}>, tensor<3x{P}>, tensor<3x{P}>) -> tensor<256x3x{Q}>""",
    "between casts": f"""%f = stablehlo.uniform_dequantize %x : (tensor<256x3x{Q}>) -> tensor<256x3xf32>
      %d = stablehlo.uniform_dequantize %p : (tensor<3x{P}>) -> tensor<3xf32>
      %y = "stablehlo.batch_norm_inference"({FOUR.replace("%x", "%f").replace("%p", "%d")}
      : (tensor<256x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<256x3xf32>
      %r = stablehlo.uniform_quantize %y : (tensor<256x3xf32>) -> tensor<256x3x{Q}>""",
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("written", WRITTEN)
def test_constant_parameters_give_a_table_however_they_are_written(written: str, use: str) -> None:
    program = parse_program(f"""module attributes {{zeropoint.profile = "fixed32"}} {{
    func.func @main(%x: tensor<256x3x{Q}>) -> tensor<256x3x{Q}> {{
      {WRITTEN[written]}
      {USES[use]}
      return %r : tensor<256x3x{Q}>
    }}
    }}""")
    lowered = lower(program)
    assert float_ops(lowered) == []
    x = np.repeat(np.arange(-128, 128, dtype=np.int8), 3).reshape(256, 3)
    wanted = Interpreter(program).run_values([x])[0]
    assert len(np.unique(wanted)) > 3
    np.testing.assert_array_equal(Interpreter(lowered).run_values([x])[0], wanted)
    np.testing.assert_array_equal(NativeProgram(lowered)({"arg0": x})["result0"], wanted)
