"""`composite`: an op made of other ops, with a function that says what it means.

Source: the StableHLO specification, "composite".
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr, SymbolRefAttr, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    var_operand_def,
    var_result_def,
)


@irdl_op_definition
class CompositeOp(IRDLOperation):
    """`stablehlo.composite "ns.name" %x {composite_attributes = {...}, decomposition = @f} : ...`."""

    name = "stablehlo.composite"
    inputs = var_operand_def()
    results_ = var_result_def()
    composite_name = prop_def(StringAttr, prop_name="name")
    composite_attributes = opt_prop_def(DictionaryAttr, default_value=DictionaryAttr({}))
    decomposition = prop_def(SymbolRefAttr)
    version = opt_prop_def(IntegerAttr.constr(i32), default_value=IntegerAttr(0, i32))
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$name $inputs attr-dict `:` functional-type(operands, results)"

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        composite_name: str,
        decomposition: str,
        attributes: DictionaryAttr | None = None,
    ):
        super().__init__(
            operands=[inputs],
            result_types=[result_types],
            properties={
                "name": StringAttr(composite_name),
                "composite_attributes": attributes,
                "decomposition": SymbolRefAttr(decomposition),
            },
        )
