"""`qcast`, `dcast`, `scast`: every example of the quant dialect document, every sentence of the verifiers."""

import pytest
from xdsl.utils.exceptions import DiagnosticException

from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import InvalidProgram

U = "!quant.uniform<i8:f32, 1.0>"

# (op, input type, result type) of the examples that the document calls correct, and of its op sections.
CORRECT = [
    ("qcast", "tensor<2xf32>", "tensor<2x!quant.uniform<i8:f32:0, {1.0, 2.0}>>"),
    ("qcast", "tensor<1x2xf32>", "tensor<1x2x!quant.uniform<i8:f32:1, {1.0, 2.0}>>"),
    ("qcast", "tensor<?x3xf32>", "tensor<?x3x!quant.uniform<i8:f32:1, {2.0, 3.0, 4.0}>>"),
    ("qcast", "tensor<6x2xf32>", "tensor<6x2x!quant.uniform<i8:f32:{0:3}, {{1.0}, {3.0}}>>"),
    ("qcast", "tensor<6x2xf32>", "tensor<6x2x!quant.uniform<i8:f32:{}, {{1.0}}>>"),
    ("qcast", "tensor<6x2xf32>", "tensor<6x2x!quant.uniform<i8:f32:{0:3}, {{1.0}, {2.0}}>>"),
    ("qcast", "tensor<2x2xf32>", "tensor<2x2x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0}, {2.0}}>>"),
    (
        "qcast",
        "tensor<3x4xf32>",
        "tensor<3x4x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0:1, 2.0:2}, {3.0:3, 4.0:4}, {5.0:5, 6.0:6}}>>",
    ),
    (
        "qcast",
        "tensor<?x?xf32>",
        "tensor<?x?x!quant.uniform<u16:f32:{0:1, 1:2}, {{1.0:1, 2.0:2}, {3.0:3, 4.0:4}}>>",
    ),
    ("dcast", "!quant.uniform<i8:f32, 2.0>", "f32"),
    ("dcast", "tensor<?x!quant.uniform<i8:f32, 2.0>>", "tensor<?xf32>"),
    ("dcast", "tensor<*x!quant.uniform<i8:f32:1, {2.0, 3.0}>>", "tensor<*xf32>"),
    ("qcast", "f32", "!quant.uniform<i8:f32, 2.0>"),
    ("qcast", "tensor<?xf32>", "tensor<?x!quant.uniform<i8:f32, 2.0>>"),
    ("qcast", "tensor<*xf32>", "tensor<*x!quant.uniform<i8:f32:1, {2.0, 3.0}>>"),
    ("scast", "!quant.uniform<i8:f32, 2.0>", "i8"),
    ("scast", "tensor<?x!quant.uniform<i8:f32, 2.0>>", "tensor<?xi8>"),
    ("scast", "tensor<*xi8>", "tensor<*x!quant.uniform<i8:f32:1, {2.0, 3.0}>>"),
    ("scast", "!quant.uniform<u8:f32, 2.0>", "i8"),
    ("qcast", "f32", "!quant.any<i8:f32>"),
    ("qcast", "f32", "!quant.calibrated<f32<-1.0:1.0>>"),
    ("qcast", "bf16", "!quant.uniform<f8E5M2:bf16, 2.0>"),
]

SHAPES = "failed to verify that input and result are both scalars or both tensors with matching shape"
ONE_OF_EACH = "failed to verify that input must be integer and result must be quantized, or vice versa"
EXPRESSED = "expressed type in quantized type expected to match float type"
STORAGE = "storage type in quantized type expected to match integer type"
SIGNLESS = "must be scalar or tensor of signless integer or quantized type"

