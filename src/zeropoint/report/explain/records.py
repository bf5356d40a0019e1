"""What an explanation holds: plain records, in program order."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from zeropoint.ir.annotations import Fact
from zeropoint.report.tables import preformatted


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


@dataclass(frozen=True)
class Explanation:
    """Everything that a program says of its own parameters."""

    values: tuple[Value, ...]
    rescales: tuple[Rescale, ...]
    float_ops: tuple[FloatOp, ...]
    missing: tuple[Missing, ...]
    corrections: tuple[Fact, ...] = ()
    """What was tried to bring the outputs nearer to float, and what it gained; of the whole program only."""
    of_one: bool = False
    """Whether it is about one name of the original model."""

    def of(self, name: str) -> Explanation:
        """The part that is about the values and ops of a name of the original model; empty where there is none."""
        values = tuple(value for value in self.values if name == value.name or name in value.names)
        known = {name, *(value.name for value in values)}
        return Explanation(
            values,
            tuple(rescale for rescale in self.rescales if rescale.value in known or known & set(rescale.read_by)),
            tuple(op for op in self.float_ops if op.name == name),
            tuple(missing for missing in self.missing if missing.value in known),
            of_one=True,
        )

    def __bool__(self) -> bool:
        return bool(self.values or self.rescales or self.float_ops or self.missing)

    def names(self) -> list[str]:
        """Every name that can be asked for, in program order."""
        found = [name for value in self.values for name in (value.name, *value.names)]
        return list(dict.fromkeys([*found, *(op.name for op in self.float_ops), *(one.value for one in self.missing)]))

    def record(self) -> dict[str, Any]:
        """Lists and dictionaries, for tools."""
        found = asdict(self)
        del found["of_one"]
        return found

    def __str__(self) -> str:
        """The overview of a program; of one name, all details."""
        from zeropoint.report.explain.text import details, overview  # which reads these records

        return details(self) if self.of_one else overview(self)

    def _repr_html_(self) -> str:
        return preformatted(str(self))
