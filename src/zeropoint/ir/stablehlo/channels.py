"""Communication attributes of collective ops: the channel handle and the replica groups.

Source: the StableHLO specification, "channel_id" and "replica_groups" of the collective ops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Data
from xdsl.irdl import IRDLOperation, irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer


@dataclass(frozen=True)
class Channel:
    """The id that communicating ops share, and the kind of channel: 1 between devices, 2 to the host, 3 from it."""

    handle: int
    type: int


@irdl_attr_definition
class ChannelHandleAttr(Data[Channel]):
    """`#stablehlo.channel_handle<handle = 1, type = 0>`."""

    name = "stablehlo.channel_handle"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Channel:
        """Parse `<handle = 1, type = 0>`."""
        with parser.in_angle_brackets():
            found: dict[str, int] = {}
            for index, name in enumerate(("handle", "type")):
                if index:
                    parser.parse_punctuation(",")
                parser.parse_keyword(name)
                parser.parse_punctuation("=")
                found[name] = parser.parse_integer(allow_boolean=False)
            return Channel(**found)

    def print_parameter(self, printer: Printer) -> None:
        """Print `<handle = 1, type = 0>`."""
        printer.print_string(f"<handle = {self.data.handle}, type = {self.data.type}>")


def replica_groups(attribute: DenseIntOrFPElementsAttr[Any]) -> list[list[int]]:
    """The replica groups, without the -1 that pad short groups."""
    rows = np.frombuffer(attribute.data.data, np.int64)
    shape = attribute.get_shape()
    if len(rows) == 1:  # a splat
        rows = np.broadcast_to(rows, int(np.prod(shape)))
    return [[int(entry) for entry in row if entry != -1] for row in rows.reshape(shape)]


def channel_id(op: IRDLOperation) -> int:
    """The id of the op's channel, 0 if it has none."""
    channel = op.properties.get("channel_handle")
    return channel.data.handle if isinstance(channel, ChannelHandleAttr) else 0
