"""Programs as text: locations, resources, constants, numbers; each compared with C++ MLIR where it has a say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import DenseResourceAttr, NameLoc, NoneAttr, StringAttr, bf16, f16, f32, f64
from xdsl.utils.exceptions import ParseError, VerifyException

from ir.constant_programs import constant, constant_program, constants
from oracle import mlir
from zeropoint.ir.floats import format_float
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.tensors import element_dtype
from zeropoint.ir.text import parse_program, print_program
from zeropoint.ir.weights import Weights, inline_array

NAMED = """builtin.module {
  func.func @main(%x: tensor<2xf32> {zeropoint.name = "x"} loc("x"), %y: tensor<2xf32> loc(unknown)) -> tensor<2xf32> {
    %0 = stablehlo.add %x, %y : tensor<2xf32> loc("block/add")
    %1 = stablehlo.abs %0 : tensor<2xf32>
    %2 = quant.region "k"(%a: tensor<2xf32> loc("inner") = %1) -> tensor<2xf32> {
      %3 = stablehlo.tanh %a : tensor<2xf32> loc("net.onnx":7:3)
      quant.return %3 : tensor<2xf32>
    } loc("tanh")
    func.return %2 : tensor<2xf32>
  } loc("graph")
}
"""


# Locations


def test_known_locations_are_printed_and_no_others() -> None:
    assert print_program(parse_program(NAMED), locations=True) == NAMED


def test_without_locations_none_is_printed() -> None:
    assert "loc(" not in print_program(parse_program(NAMED))


def test_locations_are_where_they_were_said() -> None:
    program = parse_program(NAMED)
    assert program.entry.args[0].location == NameLoc(StringAttr("x"), NoneAttr())
    first = program.entry.first_op
    assert first is not None
    assert isinstance(first.location, NameLoc)
    assert first.location.desc == StringAttr("block/add")


def test_locations_go_through_upstream() -> None:
    mlir.roundtrip(NAMED)


def test_aliases_that_upstream_prints_after_their_use_are_read() -> None:
    text = mlir.for_upstream(parse_program(NAMED), locations=True)
    debug = mlir.parse(text, allow_unregistered=True).debug
    assert "loc(#loc" in debug
    ours = print_program(parse_program(debug), locations=True)
    assert 'loc("block/add")' in ours
    assert 'loc("net.onnx":7:3)' in ours


def test_nested_locations_go_through_upstream() -> None:
    nested = 'callsite("f"("a.py":1:2) at fused["g", "b.py":3:4])'
    text = NAMED.replace('"block/add"', nested)
    assert f"loc({nested})" in print_program(mlir.roundtrip(text), locations=True)


def test_an_alias_that_is_not_defined_is_an_error() -> None:
    with pytest.raises(ParseError, match="undefined symbol alias '#loc1'"):
        parse_program(NAMED.replace('"block/add"', "#loc1"))


def test_an_alias_that_is_defined_twice_is_an_error() -> None:
    text = '#loc1 = loc("a")\n#loc1 = loc("b")\n' + NAMED
    with pytest.raises(ParseError, match="re-declaration of alias '#loc1'"):
        parse_program(text)


def test_other_aliases_are_read_where_they_stand() -> None:
    text = '!t = tensor<2xf32>\n#here = loc("here")\nfunc.func @main(%x: !t) {\n  func.return loc(#here)\n}'
    assert '@main(%x: tensor<2xf32>) {\n    func.return loc("here")' in print_program(
        parse_program(text), locations=True
    )


# Resources


def test_inline_weights_are_read_by_upstream_and_by_us() -> None:
    arrays = [np.arange(100, dtype=np.float32).reshape(4, 25), np.arange(-50, 50, dtype=np.int8)]
    text = print_program(constant_program(*arrays), inline_weights=True)
    assert "dialect_resources" in mlir.canonical(text)
    for ours, expected in zip(constants(parse_program(text)), arrays, strict=True):
        assert ours.dtype == expected.dtype
        assert np.array_equal(ours, expected)


def test_upstreams_print_of_inline_weights_holds_the_same_data() -> None:
    array = np.linspace(-1, 1, 70, dtype=np.float32)
    text = mlir.canonical(print_program(constant_program(array), inline_weights=True))
    assert np.array_equal(constants(parse_program(text))[0], array)


def test_equal_weights_are_one() -> None:
    array = np.arange(65, dtype=np.float32)
    text = print_program(constant_program(array, array), inline_weights=True)
    assert text.count("0x04000000") == 1
    assert len(parse_program(text).weights) == 1


def test_two_programs_with_one_handle_stay_apart() -> None:
    def program(blob: str) -> Program:
        resources = f'{{-# dialect_resources: {{ builtin: {{ w: "0x01000000{blob}" }} }} #-}}'
        return parse_program(constant("dense_resource<w> : tensor<2xi8>") + resources)

    first, second = program("0102"), program("0304")
    assert constants(first)[0].tolist() == [1, 2]
    assert constants(second)[0].tolist() == [3, 4]


def test_weights_given_to_the_parser_are_not_changed() -> None:
    weights = Weights()
    numbers = ", ".join(map(str, range(65)))
    program = parse_program(constant(f"dense<[{numbers}]> : tensor<65xi32>"), weights=weights)
    assert len(program.weights) == 1
    assert len(weights) == 0


def test_a_blob_that_does_not_fit_its_type() -> None:
    resources = '{-# dialect_resources: { builtin: { w: "0x01000000010203" } } #-}'
    with pytest.raises(ValueError, match=r"found 3 bytes in the blob w, expected 2 for its use as tensor<2xi8>"):
        parse_program(constant("dense_resource<w> : tensor<2xi8>") + resources)


def test_a_blob_that_is_no_hexadecimal_text() -> None:
    resources = '{-# dialect_resources: { builtin: { w: "0102" } } #-}'
    with pytest.raises(ParseError, match=r'found "0102\.\.\.", expected hexadecimal text that starts with "0x"'):
        parse_program(constant("dense_resource<w> : tensor<2xi8>") + resources)


def test_a_handle_without_data_cannot_be_put_inline() -> None:
    program = parse_program(constant("dense_resource<w> : tensor<2xi8>"))
    assert "dense_resource<w>" in print_program(program)
    with pytest.raises(ValueError, match="found dense_resource<w> with no data"):
        print_program(program, inline_weights=True)


# Constants


def test_large_constants_move_behind_handles() -> None:
    program = parse_program(constant("dense<1.5> : tensor<5x13xf32>"))
    op = next(op for op in program.module.walk() if isinstance(op, ConstantOp))
    assert isinstance(op.value, DenseResourceAttr)


def test_large_constants_keep_their_elements() -> None:
    array = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32)
    text = constant(f'dense<"0x{array.tobytes().hex()}"> : tensor<3x50xf32>')
    assert np.array_equal(constants(parse_program(text))[0], array)
    assert np.array_equal(constants(parse_program(mlir.canonical(text)))[0], array)


def test_small_constants_stay() -> None:
    text = print_program(parse_program(constant("dense<2> : tensor<64xi8>")))
    assert "dense<2> : tensor<64xi8>" in text


@pytest.mark.parametrize(
    ("elements", "bits"),
    [
        ("dense<0x7F800000> : tensor<f32>", "0000807f"),
        ("dense<[0x4CEB79A3, 0xFF800000]> : tensor<2xf32>", "a379eb4c000080ff"),
        ("dense<0x419D6F3454000000> : tensor<f64>", "00000054346f9d41"),
        ("dense<[[0x7C00], [0x7E00]]> : tensor<2x1xf16>", "007c007e"),
        ("dense<0x7FC0> : tensor<bf16>", "c07f"),
        ("dense<0x7F> : tensor<i8>", "7f"),
    ],
)
def test_hexadecimal_elements_are_the_bits(elements: str, bits: str) -> None:
    op = next(op for op in mlir.roundtrip(constant(elements)).module.walk() if isinstance(op, ConstantOp))
    assert inline_array(op.value).tobytes().hex() == bits


def test_a_hexadecimal_float_too_long_for_its_type() -> None:
    text = constant("dense<0x100000000> : tensor<f32>")
    with pytest.raises(ParseError, match="hexadecimal float constant out of range for type"):
        parse_program(text)
    with pytest.raises(mlir.Rejected):
        mlir.parse(text)


def test_zeros_of_both_signs_stay_two() -> None:
    line = "dense<[0.000000e+00, -0.000000e+00]> : tensor<2xf32>"
    assert line in print_program(mlir.roundtrip(constant(line)))


def test_not_a_number_everywhere_is_printed_once() -> None:
    line = "dense<0x7FC00000> : tensor<3xf32>"
    assert line in print_program(mlir.roundtrip(constant(line)))


def test_a_signalling_nan_is_printed_bit_for_bit() -> None:
    program = constant_program(np.array([0x7F81, 0xFFC1], np.uint16).view(element_dtype(bf16)))
    assert "dense<[0x7F81, 0xFFC1]> : tensor<2xbf16>" in print_program(program)


# Numbers


def upstream_texts(values: np.ndarray, name: str) -> list[str]:
    bits = [f"0x{int.from_bytes(value.tobytes(), 'little'):X} : {name}" for value in values]
    text = mlir.canonical(f"module attributes {{zeropoint.values = [{', '.join(bits)}]}} {{}}")
    entries = text[text.index("[") + 1 : text.index("]")].split(", ")
    return [entry.removesuffix(f" : {name}") for entry in entries]


@pytest.mark.parametrize("float_type", [f16, bf16])
def test_every_16_bit_float_prints_as_upstream_prints_it(float_type) -> None:
    dtype = element_dtype(float_type)
    values = np.arange(0, 1 << 16, 3, dtype=np.uint16).view(dtype)
    values = values[~np.isnan(values.astype(np.float32))]
    assert [format_float(float(value), float_type) for value in values] == upstream_texts(values, str(float_type))


@pytest.mark.parametrize("float_type", [f32, f64])
def test_random_and_round_floats_print_as_upstream_prints_them(float_type) -> None:
    random, dtype = np.random.default_rng(1), element_dtype(float_type)
    bits = random.integers(0, 256, (1000, dtype.itemsize), np.uint8).view(dtype).reshape(-1)
    rounded = np.round(random.standard_normal(1000) * 10.0 ** random.integers(-6, 12, 1000), 2).astype(dtype)
    integers = random.integers(-(2**31), 2**31, 1000).astype(dtype)
    powers = (10.0 ** np.arange(-37, 38)).astype(dtype)
    values = np.concatenate([bits[~np.isnan(bits)], rounded, integers, powers])
    assert [format_float(float(value), float_type) for value in values] == upstream_texts(values, str(float_type))


@given(st.lists(st.floats(width=32), min_size=1, max_size=64))
def test_float_constants_read_back_bit_for_bit(values: list[float]) -> None:
    array = np.array(values, np.float32)
    again = constants(parse_program(print_program(constant_program(array))))[0]
    assert again.tobytes() == array.tobytes()


# Forms


def test_dictionaries_are_printed_in_alphabetical_order() -> None:
    text = "module attributes {zeropoint.b = 1 : i32, zeropoint.a} {\n}"
    assert "{zeropoint.a, zeropoint.b = 1 : i32}" in print_program(parse_program(text))
    assert "{zeropoint.a, zeropoint.b = 1 : i32}" in mlir.canonical(text)


def test_the_generic_form_is_read() -> None:
    program = parse_program(NAMED)
    generic = print_program(program, generic=True)
    assert '"stablehlo.add"(%x, %y)' in generic
    assert print_program(parse_program(generic)) == print_program(program)


def test_a_program_that_does_not_verify_is_rejected_with_the_op_and_its_place() -> None:
    text = """func.func @main(%x: tensor<2xf32>) {
      %0 = stablehlo.add %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<3xf32> loc("block/add")
      func.return
    }"""
    with pytest.raises(VerifyException) as error:
        parse_program(text)
    assert str(error.value) == "stablehlo.add 'block/add': requires the same shape for all operands and results"
