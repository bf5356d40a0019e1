"""The second half of a table's key: the known storage at each port of a kernel.

Source: the RFC on quantization transformations, section "Target Constraints": the signature is a sequence of storage
types and ranges for all inputs and outputs; it can be partially specified.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zeropoint.ir.quant import Storage
from zeropoint.numerics.storage import StorageType, half_range


@dataclass(frozen=True)
class AtLeast:
    """Storage of `bits` bits or more, signed or unsigned, as `!quant.any` requests."""

    bits: int

    def __str__(self) -> str:
        return f"{self.bits} bits or more"


@dataclass(frozen=True)
class EitherSign:
    """A storage, or the equivalent one of the other signedness: u8<1:255> for i8<-127:127>."""

    storage: Storage

    @property
    def other(self) -> Storage:
        """The equivalent storage of the other signedness."""
        kind = self.storage.type
        offset = half_range(kind.width)
        shift = offset if kind.signed else -offset
        kind = StorageType(not kind.signed, kind.width)
        return Storage(kind, self.storage.minimum + shift, self.storage.maximum + shift)

    def __str__(self) -> str:
        return str(self.storage)


NIBBLE = Storage.of("i4")


def in_four_bits(storage: Storage) -> Storage:
    """The i4 storage of the same integers, or of these minus 8 if they are unsigned. `storage` itself if they do not
    fit."""
    shift = 0 if storage.type.signed else NIBBLE.minimum
    low, high = storage.minimum + shift, storage.maximum + shift
    fits = NIBBLE.minimum <= low and high <= NIBBLE.maximum
    return Storage(NIBBLE.type, low, high) if fits else storage


Demand = Storage | AtLeast | EitherSign | None
"""A requirement on the storage of a port; None leaves it to the table."""


@dataclass(frozen=True)
class KernelSignature:
    """The demands on the operands and on the results of a kernel. `output` is that on the first result."""

    inputs: tuple[Demand, ...]
    output: Demand = None
    more_outputs: tuple[Demand, ...] = ()

    @property
    def outputs(self) -> tuple[Demand, ...]:
        """The demands on the results."""
        return (self.output, *self.more_outputs)

    def __str__(self) -> str:
        inputs, outputs = (
            ", ".join("any" if demand is None else str(demand) for demand in demands)
            for demands in (self.inputs, self.outputs)
        )
        return f"({inputs}) -> {f'({outputs})' if self.more_outputs else outputs}"


def widest(storages: Sequence[Storage]) -> list[Storage]:
    """The storages that are no part of another of the same type."""
    return [
        storage
        for storage in storages
        if not any(
            other.type == storage.type
            and other != storage
            and other.minimum <= storage.minimum
            and storage.maximum <= other.maximum
            for other in storages
        )
    ]
