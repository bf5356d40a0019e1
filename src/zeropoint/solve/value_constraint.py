"""The constraints on one value: its range, the type that it is pinned to, and its minimum width.

Source: the RFC on quantization transformations, section "Model Constraints".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from zeropoint.ir.annotations import Fact, Salience
from zeropoint.ir.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    NoQuantizedType,
    QuantizedType,
    Storage,
    UniformQuantizedType,
)
from zeropoint.ir.tensors import Array

STRENGTH: Mapping[Salience, int] = {"default": 0, "calibrated": 1, "user": 2, "kernel": 3}
"""The precedence of facts. Equally strong ranges are merged. Equally strong parameters must be equal."""
NARROW = 8
"""The widest storage, in bits, for which calibration chooses a range. A narrower range rounds less, saturates more."""


@dataclass
class ValueConstraint:
    """The constraints on one value.

    `strength` is the precedence of the range. `extremes` are the minimum and maximum observed value if the range leaves
    some out. `quantiles` are the medians of equal-count bins of the observed values. `channels` has an axis and the
    ranges along it, as an array of [minimum, maximum] rows.
    """

    minimum: float | None = None
    maximum: float | None = None
    strength: int = 0
    pinned: UniformQuantizedType | None = None
    least_bits: int | None = None
    float_reason: str | None = None
    coupled: str | None = None
    extremes: tuple[float, float] | None = None
    quantiles: tuple[float, ...] = ()
    channels: tuple[int, Array] | None = None
    facts: list[Fact] = field(default_factory=list[Fact])

    def observe(self, minimum: float, maximum: float, salience: Salience, source: str) -> None:
        """Add a range. It replaces a weaker one, is merged with an equally strong one, and is ignored beside a stronger
        one."""
        strength = STRENGTH[salience]
        self.facts.append(Fact("range", f"[{minimum:g}, {maximum:g}]", salience, source))
        if strength < self.strength:
            return
        if strength == self.strength and self.minimum is not None and self.maximum is not None:
            minimum, maximum = min(minimum, self.minimum), max(maximum, self.maximum)
        self.minimum, self.maximum, self.strength = minimum, maximum, strength

    def within(self, storage: Storage) -> ValueConstraint:
        """The constraint for a storage. A storage wider than `NARROW` holds every observed value."""
        if self.extremes is None or storage.type.width <= NARROW or self.strength != STRENGTH["calibrated"]:
            return self
        low, high = self.extremes
        fact = Fact("range", f"[{low:g}, {high:g}]", "calibrated", f"all observed values, in {storage}")
        return replace(self, minimum=low, maximum=high, facts=[*self.facts, fact])

    def state(self, stated: QuantizedType, salience: Salience, source: str) -> None:
        """Add what a quantized type states about the value. Raises ValueError for a second, different pinned type."""
        if isinstance(stated, UniformQuantizedType):
            if self.pinned not in (None, stated):
                raise ValueError(f"found pinned types {self.pinned} and {stated}, expected one")
            self.pinned = stated
            self.facts.append(Fact("parameters", str(stated), salience, source))
        elif isinstance(stated, AnyQuantizedType):
            self.least_bits = max(self.least_bits or 0, stated.storage.type.width)
            self.facts.append(Fact("bits", f"at least {self.least_bits}", salience, source))
        elif isinstance(stated, CalibratedQuantizedType):
            self.observe(stated.minimum, stated.maximum, salience, source)
        elif isinstance(stated, NoQuantizedType):
            self.float_reason = f"{source}: do not quantize"
            self.facts.append(Fact("quantize", "false", salience, source))
