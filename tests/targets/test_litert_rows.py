"""Every row of `litert.toml` (and so of `litert-16x8.toml`), against LiteRT's reference kernels.

A flatbuffer of one op is made by the row's rules; the kernel must take it and compute what our interpreter computes of
quantized StableHLO on the same types under the table's profile, but for `Case.steps`. What the row excludes is refused,
or ignored (a wrong model runs silently), or used where the kernel takes more than the row, as its case says.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr

from oracle.litert import Port, Refused, evaluate, model
from targets import litert_case as lists
from targets.confirmation import confirming, row_id, rows
from targets.litert_case import Case
from targets.litert_cases import CASES
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import PROFILE
from zeropoint.ir.quant import Storage
from zeropoint.ir.text import parse_program
from zeropoint.numerics.profile import profile
from zeropoint.numerics.requantize import requantize
from zeropoint.targets import DATA, FixedScale, KernelRow, Role, SameScale, target

NAME, PACKAGE = "litert", "ai-edge-litert"


def generator(row: KernelRow) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(row_id(row).encode()))


def short(random: np.random.Generator, about: float, size: int | None = None) -> Any:
    """Scales of 8 bits: products of two are exact in f32."""
    unit = 2.0 ** np.floor(np.log2(about) - 7)
    return random.integers(128, 256, size) * unit


def is_wide(row: KernelRow) -> bool:
    return any(rule.storage.type.width == 16 for rule in (*row.inputs, row.output) if rule.role in DATA)


def dtype(storage: Storage) -> str:
    return f"{'' if storage.type.signed else 'u'}int{storage.type.width}"


@dataclass(frozen=True)
class Built:
    """A model of one op: its operands by slot, its results, stored integers for its inputs."""

    case: Case
    wide: bool
    slots: dict[str, Port]
    results: tuple[Port, ...]
    stored: dict[str, np.ndarray]

    @property
    def order(self) -> tuple[str, ...]:
        return self.case.order or tuple(slot for kind in "xwbc" for slot in self.slots if slot[0] == kind)

    def run(self) -> list[np.ndarray]:
        inputs = [self.slots[slot] for slot in self.order]
        content = model(self.case.op, self.case.options, inputs, self.results, self.case.version)
        values = (self.stored[slot] for slot in self.order if slot[0] == "x")
        return evaluate(content, *values, reference=self.case.reference)

    def changed(self, slot: str, **changes: Any) -> Built:
        """The same with other parameters at one operand, or of all results (slot `y`)."""
        if slot == "y":
            quantized = (replace(port, **changes) if port.scales else port for port in self.results)
            return replace(self, results=tuple(quantized))
        return replace(self, slots={**self.slots, slot: replace(self.slots[slot], **changes)})


def built(row: KernelRow, case: Case) -> Built:
    """The case by the row's rules: storage, zero points, scales as the relation has them, weights along their axis."""
    random, wide = generator(row), is_wide(row)
    slots: dict[str, Port] = {}
    stored: dict[str, np.ndarray] = {}
    ports = [rule for rule in row.inputs if rule.role in DATA]
    for index, shape in enumerate(case.shapes):
        rule, slot = ports[min(index, len(ports) - 1)], f"x{index}"
        zero = rule.zero_point if rule.zero_point is not None else int(random.integers(-50, 50))
        first = slots.get("x0")
        fresh = Port(shape, dtype(rule.storage), (float(short(random, 0.05 / (256 if wide else 1))),), (zero,))
        tied = isinstance(row.relation, SameScale) and first is not None
        slots[slot] = replace(first, shape=shape) if tied and first is not None else fresh
        last = index == len(case.shapes) - 1
        above = slots[slot].zero_points[0] + (4096 if wide else 1)
        low = above if case.positive and last else rule.storage.minimum
        stored[slot] = random.integers(low, rule.storage.maximum + 1, shape).astype(fresh.dtype)
    slots |= {f"c{index}": Port(other.shape, other.dtype.name, value=other) for index, other in enumerate(case.others)}
    if case.weight:
        slots |= contraction_constants(row, case, random, slots["x0"])
    result = result_port(row, case, random, slots["x0"])
    results = (result, Port(case.shape, "int32")) if case.op == "TOPK_V2" else (result,) * case.results
    return Built(case, wide, slots, results, stored)


