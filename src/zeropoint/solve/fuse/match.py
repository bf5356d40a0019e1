"""What fusion patterns look at and what they return."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.stablehlo import BroadcastInDimOp, ClampOp, MaximumOp, MinimumOp
from zeropoint.ir.tensors import Array, element_of
from zeropoint.ir.weights import Weights


@dataclass(frozen=True)
class Match:
    """Ops that one logical kernel covers.

    `ops` are in program order; the last one makes the output. `inputs` are the ports in the order of the kernel's
    rules; every other operand of the covered ops is a small constant, which moves into the region.
    """

    kernel: str
    ops: tuple[Operation, ...]
    inputs: tuple[SSAValue, ...]


@dataclass
class Graph:
    """The float program as patterns see it: who uses what, what is constant, what is covered already."""

    weights: Weights
    positions: dict[Operation, int]
    covered: set[Operation] = field(default_factory=set[Operation])

    def in_order(self, ops: Iterable[Operation]) -> tuple[Operation, ...]:
        """The ops in program order."""
        return tuple(sorted(ops, key=self.positions.__getitem__))

    def only_user(self, value: SSAValue) -> Operation | None:
        """The op that alone uses `value` and that no match covers yet."""
        use = value.get_unique_use()
        return use.operation if use is not None and use.operation not in self.covered else None

    def splat(self, value: SSAValue) -> float | None:
        """The number that a constant or its broadcast repeats."""
        return splat_value(value, self.weights)

    def array(self, value: SSAValue) -> Array | None:
        """The array behind a constant."""
        return constant_array(value, self.weights)

    def is_float(self, value: SSAValue) -> bool:
        """Whether the value is a tensor of floats."""
        return isinstance(element_of(value), AnyFloat)

    def channel_constant(self, value: SSAValue, axis: int) -> SSAValue | None:
        """The rank-1 constant whose broadcast along `axis` is `value`."""
        op = value.owner
        if isinstance(op, BroadcastInDimOp) and op.broadcast_dimensions.get_values() == (axis,):
            return op.operand if self.array(op.operand) is not None else None
        return None

    def clamp_after(self, value: SSAValue) -> Operation | None:
        """The op that alone uses `value` and only bounds it by numbers: relu, relu6, a clip."""
        user = self.only_user(value)
        if isinstance(user, MaximumOp | MinimumOp):
            other = user.rhs if user.lhs is value else user.lhs
            return user if self.splat(other) is not None else None
        if isinstance(user, ClampOp) and user.operand is value:
            bounded = self.splat(user.min) is not None and self.splat(user.max) is not None
            return user if bounded else None
        return None

    def with_clamps(self, ops: list[Operation]) -> tuple[Operation, ...]:
        """`ops` and the bounds that follow their last one."""
        while (clamp := self.clamp_after(ops[-1].results[0])) is not None:
            ops = [*ops, clamp]
        return tuple(ops)


Pattern = Callable[[Operation, Graph], Match | None]
