"""Ops for process ids, point-to-point communication, and infeed and outfeed.

Source: the StableHLO specification, "partition_id", "replica_id", "send", "recv", "infeed", "outfeed"; the error
messages are upstream's.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.channels import ChannelHandleAttr
from zeropoint.ir.stablehlo.elements import check_inferred
from zeropoint.ir.stablehlo.tokens import TokenType
from zeropoint.ir.tensors import element_of


def check_process_id(op: IRDLOperation) -> None:
    """Check partition_id, replica_id: the result is a `tensor<ui32>`.

    Raises VerifyException.
    """
    (result,) = op.result_types
    unsigned = IntegerType(32, Signedness.UNSIGNED)
    if not isinstance(result, TensorType) or element_of(cast("Attribute", result)) != unsigned:
        raise VerifyException(f"result #0 must be ranked tensor of 32-bit unsigned integer values, but got '{result}'")
    check_inferred([((), unsigned)], [cast("Attribute", result)])


def check_channel(kind: int, is_host_transfer: BoolAttr | None, name: str, expected: int) -> None:
    """Check the type of a channel: 1 between devices, `expected` with the host.

    Raises VerifyException.
    """
    with_host = is_host_transfer is not None and bool(is_host_transfer.value.data)
    if not with_host and kind != 1:
        raise VerifyException("channel_type should be DEVICE_TO_DEVICE when is_host_transfer is false")
    if with_host and kind != expected:
        raise VerifyException(f"channel_type should be {name} when is_host_transfer is true")


def check_infeed(op: IRDLOperation) -> None:
    """Check the results of infeed and recv: tensors, then a token.

    Raises VerifyException.
    """
    results = op.result_types
    if not results:
        raise VerifyException("result is expected to be at least of size 1, but got 0")
    for found in results[:-1]:
        if not isinstance(found, TensorType):
            raise VerifyException(
                f"everything but the last element of result types is expected to be of tensor type, but got '{found}'"
            )
    if results[-1].name != "stablehlo.token":
        raise VerifyException(f"last element of result types is expected to be of token type, but got '{results[-1]}'")


@irdl_op_definition
class PartitionIdOp(IRDLOperation):
    """The id of this process within its replica."""

    name = "stablehlo.partition_id"
    result = result_def()
    assembly_format = "attr-dict `:` type($result)"

    def verify_(self) -> None:
        """The result is a `tensor<ui32>`."""
        check_process_id(self)


@irdl_op_definition
class ReplicaIdOp(IRDLOperation):
    """The id of this process's replica."""

    name = "stablehlo.replica_id"
    result = result_def()
    assembly_format = "attr-dict `:` type($result)"

    def verify_(self) -> None:
        """The result is a `tensor<ui32>`."""
        check_process_id(self)


@irdl_op_definition
class SendOp(IRDLOperation):
    """Sends values to a channel."""

    name = "stablehlo.send"
    inputs = var_operand_def()
    token = operand_def(TokenType)
    result = result_def(TokenType)
    channel_handle = prop_def(ChannelHandleAttr)
    is_host_transfer = opt_prop_def(BoolAttr)
    source_target_pairs = opt_prop_def(DenseIntOrFPElementsAttr)

    def verify_(self) -> None:
        """C1: the channel's type matches the kind of transfer."""
        check_channel(self.channel_handle.data.type, self.is_host_transfer, "DEVICE_TO_HOST", 2)


@irdl_op_definition
class RecvOp(IRDLOperation):
    """Receives values from a channel."""

    name = "stablehlo.recv"
    token = operand_def(TokenType)
    results_ = var_result_def()
    channel_handle = prop_def(ChannelHandleAttr)
    is_host_transfer = opt_prop_def(BoolAttr)
    source_target_pairs = opt_prop_def(DenseIntOrFPElementsAttr)

    def verify_(self) -> None:
        """C1 to C4: the channel's type matches the kind of transfer; the last result is a token."""
        check_channel(self.channel_handle.data.type, self.is_host_transfer, "HOST_TO_DEVICE", 3)
        check_infeed(self)


@irdl_op_definition
class InfeedOp(IRDLOperation):
    """Reads values from the infeed."""

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
    """Writes values to the outfeed."""

    name = "stablehlo.outfeed"
    inputs = var_operand_def()
    token = operand_def(TokenType)
    result = result_def(TokenType)
    outfeed_config = opt_prop_def(StringAttr)


OPS = (PartitionIdOp, ReplicaIdOp, SendOp, RecvOp, InfeedOp, OutfeedOp)
