"""Elements of `dense<...>`: bits, NaN, complex numbers, floats of a byte and less."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.utils.exceptions import ParseError

from oracle import mlir
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program
from zeropoint.ir.weights import inline_array


def _program(elements: str) -> str:
    return f"func.func @main() {{\n  %0 = stablehlo.constant {elements}\n  return\n}}"


def _array(elements: str) -> Array:
    (op,) = (op for op in parse_program(_program(elements)).module.walk() if isinstance(op, ConstantOp))
    return inline_array(op.value)


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ("dense<0x7F800001> : tensor<f32>", "0100807f"),
        ("dense<[0x7FC00001, 1.0]> : tensor<2xf32>", "0100c07f 0000803f"),
        ("dense<0xFFC00001> : tensor<2xf32>", "0100c0ff 0100c0ff"),
        ("dense<[0x7D, 0x7E, 0x7F]> : tensor<3xf8E5M2>", "7d 7e 7f"),
        ("dense<0x7D01> : tensor<f16>", "017d"),
        ("dense<(0x7FC00001, 1.0)> : tensor<complex<f32>>", "0100c07f 0000803f"),
        ("dense<[(1.0, 0x80000000), (2, -1.0)]> : tensor<2xcomplex<f32>>", "0000803f 00000080 00000040 000080bf"),
        ("dense<[0x0F, 1.5]> : tensor<2xf4E2M1FN>", "0f 03"),
    ],
)
def test_bits_stay_as_they_are_given(elements: str, expected: str) -> None:
    assert _array(elements).tobytes().hex() == expected.replace(" ", "")
    mlir.roundtrip(_program(elements))


@pytest.mark.parametrize(
    "elements", ["dense<true> : tensor<i1>", "dense<true> : tensor<2xi1>", 'dense<"0xFF02"> : tensor<2xi1>']
)
def test_booleans_are_bytes_of_0_and_1(elements: str) -> None:
    assert set(_array(elements).tobytes()) == {1}


def test_both_parts_of_a_complex_number_may_be_spelled_differently() -> None:
    assert _array("dense<(1, 2.5)> : tensor<2xcomplex<f64>>").tolist() == [1 + 2.5j, 1 + 2.5j]
    nan = _array("dense<(0x7FF8000000000000, 1.0)> : tensor<complex<f64>>")
    assert np.isnan(nan.real)
    assert nan.imag == 1


@pytest.mark.parametrize(
    ("elements", "message"),
    [
        ("dense<1.0> : tensor<complex<f32>>", "expected '(', because the elements are complex numbers"),
        ("dense<(1.0, 2.0)> : tensor<f32>", "No conversion from complex to float"),
        ("dense<(1.0)> : tensor<complex<f32>>", "Expected ','"),
        ("dense<0x100> : tensor<f8E5M2>", "hexadecimal float constant out of range for type"),
        ("dense<(0x1FFFFFFFF, 1.0)> : tensor<complex<f32>>", "hexadecimal float constant out of range for type"),
    ],
)
def test_other_elements_are_refused_as_upstream_refuses_them(elements: str, message: str) -> None:
    with pytest.raises(ParseError) as error:
        parse_program(_program(elements))
    assert message in str(error.value)
    with pytest.raises(mlir.Rejected):
        mlir.parse(_program(elements))
