"""Storage of less than a byte: the integer program and native code compute what the quantized program does."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program
from zeropoint.lower import integer_program, lower
from zeropoint.report.counts import float_ops

X = np.random.default_rng(0).uniform(-5, 5, (3, 8)).astype(np.float32)


def quantized(sizes: str, storage: str, parameters: str = "0.5:1") -> str:
    return f"tensor<{sizes}!quant.uniform<{storage}:f32{parameters if parameters[0] == ':' else f', {parameters}'}>>"


def constant(kind: str, numbers: str, sizes: str, storage: str) -> str:
    held = storage.partition("<")[0].replace("u", "i")
    return f"stablehlo.constant() <{{value = dense<{numbers}> : tensor<{sizes}{held}>}}> : () -> {kind}"


def program(storage: str, result: str, body: str) -> str:
    given = quantized("3x8x", storage)
    floats = f"tensor<{result.partition('<')[2].partition('!')[0]}f32>"
    return f"""func.func @main(%x: tensor<3x8xf32>) -> {floats} {{
      %0 = stablehlo.uniform_quantize %x : (tensor<3x8xf32>) -> {given}
      {body}
      %2 = stablehlo.uniform_dequantize %1 : ({result}) -> {floats}
      return %2 : {floats}
    }}"""


def reduction(storage: str, inner: str, op: str) -> str:
    given, scalar, body = quantized("3x8x", storage), quantized("", storage), quantized("", inner)
    result = quantized("3x", storage)
    text = f"""%z = {constant(scalar, "1", "", storage)}
      %1 = "stablehlo.reduce"(%0, %z) ({{
      ^bb0(%a: {body}, %b: {body}):
        %r = stablehlo.{op} %a, %b : {body}
        stablehlo.return %r : {body}
      }}) {{dimensions = array<i64: 1>}} : ({given}, {scalar}) -> {result}"""
    return program(storage, result, text)


def product() -> str:
    weights, sums = quantized("8x2x", "i4", ":1, {0.5, 0.25}"), quantized("3x2x", "i32", ":1, {0.25, 0.125}")
    result = quantized("3x2x", "i4", "2.0:-1")
    rows = ", ".join(str([row % 8 - 4, 3 - row]) for row in range(8))
    text = f"""%w = {constant(weights, f"[{rows}]", "8x2x", "i4")}
      %d = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : ({quantized("3x8x", "i4")}, {weights}) -> {sums}
      %1 = stablehlo.uniform_quantize %d : ({sums}) -> {result}"""
    return program("i4", result, text)


def elementwise(op: str, operands: str, result: str = "0.5:1") -> str:
    kind, made = quantized("3x8x", "i4"), quantized("3x8x", "i4", result)
    types = ", ".join([kind] * len(operands.split(",")))
    return program("i4", made, f"%1 = stablehlo.{op} {operands} : ({types}) -> {made}")


def function() -> str:
    kind, floats = quantized("3x8x", "i4"), "tensor<3x8xf32>"
    text = f"""%d = stablehlo.uniform_dequantize %0 : ({kind}) -> {floats}
      %t = stablehlo.tanh %d : {floats}
      %1 = stablehlo.uniform_quantize %t : ({floats}) -> {kind}"""
    return program("i4", kind, text)


CASES = {
    **{
        f"{op} of {storage} in {inner}": reduction(storage, inner, op)
        for storage in ("i4", "u4", "i2", "i4<-7:7>")
        for inner in (storage, "i32")
        for op in ("add", "maximum")
    },
    "a product": product(),
    "a sum": elementwise("add", "%0, %0", "1.0:-2"),
    "a reversal": program(
        "i4", quantized("3x8x", "i4"), f"%1 = stablehlo.reverse %0, dims = [1] : {quantized('3x8x', 'i4')}"
    ),
    "a function": function(),
}


@pytest.mark.parametrize("name", CASES)
def test_storage_below_a_byte_is_computed_in_bytes(name: str) -> None:
    given = parse_program(CASES[name])
    integers = integer_program(given)
    expected = Interpreter(given)({"arg0": X})["result0"]
    for run in (Interpreter(integers), NativeProgram(integers)):
        np.testing.assert_array_equal(run({"arg0": X})["result0"], expected)


@pytest.mark.parametrize(("storage", "low", "high"), [("i4", -8, 7), ("u4", 0, 15), ("i2", -2, 1)])
def test_a_sum_in_32_bits_saturates_to_the_narrow_storage_once(storage: str, low: int, high: int) -> None:
    stored = np.clip(np.rint(X.astype(np.float64) / 0.5) + 1, low, high) - 1
    expected = (np.clip(stored.sum(axis=1) + 1, low, high) - 1) * 0.5
    integers = integer_program(parse_program(reduction(storage, "i32", "add")))
    np.testing.assert_array_equal(NativeProgram(integers)({"arg0": X})["result0"], expected)


@pytest.mark.parametrize(("storage", "low", "high"), [("i4", -8, 7), ("u4", 0, 15), ("u2<0:2>", 0, 2)])
def test_the_storage_that_a_caller_sees_stays_and_is_computed_in_bytes(storage: str, low: int, high: int) -> None:
    given, scalar, result, wide = (
        quantized(sizes, kind) for sizes, kind in (("3x8x", storage), ("", storage), ("3x", storage), ("", "i32"))
    )
    program = parse_program(f"""func.func @main(%x: {given}, %z: {scalar}) -> ({result}, {given}, {given}) {{
      %0 = "stablehlo.reduce"(%x, %z) ({{
      ^bb0(%a: {wide}, %b: {wide}):
        %r = stablehlo.add %a, %b : {wide}
        stablehlo.return %r : {wide}
      }}) {{dimensions = array<i64: 1>}} : ({given}, {scalar}) -> {result}
      %1 = stablehlo.add %x, %x : {given}
      return %0, %1, %x : {result}, {given}, {given}
    }}""")
    integers = lower(program, "fixed32")
    assert not float_ops(integers)
    assert [port.type for port in integers.entry.args] == [port.type for port in program.entry.args]
    x = np.random.default_rng(0).integers(low, high + 1, (3, 8)).astype(np.int8 if storage[0] == "i" else np.uint8)
    less = x.astype(int) - 1
    found = Interpreter(integers).run_values([x, np.array(high, x.dtype)])
    assert found[0].tolist() == np.clip(less.sum(axis=1) + high, low, high).tolist()
    assert found[1].tolist() == np.clip(2 * less + 1, low, high).tolist()
    assert found[2].tolist() == x.tolist()


BODIES = {
    "a comparison and a selection": "%p = stablehlo.compare GE, %a, %b : ({0}, {0}) -> tensor<i1>\n"
    "%r = stablehlo.select %p, %a, %b : tensor<i1>, {0}",
    "a product": "%r = stablehlo.multiply %a, %b : {0}",
}


@pytest.mark.parametrize(("storage", "low", "high"), [("i4", -8, 7), ("u4", 0, 15), ("u2", 0, 3)])
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(
    ("op", "sizes", "attribute"),
    [("reduce", "", "dimensions"), ("reduce_window", "4x", "window_dimensions")],
)
def test_any_body_makes_the_storage_that_a_caller_sees(
    storage: str, low: int, high: int, body: str, op: str, sizes: str, attribute: str
) -> None:
    given, scalar, result = (quantized(shape, storage) for shape in ("6x", "", sizes))
    program = parse_program(f"""module attributes {{zeropoint.profile = "fixed32"}} {{
    func.func @main(%x: {given}, %z: {scalar}) -> {result} {{
      %0 = "stablehlo.{op}"(%x, %z) ({{
      ^bb0(%a: {scalar}, %b: {scalar}):
        {BODIES[body].format(scalar)}
        stablehlo.return %r : {scalar}
      }}) {{{attribute} = array<i64: {3 if sizes else 0}>}} : ({given}, {scalar}) -> {result}
      return %0 : {result}
    }}
    }}""")
    integers = lower(program)
    assert not float_ops(integers)
    dtype = np.int8 if storage[0] == "i" else np.uint8
    for seed in range(3):
        x = np.random.default_rng(seed).integers(low, high + 1, 6).astype(dtype)
        values = [x, np.array(1, dtype)]
        expected = Interpreter(program).run_values(values)[0]
        np.testing.assert_array_equal(Interpreter(integers).run_values(values)[0], expected)
        if "selection" in body:
            wanted = [max(1, *x[n : n + 3].tolist()) for n in range(4)] if sizes else max(1, *x.tolist())
            assert expected.tolist() == wanted


def test_native_code_dequantizes_an_argument_below_a_byte() -> None:
    program = f"""func.func @main(%x: {quantized("3x8x", "u4")}) -> tensor<3x8xf32> {{
      %0 = stablehlo.uniform_dequantize %x : ({quantized("3x8x", "u4")}) -> tensor<3x8xf32>
      return %0 : tensor<3x8xf32>
    }}"""
    x = np.arange(24, dtype=np.uint8).reshape(3, 8) % 16
    found = NativeProgram(integer_program(parse_program(program)))({"arg0": x})["result0"]
    assert found.tolist() == ((x.astype(int) - 1) / 2).tolist()


def test_unsigned_storage_that_a_float_op_makes_has_its_bounds() -> None:
    kinds = [quantized("16x", "u4", "0.5:3"), quantized("16x", "u4", "0.7:9")]
    text = f"""module attributes {{zeropoint.profile = "onnxruntime"}} {{
    func.func @main(%x: {kinds[0]}) -> {kinds[1]} {{
      %0 = stablehlo.add %x, %x : ({kinds[0]}, {kinds[0]}) -> {kinds[1]}
      return %0 : {kinds[1]}
    }}}}"""
    given, x = parse_program(text), np.arange(16, dtype=np.uint8)
    results = [Interpreter(each).run_values([x])[0] for each in (given, integer_program(given))]
    np.testing.assert_array_equal(*results)
