"""The second half of a table's key: what is known of the storage at each port of a kernel.

Source: the RFC on quantization transformations, section "Target Constraints": the signature is a sequence of storage
types and ranges for all inputs and outputs; it can be partially specified.
"""

from __future__ import annotations

from dataclasses import dataclass

from zeropoint.ir.quant import Storage


@dataclass(frozen=True)
class AtLeast:
    """Storage of `bits` bits or more, of whatever sign: what `!quant.any` asks for."""

    bits: int

    def __str__(self) -> str:
        return f"{self.bits} bits or more"


Demand = Storage | AtLeast | None
"""What is asked of the storage of a port; None leaves it to the table."""


@dataclass(frozen=True)
class Signature:
    """The demands on the operands and on the output of a kernel."""

    inputs: tuple[Demand, ...]
    output: Demand = None

    def __str__(self) -> str:
        inputs = ", ".join("any" if demand is None else str(demand) for demand in self.inputs)
        return f"({inputs}) -> {'any' if self.output is None else self.output}"
