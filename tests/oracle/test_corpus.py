"""Every program in the tests: C++ MLIR reads what we print, we read what it prints, and both reject the same."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import ParseError, VerifyException

from oracle import mlir
from oracle.corpus import programs
from zeropoint.ir.text import parse_program
from zeropoint.limits import LimitExceeded

PROGRAMS = list(programs())


def test_there_are_programs() -> None:
    assert len(PROGRAMS) > 20


@pytest.mark.parametrize("text", [pytest.param(text, id=where) for where, text in PROGRAMS])
def test_program_goes_through_upstream_and_back(text: str) -> None:
    try:
        parse_program(text)
    except LimitExceeded:  # this machine's memory, of which upstream knows nothing
        return
    except (ParseError, VerifyException, ValueError):
        if not mlir.needs_unregistered(text):
            with pytest.raises(mlir.Rejected):
                mlir.parse(text)
        return
    mlir.roundtrip(text)
