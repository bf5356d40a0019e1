"""Collective and communication ops, and the interpreter dialect, which runs processes.

Source: the StableHLO specification. Reductions are those of `zeropoint.interp.reduction`, over the values of the
processes in the order of the group.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from zeropoint.interp.binding import Kernel, Scope
from zeropoint.interp.processes import (
    CURRENT,
    ProcessGrid,
    ProcessId,
    cross_partition,
    cross_replica,
    cross_replica_and_partition,
    flattened_ids,
)
from zeropoint.interp.reduction import folded
from zeropoint.interp.regions import TOKEN
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AllGatherOp,
    AllReduceOp,
    AllToAllOp,
    CollectiveBroadcastOp,
    CollectivePermuteOp,
    CollectiveReduceOp,
    InfeedOp,
    OutfeedOp,
    PartitionIdOp,
    RecvOp,
    ReduceScatterOp,
    ReplicaIdOp,
    SendOp,
)
from zeropoint.ir.stablehlo.channels import channel_id, replica_groups
from zeropoint.ir.tensors import Array, element_of
from zeropoint.ir.testing.interpreter_ops import PrintOp, ProbeOp, RunParallelOp
from zeropoint.ir.values import value_text

Across = Callable[[Sequence[Sequence[int]], ProcessId, ProcessGrid], list[ProcessId] | None]
"""Maps replica groups to the group of a process; None if the process is in no group."""
Exchange = Callable[[Any], tuple[list[Any], int] | None]
"""Exchanges a process's value for the values of its group and its position in it; None if it is in no group."""


def _exchange(op: Any, across: Across) -> Exchange:
    groups, key = replica_groups(op.replica_groups), f"{op.name} on channel {channel_id(op)}"

    def exchange(value: Any) -> tuple[list[Any], int] | None:
        grid, process = CURRENT.get()
        group = across(groups if any(groups) else [_all_ids(across, grid)], process, grid)
        return None if group is None else (grid.meet(process, group, key, value), group.index(process))

    return exchange


def _all_ids(across: Across, grid: ProcessGrid) -> list[int]:
    """All ids that groups may list. Without groups, all ids form one group."""
    if across is flattened_ids:
        return list(range(grid.replicas * grid.partitions))
    return list(range(grid.partitions if across is cross_partition else grid.replicas))


def _reducing_exchange(op: Any) -> Exchange:
    """The exchange of all_reduce, reduce_scatter and all_gather. Channel and flag determine the kind of ids."""
    if channel_id(op) <= 0:
        return _exchange(op, cross_replica)
    return _exchange(op, flattened_ids if op.use_global_device_ids is not None else cross_replica_and_partition)


def _moving_exchange(op: Any) -> Exchange:
    """The exchange of all_to_all and collective_broadcast, by replica ids or, with a channel, by partition ids."""
    return _exchange(op, cross_replica if channel_id(op) <= 0 else cross_partition)


def _present(found: tuple[list[Any], int] | None) -> tuple[list[Any], int]:
    return ([], -1) if found is None else found


def all_reduce(op: AllReduceOp, scope: Scope) -> Kernel:
    """result = the body over the group's operands (C1 to C7)."""
    exchange = _reducing_exchange(op)
    folds = [folded(op.computation.block, *types, scope) for types in zip(op.inputs, op.results_, strict=True)]

    def run(*operands: Array) -> tuple[Array, ...]:
        values, _ = _present(exchange(operands))
        return tuple(fold([value[index] for value in values]) for index, fold in enumerate(folds))

    return run


def _zeros(arrays: Sequence[Array], values: Sequence[SSAValue]) -> tuple[Array, ...]:
    """An array with the real number 0 in place of every element. For a quantized value, this is the zero point."""
    kinds = [element_of(value) for value in values]
    return tuple(
        np.full_like(array, kind.zero_point if isinstance(kind, UniformQuantizedType) else 0)
        for array, kind in zip(arrays, kinds, strict=True)
    )


def collective_reduce(op: CollectiveReduceOp, scope: Scope) -> Kernel:
    """result = the body over the group's operands on its first process, zeros on the others."""
    exchange = _reducing_exchange(op)
    folds = [folded(op.computation.block, *types, scope) for types in zip(op.inputs, op.results_, strict=True)]

    def run(*operands: Array) -> tuple[Array, ...]:
        values, position = _present(exchange(operands))
        results = tuple(fold([value[index] for value in values]) for index, fold in enumerate(folds))
        return results if position == 0 else _zeros(results, op.results_)

    return run


def reduce_scatter(op: ReduceScatterOp, scope: Scope) -> Kernel:
    """result = the body over the group's operands, split along scatter_dimension; this process's part."""
    exchange, axis = _reducing_exchange(op), int(op.scatter_dimension.value.data)
    fold = folded(op.computation.block, op.operand, op.result, scope)

    def run(operand: Array) -> Array:
        values, position = _present(exchange(operand))
        return np.split(fold(values), len(values), axis)[position]

    return run


def all_gather(op: AllGatherOp, scope: Scope) -> Kernel:
    """result = the group's operands, concatenated along all_gather_dim."""
    exchange, axis = _reducing_exchange(op), int(op.all_gather_dim.value.data)

    def run(*operands: Array) -> tuple[Array, ...]:
        values, _ = _present(exchange(operands))
        return tuple(np.concatenate(parts, axis) for parts in zip(*values, strict=True))

    return run


