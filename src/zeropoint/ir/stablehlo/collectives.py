"""Ops of several processes: reductions, gathers and moves across them, and what a process is called.

Source: the StableHLO specification, "all_reduce" and the other ops that have replica groups; "send", "recv",
"infeed", "outfeed".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, BoolAttr, DenseIntOrFPElementsAttr, IntegerAttr, StringAttr, UnitAttr
from xdsl.ir import Data
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from zeropoint.ir.stablehlo.collectives_checks import (
    check_all_gather,
    check_all_reduce,
    check_all_to_all,
    check_broadcast,
    check_channel,
    check_infeed,
    check_permute,
    check_process_id,
    check_reduce_scatter,
)
from zeropoint.ir.stablehlo.signatures import check_signature
from zeropoint.ir.stablehlo.tokens import TokenType


@dataclass(frozen=True)
class Channel:
    """The number that ops of one exchange share, and its kind: 1 between devices, 2 to the host, 3 from the host."""

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
    """The groups, without the -1 that fill short ones up."""
    rows = np.frombuffer(attribute.data.data, np.int64)
    shape = attribute.get_shape()
    if len(rows) == 1:  # a splat
        rows = np.broadcast_to(rows, int(np.prod(shape)))
    return [[int(entry) for entry in row if entry != -1] for row in rows.reshape(shape)]


def channel_id(op: IRDLOperation) -> int:
    """The number of the op's channel, 0 where it has none."""
    channel = op.properties.get("channel_handle")
    return channel.data.handle if isinstance(channel, ChannelHandleAttr) else 0


class _Reducing(IRDLOperation):
    """What the ops share whose body combines the values of several processes."""

    replica_groups = prop_def(DenseIntOrFPElementsAttr)
    channel_handle = opt_prop_def(ChannelHandleAttr)
    use_global_device_ids = opt_prop_def(UnitAttr)


@irdl_op_definition
class AllReduceOp(_Reducing):
    """The values of all processes of a group, reduced with the body, on every process of the group."""

    name = "stablehlo.all_reduce"
    inputs = var_operand_def()
    results_ = var_result_def()
    computation = region_def("single_block")

    def verify_(self) -> None:
        """Check the constraints of `all_reduce`."""
        check_signature(self)
        check_all_reduce(self, self.computation.block)


@irdl_op_definition
class ReduceScatterOp(_Reducing):
    """The values of all processes of a group, reduced with the body; every process has its part of the result."""

    name = "stablehlo.reduce_scatter"
    operand = operand_def()
    result = result_def()
    scatter_dimension = prop_def(IntegerAttr)
    computation = region_def("single_block")

    def verify_(self) -> None:
        """Check the constraints of `reduce_scatter`."""
        check_signature(self)
        check_reduce_scatter(self, self.scatter_dimension.value.data, self.computation.block)


@irdl_op_definition
class CollectiveReduceOp(_Reducing):
    """The values of all processes of a group, reduced with the body, on the first process; zeros on the others."""

    name = "stablehlo.collective_reduce"
    inputs = var_operand_def()
    results_ = var_result_def()
    computation = region_def("single_block")

    def verify_(self) -> None:
        """Check the constraints of `collective_reduce`."""
        check_all_reduce(self, self.computation.block)


@irdl_op_definition
class AllGatherOp(IRDLOperation):
    """The values of all processes of a group, one after the other along a dimension, on every process."""

    name = "stablehlo.all_gather"
    inputs = var_operand_def()
    results_ = var_result_def()
    all_gather_dim = prop_def(IntegerAttr)
    replica_groups = prop_def(DenseIntOrFPElementsAttr)
    channel_handle = opt_prop_def(ChannelHandleAttr)
    use_global_device_ids = opt_prop_def(UnitAttr)

    def verify_(self) -> None:
        """Check the constraints of `all_gather`."""
        check_signature(self)
        check_all_gather(self, int(self.all_gather_dim.value.data))


@irdl_op_definition
class AllToAllOp(IRDLOperation):
    """Every process cuts its value into as many parts as its group has processes, and gives one to each."""

    name = "stablehlo.all_to_all"
    inputs = var_operand_def()
    results_ = var_result_def()
    split_dimension = prop_def(IntegerAttr)
    concat_dimension = prop_def(IntegerAttr)
    split_count = prop_def(IntegerAttr)
    replica_groups = prop_def(DenseIntOrFPElementsAttr)
    channel_handle = opt_prop_def(ChannelHandleAttr)

    def verify_(self) -> None:
        """Check the constraints of `all_to_all`."""
        check_signature(self)
        split, concat, count = (
            int(entry.value.data) for entry in (self.split_dimension, self.concat_dimension, self.split_count)
        )
        check_all_to_all(self, split, concat, count)


