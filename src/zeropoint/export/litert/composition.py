"""Elementwise arithmetic of several operators in place of an op that LiteRT does not have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import Attribute, Operation

from zeropoint.export.litert.builder import OperatorOptions
from zeropoint.export.litert.emission import LitertEmission
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of

OPTIONS = {
    "ADD": "AddOptions",
    "BITWISE_XOR": "BitwiseXorOptions",
    "MUL": "MulOptions",
    "RIGHT_SHIFT": "RightShiftOptions",
    "SUB": "SubOptions",
}
"""The options table of each operator that has one."""


@dataclass(frozen=True)
class Composition:
    """Emits operators on tensors of the shape of an op's result, all of one element type."""

    emit: LitertEmission
    op: Operation
    kind: Attribute

    @property
    def _shape(self) -> tuple[int, ...]:
        return shape_of(self.op.results[0])

    def constant(self, number: float | Array, *, whole: bool = False) -> int:
        """A number, or one for each element; of the whole shape for operators that do not repeat a smaller operand."""
        array = np.asarray(number).astype(element_dtype(self.kind))
        return self.emit.builder.part("number", np.broadcast_to(array, self._shape) if whole else array)

    def apply(self, operator: str, *operands: int) -> int:
        """An operator on tensors of this element type."""
        made = self.emit.temporary(self.emit.name(self.op.results[0]), self._shape, self.kind)
        table = OPTIONS.get(operator)
        options: OperatorOptions | None = None if table is None else (table, {})
        self.emit.operator(operator, operands, [made], options)
        return made

    def plus(self, first: int, second: int) -> int:
        """first + second."""
        return self.apply("ADD", first, second)

    def minus(self, first: int, second: int) -> int:
        """first - second."""
        return self.apply("SUB", first, second)

    def times(self, first: int, second: int) -> int:
        """first * second."""
        return self.apply("MUL", first, second)

    def cast(self, tensor: int, given: Attribute, made: Attribute) -> int:
        """A tensor of another element type; the tensor itself if it has this type."""
        if given == made:
            return tensor
        result = self.emit.temporary(self.emit.name(self.op.results[0]), self._shape, made)
        self.emit.operator("CAST", [tensor], [result], ("CastOptions", {}))
        return result

    def finish(self, tensor: int) -> None:
        """Let a tensor be the op's result."""
        (result,) = self.op.results
        self.emit.alias(result, element_of(result), tensor)
