"""The input and result types of fusion patterns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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
from zeropoint.ir.tensors import Array, has_floats
from zeropoint.ir.weights import Weights
from zeropoint.targets import KernelRow


@dataclass(frozen=True)
class RegionMatch:
    """Ops that one logical kernel covers.

    `ops` are in program order. `results` are the values that the region returns, by default those of the last op.
    `inputs` are the ports in the order of the kernel's rules. Every other operand of the ops is a constant, which is
    copied into the region. `function` is the name of the function if the kernel computes one of one value.
    """

    kernel: str
    ops: tuple[Operation, ...]
    inputs: tuple[SSAValue, ...]
    function: str | None = None
    results: tuple[SSAValue, ...] = ()

    @property
    def outputs(self) -> tuple[SSAValue, ...]:
        """The values that the region returns."""
        return self.results or tuple(self.ops[-1].results)


@dataclass
class FloatGraph:
    """The float program as patterns see it: uses, constants, and the ops covered so far."""

    weights: Weights
    positions: dict[Operation, int]
    kernels: Mapping[str, Sequence[KernelRow]]
    """The target's rows of each logical kernel."""
    bounds: Collection[tuple[float, float]] | None = None
    """The clamp bounds that the target's kernels absorb after a sum or product; None for any."""
    stated: Statements = field(default_factory=dict[SSAValue, list[Operation]])
    covered: set[Operation] = field(default_factory=set[Operation])

    def in_order(self, ops: Iterable[Operation]) -> tuple[Operation, ...]:
        """The ops in program order."""
        return tuple(sorted(ops, key=self.positions.__getitem__))

    def only_user(self, value: SSAValue) -> Operation | None:
        """The only user of `value` if no match covers it yet; None otherwise."""
        use = value.get_unique_use()
        # A value with several users must not be inside a region, which returns only its last value.
        return use.operation if use is not None and use.operation not in self.covered else None

    def splat(self, value: SSAValue) -> float | None:
        """The number that a splat constant or its broadcast repeats; None otherwise."""
        return splat_value(value, self.weights)

    def array(self, value: SSAValue) -> Array | None:
        """The array of a constant, also through quantize/dequantize pairs (trained quantization); None otherwise."""
        while isinstance(dequantized := value.owner, DequantizeCastOp | UniformDequantizeOp):
            quantized = dequantized.operands[0].owner
            if not isinstance(quantized, QuantizeCastOp | UniformQuantizeOp):
                return None
            value = quantized.operands[0]
        return constant_array(value, self.weights)

    def is_float(self, value: SSAValue) -> bool:
        """Whether the value is a tensor of floats."""
        return has_floats(value)

    def channel_constant(self, value: SSAValue, axis: int) -> SSAValue | None:
        """The rank-1 constant whose broadcast along `axis` is `value`; None otherwise."""
        op = value.owner
        if isinstance(op, BroadcastInDimOp) and op.broadcast_dimensions.get_values() == (axis,):
            return op.operand if self.array(op.operand) is not None else None
        return None

    def clamp_after(self, value: SSAValue) -> Operation | None:
        """The only user of `value` if it clamps it by numbers (relu, relu6, clip); None otherwise."""
        user = self.only_user(value)
        if isinstance(user, MaximumOp | MinimumOp):
            other = user.rhs if user.lhs is value else user.lhs
            return user if self.splat(other) is not None else None
        if isinstance(user, ClampOp) and user.operand is value:
            bounded = self.splat(user.min) is not None and self.splat(user.max) is not None
            return user if bounded else None
        return None

    def with_clamps(self, ops: list[Operation]) -> tuple[Operation, ...]:
        """`ops`, and as many of the clamps after the last one as the target's kernels absorb."""
        taken, bounds = [*ops], Bounds()
        while (clamp := self.clamp_after(taken[-1].results[0])) is not None:
            bounds.then(clamp, self.weights)
            taken.append(clamp)
            # Continue after bounds that the target lacks: a longer chain may reach ones that it has (max 0, then min
            # 6).
            if self.bounds is None or (bounds.low, bounds.high) in self.bounds:
                ops = [*taken]
        return tuple(ops)


RegionPattern = Callable[[Operation, FloatGraph], RegionMatch | None]
