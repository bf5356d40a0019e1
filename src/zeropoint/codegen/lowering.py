"""From an integer program to the steps of native code: group, layout, schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zeropoint.codegen.dot_forms import name_dot_forms
from zeropoint.codegen.graph import Graph
from zeropoint.codegen.group import group, noted_isa
from zeropoint.codegen.laid_out import check_laid_out
from zeropoint.codegen.layout import is_laid_out, lay_out, layout
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.parameters import ParameterBlock
from zeropoint.codegen.patterns.match import Found
from zeropoint.codegen.schedule.steps import schedule
from zeropoint.errors import reading
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import shape_of
from zeropoint.progress import Progress, silent


def _group(program: Program, isa: InstructionSet, found: Found, _: int) -> Program:
    return group(program, isa=isa.name, found=found)


def _layout(program: Program, _: InstructionSet, found: Found, observed: int) -> Program:
    lay_out(program, found, observed)
    return program


PASSES: Mapping[str, Callable[[Program, InstructionSet, Found, int], Program]] = {"group": _group, "layout": _layout}
"""The passes before `schedule`, in order. They share the matches of kernels, by which `layout` changes its program in
place. `zeropoint.passes.NATIVE_PASSES` lists them with their options."""


def steps_of(
    program: Program,
    isa: InstructionSet,
    weights: ParameterBlock | None = None,
    progress: Progress = silent,
    observed: int = 0,
) -> Graph:
    """The steps of a program for one instruction set. A program may be grouped or laid out already.

    Parameters are appended to `weights`, by default to a block of the graph's own. The last `observed` results of a
    program that is not grouped stay where they were computed.

    Raises CodegenError, with the op's name and location, for an op without a kernel, for a program that is grouped for
    another instruction set, and for inputs without a static shape.
    """
    for port in program.inputs:
        if min(shape_of(port.type), default=0) < 0:
            raise CodegenError(f"input '{port.name}': found {port.type}, expected a static shape", program.main)
    noted, found = noted_isa(program), Found()
    if noted is not None:
        return _resumed(program, isa, noted, weights)
    for run in progress([*PASSES.values()], "passes"):
        program = run(program, isa, found, observed)
    return schedule(program, isa, found, weights, observed)


def _resumed(program: Program, isa: InstructionSet, noted: str, weights: ParameterBlock | None) -> Graph:
    """The steps of a program that has kernels already. It may come from a text that was edited, so it is checked."""
    if noted != isa.name:
        raise CodegenError(f"found a program grouped for {noted}, expected {isa.name}; group it again")
    program = program.clone()
    name_dot_forms(program, isa)
    with reading(f"kernels for {noted}", CodegenError):
        if is_laid_out(program):
            check_laid_out(program)
        else:
            program = layout(program)
        return schedule(program, isa, weights=weights)
