"""Rows of 8-bit scores whose exponentials come from a table of 256 floats, as runtimes compute softmax in floats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.stablehlo.dimensions import GatherDimensions
from zeropoint.ir.tensors import element_of, shape_of, with_shape
from zeropoint.materialize.float_arithmetic import FloatArithmetic, is_of_bytes
from zeropoint.numerics.arrays import F32Array
from zeropoint.numerics.rounding import INT32_MAX

ENTRIES = 256


@dataclass(frozen=True)
class TabulatedRows:
    """The rows of a kernel along dimension `axis`. `scores` are its centred integers, i32."""

    run: FloatArithmetic
    axis: int
    scores: SSAValue

    @staticmethod
    def of(run: FloatArithmetic) -> TabulatedRows | None:
        """The rows of a kernel of one 8-bit operand that it reduces along one dimension; None for others."""
        kernel = run.kernel
        op = next(op for op in kernel.body if isinstance(op, hlo.ReduceOp))
        axes = array_values(op.dimensions)
        alone = len(kernel.arguments) == 1 and shape_of(op.inputs[0]) == shape_of(kernel.region.outputs[0])
        if len(axes) != 1 or not alone or op.inputs[0] is not kernel.arguments[0] or not is_of_bytes(kernel):
            return None
        given = kernel.type_of(kernel.arguments[0])
        return TabulatedRows(run, axes[0], run.centred(kernel.values[kernel.arguments[0]], given))

    @property
    def length(self) -> int:
        """The number of elements in a row."""
        return shape_of(self.scores)[self.axis]

    def greatest(self) -> SSAValue:
        """The greatest score of each row, i32."""
        return self._combined(self.scores, hlo.MaximumOp, -INT32_MAX)

    def exponentials(self, greatest: SSAValue, table: F32Array) -> SSAValue:
        """The entry of each score in a table whose last entry is that of the greatest score."""
        distances = self.run.made(hlo.SubtractOp(self.scores, self.along(greatest)))
        index = self.run.plus(distances, ENTRIES - 1)
        last = len(shape_of(index))
        dimensions = GatherDimensions(collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=last)
        return self.run.made(hlo.GatherOp(self.run.kernel.constant(table), index, dimensions, [1]))

    def sums(self, values: SSAValue) -> SSAValue:
        """The elements of each row added from first to last."""
        return self._combined(values, hlo.AddOp, 0)

    def along(self, number: SSAValue) -> SSAValue:
        """One number a row, broadcast to the shape of the scores."""
        kept = [d for d in range(len(shape_of(self.scores))) if d != self.axis]
        like = with_shape(number, list(shape_of(self.scores)))
        return self.run.made(hlo.BroadcastInDimOp(number, like, kept))

    def _combined(self, value: SSAValue, op: type[hlo.AddOp] | type[hlo.MaximumOp], initial: int) -> SSAValue:
        """One number a row, without the dimension."""
        shape, kind = shape_of(value), element_of(value)
        window = [size if d == self.axis else 1 for d, size in enumerate(shape)]
        result = with_shape(value, [1 if d == self.axis else size for d, size in enumerate(shape)])
        start = self.run.kernel.constant(np.array(initial, np.int32 if kind == i32 else np.float32))
        found = self.run.made(hlo.ReduceWindowOp([value], [start], [result], window, binary_body(op, kind)))
        kept = [size for d, size in enumerate(shape) if d != self.axis]
        return self.run.made(hlo.ReshapeOp(found, with_shape(found, kept)))
