"""How a format emits kernels: each by the operators of its rule, or by the float ops of its body."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from xdsl.ir import Operation, SSAValue

from zeropoint.export.errors import ExportError
from zeropoint.export.kernels import ExportKernel
from zeropoint.export.missing import missing_in_float
from zeropoint.ir.inlining import inline_region
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import ConstantOp

EmissionT = TypeVar("EmissionT")


@dataclass(frozen=True)
class KernelRules(Generic[EmissionT]):
    """The rules of a format, which emit the operators of kernels and float ops into a model under construction."""

    format: str
    """The name of the format and of the runtime, for errors."""
    runtime: str
    rules: Mapping[str, Callable[[ExportKernel, EmissionT], None]]
    """The rule of each logical kernel."""
    in_float_too: Collection[str]
    """Kernels that have the same operator in float."""
    float_rules: Mapping[type[Operation], Callable[[Any, EmissionT], None]]
    """The rule of each float op."""
    stands_for: Callable[[EmissionT, SSAValue, SSAValue], None]
    """Makes the first value an alias of the second, in float."""

    def emit(self, kernel: ExportKernel, emission: EmissionT) -> None:
        """Emit a kernel. If it stays float, its float ops are emitted, unless it is in `in_float_too`.

        Raises ExportError for a kernel that the runtime does not have.
        """
        rule = self.rules.get(kernel.name)
        if not kernel.is_quantized and kernel.name not in self.in_float_too:
            self._inline(kernel, emission)
        elif rule is None:
            raise ExportError(f"found kernel '{kernel.name}', expected one that {self.runtime} has", kernel.region)
        else:
            rule(kernel, emission)

    def flat(self, program: Program) -> Program:
        """A copy in which kernels that stay float are their ops, so that an op sees which ops read it.

        Kernels in `in_float_too` stay, except means with another divisor, which no operator has. In a file that is
        imported again, each float op is a kernel of its own.
        """
        program = program.for_change()
        for op in list(program.entry.ops):
            if isinstance(op, QuantizeRegionOp) and not op.is_quantized:
                kernel = ExportKernel(op, program.weights)
                if kernel.name not in self.in_float_too or (kernel.name == "mean" and not kernel.divides_by_terms):
                    inline_region(op)
        return program

    def float_op(self, op: Operation, emission: EmissionT) -> None:
        """Emit a float op. Raises ExportError if the format does not have it."""
        rule = self.float_rules.get(type(op))
        if rule is None:
            raise missing_in_float(op, self.format)
        rule(op, emission)

    def _inline(self, kernel: ExportKernel, emission: EmissionT) -> None:
        """Emit the float ops of the body, with its arguments aliased to the operands and the results to its values."""
        block = kernel.region.body.block
        for argument, value in zip(block.args, kernel.region.inputs, strict=True):
            self.stands_for(emission, argument, value)
        for op in kernel.ops:
            if not isinstance(op, ConstantOp):
                self.float_op(op, emission)
        returned = block.last_op
        assert returned is not None
        for output, value in zip(kernel.region.outputs, returned.operands, strict=True):
            self.stands_for(emission, output, value)