@irdl_op_definition
class CollectivePermuteOp(IRDLOperation):
    """The value of the source process on the target process; zeros where a process is no target."""

    name = "stablehlo.collective_permute"
    operand = operand_def()
    result = result_def()
    source_target_pairs = prop_def(DenseIntOrFPElementsAttr)
    channel_handle = opt_prop_def(ChannelHandleAttr)

    def verify_(self) -> None:
        """Check the constraints of `collective_permute`."""
        check_signature(self)
        check_permute(self, self.source_target_pairs)


@irdl_op_definition
class CollectiveBroadcastOp(IRDLOperation):
    """The value of the first process of a group on all its processes; zeros where a process is in no group.

    With `has_dynamic_root` the last operand says, for each of the others, whose value it is; this form is newer than
    what the C++ StableHLO that zeropoint is compared with reads.
    """

    name = "stablehlo.collective_broadcast"
    inputs = var_operand_def()
    results_ = var_result_def()
    replica_groups = prop_def(DenseIntOrFPElementsAttr)
    channel_handle = opt_prop_def(ChannelHandleAttr)
    has_dynamic_root = opt_prop_def(UnitAttr)

    def verify_(self) -> None:
        """Check the constraints of `collective_broadcast`."""
        if self.has_dynamic_root is None:
            check_signature(self)
        check_broadcast(self, self.replica_groups, self.has_dynamic_root is not None)


@irdl_op_definition
class PartitionIdOp(IRDLOperation):
    """The number of this process within its replica."""

    name = "stablehlo.partition_id"
    result = result_def()
    assembly_format = "attr-dict `:` type($result)"

    def verify_(self) -> None:
        """The result is a `tensor<ui32>`."""
        check_process_id(self)


@irdl_op_definition
class ReplicaIdOp(IRDLOperation):
    """The number of the replica that this process belongs to."""

    name = "stablehlo.replica_id"
    result = result_def()
    assembly_format = "attr-dict `:` type($result)"

    def verify_(self) -> None:
        """The result is a `tensor<ui32>`."""
        check_process_id(self)


@irdl_op_definition
class SendOp(IRDLOperation):
    """Put values into a channel."""

    name = "stablehlo.send"
    inputs = var_operand_def()
    token = operand_def(TokenType)
    result = result_def(TokenType)
    channel_handle = prop_def(ChannelHandleAttr)
    is_host_transfer = opt_prop_def(BoolAttr)
    source_target_pairs = opt_prop_def(DenseIntOrFPElementsAttr)

    def verify_(self) -> None:
        """C1: the channel's type is that of the transfer."""
        check_channel(self.channel_handle.data.type, self.is_host_transfer, "DEVICE_TO_HOST", 2)


@irdl_op_definition
class RecvOp(IRDLOperation):
    """Take values out of a channel."""

    name = "stablehlo.recv"
    token = operand_def(TokenType)
    results_ = var_result_def()
    channel_handle = prop_def(ChannelHandleAttr)
    is_host_transfer = opt_prop_def(BoolAttr)
    source_target_pairs = opt_prop_def(DenseIntOrFPElementsAttr)

    def verify_(self) -> None:
        """C1 to C4: the channel's type is that of the transfer; the last result is a token."""
        check_channel(self.channel_handle.data.type, self.is_host_transfer, "HOST_TO_DEVICE", 3)
        check_infeed(self)


@irdl_op_definition
class InfeedOp(IRDLOperation):
    """Take values out of the infeed."""

    name = "stablehlo.infeed"
    token = operand_def(TokenType)
    results_ = var_result_def()
    infeed_config = opt_prop_def(StringAttr)
    layout = opt_prop_def(ArrayAttr)

    def verify_(self) -> None:
        """C1 to C3: the last result is a token."""
        check_infeed(self)


@irdl_op_definition
class OutfeedOp(IRDLOperation):
    """Put values into the outfeed."""

    name = "stablehlo.outfeed"
    inputs = var_operand_def()
    token = operand_def(TokenType)
    result = result_def(TokenType)
    outfeed_config = opt_prop_def(StringAttr)
