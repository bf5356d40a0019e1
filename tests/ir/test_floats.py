"""The texts of floats and strings."""

from __future__ import annotations

import struct
from io import StringIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import StringAttr
from xdsl.printer import Printer

from zeropoint.ir import floats
from zeropoint.ir.floats import format_float
from zeropoint.ir.printer import ProgramPrinter

BITS = st.integers(1, 0x7FEF_FFFF_FFFF_FFFF)
FEW_DIGITS = st.builds(
    lambda digits, power: float(f"{digits}e{power}"), st.integers(1, 99_999_999), st.integers(-330, 300)
)


def of_bits(bits: int) -> float:
    """The f64 with these bits."""
    (value,) = struct.unpack("<d", struct.pack("<Q", bits))
    return value


@settings(max_examples=3000)
@given(value=st.one_of(BITS.map(of_bits), FEW_DIGITS, FEW_DIGITS.map(lambda value: value / 2**20)))
def test_a_short_text_is_tried_wherever_it_reads_back(value: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(floats, "_is_long", lambda value, float_type: False)
        expected = format_float(value)
    assert format_float(value) == expected


@settings(max_examples=1000)
@given(bits=BITS)
def test_the_text_of_every_number_reads_back(bits: int) -> None:
    value = of_bits(bits)
    text = format_float(value)
    assert text.startswith("0x") or float(text) == value


def test_strings_are_printed_as_xdsl_prints_them() -> None:
    for text in ("", "conv 1/weights", 'a "quoted" \\ and \n\t\x00\x7f', "".join(map(chr, range(300))), "größe 猫"):
        printed: list[str] = []
        for printer in (Printer(StringIO()), ProgramPrinter(StringIO())):
            printer.print_attribute(StringAttr(text))
            assert isinstance(printer.stream, StringIO)
            printed.append(printer.stream.getvalue())
        assert printed[0] == printed[1]
