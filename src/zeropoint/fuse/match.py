"""What fusion patterns look at and what they return."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue

from zeropoint.fuse.statements import Statements
from zeropoint.ir.bounds import Bounds
from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp
from zeropoint.ir.stablehlo import (
    BroadcastInDimOp,
    ClampOp,
    MaximumOp,
    MinimumOp,
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from zeropoint.ir.tensors import Array, element_of
from zeropoint.ir.weights import Weights


@dataclass(frozen=True)
class Match:
    """Ops that one logical kernel covers.

    `ops` are in program order; the last one makes the output. `inputs` are the ports in the order of the kernel's
    rules; every other operand of the covered ops is a constant, which moves into the region. `function` names the
    function of one value that the kernel computes, where it has a name.
    """

    kernel: str
    ops: tuple[Operation, ...]
    inputs: tuple[SSAValue, ...]
    function: str | None = None


@dataclass
class Graph:
    """The float program as patterns see it: who uses what, what is constant, what is covered already."""

    weights: Weights
    positions: dict[Operation, int]
    kernels: Collection[str]
    """The logical kernels that the target has."""
    bounds: Collection[tuple[float, float]] | None = None
    """The bounds that its kernels take in behind a sum or product; None for all."""
    stated: Statements = field(default_factory=dict[SSAValue, list[Operation]])
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
        """The array behind a constant, or behind one that is quantized and dequantized: a weight of a trained model."""
        while isinstance(dequantized := value.owner, DequantizeCastOp | UniformDequantizeOp):
            quantized = dequantized.operands[0].owner
            if not isinstance(quantized, QuantizeCastOp | UniformQuantizeOp):
                return None
            value = quantized.operands[0]
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
        taken, bounds = [*ops], Bounds()
        while (clamp := self.clamp_after(taken[-1].results[0])) is not None:
            bounds.then(clamp, self.weights)
            taken.append(clamp)
            if self.bounds is None or (bounds.low, bounds.high) in self.bounds:
                ops = [*taken]
        return tuple(ops)


Pattern = Callable[[Operation, Graph], Match | None]
