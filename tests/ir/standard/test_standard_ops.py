"""The ops of standard MLIR that xDSL lacks: text round trips, read by C++ MLIR too, and one rejection per sentence."""

import pytest
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.text import parse_program, print_program

TEXT = """func.func @f(%x: tensor<*xf32>, %i: tensor<2xi8>, %f: f64) -> tensor<?x2x?xf32> {
  %e = shape.shape_of %x : tensor<*xf32> -> tensor<?xindex>
  %c = arith.constant 1 : index
  %head, %tail = "shape.split_at"(%e, %c) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
  %n = shape.num_elements %head : tensor<?xindex> -> index
  %s = tensor.from_elements %n, %c, %n : tensor<3xindex>
  %r = tensor.reshape %x(%s) : (tensor<*xf32>, tensor<3xindex>) -> tensor<?x2x?xf32>
  %0 = arith.sitofp %i : tensor<2xi8> to tensor<2xf32>
  %1 = arith.uitofp %i : tensor<2xi8> to tensor<2xbf16>
  %2 = arith.fptosi %0 : tensor<2xf32> to tensor<2xi8>
  %3 = arith.fptoui %f : f64 to i4
  return %r : tensor<?x2x?xf32>
}"""


def test_the_text_reads_back_as_itself():
    printed = print_program(parse_program(TEXT))
    assert print_program(parse_program(printed)) == printed
    assert "arith.sitofp %i : tensor<2xi8> to tensor<2xf32>" in printed


@pytest.mark.parametrize(
    ("op", "given", "result"),
    [
        ("arith.fptosi", "tensor<2xf32>", "tensor<3xi8>"),
        ("arith.fptosi", "i8", "i8"),
        ("arith.sitofp", "tensor<2xi8>", "f32"),
        ("arith.uitofp", "f32", "i8"),
    ],
)
def test_a_cast_between_what_does_not_match_is_refused(op, given, result):
    text = f"func.func @f(%x: {given}) {{\n  %0 = {op} %x : {given} to {result}\n  return\n}}"
    with pytest.raises(VerifyException, match="are cast incompatible"):
        parse_program(text)


@pytest.mark.parametrize(
    ("given", "shape", "result", "sentence"),
    [
        ("f32", "tensor<1xindex>", "tensor<?xf32>", "takes and makes a tensor"),
        ("tensor<*xf32>", "tensor<1xindex>", "tensor<?xf64>", "element types of source and destination tensor types"),
        ("tensor<*xf32>", "tensor<1x1xindex>", "tensor<?xf32>", "shape operand must be a 1-D tensor"),
    ],
)
def test_a_reshape_of_another_kind_is_refused(given, shape, result, sentence):
    reshape = f"tensor.reshape %x(%s) : ({given}, {shape}) -> {result}"
    with pytest.raises(VerifyException, match=sentence):
        parse_program(f"func.func @f(%x: {given}, %s: {shape}) {{\n  %0 = {reshape}\n  return\n}}")
