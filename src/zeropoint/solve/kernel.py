"""A region, the row of the target's table that was chosen for it, and its ports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from zeropoint.ir.constants import is_constant
from zeropoint.ir.locations import named_kernel
from zeropoint.ir.quant import QuantizeRegionOp, Storage
from zeropoint.ir.tensors import has_floats
from zeropoint.targets import DATA, KernelRow, Role

ADDS_ELEMENTS = ("pad",)
"""Kernels of one operand and one scale whose result may contain a value that the operand does not contain."""


@dataclass
class ChosenKernel:
    """A region with its row. `storages` has one storage per port, by the port's index.

    `position` is the rank in the canonical order (`order.py`), in which definitions come before uses.
    """

    region: QuantizeRegionOp
    row: KernelRow
    storages: tuple[Storage, ...]
    position: int
    demands: dict[str, str] = field(default_factory=dict[str, str])
    scale_type: str = "f64"

    @property
    def name(self) -> str:
        """Kernel and location, for messages: `convolution 'conv1'`."""
        return named_kernel(self.row.kernel, self.region.outputs[0])

    def ports(self) -> Iterator[tuple[int, SSAValue]]:
        """The operands and results whose parameters propagation decides, with their indices."""
        yield from self.data_ports()
        yield from self.results()

    def results(self) -> Iterator[tuple[int, SSAValue]]:
        """The quantized results, with their indices as ports."""
        for port, value in result_ports(self.region):
            if self.row.rule(port).role is not Role.OTHER:
                yield port, value

    def data_ports(self) -> Iterator[tuple[int, SSAValue]]:
        """The operands whose parameters propagation decides, with their indices."""
        for index, value in enumerate(self.region.inputs):
            if self.is_data(index, value):
                yield index, value

    def is_data(self, index: int, value: SSAValue) -> bool:
        """Whether operand `index` is an activation."""
        return self.row.input_rule(index).role in DATA and not is_constant(value) and is_float(value)

    def moved_operand(self, result: int) -> SSAValue | None:
        """The operand that all elements of a result come from. None if some do not, or if the scale differs."""
        data = [value for _, value in self.data_ports()]
        moves = self.row.shares(0, result) and self.row.kernel not in ADDS_ELEMENTS
        return data[0] if moves and len(self.region.inputs) == len(data) == 1 else None

    def value(self, port: int) -> SSAValue:
        """The operand or the result at a port."""
        return self.region.inputs[port] if port >= 0 else self.region.outputs[~port]

    def storage(self, port: int) -> Storage:
        """The storage at an operand or a result."""
        return self.storages[port]


def result_ports(region: QuantizeRegionOp) -> Iterator[tuple[int, SSAValue]]:
    """The results of a region, with their indices as ports."""
    return ((~number, value) for number, value in enumerate(region.outputs))


def is_float(value: SSAValue) -> bool:
    """Whether the elements of a value are floats."""
    return has_floats(value)
