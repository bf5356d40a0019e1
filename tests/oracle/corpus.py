"""Every program text in the tests: the .mlir files, and the strings of the test modules that hold a function."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

TESTS = Path(__file__).parents[1]
_SEPARATOR = re.compile(r"^// -----.*$", re.MULTILINE)
# StableHLO has the first three dialects, Shardy the last; the wheel has none of them.
_NOT_IN_THE_WHEEL = re.compile(r"\b(check|chlo|interpreter|sdy)\.\w")
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
    lines = [number for number, line in enumerate(source.split("\n"), 1) if "func.func" in line]
    for node in _string_nodes(ast.parse(source), lines):
        for index, text in enumerate(_SEPARATOR.split(node.value)):
            if _is_module(text):
                yield f"{path.relative_to(TESTS)}:{node.lineno}#{index}", text


def _string_nodes(root: ast.AST, lines: Sequence[int]) -> Iterator[ast.Constant]:
    """The strings on any of the lines, without the parts of formatted ones. `ast.walk` visits all nodes, in seconds."""
    left = [root]
    while left:
        node = left.pop()
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                yield node
            continue
        for child in reversed([*ast.iter_child_nodes(node)]):
            if isinstance(node, ast.JoinedStr) and isinstance(child, ast.Constant):
                continue
            outer, *_ = [*getattr(child, "decorator_list", []), child]  # `def` is not the first line
            first, last = getattr(outer, "lineno", 1), getattr(child, "end_lineno", lines[-1])
            if bisect_left(lines, first) < bisect_right(lines, last):
                left.append(child)


def _is_module(text: str) -> bool:
    code = re.sub(r"^\s*(//.*)?$", "", text, flags=re.MULTILINE).strip()
    if _NOT_IN_THE_WHEEL.search(code):
        return False
    whole = code.startswith(("func.func", "module", "builtin.module", '"builtin.module"', "!", "#"))
    return whole and "func.func" in code and code.endswith(("}", "()", "#-}")) and not _PLACEHOLDER.search(code)
