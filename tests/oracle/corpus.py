"""Every program text in the tests: the .mlir files, and the strings of the test modules that hold a function."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
_SEPARATOR = re.compile(r"^// -----.*$", re.MULTILINE)
# StableHLO has these dialects, the wheel does not.
_NOT_IN_THE_WHEEL = re.compile(r"\b(check|chlo|interpreter)\.\w")
_PLACEHOLDER = re.compile(r"\{[a-z_.0-9]+\}|%s|\{\}")


def programs() -> Iterator[tuple[str, str]]:
    """(where, text) of each."""
    for path in sorted(TESTS.rglob("*.mlir")):
        if path.parent.name == "rejected":
            continue  # each with its sentence, by test_verification
        for index, text in enumerate(_SEPARATOR.split(path.read_text())):
            if not _NOT_IN_THE_WHEEL.search(text):
                yield f"{path.relative_to(TESTS)}#{index}", text
    for path in sorted(TESTS.rglob("*.py")):
        yield from _strings(path)


def _strings(path: Path) -> Iterator[tuple[str, str]]:
    source = path.read_text()
    if "func.func" not in source:
        return  # to parse every module takes seconds
    tree = ast.parse(source)
    formatted = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in formatted:
            continue
        for index, text in enumerate(_SEPARATOR.split(node.value)):
            if _is_module(text):
                yield f"{path.relative_to(TESTS)}:{node.lineno}#{index}", text


def _is_module(text: str) -> bool:
    code = re.sub(r"^\s*(//.*)?$", "", text, flags=re.MULTILINE).strip()
    if _NOT_IN_THE_WHEEL.search(code):
        return False
    whole = code.startswith(("func.func", "module", "builtin.module", '"builtin.module"', "!", "#"))
    return whole and "func.func" in code and code.endswith(("}", "()", "#-}")) and not _PLACEHOLDER.search(code)
