"""A region as exporters read it: one logical kernel with its ports, ops and bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from zeropoint.export.errors import ExportError
from zeropoint.ir.bounds import Bounds
from zeropoint.ir.constants import broadcast_array
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, NoQuantizedType, QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.stablehlo import DivideOp, MultiplyOp, ReduceOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.materialize.contraction import ACCUMULATOR

OpT = TypeVar("OpT", bound=Operation)


def _element(spec: Attribute) -> Attribute:
    """The type of a port: its quantized type, or the float type if the spec forbids to quantize it."""
    return spec.expressed_type if isinstance(spec, NoQuantizedType) else spec


@dataclass(frozen=True)
class ExportKernel:
    """A `quant.region` with its types. Raises ExportError for a quantized kernel with several results."""

    region: QuantizeRegionOp
    weights: Weights

    def __post_init__(self) -> None:
        if self.is_quantized and len(self.region.outputs) != 1:
            found = f"found kernel '{self.name}' with {len(self.region.outputs)} results"
            raise ExportError(f"{found}, expected one; export to stablehlo, or keep it float by a recipe", self.region)

    @property
    def name(self) -> str:
        """The name of the logical kernel."""
        return self.region.logical_kernel.data

    @property
    def ops(self) -> Sequence[Operation]:
        """The float ops that the kernel covers."""
        return list(self.region.body.block.ops)[:-1]

    @property
    def is_quantized(self) -> bool:
        """Whether the kernel computes in integers."""
        return self.region.is_quantized

    @property
    def specs(self) -> tuple[Attribute, ...]:
        """The type of every operand: quantized, or the float element type."""
        return tuple(_element(spec) for spec in self.region.input_specs.data)

    @property
    def output_spec(self) -> Attribute:
        """The type of the result. Accumulators that only floats read are dequantized in the kernel."""
        spec = _element(self.region.output_specs.data[0])
        if isinstance(spec, UniformQuantizedType) and spec.storage == ACCUMULATOR:
            return spec.expressed_type
        return spec

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of the first operand."""
        return shape_of(self.region.inputs[0])

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return shape_of(self.region.outputs[0])

    def port(self, value: SSAValue) -> int:
        """The operand index of a block argument of the body. Raises ExportError for any other value."""
        for index, argument in enumerate(self.region.body.block.args):
            if argument is value:
                return index
        raise ExportError("found an operand that the body computes, expected one of its ports", self.region)

    def first(self, kind: type[OpT]) -> OpT:
        """The first op of a kind. Raises ExportError if the body has none."""
        for op in self.ops:
            if isinstance(op, kind):
                return op
        raise ExportError(f"found no {kind.name} in kernel '{self.name}', expected one", self.region)

    def array(self, value: SSAValue) -> Array | None:
        """The array of a constant in the body, or at a port, or of a broadcast of one; None for a computed value."""
        ports = zip(self.region.body.block.args, self.region.inputs, strict=True)
        return broadcast_array(value, self.weights, dict(ports))

    @property
    def divides_by_terms(self) -> bool:
        """Whether a mean divides its sum by the number of terms, or multiplies it by the inverse."""
        op, division = self.first(ReduceOp), next(op for op in self.ops if isinstance(op, DivideOp | MultiplyOp))
        number = self.array(division.operands[1])
        terms = prod(shape_of(op.inputs[0])[axis] for axis in array_values(op.dimensions))
        expected = terms if isinstance(division, DivideOp) else 1 / terms
        return number is not None and bool(np.allclose(number, expected, rtol=1e-6))

    @property
    def bounds(self) -> tuple[float, float]:
        """The clamp bounds after the kernel's last sum or product: (0, inf) for relu, (-inf, inf) without a clamp."""
        bounds = Bounds()
        for op in self.ops:
            bounds.then(op, self.weights)
        return bounds.low, bounds.high


def read_storage(argument: SSAValue) -> Attribute:
    """The one quantized type that all kernels read an input as, or the element type of an input that has no floats.

    Raises ExportError if there is no such type.
    """
    if not isinstance(element_of(argument), AnyFloat):
        return element_of(argument)
    specs = {
        spec
        for use in argument.uses
        if isinstance(use.operation, QuantizeRegionOp)
        for spec in [use.operation.input_specs.data[use.index]]
    }
    if len(specs) != 1 or not isinstance(spec := specs.pop(), UniformQuantizedType):
        raise ExportError(
            "found an input that kernels read as a float or as several quantized types, expected one quantized type; "
            "quantize with io integer, or keep io float (--io)"
        )
    return spec


def check_stored_outputs(program: Program) -> None:
    """Raise ExportError for an output that a float op computes, which integer outputs cannot return."""
    terminator = program.entry.last_op
    assert terminator is not None
    for port, value in zip(program.outputs, terminator.operands, strict=True):
        maker = value.owner
        if not isinstance(element_of(value), AnyFloat) or isinstance(maker, DequantizeCastOp):
            continue
        if isinstance(maker, QuantizeRegionOp) and isinstance(value, OpResult):
            if isinstance(maker.output_specs.data[value.index], UniformQuantizedType):
                continue
            name = f"kernel '{maker.logical_kernel.data}'"
        else:
            name = maker.name if isinstance(maker, Operation) else "an input"
        raise ExportError(f"output '{port.name}': found {name}, which computes in float; keep io float (--io)")