def contraction_constants(row: KernelRow, case: Case, random: np.random.Generator, x: Port) -> dict[str, Port]:
    weight, bias = (next(rule for rule in row.inputs if rule.role is role) for role in (Role.WEIGHT, Role.BIAS))
    assert weight.axis is not None
    assert (weight.zero_point, bias.zero_point) == (0, 0)
    count = case.weight[weight.axis]
    scales = short(random, 0.005, count)
    storage = weight.storage
    value = random.integers(storage.minimum, storage.maximum + 1, case.weight)
    of_bias = random.integers(-9999, 10000, count) * (30 if bias.storage.type.width == 64 else 1)
    kinds = (dtype(rule.storage) for rule in (weight, bias))
    return {
        "w": Port(case.weight, next(kinds), tuple(scales), (0,) * count, value, weight.axis),
        "b": Port((count,), next(kinds), tuple(x.scales[0] * scales), (0,) * count, of_bias),
    }


def result_port(row: KernelRow, case: Case, random: np.random.Generator, x: Port) -> Port:
    rule = row.output
    if rule.role is Role.OTHER:
        return Port(case.shape, "bool" if row.kernel == "compare" else "int32")
    if isinstance(row.relation, SameScale):
        return replace(x, shape=case.shape)
    if isinstance(row.relation, FixedScale):
        return Port(case.shape, dtype(rule.storage), (row.relation.scale,), (row.relation.zero_point,))
    zero = rule.zero_point if rule.zero_point is not None else int(random.integers(-50, 50))
    scale = float(short(random, case.scale / (256 if is_wide(row) else 1)))
    return Port(case.shape, dtype(rule.storage), (scale,), (zero,))


def type_text(port: Port, low: int | None = None) -> str:
    """The type of a port: `tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>`."""
    element = {"bool": "i1"}.get(port.dtype, port.dtype.replace("uint", "u").replace("int", "i"))
    if port.scales:
        kind = element if low is None else f"{element}<{low}:{-low}>"
        pairs = [f"{scale:.20e}:{zero}" for scale, zero in zip(port.scales, port.zero_points, strict=True)]
        body = pairs[0] if len(pairs) == 1 else f"{{{','.join(pairs)}}}"
        element = f"!quant.uniform<{kind}:f32{'' if len(pairs) == 1 else f':{port.axis}'}, {body}>"
    return f"tensor<{''.join(f'{size}x' for size in port.shape)}{element}>"


def accumulator(made: Built) -> Port:
    """The type of sums: per channel along the last dimension, or of two activations."""
    x, other = made.slots["x0"], made.slots.get("w") or made.slots.get("x1")
    assert other is not None
    scales = tuple(x.scales[0] * scale for scale in other.scales)
    return Port(made.case.shape, "int32", scales, (0,) * len(scales), axis=len(made.case.shape) - 1)


def interpreted(row: KernelRow, text: str, made: Built, result: str) -> np.ndarray:
    """The value of `result` that our interpreter computes of a text under the table's profile."""
    plain = result != "r"  # sums that have no quantized type: the integers themselves, without their zero points
    x, y = made.slots["x0"], made.results[0]
    arguments = {slot: port for slot, port in made.slots.items() if slot[0] in "xwb"}
    ports = arguments | {"y": y}
    if "{acc}" in text:
        ports["acc"] = accumulator(made)
    if plain:
        ports = {slot: replace(port, dtype="int64", scales=()) for slot, port in ports.items()}
    types = {slot: type_text(port, -127 if slot == "w" and not plain else None) for slot, port in ports.items()}
    one = type_text(replace(x, shape=()))
    reals = {key: type_text(Port(port.shape, "f32")) for key, port in (("fx", x), ("fy", y))}
    limits = np.iinfo(x.dtype)
    raw = {"scalar": one, "raw": x.dtype.replace("int", "i"), "low": limits.min, "high": limits.max}
    body = text.format(**types, **reals, **raw, zero=x.zero_points[0])
    given = ", ".join(f"%{slot}: {types[slot]}" for slot in arguments)
    of_result = types["acc"] if plain else types["y"]
    program = parse_program(f"func.func @main({given}) -> {of_result} {{\n{body}\nreturn %{result} : {of_result}\n}}")
    program.module.attributes[PROFILE] = StringAttr(row.profile or target(NAME).profile)
    values = []
    for slot, port in arguments.items():
        value = made.stored[slot] if port.value is None else port.value
        values.append(value.astype(np.int64) - port.zero_points[0] if plain else value.astype(port.dtype))
    (found,) = Interpreter(program).run_values(values)
    return found


