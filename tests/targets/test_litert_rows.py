"""Every row of `litert.toml` (and so of `litert-16x8.toml`), against LiteRT's reference kernels.

A flatbuffer of one op is made by the row's rules; the kernel must take it and compute what our interpreter computes of
quantized StableHLO on the same types under the table's profile, but for `Case.steps`. What the row excludes is refused,
or ignored (a wrong model runs silently), or used where the kernel takes more than the row, as its case says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr

from oracle.litert import Port, Refused
from targets import litert_case as lists
from targets.confirmation import confirming, rows
from targets.litert_built import Built, built, is_wide
from targets.litert_cases import CASES
from zeropoint.check_target.models import row_id
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import PROFILE
from zeropoint.ir.text import parse_program
from zeropoint.numerics.profile import profile
from zeropoint.numerics.requantize import requantize
from zeropoint.targets import DATA, FixedScale, KernelRow, SameScale, target

NAME, PACKAGE = "litert", "ai-edge-litert"


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
