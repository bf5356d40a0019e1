"""Find the values that calibration must observe for a target.

A value needs statistics if a kernel reads or produces it and its parameters are not determined otherwise. These values
are excluded:

- values that only float ops use,
- values that the model pins or a kernel fixes,
- values whose elements are moved or selected from an excluded value.

Some excluded values are observed because their range has an effect (`side_ranges`). The variances of the rows of a
normalization, the operands of functions and the quotients of two values are observed to judge the width of an operand
(`function_widths`), also if they stay float. The values inside a user's composites are observed, because parts of it
may become kernels (`composed.py`). A value that the model rounds for some of its readers is observed for the others
(`quantized_files/casts_beside_floats.py`). Any other model that states all ranges that kernels need is not observed at
all. Neither needs data.

Source: "MLIR Quantization", section "Solver tools", instrument: at points where statistics may yield solutions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.ir import SSAValue

from zeropoint.ir.constants import is_constant
from zeropoint.ir.normalizations import row_variances
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.regions import regions_of
from zeropoint.solve.composed import inner_values
from zeropoint.solve.constraints import Constraints, take_constraints
from zeropoint.solve.kernel import ChosenKernel
from zeropoint.solve.kernels import KernelChoice
from zeropoint.solve.masks.hidden_results import keep_hidden_results
from zeropoint.solve.ports import PortGraph
from zeropoint.solve.separate import separate
from zeropoint.solve.specs import Specs
from zeropoint.solve.value_ranges.side_ranges import beside_hidden, that_narrow, with_ranges_that_matter
from zeropoint.targets import Target
from zeropoint.targets.logical_kernels import FUNCTIONS


def all_values(program: Program) -> list[SSAValue]:
    """All values of the entry function, the row variances inside normalizations, and the values inside composites."""
    block = program.entry
    inside = [variances for op in block.ops if (variances := row_variances(op)) is not None]
    return [*block.args, *(result for op in block.ops for result in op.results), *inside, *_inner(program)]


def _inner(program: Program) -> list[SSAValue]:
    """The values inside a user's composites."""
    regions = regions_of(program)
    return [value for region in regions for value in inner_values(region, program.weights)]


def wanted_statistics(target: Target) -> Callable[[Program], Callable[[SSAValue], bool]]:
    """A function that maps a program to a predicate, which says whether one of its values must be observed.

    The returned function raises PropagationError as `propagate` does.
    """

    def of_program(program: Program) -> Callable[[SSAValue], bool]:
        copy = program.clone()
        original = dict(zip(all_values(copy), all_values(program), strict=True))
        variances = [found for op in copy.entry.ops if (found := row_variances(op)) is not None]
        constraints = take_constraints(copy, target.scale_type, kernels=target.by_kernel)
        asked = _wanted(copy, target, constraints)
        if asked and keep_hidden_results(copy, constraints):
            asked += _wanted(copy, target, constraints)  # a reader of a value that stays float needs its range
        if asked:
            asked += _inner(copy)
        if target.least_sqnr and asked:
            asked += [*variances, *(value for value in _judged(copy) if not _is_stated(value, constraints))]
        asked += _read_beside_casts(constraints)
        wanted = {original[value] for value in asked if value in original}
        return wanted.__contains__

    return of_program


def undecided(
    program: Program, target: Target, constraints: Constraints
) -> tuple[list[SSAValue], PortGraph, set[SSAValue]]:
    """The values whose parameters neither the model nor a kernel determines, definitions first.

    Also returns the graph of the ports, and the values whose type is fixed by the kernel that produces them.
    """
    kernels = KernelChoice(target, constraints).choose(program)
    graph = PortGraph.of(kernels, constraints)
    specs = Specs.of(graph, separate(graph), "asymmetric", target.scale_type)
    specs.run_functions(graph.kernels, program.weights)
    makers = {value: (kernel, port) for kernel in kernels for port, value in kernel.results()}
    settled: set[SSAValue] = set()
    fixed: set[SSAValue] = set()
    for value in graph.value_nodes:  # in program order
        if _is_settled(value, makers.get(value), constraints, specs, settled):
            settled.add(value)
        if _is_fixed(value, makers.get(value), graph, fixed):
            fixed.add(value)
    return [value for value in graph.value_nodes if value not in settled], graph, fixed


def _wanted(program: Program, target: Target, constraints: Constraints) -> list[SSAValue]:
    asked, graph, fixed = undecided(program, target, constraints)
    if asked:
        side = [
            *with_ranges_that_matter(graph, fixed),
            *that_narrow(program, graph.value_nodes),
            *beside_hidden(program),
        ]
        asked += [value for value in side if not _is_stated(value, constraints)]
    return asked


def _read_beside_casts(constraints: Constraints) -> list[SSAValue]:
    """The values that the model rounds to a type for some readers, while others read them as they are."""
    read = {op.operands[index] for op, index in constraints.unrounded}
    pinned = (value for value, known in constraints.of_value.items() if known.pinned is not None)
    return [value for value in pinned if value in read and not is_constant(value)]


def _judged(program: Program) -> Iterator[SSAValue]:
    """The operands of functions, and the operands and quotients of divisions of two computed values."""
    for op in program.entry.ops:
        if not isinstance(op, QuantizeRegionOp) or len(op.outputs) != 1:
            continue
        computed = [value for value in op.inputs if not is_constant(value)]
        if op.logical_kernel.data in FUNCTIONS:
            yield from computed
        elif op.logical_kernel.data == "divide":
            yield from computed
            yield from op.outputs if len(computed) == 2 else ()


def _is_stated(value: SSAValue, constraints: Constraints) -> bool:
    """Whether the model states a value's type or range."""
    known = constraints.get(value)
    return known is not None and (known.pinned is not None or known.minimum is not None)


def _is_fixed(
    value: SSAValue, made_at: tuple[ChosenKernel, int] | None, graph: PortGraph, fixed: set[SSAValue]
) -> bool:
    """Whether the kernel that produces a value fixes its type, or moves the elements of a value with a fixed type."""
    if made_at is None:
        return False
    maker, result = made_at
    is_fixed = maker.row.fixed(result, maker.storage(result)) is not None
    return is_fixed or maker.moved_operand(result) in fixed


def _is_settled(
    value: SSAValue,
    made_at: tuple[ChosenKernel, int] | None,
    constraints: Constraints,
    specs: Specs,
    settled: set[SSAValue],
) -> bool:
    if _is_stated(value, constraints):
        return True
    if made_at is None:
        return False
    maker, result = made_at
    port = (maker.region, result)
    if port in specs.apart or specs.graph.nodes[specs.graph.of_port(port)].fixed is not None:
        return True
    return maker.moved_operand(result) in settled