# The examples that the document calls incorrect come first of each group.
INCORRECT = [
    # Per-axis quantization integrity.
    ("qcast", "f32", "!quant.uniform<i8:f32:0, {1.0, 2.0}>", "scalar types may not use per-axis quantization"),
    (
        "qcast",
        "tensor<1x2xf32>",
        "tensor<1x2x!quant.uniform<i8:f32:3, {1.0, 2.0}>>",
        "quantized dimension must be less than tensor rank",
    ),
    (
        "qcast",
        "tensor<?x3xf32>",
        "tensor<?x3x!quant.uniform<i8:f32:1, {1.0, 2.0, 3.0, 4.0}>>",
        "quantized dimension size does not match number of scales",
    ),
    ("scast", "i8", "!quant.uniform<i8:f32:0, {1.0}>", "scalar types may not use per-axis quantization"),
    (
        "dcast",
        "tensor<3x!quant.uniform<i8:f32:0, {1.0}>>",
        "tensor<3xf32>",
        "quantized dimension size does not match number of scales",
    ),
    # Sub-channel quantization integrity.
    (
        "qcast",
        "f32",
        "!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0}, {2.0}}>",
        "scalar types may not use sub-channel quantization",
    ),
    (
        "qcast",
        "tensor<*xf32>",
        "tensor<*x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0}, {2.0}}>>",
        "tensor containing the sub-channel quantized type must be ranked",
    ),
    (
        "qcast",
        "tensor<2x2xf32>",
        "tensor<2x2x!quant.uniform<i8:f32:{2:1, 1:2}, {{1.0}, {2.0}}>>",
        "quantized dimension 2 must be less than tensor rank 2",
    ),
    (
        "qcast",
        "tensor<2x2xf32>",
        "tensor<2x2x!quant.uniform<i8:f32:{-1:1, 1:2}, {{1.0}, {2.0}}>>",
        "illegal quantized dimension: -1",
    ),
    (
        "qcast",
        "tensor<6x2xf32>",
        "tensor<6x2x!quant.uniform<i8:f32:{0:-1}, {{1.0, 2.0}}>>",
        "illegal block size: -1",
    ),
    (
        "qcast",
        "tensor<6x2xf32>",
        "tensor<6x2x!quant.uniform<i8:f32:{0:8}, {{1.0, 2.0}}>>",
        "tensor dimension size 6 at axis 0 must be divisible by the corresponding block size 8",
    ),
    (
        "qcast",
        "tensor<6x2xf32>",
        "tensor<6x2x!quant.uniform<i8:f32:{0:4}, {{1.0, 2.0}}>>",
        "tensor dimension size 6 at axis 0 must be divisible by the corresponding block size 4",
    ),
    (
        "qcast",
        "tensor<6x2xf32>",
        "tensor<6x2x!quant.uniform<i8:f32:{0:3}, {1.0, 2.0}>>",
        "Rank of scales 1 must match the rank of the tensor 2",
    ),
    (
        "qcast",
        "tensor<6x0xf32>",
        "tensor<6x0x!quant.uniform<i8:f32:{0:3}, {{1.0}, {2.0}}>>",
        "tensor dimension size of zero is not allowed with sub-channel quantization",
    ),
    # Operands and results.
    ("qcast", "i8", U, "'quant.qcast' op operand #0 must be scalar or tensor of floating-point, but got 'i8'"),
    ("qcast", "f32", "f32", "'quant.qcast' op result #0 must be scalar or tensor of quantized type, but got 'f32'"),
    ("dcast", "f32", "f32", "'quant.dcast' op operand #0 must be scalar or tensor of quantized type, but got 'f32'"),
    ("dcast", U, U, "'quant.dcast' op result #0 must be scalar or tensor of floating-point, but got '!quant.uniform"),
    ("scast", U, "f32", f"'quant.scast' op result #0 {SIGNLESS}, but got 'f32'"),
    ("scast", "index", U, f"'quant.scast' op operand #0 {SIGNLESS}, but got 'index'"),
    ("scast", "!quant.uniform<si8:f32, 1.0>", "si8", f"'quant.scast' op result #0 {SIGNLESS}, but got 'si8'"),
    ("qcast", "tensor<f32>", U, f"'quant.qcast' op {SHAPES}"),
    ("qcast", "tensor<2xf32>", f"tensor<?x{U}>", f"'quant.qcast' op {SHAPES}"),
    ("qcast", "tensor<*xf32>", f"tensor<?x{U}>", f"'quant.qcast' op {SHAPES}"),
    ("scast", "tensor<2xi8>", f"tensor<3x{U}>", f"'quant.scast' op {SHAPES}"),
    ("qcast", "f64", U, EXPRESSED),
    ("qcast", "f32", "!quant.any<i8>", EXPRESSED),
    ("dcast", U, "f64", EXPRESSED),
    ("scast", "i8", "i8", f"'quant.scast' op {ONE_OF_EACH}"),
    ("scast", U, U, f"'quant.scast' op {ONE_OF_EACH}"),
    ("scast", U, "i16", STORAGE),
    ("scast", "!quant.uniform<si8:f32, 1.0>", "i8", STORAGE),
    ("scast", "!quant.uniform<f8E4M3FN:f32, 1.0>", "i8", STORAGE),
    ("scast", "!quant.calibrated<f32<-1.0:1.0>>", "i8", STORAGE),
]

