"""The interpreter dialect: ops that control how a test program runs. They are not part of the StableHLO specification.

```mlir
%0:2 = "interpreter.run_parallel"(%x, %y) {programs = [[@f], [@g]]} : (tensor<4xi64>, tensor<4xi64>) -> (...)
%1 = interpreter.print %x : tensor<4xi64>
%2 = interpreter.probe %x, probe_id = "x" : tensor<4xi64>
```
Source: upstream StableHLO's InterpreterOps; the error messages are upstream's.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.calls import referenced_function


@irdl_op_definition
class RunParallelOp(IRDLOperation):
    """Run a grid of processes, `programs[replica][partition]`, at the same time.

    The operands are the concatenated arguments of all programs; the results likewise. `infeed` names the functions that
    produce the values for `stablehlo.infeed`, in order.
    """

    name = "interpreter.run_parallel"
    inputs = var_operand_def()
    results_ = var_result_def()
    infeed = opt_prop_def(ArrayAttr)
    programs = prop_def(ArrayAttr)

    @property
    def grid(self) -> list[list[str]]:
        """The names of the programs."""
        rows = cast("ArrayAttr[ArrayAttr[SymbolRefAttr]]", self.programs)
        return [[entry.root_reference.data for entry in row] for row in rows]

    @property
    def queue(self) -> list[str]:
        """The names of the functions that fill the infeed."""
        if self.infeed is None:
            return []
        return [entry.root_reference.data for entry in cast("ArrayAttr[SymbolRefAttr]", self.infeed)]

    def verify_(self) -> None:
        """Check that the functions exist, and that operands and results match theirs."""
        grid = self.grid
        if not grid or not grid[0]:
            raise VerifyException("`programs` attribute cannot be empty")
        for row in grid:
            if len(row) != len(grid[0]):
                raise VerifyException(
                    f"Sizes of second dimension of `programs` should all match {len(grid[0])} but got {len(row)}"
                )
        functions = [self._function(name) for row in grid for name in row]
        for found, kind, expected in (
            (len(self.inputs), "inputs", sum(len(function.function_type.inputs) for function in functions)),
            (len(self.results_), "results", sum(len(function.function_type.outputs) for function in functions)),
        ):
            if found != expected:
                raise VerifyException(
                    f"Number of {kind} ({found}) should match the sum of the number of {kind} of all programs "
                    f"({expected})"
                )
        self._verify_infeed()

    def _verify_infeed(self) -> None:
        if self.infeed is not None and not self.queue:
            raise VerifyException("infeed attribute is optional or should not be empty")
        for name in self.queue:
            outputs = self._function(name).function_type.outputs
            if len(outputs) != 1:
                raise VerifyException(f'Function "{name}" should return 1 tensor but returns {len(outputs)}')

    def _function(self, name: str) -> FuncOp:
        found = referenced_function(self, name)
        if found is None:
            raise VerifyException(f'Function "{name}" not found')
        return found


@irdl_op_definition
class PrintOp(IRDLOperation):
    """The identity; prints the operand when it runs."""

    name = "interpreter.print"
    operand = operand_def()
    result = result_def()

    @classmethod
    def parse(cls, parser: Parser) -> PrintOp:
        """Parse `%x : type`."""
        value = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        operand, found = _parse_typed(parser, value)
        return cls.create(operands=operand, result_types=[found], attributes=attributes)

    def print(self, printer: Printer) -> None:
        """Print `%x : type`."""
        printer.print_string(" ")
        printer.print_operand(self.operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class ProbeOp(IRDLOperation):
    """The identity; records the operand under a name when it runs."""

    name = "interpreter.probe"
    operand = operand_def()
    result = result_def()
    probe_id = prop_def(StringAttr)

    @classmethod
    def parse(cls, parser: Parser) -> ProbeOp:
        """Parse `%x, probe_id = "x" : type`."""
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        parser.parse_keyword("probe_id")
        parser.parse_punctuation("=")
        name = StringAttr(parser.parse_str_literal())
        attributes = parser.parse_optional_attr_dict()
        operand, found = _parse_typed(parser, value)
        return cls.create(operands=operand, result_types=[found], properties={"probe_id": name}, attributes=attributes)

    def print(self, printer: Printer) -> None:
        """Print `%x, probe_id = "x" : type`."""
        printer.print_string(" ")
        printer.print_operand(self.operand)
        printer.print_string(", probe_id = ")
        printer.print_attribute(self.probe_id)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


def _parse_typed(parser: Parser, value: UnresolvedOperand) -> tuple[list[SSAValue], Attribute]:
    parser.parse_punctuation(":")
    position = parser.pos
    found = parser.parse_type()
    return list(parser.resolve_operands([value], [found], position)), found


OPS = (PrintOp, ProbeOp, RunParallelOp)
