"""`composite`: an op composed of other ops, with a function that defines its semantics.

Source: the StableHLO specification, "composite".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr, SymbolRefAttr, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.calls import referenced_function

_NAME = "^[a-zA-Z][a-zA-Z0-9_]*([.][a-zA-Z0-9_$]+)+$"


class _CallsDecomposition(SymbolUserOpInterface):
    """Verifies that the decomposition is a function with the op's operand and result types."""

    def verify(self, op: Operation) -> None:
        assert isinstance(op, CompositeOp)
        name = op.decomposition.root_reference.data
        function = referenced_function(op, name)
        if function is None:
            raise VerifyException(f"'{name}' does not reference a valid function")
        _check_types("operand", op.operand_types, function.function_type.inputs.data)
        _check_types("result", op.result_types, function.function_type.outputs.data)


def _check_types(kind: str, found: Sequence[Attribute], expected: Sequence[Attribute]) -> None:
    if len(found) != len(expected):
        raise VerifyException(f"has {len(found)} {kind}(s), but decomposition has {len(expected)}")
    for index, (actual, declared) in enumerate(zip(found, expected, strict=True)):
        if actual != declared:
            raise VerifyException(
                f"{kind} at index {index} has type '{actual}', but decomposition has type '{declared}'"
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
    version = opt_prop_def(IntegerAttr, default_value=IntegerAttr(0, i32))
    traits = traits_def(_CallsDecomposition())
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

    def verify_(self) -> None:
        """Check that the name has a namespace, and the version's type."""
        if self.version.type != i32:
            raise VerifyException("attribute 'version' failed to satisfy constraint: 32-bit signless integer attribute")
        if re.match(_NAME, self.composite_name.data) is None:
            raise VerifyException(
                "name must be a valid namespaced op name, i.e. it must match the following regular expression: "
                f'{_NAME} e.g. "my_namespace.my_op"'
            )


OPS = (CompositeOp,)
