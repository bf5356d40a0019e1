"""Converts sub-channel types to the per-layer or per-channel types that they are equivalent to.

```mlir
tensor<2x6x!quant.uniform<i8:f32:{0:1}, {{1.0}, {0.5}}>>
tensor<2x6x!quant.uniform<i8:f32:{}, {{2.0}}>>
```
become
```mlir
tensor<2x6x!quant.uniform<i8:f32:0, {1.0,0.5}>>
tensor<2x6x!quant.uniform<i8:f32, 2.0>>
```
so that a target that supports only the two simpler granularities accepts the program.

Source: upstream MLIR's pass `normalize-quant-types`. Unlike there, blocks of more than one index stay as they are,
because one scale for three rows is not a scale per row.
"""

from __future__ import annotations

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.quant.containers import element_or_self, ranked_shape
from zeropoint.ir.tensors import with_element


class _Types:
    """Maps tensor types to their normal form. Each is computed once."""

    def __init__(self) -> None:
        self._known: dict[Attribute, Attribute] = {}

    def convert(self, found: Attribute) -> Attribute:
        if found not in self._known:
            element = element_or_self(found)
            known = found
            if ranked_shape(found) is not None and isinstance(element, UniformQuantizedType):
                known = with_element(found, element.normalized)
            self._known[found] = known
        return self._known[found]

    def convert_value(self, value: SSAValue) -> None:
        found = self.convert(value.type)
        if found != value.type:
            Rewriter.replace_value_with_new_type(value, found)


def _convert(module: ModuleOp, types: _Types) -> None:
    for op in module.walk():
        for result in op.results:
            types.convert_value(result)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    types.convert_value(argument)
        if isinstance(op, FuncOp):
            signature = op.function_type
            op.function_type = FunctionType.from_lists(
                [types.convert(found) for found in signature.inputs],
                [types.convert(found) for found in signature.outputs],
            )


def normalize_quant_types(program: Program) -> Program:
    """Convert every sub-channel tensor type of values and signatures to its normal form."""
    program = program.for_change()
    _convert(program.module, _Types())
    return program
