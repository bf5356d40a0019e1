"""Collective ops: reductions, gathers and data movement across the processes of a group.

Source: the StableHLO specification, "all_reduce" and the other ops that have replica groups; the error messages are
upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseIntOrFPElementsAttr, IntegerAttr, TensorType, UnitAttr, i32, i64
from xdsl.ir import Attribute, Block
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
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo.arrays import check_not_negative
from zeropoint.ir.stablehlo.channels import ChannelHandleAttr, channel_id
from zeropoint.ir.stablehlo.elements import check_inferred, compatible_elements, compatible_sizes
from zeropoint.ir.stablehlo.reduction import check_reduced, check_reducer
from zeropoint.ir.stablehlo.signatures import ANY, VARIADIC, OpSignature, SignatureOp, same_element_type
from zeropoint.ir.tensors import element_of, shape_of

ReplicaGroups = DenseIntOrFPElementsAttr[Any]


def _numbers(attribute: ReplicaGroups) -> list[int]:
    entries = np.frombuffer(attribute.data.data, np.int64)
    size = int(np.prod(attribute.get_shape()))
    return [int(entry) for entry in (np.broadcast_to(entries, size) if len(entries) == 1 else entries)]


def _check_groups(op: IRDLOperation, *, same_size: bool, is_global: bool = False, size: int | None = None) -> None:
    groups = cast("ReplicaGroups", op.properties["replica_groups"])
    if groups.get_element_type() != i64:
        raise VerifyException(
            "attribute 'replica_groups' failed to satisfy constraint: 64-bit signless integer elements attribute or "
            "mesh and axes based replica groups representation."
        )
    shape = groups.get_shape()
    if len(shape) != 2:
        raise VerifyException("replica groups should be a rank 2 tensor")
    numbers = _numbers(groups)
    if is_global and not numbers:
        raise VerifyException("if `use_global_device_ids` is set, the replica groups cannot be empty")
    _check_ids(numbers, same_size)
    if size is not None and shape[0] and shape[1] != size:
        raise VerifyException(f"group size of replica_groups must be {size}")


def _check_ids(numbers: Sequence[int], same_size: bool) -> None:
    seen: set[int] = set()
    for number in numbers:
        if number == -1:
            if same_size:
                raise VerifyException("Invalid replica id -1")
            continue
        if number in seen:
            raise VerifyException(f"replica id #{number} seen more than once")
        seen.add(number)
    for number in range(len(seen)):
        if number not in seen:
            raise VerifyException(f"replica id #{number} not seen in replica groups")


def _is_global(op: IRDLOperation) -> bool:
    return isinstance(op.properties.get("use_global_device_ids"), UnitAttr)


def _check_channel_id(op: IRDLOperation, least: int, sentence: str) -> None:
    if _is_global(op) and channel_id(op) < least:
        raise VerifyException(sentence.format(channel_id(op)))


def check_all_reduce(op: IRDLOperation, body: Block) -> None:
    """Check all_reduce: C1 to C7, and the RFC's constraints on its types.

    Raises VerifyException.
    """
    _check_groups(op, same_size=False, is_global=_is_global(op))
    _check_channel_id(op, 1, "channel_id must be positive when useGlobalDeviceIds is set but got: {}")
    returned: list[Attribute] = []
    for operand in op.operand_types:
        returned += check_reducer(body, [operand], [TensorType(element_of(operand), [])], ())
    operands = list(op.operand_types)
    check_reduced([shape_of(found) for found in operands], returned, operands, operands, op.result_types)


def check_reduce_scatter(op: IRDLOperation, dimension: int, body: Block) -> None:
    """Check reduce_scatter: C1 to C9, and the RFC's constraints on its types.

    Raises VerifyException.
    """
    check_not_negative("scatter_dimension", dimension)
    _check_groups(op, same_size=True, is_global=_is_global(op))
    _check_channel_id(op, 1, "channel_id must be positive when useGlobalDeviceIds is set but got: {}")
    (operand,), (result,) = op.operand_types, op.result_types
    returned = check_reducer(body, [operand], [TensorType(element_of(operand), [])], ())
    _check_scattered(shape_of(operand), shape_of(result), dimension)
    found = element_of(result)
    made, kept = element_of(returned[0]), element_of(operand)
    if not (compatible_elements(made, found) or compatible_elements(kept, found)):
        sentence = f"result element-type is expected to be '{made}', but got '{found}'"
        if not compatible_elements(made, kept):
            scales = " with any scale and zero point" if isinstance(kept, UniformQuantizedType) else ""
            sentence += f"; allowed beside it, as the operand has it: '{kept}'{scales}"
        raise VerifyException(sentence)


def _check_scattered(operand: Sequence[int], result: Sequence[int], dimension: int) -> None:
    if len(operand) != len(result):
        raise VerifyException("operand and result should have same rank")
    if dimension >= len(operand):
        raise VerifyException("scatter dim should be less than operand/result rank")
    if result[dimension] == 0:
        raise VerifyException("result dimension size at scatter_dimension cannot be zero")
    if operand[dimension] == 0:
        raise VerifyException("operand dimension size at scatter_dimension cannot be zero")
    is_static = DYNAMIC_INDEX not in (operand[dimension], result[dimension])
    if is_static and operand[dimension] % result[dimension]:
        raise VerifyException(
            f"operand scatter dimension has size {operand[dimension]}, expected to be a multiple of result scatter "
            f"dimension size {result[dimension]}"
        )
    for index, (first, second) in enumerate(zip(operand, result, strict=True)):
        if index != dimension and not compatible_sizes(first, second):
            raise VerifyException(f"non scatter dimensions should be same for operand ({first}) and result ({second})")


def check_all_gather(op: IRDLOperation, dimension: int) -> None:
    """Check all_gather: C1 to C6.

    Raises VerifyException.
    """
    check_not_negative("all_gather_dim", dimension)
    for index, (operand, result) in enumerate(zip(op.operand_types, op.result_types, strict=True)):
        if element_of(operand) != element_of(result):
            raise VerifyException(f"requires the same element type for operand and result at index {index}")
    for operand, result in zip(op.operand_types, op.result_types, strict=True):
        given, made = shape_of(operand), shape_of(result)
        if dimension >= len(given):
            raise VerifyException("all_gather_dim must be a valid index of operand")
        if given[dimension] == 0:
            raise VerifyException("dimension size of operand at 'all_gather_dim' cannot be zero")
        _check_groups(op, same_size=True, is_global=_is_global(op))
        _check_channel_id(op, 0, "channel_id cannot be negative when useGlobalDeviceIds is set")
        _check_gathered(given, made, dimension)


def _check_gathered(operand: Sequence[int], result: Sequence[int], dimension: int) -> None:
    if len(operand) != len(result):
        raise VerifyException("operand and result must have the same rank")
    if any(i != dimension and not compatible_sizes(a, b) for i, (a, b) in enumerate(zip(operand, result, strict=True))):
        raise VerifyException(
            "operand and result should have the same shape except for the dimension size at 'all_gather_dim'"
        )
    if DYNAMIC_INDEX not in (operand[dimension], result[dimension]) and result[dimension] % operand[dimension]:
        raise VerifyException(
            f"result gather dimension has size {result[dimension]}, expected to be a multiple of operand gather "
            f"dimension size {operand[dimension]}"
        )


def check_all_to_all(op: IRDLOperation, split: int, concat: int, count: int) -> None:
    """Check all_to_all: C1 to C9.

    Raises VerifyException.
    """
    for name, value in (("split_dimension", split), ("concat_dimension", concat)):
        check_not_negative(name, value)
    if count <= 0:
        raise VerifyException(
            "attribute 'split_count' failed to satisfy constraint: 64-bit signless integer attribute whose value is "
            "positive"
        )
    _check_groups(op, same_size=True, size=count)
    inferred: list[tuple[list[int], Attribute]] = []
    for operand in op.operand_types:
        shape = list(shape_of(operand))
        for name, value in (("split_dimension", split), ("concat_dimension", concat)):
            if value >= len(shape):
                raise VerifyException(f"AllToAll {name} {value} is out-of-bounds for input rank {len(shape)}")
        if shape[split] != DYNAMIC_INDEX and shape[split] % count:
            raise VerifyException(
                f"split dimension has size {shape[split]}, expected to be a multiple of split_count {count}"
            )
        if shape[split] != DYNAMIC_INDEX:
            shape[split] //= count
        if shape[concat] != DYNAMIC_INDEX:
            shape[concat] *= count
        inferred.append((shape, element_of(operand)))
    check_inferred(inferred, op.result_types)


def check_permute(op: IRDLOperation, pairs: ReplicaGroups) -> None:
    """Check collective_permute: C1 to C5.

    Raises VerifyException.
    """
    shape = pairs.get_shape()
    if len(shape) != 2:
        raise VerifyException(f"expect source_target_pairs attribute to be of rank 2, but got rank {len(shape)}")
    if shape[1] != 2:
        text = ", ".join(map(str, shape))
        raise VerifyException(f"expect source_target_pairs attribute of shape (N, 2), but got ({text})")
    numbers = _numbers(pairs)
    if any(number < 0 for number in numbers):
        raise VerifyException("replica ids in source_target_pairs must be >= 0.")
    for name, listed in (("sources", numbers[0::2]), ("targets", numbers[1::2])):
        if len(set(listed)) != len(listed):
            raise VerifyException(f"duplicate {name} not allowed.")
    check_inferred([(shape_of(found), element_of(found)) for found in op.operand_types], op.result_types)


def check_broadcast(op: IRDLOperation, groups: ReplicaGroups, has_root: bool) -> None:
    """Check collective_broadcast: C1 to C3; with a root, an i32 for every other operand.

    Raises VerifyException.
    """
    shape = groups.get_shape()
    if len(shape) != 2:
        raise VerifyException(f"replica groups should be a rank 2 tensor,but instead it is of rank {len(shape)}")
    seen: set[int] = set()
    for number in _numbers(groups):
        if number < 0:
            raise VerifyException(f"replica_groups values must be positive, but was given {number}")
        if number in seen:
            raise VerifyException(f"replica id #{number} seen more than once")
        seen.add(number)
    operands = op.operand_types[:-1] if has_root else op.operand_types
    if has_root:
        root = op.operand_types[-1]
        check_inferred([((len(operands),), i32)], [root])
    elif len(op.result_types) != 1:
        raise VerifyException("requires one result")
    check_inferred([(shape_of(found), element_of(found)) for found in operands], op.result_types)


class _Reducing(SignatureOp):
    """Base class of ops whose body combines the values of several processes."""

    replica_groups = prop_def(DenseIntOrFPElementsAttr)
    channel_handle = opt_prop_def(ChannelHandleAttr)
    use_global_device_ids = opt_prop_def(UnitAttr)


@irdl_op_definition
class AllReduceOp(_Reducing):
    """Reduces the values of a group's processes with the body; every process of the group gets the result."""

    name = "stablehlo.all_reduce"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((VARIADIC,), VARIADIC)
    inputs = var_operand_def()
    results_ = var_result_def()
    computation = region_def("single_block")

    def verify_(self) -> None:
        """Check the constraints of `all_reduce`."""
        super().verify_()
        check_all_reduce(self, self.computation.block)


