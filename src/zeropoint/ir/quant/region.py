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
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import HasParent, IsolatedFromAbove, IsTerminator, Pure


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """The values that a region hands out."""

    name = "quant.return"
    results_ = var_operand_def()
    traits = traits_def(IsTerminator(), Pure(), HasParent(lambda: (QuantizeRegionOp,)))

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
