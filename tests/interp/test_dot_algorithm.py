"""dot_general with an algorithm: precision types, products of parts, and what both accept."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from xdsl.utils.exceptions import ParseError, VerifyException

from interp.programs import execute
from oracle import mlir
from zeropoint.ir.text import parse_program, print_program


def _program(operand: str, accumulation: str, operations: int, *, components: int = 1, precision: str = "") -> str:
    entries = (
        f"lhs_precision_type = {operand}, rhs_precision_type = {operand}, accumulation_type = {accumulation}, "
        f"lhs_component_count = {components}, rhs_component_count = 1, num_primitive_operations = {operations}, "
        "allow_imprecise_accumulation = false"
    )
    return f"""func.func @main(%x: tensor<3x8xf32>, %y: tensor<8x2xf32>) -> tensor<3x2xf32> {{
      %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]{precision}, algorithm = <{entries}>
        : (tensor<3x8xf32>, tensor<8x2xf32>) -> tensor<3x2xf32>
      return %0 : tensor<3x2xf32>
    }}"""


X, Y = (
    np.random.default_rng(seed).standard_normal(shape).astype(np.float32) for seed, shape in ((0, (3, 8)), (1, (8, 2)))
)
EXACT = X.astype(np.float64) @ Y.astype(np.float64)


def _error(operand: str, accumulation: str, operations: int) -> float:
    return float(np.abs(execute(_program(operand, accumulation, operations), X, Y) - EXACT).max())


def test_operands_are_rounded_to_the_precision_type():
    narrow = [array.astype(ml_dtypes.bfloat16).astype(np.float32) for array in (X, Y)]
    np.testing.assert_allclose(execute(_program("bf16", "f32", 1), X, Y), narrow[0] @ narrow[1], rtol=1e-6)


def test_tf32_keeps_ten_bits_of_the_mantissa():
    x = np.zeros((3, 8), np.float32)
    x[:, 0] = [1 + 2**-10, 1 + 2**-11, 1 + 3 * 2**-11]
    y = np.zeros((8, 2), np.float32)
    y[0] = [1, 2]
    found = execute(_program("tf32", "f32", 1), x, y)
    assert found[:, 0].tolist() == [1 + 2**-10, 1.0, 1 + 2**-9]


def test_more_products_of_parts_come_nearer():
    errors = [_error("bf16", "f32", operations) for operations in (1, 3, 6)]
    assert errors[0] > 50 * errors[1] > 500 * errors[2]
    assert _error("tf32", "f32", 1) > 50 * _error("tf32", "f32", 3)


def test_the_sum_is_rounded_to_the_accumulation_type():
    found = execute(_program("f16", "f16", 1), X, Y)
    np.testing.assert_array_equal(found, found.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("precision", ["", ", precision = [DEFAULT, DEFAULT]"])
def test_the_text_is_upstreams(precision: str):
    text = _program("tf32", "f32", 1, precision=precision)
    line = next(line for line in mlir.canonical(text).splitlines() if "dot_general" in line)
    ours = next(line for line in print_program(mlir.roundtrip(text)).splitlines() if "dot_general" in line)
    assert ours.split("contracting")[1] == line.split("contracting")[1]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            _program("tf32", "f32", 1, precision=", precision = [HIGH, DEFAULT]"),
            "must specify DEFAULT precision config when algorithm is set.",
        ),
        (_program("tf32", "f32", 0), "num primitive operations must be positive"),
        (_program("tf32", "f32", 1, components=0), "lhs component count must be positive"),
        (
            _program("bf16", "f32", 1).replace("rhs_component_count = 1", "rhs_component_count = 0"),
            "rhs component count",
        ),
        (
            _program("tf32", "f32", 9),
            "dot algorithm not known to be supported on any hardware: {lhs:'tf32', rhs:'tf32', accum:'f32', "
            "lhs_components:1, rhs_components:1, primitive_ops:9, imprecise:0}",
        ),
    ],
)
def test_other_algorithms_are_refused_with_upstreams_sentence(text: str, sentence: str):
    with pytest.raises((ParseError, VerifyException)) as ours:
        parse_program(text)
    assert sentence in str(ours.value)
    with pytest.raises(mlir.Rejected) as theirs:
        mlir.parse(text)
    assert any(sentence in found for found in theirs.value.sentences)


OPERANDS = ["f8E4M3FN", "f8E8M0FNU", "bf16", "f16", "tf32", "f32", "f64", "i8"]


@pytest.mark.parametrize("operand", OPERANDS)
def test_both_know_the_same_algorithms(operand: str):
    for accumulation in ("bf16", "f16", "f32", "f64"):
        for operations in (1, 3, 6, 9):
            text = _program(operand, accumulation, operations)
            outcomes: list[bool] = []
            for parse in (parse_program, mlir.parse):
                try:
                    parse(text)
                    outcomes.append(True)
                except (ParseError, VerifyException, mlir.Rejected):
                    outcomes.append(False)
            assert outcomes[0] == outcomes[1], (operand, accumulation, operations)
