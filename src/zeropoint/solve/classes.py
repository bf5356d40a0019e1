"""Scale classes: sets of ports that share one scale and zero point.

A class has a fixed type, set by a kernel or pinned by the model, or the union of the ranges observed at its members.
Kernels may also require a zero point and a minimum scale. The class derives its parameters from these constraints.

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
    AffineParameters,
    asymmetric,
    held_scale,
    least_scale,
    minmax_nudged,
    symmetric,
    unit_scale,
)
from zeropoint.solve.errors import MissingStatistics

RangeRule = Callable[[float, float, int, int], AffineParameters]
RANGE_RULES: Mapping[str, RangeRule] = {"asymmetric": asymmetric, "minmax-nudged": minmax_nudged}
"""The rules that turn a range into a scale and a zero point, by name."""
DEFAULT_RANGES = "asymmetric"


def real_range(fixed: UniformQuantizedType) -> tuple[float, float]:
    """The minimum and maximum real value of a per-layer type."""
    low, high = fixed.storage.minimum, fixed.storage.maximum
    return (low - fixed.zero_point) * fixed.scale, (high - fixed.zero_point) * fixed.scale


def holds(fixed: UniformQuantizedType, minimum: float | None, maximum: float | None) -> bool:
    """Whether `fixed` can express a range, up to one step at either end. True for an unknown range.

    One step is allowed because the fixed types of functions end one step before the function does. With scale 1/256 and
    zero point -128, the last value is 255/256, but a logistic reaches 1.
    """
    if minimum is None or maximum is None:
        return True
    low, high = real_range(fixed)
    return low - fixed.scale <= minimum and maximum <= high + fixed.scale


def cuts_off(through: UniformQuantizedType, source: UniformQuantizedType) -> bool:
    """Whether `through` saturates values that `source` can hold; one step of `source` at each end is allowed."""
    low, high = real_range(source)
    return not holds(through, low + source.scale, high - source.scale)


@dataclass(eq=False)
class ScaleClass:
    """Ports that share one scale and zero point.

    `storage` is their storage type. `name` and `reader` name a value and a kernel for the error about missing
    statistics. `members` is the number of values. `need` is the scale that readers require (`precision.py`). A class is
    open until a kernel's function reads or sets its parameters.
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
        """Whether a fixed type or a range is known, so that the parameters follow."""
        return self.fixed is not None or self.minimum is not None

    @property
    def is_stated(self) -> bool:
        """Whether the model states the fixed type."""
        text = str(self.fixed)
        return any(f.name == "parameters" and f.salience == "user" and f.value == text for f in self.facts)

    def parameters(self) -> UniformQuantizedType:
        """The type of every member.

        Raises MissingStatistics if the type is not fixed and no range was observed.
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
        elif self.zero_point == storage.type.middle:
            chosen = symmetric(minimum, maximum, storage.type, narrow=False, greatest=storage.maximum)
        else:
            chosen = _around(self.zero_point, minimum, maximum, storage)
        scale, zero_point = float(chosen.scale), int(chosen.zero_point)
        if minimum == maximum == 0:
            scale = unit_scale(storage.type.width)
        # Rounded to the type of the target's scales, because the runtime computes with the rounded scale.
        held = held_scale(max(scale, self.least_scale), self.scale_type)
        return UniformQuantizedType.per_layer(storage, float(held), zero_point)

    def at_least(self, scale: float, source: str) -> None:
        """Require a scale of at least `scale`. No effect on a fixed or settled class."""
        if self.fixed is None and self.is_open and scale > self.parameters().scale:
            self.least_scale, self._decided = scale, None
            self.facts.append(Fact("least scale", f"{scale:g}", "kernel", source))

    def settle(self) -> UniformQuantizedType:
        """Freeze the parameters and return them. Called when other parameters are derived from them."""
        made = self.parameters()
        self.is_open = False
        return made

    def fix(self, fixed: UniformQuantizedType, source: str) -> None:
        """Set the parameters that a kernel's function derived, and freeze them."""
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
    """Parameters with a given zero point and the least scale that covers the range."""
    scale = least_scale(zero_point, minimum, maximum, storage.minimum, storage.maximum)
    return AffineParameters(
        np.array(scale or unit_scale(storage.type.width)), np.array(zero_point), storage.minimum, storage.maximum
    )
