"""Programs that break a rule of StableHLO: we reject them with upstream's sentence, as upstream does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from xdsl.utils.exceptions import ParseError, VerifyException

from oracle import mlir
from zeropoint.ir.text import parse_program

REJECTED = Path(__file__).with_name("rejected")
CASE = re.compile(r"// (?P<name>.*)\n// expected-error \{\{(?P<sentence>.*)\}\}\n(?P<text>(?:.|\n)*)")


def cases() -> list[object]:
    found: list[object] = []
    for path in sorted(REJECTED.glob("*.mlir")):
        for chunk in path.read_text().split("// -----\n"):
            match = CASE.search(chunk)
            assert match is not None, f"{path.name}: found a case without a name and an expected-error:\n{chunk}"
            found.append(pytest.param(match["text"], match["sentence"], id=f"{path.stem}-{match['name']}"))
    return found


@pytest.mark.parametrize(("text", "sentence"), cases())
def test_rejected_with_upstreams_sentence(text: str, sentence: str) -> None:
    with pytest.raises((ParseError, VerifyException)) as ours:
        parse_program(text)
    assert sentence in str(ours.value)
    with pytest.raises(mlir.Rejected) as theirs:
        mlir.parse(text)
    assert any(sentence in found for found in theirs.value.sentences)
