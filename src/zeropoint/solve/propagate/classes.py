"""Which activations share their quantization parameters.

A class is a set of values that the kernels of a target tie together (`same_scale`). It has at most one demand: fixed
parameters of a kernel, or else the range that was observed over all its members. Two classes are joined only where no
demand is hurt; otherwise the caller rescales that edge. Values are visited in program order, so the result depends on
the program text only.

Source: the RFC on quantization transformations, section "Propagation pass: resolving target constraints".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from zeropoint.ir.locations import value_name
from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.numerics.ranges import UNIT_SCALE, asymmetric, symmetric

RANGE_TOLERANCE = 2.0
"""A value that others use as well gives up its own parameters only for a range at most twice as wide: one bit."""


class PropagationError(ValueError):
    """Parameters that cannot be decided, with the name and place of the value or kernel."""


class MissingStatistics(PropagationError):
    """Parameters have to be decided for a value that nobody observed."""


@dataclass(eq=False)
class ScaleClass:
    """Values that have one scale and zero point.

    `centred` where a kernel wants the zero point 0; `least_scale` is what the kernels that make them can do with.
    """

    storage: Storage
    members: list[SSAValue]
    minimum: float | None = None
    maximum: float | None = None
    fixed: UniformQuantizedType | None = None
    facts: list[str] = field(default_factory=list[str])
    centred: bool = False
    least_scale: float = 0.0

    def parameters(self) -> UniformQuantizedType:
        """The type that every member takes.

        Raises MissingStatistics where no kernel fixes it and nothing was observed.
        """
        if self.centred:
            return self.centred_parameters()
        if self.fixed is not None:
            return self.fixed
        minimum, maximum = self._range()
        chosen = asymmetric(minimum, maximum, self.storage.minimum, self.storage.maximum)
        return self._of_scale(float(chosen.scale), int(chosen.zero_point))

    def centred_parameters(self) -> UniformQuantizedType:
        """The type with zero point 0 that holds what the members hold. Raises MissingStatistics as `parameters`."""
        if self.fixed is not None and self.fixed.zero_point == 0:
            return self.fixed
        chosen = symmetric(*self._range(), self.storage.type, narrow=False, zero_range_scale=UNIT_SCALE)
        return self._of_scale(float(chosen.scale), 0)

    def _of_scale(self, scale: float, zero_point: int) -> UniformQuantizedType:
        return UniformQuantizedType.per_layer(self.storage, max(scale, self.least_scale), zero_point)

    def centre(self, kernel: str) -> str | None:
        """Take the zero point 0 for a kernel; the reason why not, where other kernels read a member or fix it."""
        if self.fixed is not None and self.fixed.zero_point == 0:
            return None
        if self.fixed is not None or not all(member.has_one_use() for member in self.members):
            return f"kernel {kernel} wants zero point 0, the other demands on the value do not"
        self.centred = True
        self.facts.append(f"zero point 0 for kernel {kernel}")
        return None

    def at_least(self, scale: float, reason: str) -> None:
        """Demand a scale; parameters that are fixed stay."""
        if self.fixed is None and scale > self.parameters().scale:
            self.least_scale = scale
            self.facts.append(f"scale at least {scale:g}: {reason}")

    def _range(self) -> tuple[float, float]:
        if self.fixed is not None:
            low, high = self.fixed.storage.minimum, self.fixed.storage.maximum
            return (low - self.fixed.zero_point) * self.fixed.scale, (high - self.fixed.zero_point) * self.fixed.scale
        if self.minimum is None or self.maximum is None:
            raise MissingStatistics(
                f"found no statistics for '{value_name(self.members[0])}', expected quant.stats after it; "
                f"calibrate the program with data that reaches it"
            )
        return self.minimum, self.maximum

    def width(self) -> float:
        """The width of the observed range, 0 included; 0 where nothing was observed."""
        if self.minimum is None or self.maximum is None:
            return 0.0
        return max(self.maximum, 0.0) - min(self.minimum, 0.0)

    def fits_into(self, fixed: UniformQuantizedType) -> bool:
        """Whether the observed range lies inside what `fixed` can express, half a step of slack at both ends."""
        if self.minimum is None or self.maximum is None:
            return self.fixed == fixed
        low = (fixed.storage.minimum - fixed.zero_point - 0.5) * fixed.scale
        high = (fixed.storage.maximum - fixed.zero_point + 1.0) * fixed.scale
        return low <= self.minimum and self.maximum <= high

    def absorb(self, other: ScaleClass) -> None:
        """Take the members and demands of another class."""
        self.members += other.members
        self.facts += other.facts
        self.fixed = self.fixed or other.fixed
        self.centred = self.centred or other.centred
        self.least_scale = max(self.least_scale, other.least_scale)
        bounds = [c for c in (self, other) if c.minimum is not None and c.maximum is not None]
        if bounds:
            self.minimum = min(c.minimum for c in bounds if c.minimum is not None)
            self.maximum = max(c.maximum for c in bounds if c.maximum is not None)


def collision(value: ScaleClass, shared: ScaleClass, *, exclusive: bool) -> str | None:
    """Why `value` must not take part in the class `shared`; None where it may.

    `exclusive` says that nothing else uses the value.
    """
    if value.fixed is not None and shared.fixed is not None:
        return None if value.fixed == shared.fixed else f"fixed to {value.fixed} here and to {shared.fixed} there"
    fixed, ranged = (value.fixed, shared) if value.fixed is not None else (shared.fixed, value)
    if fixed is not None:
        return None if ranged.fits_into(fixed) else f"{fixed} cannot hold [{ranged.minimum:g}, {ranged.maximum:g}]"
    if not exclusive and shared.width() > RANGE_TOLERANCE * value.width():
        return f"other users want its own range of width {value.width():g}, the shared range has {shared.width():g}"
    return None


@dataclass
class ScaleClasses:
    """The class of each value."""

    storage: Storage
    ranges: dict[SSAValue, tuple[float, float]]
    _class_of: dict[SSAValue, ScaleClass] = field(default_factory=dict[SSAValue, ScaleClass])

    def of(self, value: SSAValue) -> ScaleClass:
        """The class of a value; its own at first, with what was observed for it."""
        if value not in self._class_of:
            minimum, maximum = self.ranges.get(value, (None, None))
            facts = [] if minimum is None else [f"observed [{minimum:g}, {maximum:g}] at '{value_name(value)}'"]
            self._class_of[value] = ScaleClass(self.storage, [value], minimum, maximum, None, facts)
        return self._class_of[value]

    def __contains__(self, value: SSAValue) -> bool:
        return value in self._class_of

    def join(self, shared: SSAValue, value: SSAValue) -> None:
        """Make the classes of two values one."""
        target, source = self.of(shared), self.of(value)
        if target is source:
            return
        target.absorb(source)
        for member in source.members:
            self._class_of[member] = target
