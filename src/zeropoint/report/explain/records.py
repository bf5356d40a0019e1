"""What an explanation holds: plain records, in program order."""

from __future__ import annotations

from dataclasses import dataclass

from zeropoint.ir.annotations import Fact


@dataclass(frozen=True)
class Value:
    """A value that kernels read or make.

    `kind` is the kernel that makes it, or `input`; `names` are the ops of the original model that the kernel covers, or
    the input's name. `type` is the quantized type, or the element type of a value that is not quantized. `made_from`
    and `read_by` are values by their names.
    """

    name: str
    kind: str
    names: tuple[str, ...]
    type: str
    facts: tuple[Fact, ...]
    made_from: tuple[str, ...]
    read_by: tuple[str, ...]


@dataclass(frozen=True)
class Rescale:
    """A change of parameters: what the value has and why, what its readers want and why."""

    value: str
    given: str
    wanted: str
    has: str
    wants: str
    read_by: tuple[str, ...]


@dataclass(frozen=True)
class FloatOp:
    """An op that stays float, and why."""

    op: str
    name: str
    reason: str


@dataclass(frozen=True)
class Missing:
    """A value without statistics that somebody has to decide: the tensor, and the op that makes it."""

    value: str
    op: str
