"""`quant.region` wraps the float ops that one target kernel covers; `quant.return` ends it.

Source: the RFC on quantization transformations, section "Quantization region: the 'logical' kernel".
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    attr_def,
    irdl_op_definition,
    lazy_traits_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import HasParent, IsolatedFromAbove, IsTerminator, Pure

from zeropoint.ir.quant.checks import refusal
from zeropoint.ir.quant.containers import element_or_self
from zeropoint.ir.quant.types import QuantizedType


def is_valid_spec(spec: Attribute, port_type: Attribute) -> bool:
    """Whether a port of `port_type` may have this specification.

    Either the element type of the port itself, or a quantized type that expresses it or leaves open what it expresses.
    """
    element = element_or_self(port_type)
    if isinstance(spec, QuantizedType):
        return spec.expressed_type in (None, element)
    return spec == element


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """The values that a region hands out."""

    name = "quant.return"
    results_ = var_operand_def()
    traits = lazy_traits_def(lambda: (IsTerminator(), Pure(), HasParent(QuantizeRegionOp)))

    def __init__(self, results: Sequence[SSAValue]):
        super().__init__(operands=[results])


@irdl_op_definition
class QuantizeRegionOp(IRDLOperation):
    """The logical kernel: isolated from above, its ports are its operands and results.

    `input_specs` and `output_specs` hold one type per port: the expressed type itself (not quantized, or not decided
    yet), or a quantized type.
    """

    name = "quant.region"
    inputs = var_operand_def()
    outputs = var_result_def()
    body = region_def("single_block")
    input_specs = attr_def(ArrayAttr)
    output_specs = attr_def(ArrayAttr)
    logical_kernel = attr_def(StringAttr)
    traits = traits_def(IsolatedFromAbove(), Pure())

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        logical_kernel: str,
        input_specs: Sequence[Attribute],
        output_specs: Sequence[Attribute],
        body: Region | None = None,
    ):
        if body is None:
            body = Region(Block(arg_types=[value.type for value in inputs]))
        super().__init__(
            operands=[inputs],
            result_types=[result_types],
            attributes={
                "input_specs": ArrayAttr(input_specs),
                "output_specs": ArrayAttr(output_specs),
                "logical_kernel": StringAttr(logical_kernel),
            },
            regions=[body],
        )

    def verify_(self) -> None:
        if len(self.inputs) != len(self.input_specs) or len(self.outputs) != len(self.output_specs):
            raise refusal(self, "has unmatched operands/results number and spec attributes number")
        ports = (("input", self.inputs, self.input_specs), ("output", self.outputs, self.output_specs))
        for kind, values, specs in ports:
            for value, spec in zip(values, specs, strict=True):
                if not is_valid_spec(spec, value.type):
                    raise refusal(self, f"has incompatible specification {spec} and {kind} type '{value.type}'")
        self._verify_body()

    def _verify_body(self) -> None:
        block = self.body.block
        arguments, operands = [value.type for value in block.args], [value.type for value in self.inputs]
        if arguments != operands:
            raise refusal(
                self, f"has body arguments {_types(arguments)}, expected the operand types {_types(operands)}"
            )
        if not isinstance(block.last_op, ReturnOp):
            raise refusal(self, "has a body without 'quant.return' at its end")
        returned, results = [value.type for value in block.last_op.operands], [value.type for value in self.outputs]
        if returned != results:
            raise refusal(self, f"returns {_types(returned)}, expected the result types {_types(results)}")


def _types(types: Sequence[Attribute]) -> str:
    return f"({', '.join(map(str, types))})"