@irdl_op_definition
class ReduceScatterOp(_Reducing):
    """Reduces the values of a group's processes with the body; every process gets its part of the result."""

    name = "stablehlo.reduce_scatter"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY,), ANY)
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
    """Reduces the values of a group's processes with the body; the first process gets the result, the others zeros."""

    name = "stablehlo.collective_reduce"
    inputs = var_operand_def()
    results_ = var_result_def()
    computation = region_def("single_block")

    def verify_(self) -> None:
        """Check the constraints of `collective_reduce`."""
        check_all_reduce(self, self.computation.block)


@irdl_op_definition
class AllGatherOp(SignatureOp):
    """Concatenates the values of a group's processes along a dimension; every process gets the result."""

    name = "stablehlo.all_gather"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((VARIADIC,), VARIADIC)
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
    """Every process splits its value into one part per process of its group and sends one part to each."""

    name = "stablehlo.all_to_all"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((VARIADIC,), VARIADIC)
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
    """Sends the value of each source process to its target process; other processes get zeros."""

    name = "stablehlo.collective_permute"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY,), ANY, (same_element_type,))
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
    """Sends the value of a group's first process to all its processes; processes outside of all groups get zeros.

    With `has_dynamic_root`, the last operand gives the root process for each of the other operands. This form is newer
    than the C++ StableHLO that zeropoint is compared with.
    """

    name = "stablehlo.collective_broadcast"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((ANY,), ANY, (same_element_type,))
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


OPS = (
    AllReduceOp,
    ReduceScatterOp,
    CollectiveReduceOp,
    AllGatherOp,
    AllToAllOp,
    CollectivePermuteOp,
    CollectiveBroadcastOp,
)
