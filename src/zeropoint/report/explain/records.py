"""The records of an explanation."""

from __future__ import annotations

from dataclasses import dataclass

from zeropoint.ir.annotations import Fact


@dataclass(frozen=True)
class ExplainedValue:
    """A value that kernels read or produce.

    `kind` is the kernel that produces it, or `input`. `names` are the ops of the original model that the kernel covers,
    or the name of the input. `type` is the quantized type, or the element type if the value is not quantized.
    `made_from` and `read_by` are names of values.
    """

    name: str
    kind: str
    names: tuple[str, ...]
    type: str
    facts: tuple[Fact, ...]
    made_from: tuple[str, ...]
    read_by: tuple[str, ...]
    unique_name: str = ""
    """The unique name of the kernel, such as `gru_8`, if the op of the model became several kernels."""
    float_reason: str = ""
    """The reason for a float value that kernels quantize when they read it. `type` is then the type that they read."""

    @property
    def shown_name(self) -> str:
        """The unique name, or else the name."""
        return self.unique_name or self.name


@dataclass(frozen=True)
class Rescale:
    """A rescale: the type that the value has and why, and the type that its readers require and why."""

    value: str
    has: str
    required: str
    why_has: str
    why_required: str
    read_by: tuple[str, ...]


@dataclass(frozen=True)
class FloatOp:
    """An op that stays float, and why."""

    op: str
    name: str
    reason: str


@dataclass(frozen=True)
class ExplainedOutput:
    """An output of the program, and the names of the values or float ops that produce it; none if it is constant."""

    name: str
    made_by: tuple[str, ...]


@dataclass(frozen=True)
class Missing:
    """A value that needs statistics and has none: its name, and the op that produces it or `input`."""

    value: str
    op: str