def requantized_sums(row: KernelRow, text: str, made: Built) -> np.ndarray:
    """A product whose sums have no quantized type, computed by the interpreter and requantized as the row says.

    Those of 16x8 have 64 bits; of two activations, StableHLO wants the right one without a zero point.
    """
    acc = interpreted(row, "\n".join(text.splitlines()[:-1]), made, "s" if made.case.weight else "p")
    y, limits = made.results[0], np.iinfo(made.results[0].dtype)
    real = np.array(accumulator(made).scales) / y.scales[0]
    rounding, width = profile(row.profile or target(NAME).profile), 16 if made.wide else 8
    sums = rounding.accumulator_width(32, width)
    multiplier = rounding.multiplier(real if len(real) > 1 else real[0], width, sums)
    return requantize(acc, multiplier, y.zero_points[0], limits.min, limits.max, axis=acc.ndim - 1)


def ours(row: KernelRow, made: Built) -> tuple[np.ndarray, ...]:
    expected = made.case.expected
    if isinstance(expected, str):
        untyped = "{acc}" in expected and (made.wide or made.case.op == "BATCH_MATMUL")
        return (requantized_sums(row, expected, made) if untyped else interpreted(row, expected, made, "r"),)
    found = expected(*made.stored.values())
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("row", rows(NAME))
def test_the_kernel_takes_the_row_and_computes_what_we_do(row: KernelRow) -> None:
    case = CASES[row.kernel]
    with confirming(NAME, row, PACKAGE):
        made = built(row, case)
        found, expected = made.run(), ours(row, made)
        if row.output.role in DATA and row.kernel != "fill":
            assert len(np.unique(found[0])) > 7, "the result says nothing"
        for theirs, mine in zip(found, expected, strict=False):
            difference = theirs.astype(np.int64) - mine.astype(np.int64)
            assert np.abs(difference).max() <= case.steps[made.wide], (difference != 0).mean()


def excluded(row: KernelRow, made: Built) -> Iterator[tuple[str, Built]]:
    """What the row excludes, one thing after the other, each with what it is called."""
    y, case = made.results[0], made.case
    if isinstance(row.relation, SameScale | FixedScale):
        yield lists.SCALE, made.changed("y", scales=(y.scales[0] * 1.5,))
        yield lists.ZERO, made.changed("y", zero_points=(y.zero_points[0] + (1 if y.zero_points[0] < 100 else -1),))
    if isinstance(row.relation, SameScale) and "x1" in made.slots:
        x = made.slots["x1"]
        yield lists.OPERAND_SCALE, made.changed("x1", scales=(x.scales[0] * 1.5,))
        yield lists.OPERAND_ZERO, made.changed("x1", zero_points=(x.zero_points[0] + 1,))
    if made.wide:
        yield lists.WIDE_ZERO, made.changed("x0", zero_points=(1,)).changed("y", zero_points=(1,))
    elif row.kernel in NO_WIDE:
        yield lists.WIDE, in_sixteen_bits(made)
    if case.weight:
        weight, bias = made.slots["w"], made.slots["b"]
        yield lists.WEIGHT_ZERO, made.changed("w", zero_points=(1,) * len(weight.scales))
        yield lists.WEIGHT_WIDE, made.changed("w", dtype="int16")
        yield lists.BIAS_ZERO, made.changed("b", zero_points=(1,) * len(bias.scales))
        yield lists.BIAS_SCALE, made.changed("b", scales=tuple(scale * 2 for scale in bias.scales))


NO_WIDE = set(CASES) - {row.kernel for row in target(NAME).rows if is_wide(row)}
"""The kernels of which the table has no row for 16 bits."""


def in_sixteen_bits(made: Built) -> Built:
    """All that is 8 bits in 16, without zero points."""
    slots = {
        slot: replace(port, dtype="int16", zero_points=(0,)) for slot, port in made.slots.items() if slot[0] == "x"
    }
    results = tuple(replace(port, dtype="int16", zero_points=(0,)) if port.scales else port for port in made.results)
    stored = {slot: value.astype(np.int16) for slot, value in made.stored.items()}
    return replace(made, slots=made.slots | slots, results=results, stored=stored)


def violations() -> list[Any]:
    return [
        pytest.param(row, label, made, id=f"{row_id(row)}-{label}")
        for row in target(NAME).rows
        for label, made in excluded(row, built(row, CASES[row.kernel]))
    ]


@pytest.mark.parametrize(("row", "label", "made"), violations())
def test_what_the_row_excludes_is_refused_or_ignored(row: KernelRow, label: str, made: Built) -> None:
    with confirming(NAME, row, PACKAGE):
        try:
            found = made.run()
        except Refused:
            outcome = "refused"
        else:
            plain = built(row, made.case).run()
            outcome = "ignored" if all(map(np.array_equal, found, plain)) else "used"
        taken = "used" if label in made.case.uses else "ignored"
        assert outcome == ("refused" if label in made.case.refuses[made.wide] else taken), label
