"""The context for materializing one region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from xdsl.builder import Builder
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from zeropoint.ir.annotations import PROFILE, carry, profile_of
from zeropoint.ir.bounds import Bounds
from zeropoint.ir.constants import constant_op
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType, stored_array
from zeropoint.ir.stablehlo import ClampOp, ReturnOp
from zeropoint.ir.tensors import Array, element_of, with_element
from zeropoint.ir.weights import Weights
from zeropoint.numerics.profile import DEFAULT_PROFILE, Profile

OperationT = TypeVar("OperationT", bound=Operation)


@dataclass(frozen=True)
class UnroundedFloats:
    """Floats before they are rounded: real numbers, or multiples of `unit`.

    The unit is one number, or one for each index of `axis`.
    """

    value: SSAValue
    unit: np.float32 | NDArray[np.float32] | None = None
    axis: int | None = None


@dataclass
class MaterializedKernel:
    """A region that is rewritten to quantized ops, which are inserted before it.

    `values` maps values of the region's body (its arguments and op results) to the emitted quantized values.
    `unrounded` maps results of this and earlier kernels to their floats before rounding, for runtimes in which the next
    kernel reads these. `program_profile` is the profile of regions without their own.
    """

    region: QuantizeRegionOp
    builder: Builder
    weights: Weights
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    unrounded: dict[SSAValue, UnroundedFloats] = field(default_factory=dict[SSAValue, UnroundedFloats])
    program_profile: str = DEFAULT_PROFILE

    @property
    def profile(self) -> Profile:
        """The numerics profile of the region."""
        return profile_of(self.region, self.program_profile)

    @property
    def body(self) -> Sequence[Operation]:
        """The float ops of the region, without the terminator."""
        return list(self.region.body.block.ops)[:-1]

    @property
    def arguments(self) -> tuple[BlockArgument, ...]:
        """The block arguments of the region."""
        return self.region.body.block.args

    @property
    def given(self) -> set[SSAValue]:
        """The emitted forms of the operands."""
        return {self.values[argument] for argument in self.arguments}

    @property
    def returned(self) -> Sequence[tuple[SSAValue, UniformQuantizedType | None]]:
        """The values that the body returns, with the types that propagation gave them; None for a float or an index."""
        terminator = self.region.body.block.last_op
        assert terminator is not None
        return [
            (value, spec if isinstance(spec, UniformQuantizedType) else None)
            for value, spec in zip(terminator.operands, self.region.output_specs, strict=True)
        ]

    @property
    def output_type(self) -> UniformQuantizedType:
        """The type that propagation gave the first quantized result."""
        return next(spec for _, spec in self.returned if spec is not None)

    def type_of(self, value: SSAValue) -> UniformQuantizedType:
        """The element type of the quantized value that replaces `value`."""
        found = element_of(self.values[value])
        assert isinstance(found, UniformQuantizedType)
        return found

    def insert(self, op: OperationT, origin: Operation) -> OperationT:
        """Insert an op that replaces `origin`, with its location and the region's profile."""
        op.location = origin.location
        carry(self.region, op, PROFILE)
        return self.builder.insert(op)

    def retyped(self, op: Operation, element_type: Attribute, region: Region | None = None) -> SSAValue:
        """Emit the same op on the quantized operands, with the given result element type."""
        result = op.results[0]
        made = type(op).create(
            operands=[self.values[operand] for operand in op.operands],
            result_types=[with_element(result, element_type)],
            properties=dict(op.properties),
            attributes=dict(op.attributes),
            regions=[] if region is None else [region],
        )
        self.insert(made, op)
        self.values[result] = made.results[0]
        return made.results[0]

    def scalar(self, stored: int, quantized: UniformQuantizedType) -> SSAValue:
        """A scalar constant with the given storage integer."""
        array = np.array(stored, dtype=quantized.storage.type.dtype)
        return self.constant(array, quantized)

    def constant(self, array: Array, quantized: UniformQuantizedType | None = None) -> SSAValue:
        """A constant with the region's location. If `quantized` is given, the array holds its storage integers."""
        made = constant_op(array, self.weights, quantized=quantized, location=self.region.location)
        return self.builder.insert(made).output

    def stored(self, number: float, quantized: UniformQuantizedType) -> int:
        """The storage integer of a real number, infinities included."""
        return int(stored_array(number, quantized))

    def bounded(
        self, value: SSAValue, bounds: Bounds, origin: Operation, quantized: UniformQuantizedType | None = None
    ) -> SSAValue:
        """`clamp` on storage integers if a bound lies inside the storage range; else `value` itself.

        Rounding is monotonic, so clamping after quantization gives the same result as before it. `quantized` is the
        type of the value, by default `output_type`.
        """
        quantized = quantized or self.output_type
        low, high = self.stored(bounds.low, quantized), self.stored(bounds.high, quantized)
        if low <= quantized.storage.minimum and high >= quantized.storage.maximum:
            return value
        clamp = ClampOp(self.scalar(low, quantized), value, self.scalar(high, quantized))
        return self.insert(clamp, origin).result


def quantized_body(op: type[Operation], quantized: UniformQuantizedType) -> Region:
    """The body `(a, b) -> op(a, b)` on scalars of a quantized type."""
    scalar = TensorType(quantized, [])
    block = Block(arg_types=[scalar, scalar])
    combined = op.create(operands=list(block.args), result_types=[scalar])
    block.add_ops([combined, ReturnOp(combined.results)])
    return Region(block)
