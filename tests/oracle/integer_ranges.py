"""Asks upstream's `int-range-optimizations` for bounds of numbers, on programs in standard form.

That analysis does not look into tensors. So the bodies of `linalg.generic` on single numbers are put in line first, and
tensors of no dimensions become their elements.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from oracle.mlir import ORACLE, with_inline_constants
from zeropoint.ir.program import Program
from zeropoint.standard import lower_to_standard

NAME = re.compile(r"%\w+")
GENERIC = re.compile(r"\s*(%\w+) = linalg\.generic .*?(?:ins\((.*?) : .*?\) )?outs\(")
EXTRACT = re.compile(r"\s*(%\w+) = tensor\.extract (%\w+)\[\]")
CONSTANT = re.compile(r"= arith\.constant dense<(.*?)> : tensor<(\w+)>")
PASS = "builtin.module(func.func(int-range-optimizations))"


@dataclass(frozen=True)
class Bound:
    """A question: is result `index` always at most (or at least) `number`?"""

    index: int
    element: str
    at_most: bool
    number: int


def answers(program: Program, questions: Sequence[Bound]) -> list[bool]:
    """Which of the bounds of the results of @main upstream proves."""
    *lines, end = _scalars(with_inline_constants(lower_to_standard(program))).split("func.return ")
    names = NAME.findall(end.split(" : ")[0])
    asked: list[str] = []
    for n, question in enumerate(questions):
        width, unsigned = int(question.element.strip("ui")), question.element[0] == "u"
        # Standard integers have no sign: an unsigned number is written as the signed one with its bits.
        number = question.number - (question.number >> width - 1 << width) if unsigned else question.number
        predicate = ("u" if unsigned else "s") + ("le" if question.at_most else "ge")
        asked.append(f"%number{n} = arith.constant {number} : i{width}")
        asked.append(f"%answer{n} = arith.cmpi {predicate}, {names[question.index]}, %number{n} : i{width}")
    types = ", ".join("i1" for _ in questions)
    returned = f"return {', '.join(f'%answer{n}' for n in range(len(questions)))} : {types}\n}}\n}}"
    body = re.sub(r"(func\.func .*?->) .*? \{\n", rf"\1 ({types}) {{\n", "".join(lines), count=1)
    text = "\n".join([body, *asked, returned])
    found = ORACLE.module(text, PASS)
    assert found.text is not None, f"{found.error}\n{text}"
    (line,) = (line for line in found.text.splitlines() if line.strip().startswith("return "))
    return [name.startswith("%true") for name in NAME.findall(line.split(" : ")[0])]


def _scalars(text: str) -> str:
    """The text with generics in line, and elements for tensors of no dimensions."""
    lines, made, names = iter(text.splitlines()), list[str](), dict[str, str]()

    def renamed(line: str) -> str:
        return NAME.sub(lambda found: names.get(found[0], found[0]), line)

    for line in lines:
        if generic := GENERIC.match(line):
            given = NAME.findall(generic[2] or "")
            # The last argument is that of the result, which the bodies do not read.
            arguments = NAME.findall(next(lines))[: len(given)]
            names |= {inner: names.get(outer, outer) for inner, outer in zip(arguments, given, strict=True)}
            while "linalg.yield" not in (inner := next(lines)):
                made.append(renamed(inner))
            names[generic[1]] = renamed(inner).split("linalg.yield ")[1].split(" : ")[0]
            next(lines)
        elif extract := EXTRACT.match(line):
            names[extract[1]] = names.get(extract[2], extract[2])
        elif "tensor.empty" not in line:
            made.append(re.sub(r"tensor<(\w+)>", r"\1", renamed(CONSTANT.sub(r"= arith.constant \1 : \2", line))))
    return "\n".join(made)