def all_to_all(op: AllToAllOp, scope: Scope) -> Kernel:
    """result = this process's part of each of the group's operands, concatenated along concat_dimension."""
    exchange = _moving_exchange(op)
    split, concat, count = (int(e.value.data) for e in (op.split_dimension, op.concat_dimension, op.split_count))

    def run(*operands: Array) -> tuple[Array, ...]:
        values, position = _present(exchange(operands))
        return tuple(
            np.concatenate([np.split(part, count, split)[position] for part in parts], concat)
            for parts in zip(*values, strict=True)
        )

    return run


def collective_broadcast(op: CollectiveBroadcastOp, scope: Scope) -> Kernel:
    """result = the operand of the group's first process, or of its root; zeros for a process that is in no group."""
    exchange, has_root, count = _moving_exchange(op), op.has_dynamic_root is not None, len(op.results_)

    def run(*operands: Array) -> tuple[Array, ...]:
        found = exchange(operands)
        if found is None:
            return _zeros(operands[:count], op.results_)
        roots = [int(root) for root in operands[-1]] if has_root else [0] * count
        return tuple(found[0][root][index] for index, root in enumerate(roots))

    return run


def collective_permute(op: CollectivePermuteOp, scope: Scope) -> Kernel:
    """result = the operand of the process whose target is this one; zeros if there is none."""
    pairs, key = replica_groups(op.source_target_pairs), f"{op.name} on channel {channel_id(op)}"
    by_partition = channel_id(op) > 0

    def run(operand: Array) -> Array:
        grid, (replica, partition) = CURRENT.get()
        (received,) = _zeros((operand,), op.results)
        for source, target in pairs:
            group = [(replica, n) if by_partition else (n, partition) for n in dict.fromkeys((source, target))]
            if (replica, partition) in group:
                values = grid.meet((replica, partition), group, (key, source, target), operand)
                if (partition if by_partition else replica) == target:
                    received = values[0]
        return received

    return run


def partition_id(op: PartitionIdOp, scope: Scope) -> Kernel:
    """The partition id of this process."""
    return lambda: np.asarray(CURRENT.get()[1][1], np.uint32)


def replica_id(op: ReplicaIdOp, scope: Scope) -> Kernel:
    """The replica id of this process."""
    return lambda: np.asarray(CURRENT.get()[1][0], np.uint32)


def send(op: SendOp, scope: Scope) -> Kernel:
    """Sends the values to the channel."""
    channel = channel_id(op)

    def run(*operands: Array) -> Array:
        CURRENT.get()[0].send(channel, operands[:-1])
        return TOKEN

    return run


def recv(op: RecvOp, scope: Scope) -> Kernel:
    """Receives the oldest values of the channel. Waits until there are some."""
    channel = channel_id(op)

    def run(token: Array) -> tuple[Array, ...]:
        return (*CURRENT.get()[0].receive(channel), TOKEN)

    return run


def infeed(op: InfeedOp, scope: Scope) -> Kernel:
    """The next value of the infeed."""

    def run(token: Array) -> tuple[Array, ...]:
        return CURRENT.get()[0].feed(), TOKEN

    return run


def outfeed(op: OutfeedOp, scope: Scope) -> Kernel:
    """Writes the values to the outfeed."""

    def run(*operands: Array) -> Array:
        CURRENT.get()[0].outfeed.append(operands[:-1])
        return TOKEN

    return run


def run_parallel(op: RunParallelOp, scope: Scope) -> Kernel:
    """Runs the programs of the grid in parallel, each on its part of the operands."""
    programs = [
        ((replica, partition), scope.function(name))
        for replica, row in enumerate(op.grid)
        for partition, name in enumerate(row)
    ]
    counts = [scope.argument_count(name) for row in op.grid for name in row]
    queue = [scope.function(name) for name in op.queue]

    def run(*operands: Array) -> tuple[Array, ...]:
        grid = ProcessGrid(len(op.grid), len(op.grid[0]), deque(make([])[0] for make in queue))
        starts = np.cumsum([0, *counts])
        work = [
            (process, partial(function, operands[start : start + count]))
            for (process, function), start, count in zip(programs, starts[:-1], counts, strict=True)
        ]
        return tuple(value for results in grid.run(work) for value in results)

    return run


_WRITING = threading.Lock()


def print_(op: PrintOp, scope: Scope) -> Kernel:
    """The identity. Prints the operand with a single write, so that the output of processes is not interleaved."""
    write, name, found = scope.write, _printed_name(op.operand), op.result.type

    def run(operand: Array) -> Array:
        with _WRITING:
            write(f"%{name} = {value_text(operand, found)}\n")
        return operand

    return run


def _printed_name(value: SSAValue) -> str:
    """The name of a value in the output: its own name, or the number of unnamed values before it in the function."""
    if value.name_hint:
        return value.name_hint
    parent: Operation | None = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        parent = parent.parent_op()
    if parent is None:
        return "?"
    nameless = [result for op in parent.walk() for result in op.results if not result.name_hint]
    return next((str(number) for number, result in enumerate(nameless) if result is value), "?")


def probe(op: ProbeOp, scope: Scope) -> Kernel:
    """The identity. Records the operand under the name of the probe."""
    probes, name = scope.probes, op.probe_id.data

    def run(operand: Array) -> Array:
        probes.setdefault(name, []).append(operand)
        return operand

    return run
