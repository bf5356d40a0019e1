"""Flatbuffers of one op, made by the rules of a row of LiteRT's table."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oracle.litert import Port, evaluate, model
from targets.litert_case import Case
from zeropoint.check_target.models import row_id
from zeropoint.ir.quant import Storage
from zeropoint.targets import DATA, FixedScale, KernelRow, Role, SameScale


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

    @property
    def content(self) -> bytes:
        inputs = [self.slots[slot] for slot in self.order]
        return model(self.case.op, self.case.options, inputs, self.results, self.case.version)

    def run(self) -> list[np.ndarray]:
        values = (self.stored[slot] for slot in self.order if slot[0] == "x")
        return evaluate(self.content, *values, reference=self.case.reference)

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
