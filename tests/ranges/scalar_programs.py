"""Random programs of integer ops on single numbers: their StableHLO text, and what they compute, in Python integers.

Written from the StableHLO specification alone. What it leaves open is as the interpreter defines it: a quotient or a
remainder by 0 is 0.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ELEMENTS = ("i8", "i16", "i32", "i64", "ui8", "ui16", "ui32")
DIRECTIONS = ("LT", "LE", "GT", "GE", "EQ", "NE")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "and", "or", "xor", "divide", "remainder")
SHIFTS = ("shift_left", "shift_right_arithmetic", "shift_right_logical")
UNARY = ("not", "negate", "abs", "sign")


def width_of(element: str) -> int:
    return int(element.strip("ui"))


def ends_of(element: str) -> tuple[int, int]:
    width = width_of(element)
    return (0, (1 << width) - 1) if element[0] == "u" else (-(1 << width - 1), (1 << width - 1) - 1)


def wrapped(number: int, element: str) -> int:
    low, _ = ends_of(element)
    return (number - low) % (1 << width_of(element)) + low


def towards_zero(x: int, y: int) -> int:
    return 0 if y == 0 else (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1)


def shifted(name: str, x: int, amount: int, width: int) -> int:
    inside, bits = 0 <= amount < width, x % (1 << width)
    if name == "shift_left":
        return x << amount if inside else 0
    if name == "shift_right_logical":
        return bits >> amount if inside else 0
    signed = bits - (bits >> width - 1 << width)
    return signed >> (amount if inside else width - 1)


def computed(name: str, element: str, given: Sequence[int]) -> int:
    """The number before it wraps around."""
    x, y = given[0], given[-1]
    if name.startswith("shift"):
        return shifted(name, x, y, width_of(element))
    return {
        "abs": lambda: abs(x),
        "add": lambda: x + y,
        "and": lambda: x & y,
        "clamp": lambda: min(max(given[1], x), y),
        "convert": lambda: x,
        "divide": lambda: towards_zero(x, y),
        "maximum": lambda: max(x, y),
        "minimum": lambda: min(x, y),
        "multiply": lambda: x * y,
        "negate": lambda: -x,
        "not": lambda: ~x,
        "or": lambda: x | y,
        "remainder": lambda: x - y * towards_zero(x, y) if y else 0,
        "select": lambda: given[1] if x else y,
        "sign": lambda: (x > 0) - (x < 0),
        "subtract": lambda: x - y,
        "xor": lambda: x ^ y,
    }[name]()


def compared(direction: str, x: int, y: int) -> int:
    return int({"LT": x < y, "LE": x <= y, "GT": x > y, "GE": x >= y, "EQ": x == y, "NE": x != y}[direction])


def extreme(rng: random.Random, element: str) -> int:
    low, high = ends_of(element)
    return rng.choice([low, high, 0, 1, 7, low + 1, high // 2, min(high, 100), rng.randint(low, high)])


@dataclass(frozen=True)
class Step:
    """One op; `number` is that of a constant, `direction` that of a comparison."""

    result: str
    name: str
    element: str
    operands: tuple[str, ...] = ()
    number: int = 0
    direction: str = ""


@dataclass
class ScalarProgram:
    """Arguments %a0, %a1, and steps, the results of all of which are returned but for constants and booleans."""

    rng: random.Random
    elements: dict[str, str] = field(default_factory=dict[str, str])
    steps: list[Step] = field(default_factory=list[Step])

    def __post_init__(self) -> None:
        self.arguments = {f"%a{n}": self.rng.choice(["i8", "i8", "i16", "i32", "ui8", "ui16"]) for n in range(2)}
        self.elements |= self.arguments
        for _ in range(6):
            self._grow()

    @property
    def returned(self) -> list[Step]:
        return [step for step in self.steps if step.name not in ("constant", "compare")]

    # Generation.

    def _add(self, name: str, element: str, *operands: str, number: int = 0, direction: str = "") -> str:
        result = f"%v{len(self.steps)}"
        self.steps.append(Step(result, name, element, operands, number, direction))
        self.elements[result] = element
        return result

    def _constant(self, element: str, number: int) -> str:
        return self._add("constant", element, number=number)

    def _any(self, element: str | None = None) -> str:
        """A value, of the element type where one is given; half of them within random bounds."""
        chosen = [name for name, found in self.elements.items() if found == element or (not element and found != "i1")]
        x = self.rng.choice(chosen)
        kind = self.elements[x]
        if self.rng.random() < 0.5:
            return x
        low, high = (self._constant(kind, number) for number in sorted(extreme(self.rng, kind) for _ in range(2)))
        return self._add("clamp", kind, low, x, high)

    def _grow(self) -> None:
        rng, x = self.rng, self._any()
        element, what = self.elements[x], self.rng.random()
        if what < 0.2:
            self._add("convert", rng.choice(ELEMENTS), x)
        elif what < 0.3:
            self._add("not" if element[0] == "u" else rng.choice(UNARY), element, x)
        elif what < 0.4:
            condition = self._add("compare", "i1", x, self._any(element), direction=rng.choice(DIRECTIONS))
            self._add("select", element, condition, self._any(element), x)
        elif what < 0.6:
            fixed = rng.random() < 0.7
            amount = self._constant(element, rng.randrange(width_of(element))) if fixed else self._any(element)
            self._add(rng.choice(SHIFTS), element, x, amount)
        else:
            fixed = rng.random() < 0.4
            y = self._constant(element, extreme(rng, element)) if fixed else self._any(element)
            self._add(rng.choice(BINARY), element, x, y)

    # Text and results.

    def _line(self, step: Step) -> str:
        kind, names = f"tensor<{step.element}>", ", ".join(step.operands)
        if step.name == "constant":
            return f"stablehlo.constant dense<{step.number}> : {kind}"
        source = f"tensor<{self.elements[step.operands[-1]]}>"
        if step.name == "convert":
            return f"stablehlo.convert {names} : ({source}) -> {kind}"
        if step.name == "compare":
            return f"stablehlo.compare {step.direction}, {names} : ({source}, {source}) -> {kind}"
        return f"stablehlo.{step.name} {names} : {'tensor<i1>, ' if step.name == 'select' else ''}{kind}"

    @property
    def text(self) -> str:
        given = ", ".join(f"{name}: tensor<{element}>" for name, element in self.arguments.items())
        names = ", ".join(step.result for step in self.returned)
        types = ", ".join(f"tensor<{step.element}>" for step in self.returned)
        lines = "\n".join(f"{step.result} = {self._line(step)}" for step in self.steps)
        return f"func.func @main({given}) -> ({types}) {{\n{lines}\nreturn {names} : {types}\n}}"

    def run(self, arguments: Mapping[str, int]) -> dict[str, int]:
        """Every value, from those of the arguments."""
        values = dict(arguments)
        for step in self.steps:
            given = [values[name] for name in step.operands]
            if step.name == "constant":
                values[step.result] = step.number
            elif step.name == "compare":
                values[step.result] = compared(step.direction, *given)
            else:
                values[step.result] = wrapped(computed(step.name, step.element, given), step.element)
        return values