# Upstream refuses with a sentence that gives the size that is expected in place of the size that was found.
MISCOUNTED = (
    "qcast",
    "tensor<6x2xf32>",
    "tensor<6x2x!quant.uniform<i8:f32:{0:3}, {{1.0, 2.0}}>>",
    "dimension size 1 of scales tensor at axis 0 should match (tensor dimension at axis / block sizes at axis) = 2",
)


def program(op: str, given: str, result: str) -> str:
    return f"""func.func @f(%arg0: {given}) -> {result} {{
  %0 = quant.{op} %arg0 : {given} to {result}
  return %0 : {result}
}}"""


@pytest.mark.parametrize(("op", "given", "result"), CORRECT)
def test_a_correct_example_is_accepted_and_reads_back_as_itself(parse_module, op, given, result):
    module = parse_module(program(op, given, result))
    assert str(parse_module(str(module))) == str(module)


@pytest.mark.parametrize(("op", "given", "result", "sentence"), [*INCORRECT, MISCOUNTED])
def test_an_incorrect_example_is_refused(parse_module, op, given, result, sentence):
    with pytest.raises(Exception) as error:  # noqa: PT011  (a parser's or a verifier's error, by the sentence)
        parse_module(program(op, given, result))
    assert sentence in str(error.value)
    assert isinstance(error.value, DiagnosticException) or "ParseError" in type(error.value).__name__


@pytest.mark.parametrize(("op", "given", "result"), CORRECT)
def test_upstream_accepts_and_prints_the_same(upstream, parse_module, op, given, result):
    text = upstream.module(program(op, given, result)).text
    assert text is not None
    printed = str(parse_module(program(op, given, result))).replace("builtin.module", "module")
    assert printed.replace("func.return", "return") == text.rstrip("\n")


@pytest.mark.parametrize(("op", "given", "result", "sentence"), INCORRECT)
def test_upstream_refuses_with_the_same_sentence(upstream, op, given, result, sentence):
    assert sentence in upstream.module(program(op, given, result)).error


def test_upstream_miscounts_the_scales_that_it_refuses(upstream):
    op, given, result, sentence = MISCOUNTED
    assert upstream.module(program(op, given, result)).error == sentence.replace("size 1", "size 2", 1)


HELD = [
    ("vector<2x!quant.uniform<i8:f32, 1.0>>", "failed to verify 'elementType': VectorElementTypeInterface instance"),
    ("memref<2x!quant.uniform<i8:f32, 1.0>>", "invalid memref element type"),
    ("memref<2x!quant.calibrated<f32<-1.0:1.0>>>", "invalid memref element type"),
]


@pytest.mark.parametrize(("holder", "sentence"), HELD)
@pytest.mark.parametrize("function", ["func.func private @f({})", "func.func @f(%x: {}) {{ return }}"])
def test_only_tensors_hold_quantized_elements(upstream, function, holder, sentence):
    text = function.format(holder)
    with pytest.raises(InvalidProgram) as error:
        parse_program(text)
    assert sentence in str(error.value)
    assert upstream.module(text).error == sentence
