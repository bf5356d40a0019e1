"""Random networks as text, whose kernels demand different scales of the values that they share."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import numpy as np

T, LONG = "tensor<4x4xf32>", "tensor<8x4xf32>"
FUNCTIONS = ("tanh", "logistic", "abs", "negate", "exponential")
WEIGHTS = ("w0", "w1")
RECENT = 5
"""A value is one of the last few, so that values have several readers."""


def stats(name: str, low: float, high: float) -> str:
    of = f"dense<[{low}, {high}]> : tensor<2xf32>}} : ({T}) -> {T}"
    return f'%{name}s = "quant.stats"(%{name}) {{layerStats = {of}'


@dataclass(frozen=True)
class Step:
    """The lines that make a value, and the values that they read."""

    name: str
    lines: tuple[str, ...]
    reads: frozenset[str]


def step(random: np.random.Generator, name: str, values: list[str]) -> Step:
    """A random kernel that reads values, followed by the statistics of its result."""
    a, b = (f"{values[int(random.integers(max(0, len(values) - RECENT), len(values)))]}s" for _ in range(2))
    weight, function = random.choice(WEIGHTS), random.choice(FUNCTIONS)
    product = f"contracting_dims = [1] x [0] : ({T}, {T}) -> {T}"
    forms = {
        "layer": [f"%{name} = stablehlo.dot_general %{a}, %{weight}, {product}"],
        "product": [f"%{name} = stablehlo.dot_general %{a}, %{b}, {product}"],
        "sum": [f"%{name} = stablehlo.add %{a}, %{b} : {T}"],
        "maximum": [f"%{name} = stablehlo.maximum %{a}, %{b} : {T}"],
        "relu": [f"%{name} = stablehlo.maximum %{a}, %zero : {T}"],
        "clamp": [f"%{name} = stablehlo.clamp %zero, %{a}, %six : {T}"],
        "reverse": [f"%{name} = stablehlo.reverse %{a}, dims = [0] : {T}"],
        "transpose": [f"%{name} = stablehlo.transpose %{a}, dims = [1, 0] : ({T}) -> {T}"],
        "function": [f"%{name} = stablehlo.{function} %{a} : {T}"],
        "join": [
            f"%{name}c = stablehlo.concatenate %{a}, %{b}, dim = 0 : ({T}, {T}) -> {LONG}",
            f"%{name} = stablehlo.slice %{name}c [2:6, 0:4] : ({LONG}) -> {T}",
        ],
    }
    lines = forms[random.choice(list(forms))]
    low, high = random.choice([-1.0, -2.0, 0.0]), random.choice([1.0, 2.0, 0.5])
    read = frozenset(value for value in values if any(re.search(rf"%{value}s\b", line) for line in lines))
    return Step(name, (*(f'{line} loc("{name}")' for line in lines), stats(name, low, high)), read)


def steps(seed: int) -> list[Step]:
    """The steps of a random network of the inputs x and y."""
    random, values, found = np.random.default_rng(seed), ["x", "y"], list[Step]()
    for number in range(int(random.integers(8, 15))):
        found.append(step(random, f"v{number}", values))
        values.append(f"v{number}")
    return found


def shuffled(given: list[Step], seed: int) -> list[Step]:
    """The steps in another order, each behind those that make what it reads."""
    random, left, found, made = np.random.default_rng(seed), list(given), list[Step](), {"x", "y"}
    while left:
        ready = [one for one in left if one.reads <= made]
        one = ready[int(random.integers(len(ready)))]
        left.remove(one)
        found.append(one)
        made.add(one.name)
    return found


def text(seed: int, order: list[Step], outputs: list[str]) -> str:
    """The program of a network, with its steps in an order."""
    random = np.random.default_rng(seed)
    weights = [(name, random.uniform(-1, 1, (4, 4)).round(3).tolist()) for name in WEIGHTS]
    constants = [(name, json.dumps(value)) for name, value in (*weights, ("zero", 0.0), ("six", 6.0))]
    results = ", ".join([T] * len(outputs))
    return "\n".join(
        [
            f"func.func @main(%x: {T}, %y: {T}) -> ({results}) {{",
            *(f"%{name} = stablehlo.constant dense<{value}> : {T}" for name, value in constants),
            stats("x", -3.0, 2.0),
            stats("y", -1.0, 5.0),
            *(line for one in order for line in one.lines),
            f"return {', '.join(f'%{name}s' for name in outputs)} : {results}",
            "}",
        ]
    )


def outputs_of(given: list[Step]) -> list[str]:
    """The values that no step reads."""
    read = frozenset[str]().union(*(one.reads for one in given))
    return [one.name for one in given if one.name not in read]
