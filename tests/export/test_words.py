"""Bits of integers in .tflite files, exactly: LiteRT has an exclusive or and shifts to the right."""

from __future__ import annotations

import numpy as np
import pytest

from oracle.litert import evaluate
from zeropoint.export.litert.builder import ModelBuilder
from zeropoint.export.litert.emission import LitertEmission
from zeropoint.export.litert.floats import OPERATORS
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program

TYPES = {"i8": "int8", "ui8": "uint8", "i16": "int16", "i32": "int32"}
COUNTS = (0, 1, 3, 7, 8, 15, 16, 31, 32, 100)


def check(op: str, kind: str, second: np.ndarray | None, *, is_constant: bool = False) -> None:
    dtype = np.dtype(TYPES[kind])
    limits = np.iinfo(dtype)
    random = np.random.default_rng(0)
    values = random.integers(limits.min, limits.max + 1, (2, 4, 100), dtype=np.int64).astype(dtype)
    values[..., :4] = [limits.min, limits.max, 0, 1]
    values[1, 0, :4] = values[0, 0, :4]
    values = values.reshape(2, 400)
    if is_constant:
        assert second is not None
        values[1] = np.resize(second, 400)
    shape = f"tensor<400x{kind}>"
    given = "%a" if second is None and op == "not" else "%a, %b"
    constant = f"%b = stablehlo.constant dense<{values[1].tolist()}> : {shape}\n" if is_constant else ""
    arguments = f"%a: {shape}" + ("" if is_constant else f", %b: {shape}")
    body = f"{constant}%y = stablehlo.{op} {given} : {shape}\nreturn %y : {shape}"
    text = f"func.func @main({arguments}) -> {shape} {{\n{body}\n}}"
    program = parse_program(text)
    emit = LitertEmission(ModelBuilder(), program.weights)
    inputs = {port.name: emit.declare(argument, argument.type.element_type, port.name)
              for port, argument in zip(program.inputs, program.entry.args, strict=True)}  # fmt: skip
    for made in list(program.entry.ops)[:-1]:
        if made.operands:
            OPERATORS[type(made)](made, emit)
    (result,) = program.entry.last_op.operands
    content = emit.builder.finish(inputs, {"y": emit.operand(result, result.type.element_type)}, "", {})
    (found,) = evaluate(content, *values[: len(inputs)])
    (expected,) = Interpreter(program)(dict(zip(inputs, values, strict=False))).values()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("op", ["and", "or", "xor", "not"])
def test_an_op_on_bits_is_exact(op: str, kind: str) -> None:
    check(op, kind, None)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("op", ["shift_left", "shift_right_arithmetic", "shift_right_logical"])
def test_a_shift_by_constants_is_exact(op: str, kind: str) -> None:
    check(op, kind, np.array(COUNTS), is_constant=True)
