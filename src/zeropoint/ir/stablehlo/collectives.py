"""Ops of several processes: reductions, gathers and moves across them, and what a process is called.

Source: the StableHLO specification, "all_reduce" and the other ops that have replica groups; "send", "recv",
"infeed", "outfeed".
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, BoolAttr, DenseIntOrFPElementsAttr, IntegerAttr, StringAttr, UnitAttr
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    var_operand_def,
    var_result_def,
)

from zeropoint.ir.stablehlo.channels import ChannelHandleAttr
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
from zeropoint.ir.stablehlo.signatures import ANY, VARIADIC, Signature, SignatureOp, same_element_type
from zeropoint.ir.stablehlo.tokens import TokenType


class _Reducing(SignatureOp):
    """What the ops share whose body combines the values of several processes."""

    replica_groups = prop_def(DenseIntOrFPElementsAttr)
    channel_handle = opt_prop_def(ChannelHandleAttr)
    use_global_device_ids = opt_prop_def(UnitAttr)


@irdl_op_definition
class AllReduceOp(_Reducing):
    """The values of all processes of a group, reduced with the body, on every process of the group."""

    name = "stablehlo.all_reduce"
    SIGNATURE: ClassVar[Signature] = Signature((VARIADIC,), VARIADIC)
    inputs = var_operand_def()
    results_ = var_result_def()
    computation = region_def("single_block")

    def verify_(self) -> None:
        """Check the constraints of `all_reduce`."""
        super().verify_()
        check_all_reduce(self, self.computation.block)


@irdl_op_definition
class ReduceScatterOp(_Reducing):
    """The values of all processes of a group, reduced with the body; every process has its part of the result."""

    name = "stablehlo.reduce_scatter"
    SIGNATURE: ClassVar[Signature] = Signature((ANY,), ANY)
    operand = operand_def()
    result = result_def()
    scatter_dimension = prop_def(IntegerAttr)
    computation = region_def("single_block")

    def verify_(self) -> None:
        """Check the constraints of `reduce_scatter`."""
        super().verify_()
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
class AllGatherOp(SignatureOp):
    """The values of all processes of a group, one after the other along a dimension, on every process."""

    name = "stablehlo.all_gather"
    SIGNATURE: ClassVar[Signature] = Signature((VARIADIC,), VARIADIC)
    inputs = var_operand_def()
    results_ = var_result_def()
    all_gather_dim = prop_def(IntegerAttr)
    replica_groups = prop_def(DenseIntOrFPElementsAttr)
    channel_handle = opt_prop_def(ChannelHandleAttr)
    use_global_device_ids = opt_prop_def(UnitAttr)

    def verify_(self) -> None:
        """Check the constraints of `all_gather`."""
        super().verify_()
        check_all_gather(self, int(self.all_gather_dim.value.data))


@irdl_op_definition
class AllToAllOp(SignatureOp):
    """Every process cuts its value into as many parts as its group has processes, and gives one to each."""

    name = "stablehlo.all_to_all"
    SIGNATURE: ClassVar[Signature] = Signature((VARIADIC,), VARIADIC)
    inputs = var_operand_def()
    results_ = var_result_def()
    split_dimension = prop_def(IntegerAttr)
    concat_dimension = prop_def(IntegerAttr)
    split_count = prop_def(IntegerAttr)
    replica_groups = prop_def(DenseIntOrFPElementsAttr)
    channel_handle = opt_prop_def(ChannelHandleAttr)

    def verify_(self) -> None:
        """Check the constraints of `all_to_all`."""
        super().verify_()
        split, concat, count = (
            int(entry.value.data) for entry in (self.split_dimension, self.concat_dimension, self.split_count)
        )
        check_all_to_all(self, split, concat, count)


@irdl_op_definition
class CollectivePermuteOp(SignatureOp):
    """The value of the source process on the target process; zeros where a process is no target."""

    name = "stablehlo.collective_permute"
    SIGNATURE: ClassVar[Signature] = Signature((ANY,), ANY, (same_element_type,))
    operand = operand_def()
    result = result_def()
    source_target_pairs = prop_def(DenseIntOrFPElementsAttr)
    channel_handle = opt_prop_def(ChannelHandleAttr)

    def verify_(self) -> None:
        """Check the constraints of `collective_permute`."""
        super().verify_()
        check_permute(self, self.source_target_pairs)


@irdl_op_definition
class CollectiveBroadcastOp(SignatureOp):
    """The value of the first process of a group on all its processes; zeros where a process is in no group.

    With `has_dynamic_root` the last operand says, for each of the others, whose value it is; this form is newer than
    what the C++ StableHLO that zeropoint is compared with reads.
    """

    name = "stablehlo.collective_broadcast"
    SIGNATURE: ClassVar[Signature] = Signature((ANY,), ANY, (same_element_type,))
    inputs = var_operand_def()
    results_ = var_result_def()
    replica_groups = prop_def(DenseIntOrFPElementsAttr)
    channel_handle = opt_prop_def(ChannelHandleAttr)
    has_dynamic_root = opt_prop_def(UnitAttr)

    def verify_(self) -> None:
        """Check the constraints of `collective_broadcast`."""
        if self.has_dynamic_root is None:
            super().verify_()
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


OPS = (
    AllReduceOp,
    ReduceScatterOp,
    CollectiveReduceOp,
    AllGatherOp,
    AllToAllOp,
    CollectivePermuteOp,
    CollectiveBroadcastOp,
    PartitionIdOp,
    ReplicaIdOp,
    SendOp,
    RecvOp,
    InfeedOp,
    OutfeedOp,
)
