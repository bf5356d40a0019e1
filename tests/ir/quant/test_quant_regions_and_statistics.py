"""Regions, statistics, coupling, fake quantization: text round trips and one rejection per sentence.

The ops are those of the older upstream dialect, which current C++ MLIR no longer has; the sentences are its own.
"""

import re

import pytest
from xdsl.builder import Builder
from xdsl.dialects import test
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType, f32
from xdsl.utils.exceptions import ParseError, VerifyException

from zeropoint.ir.quant import (
    ConstFakeQuantOp,
    ConstFakeQuantPerAxisOp,
    CoupledRefOp,
    QuantizeRegionOp,
    ReturnOp,
    StatisticsOp,
    StatisticsRefOp,
    Storage,
    UniformQuantizedType,
)
from zeropoint.ir.text import parse_program, print_program

T = "tensor<8x4x3xf32>"
U = "!quant.uniform<i8:f32, 1.0>"


def region(inputs: str, outputs: str, port: str = "tensor<4xf32>", returned: str = "%a") -> str:
    return f"""func.func @f(%x: {port}, %y: {port}) -> {port} {{
  %0 = "quant.region"(%x, %y) ({{
  ^bb0(%a: {port}, %b: {port}):
    "quant.return"({returned}) : ({port}) -> ()
  }}) {{input_specs = [{inputs}], output_specs = [{outputs}], logical_kernel = "xyz"}} : ({port}, {port}) -> {port}
  return %0 : {port}
}}"""


def unary(op: str, attributes: str, given: str = T, result: str | None = None) -> str:
    result = given if result is None else result
    return f"""func.func @f(%x: {given}) -> {result} {{
  %0 = "quant.{op}"(%x) {{{attributes}}} : ({given}) -> {result}
  return %0 : {result}
}}"""


LAYER = "layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>"
AXIS = "axisStats = dense<[[-1.0, 1.0], [-2.0, 2.0], [-0.5, 0.5]]> : tensor<3x2xf32>"
RANGE = "min = 0.0 : f32, max = 6.0 : f32"

ACCEPTED = [
    region("f32, f32", "f32"),
    region(f"{U}, f32", U),
    region(f"{U}, !quant.uniform<i32:f32, 2.0>", "!quant.any<i8:f32>"),
    region("!quant.any<i8>, !quant.calibrated<f32<-1.0:1.0>>", "!quant.none<f32>"),
    unary("stats_ref", 'statsKey = "conv1"'),
    unary("coupled_ref", 'coupledKey = "gate"'),
    unary("stats", LAYER),
    unary("stats", f"{LAYER}, {AXIS}, axis = 2 : i64"),
    unary("stats", f"{LAYER}, {AXIS}, axis = 1 : i64", "tensor<?x?xf32>"),
    unary("const_fake_quant", f"{RANGE}, num_bits = 8 : i64"),
    unary("const_fake_quant", f"{RANGE}, num_bits = 4 : i64, narrow_range = true, is_signed = true", "tensor<*xf32>"),
    unary(
        "const_fake_quant_per_axis",
        "min = [0.0 : f32, -1.0 : f32, 0.0 : f32], max = [1.0 : f32, 2.0 : f32, 3.0 : f32], axis = 2 : i64, "
        "num_bits = 8 : i64",
    ),
]

