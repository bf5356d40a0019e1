"""Check that propagation terminates: each port is set once and rescaled at most once.

Source: the RFC on quantization transformations, section "Propagation pass": it stops when no parameters can be updated.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation, OpResult, SSAValue

from zeropoint.ir.quant import UniformQuantizedType

PortNumber = tuple[Operation, int]
"""A port of a region: operand i has the number i, and result n the number `~n`."""


def result_port(value: SSAValue) -> int:
    """The port number of an op's result."""
    assert isinstance(value, OpResult)
    return ~value.index


class NoProgress(AssertionError):
    """A port was set or rescaled twice, or was never set. This is a bug in this package, not in the program."""


class Termination:
    """Records which ports were set and rescaled, at most one step of each kind per port."""

    def __init__(self, ports: Iterable[PortNumber]):
        self._left = set(ports)
        self._types: dict[PortNumber, UniformQuantizedType] = {}
        self._rescaled: set[PortNumber] = set()

    def set(self, port: PortNumber, made: UniformQuantizedType) -> None:
        """Record that a port got its type. Raises NoProgress the second time."""
        if port not in self._left:
            raise NoProgress(f"port {port[1]} of {port[0].name}: found types {self._types.get(port)} and {made}")
        self._left.remove(port)
        self._types[port] = made

    def rescale(self, port: PortNumber) -> None:
        """Record a rescale between a port and its value. Raises NoProgress the second time."""
        if port in self._rescaled:
            raise NoProgress(f"port {port[1]} of {port[0].name}: found two rescales")
        self._rescaled.add(port)

    def finish(self) -> None:
        """Raise NoProgress if a port was never set."""
        if self._left:
            raise NoProgress(f"found {len(self._left)} ports that were never set")
