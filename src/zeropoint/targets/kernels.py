"""Rows of a kernel table: what one kernel of a target demands of its ports.

Source: the RFC on quantization transformations, section "Target Constraints": per (logical kernel, signature) a
relation between the quantization parameters of the ports. Columns as in the project's target notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from zeropoint.ir.quant import Storage


class Role(Enum):
    """What a port carries."""

    ACTIVATION = "act"
    WEIGHT = "weight"
    BIAS = "bias"
    CONSTANT = "const"
    """A constant operand of an elementwise kernel."""


@dataclass(frozen=True)
class PortRule:
    """Storage and parameters that a kernel accepts at a port.

    `zero_point` None means any. `per_channel` means one scale per output channel.
    """

    role: Role
    storage: Storage
    zero_point: int | None = None
    per_channel: bool = False


@dataclass(frozen=True)
class Free:
    """The output's parameters are its own: they come from what was observed."""


@dataclass(frozen=True)
class SameScale:
    """All activations, inputs and outputs, have the same scale and zero point."""


@dataclass(frozen=True)
class FixedScale:
    """The output has these parameters, whatever was observed."""

    scale: float
    zero_point: int


@dataclass(frozen=True)
class MultiplierAccumulatorScale:
    """bias scale = input scale * weight scale, bias zero point 0; the output is free."""


Relation = Free | SameScale | FixedScale | MultiplierAccumulatorScale


@dataclass(frozen=True)
class KernelRow:
    """One kernel.

    `inputs` are the rules of the operands in order; where an operand list is longer (concat), the last rule repeats,
    and an operand that is left out (no bias) takes no rule. `accumulator_bits` is the width in which products are
    summed. `checked` names the runtime version and the test that confirmed the row; empty where nobody has.
    """

    kernel: str
    inputs: tuple[PortRule, ...]
    output: PortRule
    relation: Relation
    accumulator_bits: int | None = None
    checked: str = ""

    def input_rule(self, index: int) -> PortRule:
        """The rule of operand `index`."""
        return self.inputs[min(index, len(self.inputs) - 1)]


@dataclass(frozen=True)
class Target:
    """A target: its kernels, the first row that fits wins, and the numerics profile it computes with."""

    name: str
    profile: str
    rows: tuple[KernelRow, ...]
    description: str = ""

    def row(self, kernel: str) -> KernelRow | None:
        """The first row of a logical kernel, None where the target has no such kernel."""
        return self.by_kernel.get(kernel)

    @property
    def by_kernel(self) -> Mapping[str, KernelRow]:
        """The first row of each kernel."""
        rows: dict[str, KernelRow] = {}
        for row in self.rows:
            rows.setdefault(row.kernel, row)
        return rows