REFUSED = [
    (
        region("f32", "f32"),
        "'quant.region' op has unmatched operands/results number and spec attributes number",
    ),
    (
        region(f"{U}, !quant.uniform<i32:f16, 3.0>", "f32"),
        "'quant.region' op has incompatible specification !quant.uniform<i32:f16, 3.000000e+00> and input type "
        "'tensor<4xf32>'",
    ),
    (
        region(f"{U}, i32", "f32"),
        "'quant.region' op has incompatible specification i32 and input type 'tensor<4xf32>'",
    ),
    (
        region("f32, f32", "!quant.uniform<i32:f16, 4.0>"),
        "'quant.region' op has incompatible specification !quant.uniform<i32:f16, 4.000000e+00> and output type "
        "'tensor<4xf32>'",
    ),
    (unary("stats", LAYER, "f32"), "'quant.stats' op arg needs to be tensor type."),
    (unary("stats", LAYER, T, "tensor<8xf32>"), "requires the same type for all operands and results"),
    (
        unary("stats", "layerStats = dense<[-1, 1]> : tensor<2xi8>"),
        "'quant.stats' op layerStats must have a floating point element type",
    ),
    (
        unary("stats", "layerStats = dense<[[-1.0, 1.0]]> : tensor<1x2xf32>"),
        "'quant.stats' op layerStats must have shape [2]",
    ),
    (
        unary("stats", "layerStats = dense<[-1.0, 1.0, 2.0]> : tensor<3xf32>"),
        "'quant.stats' op layerStats must have shape [2]",
    ),
    (unary("stats", f"{LAYER}, {AXIS}"), "'quant.stats' op axis must be specified for axisStats"),
    (unary("stats", f"{LAYER}, {AXIS}, axis = 3 : i64"), "'quant.stats' op axis 3 must be less than tensor rank 3"),
    (
        unary("stats", f"{LAYER}, axisStats = dense<[[-1, 1]]> : tensor<1x2xi8>, axis = 2 : i64"),
        "'quant.stats' op axisStats must have a floating point element type",
    ),
    (
        unary("stats", f"{LAYER}, {AXIS}, axis = 1 : i64"),
        "'quant.stats' op axisStats must have shape [N,2] where N = the slice size defined by the axis dim",
    ),
    (
        unary("const_fake_quant", f"{RANGE}, num_bits = 8 : i64", "tensor<2xf16>"),
        "operand #0 must be tensor of 32-bit float values, but got 'tensor<2xf16>'",
    ),
    (
        unary("const_fake_quant", f"{RANGE}, num_bits = 33 : i64"),
        "'quant.const_fake_quant' op unsupported FakeQuant number of bits: 33",
    ),
    (
        unary("const_fake_quant", f"{RANGE}, num_bits = 1 : i64, narrow_range = true"),
        "'quant.const_fake_quant' op unsupported FakeQuant number of bits: 1",
    ),
    (
        unary("const_fake_quant", "min = 1.0 : f32, max = 0.0 : f32, num_bits = 8 : i64"),
        "'quant.const_fake_quant' op has min 1.0 above max 0.0",
    ),
    (
        unary("const_fake_quant_per_axis", "min = [0.0 : f32], max = [], axis = 0 : i64, num_bits = 8 : i64"),
        "'quant.const_fake_quant_per_axis' op mismatched per-axis min and max size: 1 vs. 0",
    ),
    (
        unary("const_fake_quant_per_axis", "min = [0.0 : f32], max = [1.0 : f32], axis = 3 : i64, num_bits = 8 : i64"),
        "'quant.const_fake_quant_per_axis' op quantized dimension must be less than tensor rank",
    ),
    (
        unary("const_fake_quant_per_axis", "min = [0.0 : f32], max = [1.0 : f32], axis = -1 : i64, num_bits = 8 : i64"),
        "'quant.const_fake_quant_per_axis' op illegal quantized dimension: -1",
    ),
    (
        unary("const_fake_quant_per_axis", "min = [0.0 : f32], max = [1.0 : f32], axis = 0 : i64, num_bits = 8 : i64"),
        "'quant.const_fake_quant_per_axis' op quantized dimension size does not match number of scales",
    ),
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_a_valid_op_reads_back_as_itself(parse_module, text):
    module = parse_module(text)
    again = parse_module(str(module))
    assert again.is_structurally_equivalent(module)


@pytest.mark.parametrize(("text", "sentence"), REFUSED)
def test_an_invalid_op_is_refused(parse_module, text, sentence):
    with pytest.raises(VerifyException) as error:
        parse_module(text)
    assert sentence in str(error.value)


def test_a_region_sees_nothing_from_outside(parse_module):
    with pytest.raises(VerifyException, match="using value defined out of its IsolatedFromAbove parent"):
        parse_module(region("f32, f32", "f32", returned="%x"))


def value(shape):
    return test.TestOp(result_types=[TensorType(f32, shape)]).results[0]


def test_a_region_must_return_its_result_types():
    given = value([4])
    op = QuantizeRegionOp([given], [TensorType(f32, [5])], "k", [f32], [f32])
    op.body.block.add_op(ReturnOp([op.body.block.args[0]]))
    with pytest.raises(
        VerifyException, match=r"returns \(tensor<4xf32>\), expected the result types \(tensor<5xf32>\)"
    ):
        op.verify()


def test_a_region_must_take_its_operand_types():
    op = QuantizeRegionOp([value([4])], [], "k", [f32], [])
    op.body.block.insert_arg(f32, 0)
    op.body.block.add_op(ReturnOp([]))
    with pytest.raises(VerifyException, match=r"has body arguments \(f32, tensor<4xf32>\), expected the operand types"):
        op.verify()


def test_a_region_must_end_in_return():
    op = QuantizeRegionOp([value([4])], [], "k", [f32], [])
    with pytest.raises(VerifyException, match=r"without 'quant.return'|terminator|at least one"):
        op.verify()


def test_constructors_make_valid_ops():
    x = value([2, 3])
    per_axis = DenseIntOrFPElementsAttr.from_list(TensorType(f32, [3, 2]), [-1.0, 1.0] * 3)
    ops = [
        StatisticsRefOp(x, "k"),
        StatisticsOp(x, (-1.0, 1.0)),
        StatisticsOp(x, (-1.0, 1.0), per_axis, 1),
        CoupledRefOp(x, "k"),
        ConstFakeQuantOp(x, 0.0, 6.0),
        ConstFakeQuantPerAxisOp(x, [0.0] * 3, [1.0] * 3, 1, 4, narrow_range=True, is_signed=True),
    ]
    for op in ops:
        op.verify()
    assert ops[-1].is_narrow
    assert ops[-1].is_signed_storage
    assert not ops[-2].is_narrow


def test_a_constructed_region_holds_its_specs():
    x = value([2, 3])
    spec = UniformQuantizedType.per_layer(Storage.of("i8"), 0.5)

    @Builder.implicit_region([x.type])
    def body(arguments):
        ReturnOp([arguments[0]])

    op = QuantizeRegionOp([x], [x.type], "identity", [spec], [spec], body)
    op.verify()
    assert op.input_specs.data == (spec,)


READABLE = """builtin.module {
  func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
    %0, %1 = quant.region "sum and difference"(%2: tensor<4xf32> = %x as !quant.uniform<i8:f32, 5.000000e-01>, \
%3: tensor<4xf32> = %y) -> (tensor<4xf32>, tensor<4xf32> as !quant.any<i8:f32>) attributes {zeropoint.a = 1 : i32} {
      %4 = stablehlo.add %2, %3 : tensor<4xf32>
      %5 = stablehlo.subtract %2, %3 : tensor<4xf32>
      quant.return %4, %5 : tensor<4xf32>, tensor<4xf32>
    }
    %6 = quant.region "nothing"(%7: tensor<4xf32> = %0) -> tensor<4xf32> {
      quant.return %7 : tensor<4xf32>
    }
    func.return %1 : tensor<4xf32>
  }
}
"""


def test_regions_have_a_syntax_with_the_specifications_at_their_ports() -> None:
    program = parse_program(READABLE)
    region = next(op for op in program.entry.ops if isinstance(op, QuantizeRegionOp))
    assert region.logical_kernel.data == "sum and difference"
    assert [str(spec) for spec in (*region.input_specs, *region.output_specs)] == [
        "!quant.uniform<i8:f32, 5.000000e-01>",
        "f32",
        "f32",
        "!quant.any<i8:f32>",
    ]
    assert parse_program(print_program(program, generic=True)).module.is_structurally_equivalent(program.module)
    printed = print_program(program)
    assert print_program(parse_program(printed)) == printed
    # The number of a value, which MLIR may give it anew, is all that may differ.
    assert re.sub(r"%\d+", "%n", printed) == re.sub(r"%\d+", "%n", READABLE)


@pytest.mark.parametrize(
    ("found", "wrong", "sentence"),
    [
        ('"sum and difference"(', "(", "string literal expected for the name of a kernel"),
        (" = %x as", " as", "Expected '='"),
        ("= %y)", "= %z)", "undefined|undeclared|was not defined|%z"),
        ("as !quant.any<i8:f32>)", "as !quant.any<i8:f16>)", "has incompatible specification"),
        ("-> (tensor<4xf32>, ", "-> (", "has 1 results, but was given 2 to bind"),
        ("attributes {zeropoint.a = 1 : i32}", "attributes {output_specs = []}", "output_specs"),
    ],
)
def test_a_region_that_is_written_wrongly_is_refused(found: str, wrong: str, sentence: str) -> None:
    assert found in READABLE
    with pytest.raises((ParseError, VerifyException), match=sentence):
        parse_program(READABLE.replace(found, wrong, 1))
