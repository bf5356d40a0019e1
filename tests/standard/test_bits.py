"""The bits of numbers in standard forms: as wider and narrower numbers, and rounded to fewer bits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from zeropoint.interp import Interpreter
from zeropoint.ir.tensors import Array, element_dtype
from zeropoint.ir.text import parse_program
from zeropoint.standard import lower_to_loops, lower_to_standard

WIDTHS = {"i8": 8, "ui8": 8, "i16": 16, "f16": 16, "bf16": 16, "i32": 32, "ui32": 32, "f32": 32, "i64": 64, "f64": 64}
RESIZED = [(a, b) for a, b in itertools.product(WIDTHS, WIDTHS) if WIDTHS[a] != WIDTHS[b]]
FORMATS = ["e5m10", "e8m7", "e4m3", "e2m1", "e8m23", "e8m0", "e3m0", "e1m5", "e5m2", "e11m52"]


def agree(body: str, given: str, result: str, octets: Array) -> None:
    """The interpreter's bits from the op and from both standard forms, for numbers of the given octets."""
    program = parse_program(f"func.func @main(%x: {given}) -> {result} {{ %y = {body}\n return %y : {result} }}")

    def found(made: object) -> list[bytes]:
        (port,) = made.inputs  # type: ignore[attr-defined]
        array = octets.view(element_dtype(port.type.element_type))[..., 0]
        return [value.tobytes() for value in Interpreter(made)({port.name: array}).values()]  # type: ignore[arg-type]

    wanted = found(program)
    assert found(lower_to_standard(program)) == wanted
    assert found(lower_to_loops(program)) == wanted


@pytest.mark.parametrize(("source", "target"), RESIZED, ids="-".join)
def test_bits_become_those_of_wider_and_of_narrower_numbers(source: str, target: str) -> None:
    parts = max(WIDTHS[source], WIDTHS[target]) // min(WIDTHS[source], WIDTHS[target])
    wider = WIDTHS[target] > WIDTHS[source]
    shape, made = ((3, 2, parts), (3, 2)) if wider else ((3, 2), (3, 2, parts))
    given, result = (f"tensor<{'x'.join(map(str, sizes))}x{of}>" for sizes, of in ((shape, source), (made, target)))
    octets = np.random.default_rng(0).integers(0, 256, (*shape, WIDTHS[source] // 8)).astype(np.uint8)
    agree(f"stablehlo.bitcast_convert %x : ({given}) -> {result}", given, result, octets)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("of", ["f16", "bf16", "f32", "f64"])
def test_floats_are_rounded_to_fewer_bits(of: str, form: str) -> None:
    """Every f16 and bf16; of f32 and f64 all exponents, and fractions with few bits, where ties are."""
    size, random = WIDTHS[of] // 8, np.random.default_rng(1)
    word = np.dtype(f"u{size}")
    high = np.arange(1 << 16).astype(word) << word.type(WIDTHS[of] - 16)
    low = random.integers(0, 4, high.size).astype(word) << word.type((WIDTHS[of] - 16) // 2 if size > 2 else 0)
    words = high if size == 2 else high | low | random.integers(0, 2, high.size).astype(word)
    given = f"tensor<{words.size}x{of}>"
    octets = words.view(np.uint8).reshape(-1, size)
    agree(f"stablehlo.reduce_precision %x, format = {form} : {given}", given, given, octets)
