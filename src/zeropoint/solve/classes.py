"""What a set of ports that share their quantization parameters demands, and the parameters that follow.

A class has at most one type that is fixed (by a kernel, or pinned by the model), or else the range that was observed
over all its members; kernels may want its zero point at a number and its scale at least at one.

Source: the RFC on quantization transformations, section "Propagation pass: resolving target constraints".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

import numpy as np

from zeropoint.ir.annotations import Fact
from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.numerics.ranges import (
    UNIT_SCALE,
    AffineParameters,
    asymmetric,
    held_scale,
    least_scale,
    minmax_nudged,
    symmetric,
)
from zeropoint.solve.errors import MissingStatistics

RangeRule = Callable[[float, float, int, int], AffineParameters]
RANGE_RULES: Mapping[str, RangeRule] = {"asymmetric": asymmetric, "minmax-nudged": minmax_nudged}
"""How a range becomes a scale and a zero point, by name."""
DEFAULT_RANGES = "asymmetric"


def middle(storage: Storage) -> int:
    """The zero point of symmetric parameters."""
    return 0 if storage.type.signed else 1 << (storage.type.width - 1)


def real_range(fixed: UniformQuantizedType) -> tuple[float, float]:
    """The least and the greatest real value that a per-layer type expresses."""
    low, high = fixed.storage.minimum, fixed.storage.maximum
    return (low - fixed.zero_point) * fixed.scale, (high - fixed.zero_point) * fixed.scale


def holds(fixed: UniformQuantizedType, minimum: float | None, maximum: float | None) -> bool:
    """Whether a range lies inside what `fixed` can express, half a step of slack at both ends; True where unknown."""
    if minimum is None or maximum is None:
        return True
    low = (fixed.storage.minimum - fixed.zero_point - 0.5) * fixed.scale
    high = (fixed.storage.maximum - fixed.zero_point + 1.0) * fixed.scale
    return low <= minimum and maximum <= high


@dataclass(eq=False)
class ScaleClass:
    """Ports that have one scale and zero point.

    `storage` is what they are stored in, `name` and `reader` say whose statistics are missing where they are; `members`
    is the number of values; `need` is the scale that readers want (`precision.py`). It is open until a kernel's
    function has read or set its parameters.
    """

    storage: Storage
    name: str
    reader: str
    rule: str = "asymmetric"
    scale_type: str = "f64"
    minimum: float | None = None
    maximum: float | None = None
    fixed: UniformQuantizedType | None = None
    zero_point: int | None = None
    least_scale: float = 0.0
    need: float = inf
    members: int = 1
    is_open: bool = True
    facts: list[Fact] = field(default_factory=list[Fact])
    _decided: UniformQuantizedType | None = None

    @property
    def is_known(self) -> bool:
        """Whether parameters follow from what is known."""
        return self.fixed is not None or self.minimum is not None

    def parameters(self) -> UniformQuantizedType:
        """The type that every member takes.

        Raises MissingStatistics where no kernel fixes it and nothing was observed.
        """
        if self.fixed is not None:
            return self.fixed
        if self._decided is None:
            self._decided = self._from_range()
        return self._decided

    def _from_range(self) -> UniformQuantizedType:
        minimum, maximum = self._range()
        storage = self.storage
        if self.zero_point is None:
            chosen = RANGE_RULES[self.rule](minimum, maximum, storage.minimum, storage.maximum)
        elif self.zero_point == middle(storage):
            chosen = symmetric(minimum, maximum, storage.type, narrow=False, zero_range_scale=UNIT_SCALE)
        else:
            chosen = _around(self.zero_point, minimum, maximum, storage)
        scale, zero_point = float(chosen.scale), int(chosen.zero_point)
        held = held_scale(max(scale, self.least_scale), self.scale_type)
        return UniformQuantizedType.per_layer(storage, float(held), zero_point)

    def at_least(self, scale: float, source: str) -> None:
        """Demand a scale; parameters that are fixed, or that a function has read, stay."""
        if self.fixed is None and self.is_open and scale > self.parameters().scale:
            self.least_scale, self._decided = scale, None
            self.facts.append(Fact("least scale", f"{scale:g}", "kernel", source))

    def settle(self) -> UniformQuantizedType:
        """The parameters, which stay from now on: something else is derived from them."""
        made = self.parameters()
        self.is_open = False
        return made

    def fix(self, fixed: UniformQuantizedType, source: str) -> None:
        """Take parameters that a kernel's function derived."""
        self.fixed, self.is_open = fixed, False
        self.facts.append(Fact("parameters", str(fixed), "kernel", source))

    def _range(self) -> tuple[float, float]:
        if self.minimum is None or self.maximum is None:
            raise MissingStatistics(
                f"found no statistics for '{self.name}', expected quant.stats after it for {self.reader}; "
                f"calibrate the program with data that reaches it"
            )
        return self.minimum, self.maximum


def _around(zero_point: int, minimum: float, maximum: float, storage: Storage) -> AffineParameters:
    """The least scale that holds a range with 0 at a given stored integer."""
    scale = least_scale(zero_point, minimum, maximum, storage.minimum, storage.maximum)
    return AffineParameters(np.array(scale or UNIT_SCALE), np.array(zero_point), storage.minimum, storage.maximum)
