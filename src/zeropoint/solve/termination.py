"""That propagation ends: each port is set once, and rescaled at most once, so that the pass ends.

Source: the RFC on quantization transformations, section "Propagation pass": it stops when no parameters can be updated.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation

from zeropoint.ir.quant import UniformQuantizedType

Port = tuple[Operation, int]
"""An operand of a region by its index, or its output (`OUTPUT`)."""


class NoProgress(AssertionError):
    """A port is set or rescaled twice, or not at all: a fault of this package, whatever the program is."""


class Termination:
    """What has been done to the ports of a program. Steps are at most twice as many as ports."""

    def __init__(self, ports: Iterable[Port]):
        self._left = set(ports)
        self._types: dict[Port, UniformQuantizedType] = {}
        self._rescaled: set[Port] = set()

    def set(self, port: Port, made: UniformQuantizedType) -> None:
        """A port got its type. Raises NoProgress for a second one."""
        if port not in self._left:
            raise NoProgress(f"port {port[1]} of {port[0].name}: found types {self._types.get(port)} and {made}")
        self._left.remove(port)
        self._types[port] = made

    def rescale(self, port: Port) -> None:
        """A rescale stands between a port and its value. Raises NoProgress for a second one."""
        if port in self._rescaled:
            raise NoProgress(f"port {port[1]} of {port[0].name}: found two rescales")
        self._rescaled.add(port)

    def finish(self) -> None:
        """Raise NoProgress where a port was never set."""
        if self._left:
            raise NoProgress(f"found {len(self._left)} ports that were never set")
