"""Find the values that calibration observes because their range has an effect, although no kernel takes a type from it.

A kernel fixes the type of its result, such as 1/256:-128 of a logistic. The observed range is not used if all readers
take this type. It is used in these cases:

- A reader requires another type. The rescaled copy has the observed range.
- The value shares its type with values of other kernels, for example in a concatenation. Its range extends theirs.
- A reader selects elements or is a function of one value. `read_ranges` then narrows earlier ranges by it.

The range of a result that stays float has an effect if all readers of an operand narrow it (`read_ranges`). An example
is the maximum of two values on a target without that kernel. The range of scores also has one if an op without a kernel
writes hidden ones beside them, such as a selection of -1e9: `bound_masks` places those below it.

So a program whose annotations request these statistics gets the same types as the program without annotations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from xdsl.ir import Operation, SSAValue

from zeropoint.ir.masks import HIDDEN
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.solve.kernel import is_float
from zeropoint.solve.masks.masked_scores import INSERTS, combination, different_numbers
from zeropoint.solve.nodes import PortNode
from zeropoint.solve.ports import PortGraph
from zeropoint.targets.logical_kernels import PASSES_ELEMENTS


def with_ranges_that_matter(graph: PortGraph, fixed: Collection[SSAValue]) -> list[SSAValue]:
    """The values of `fixed` whose ranges have an effect, in program order."""
    pieces = _connected(graph)
    values: dict[int, list[SSAValue]] = {}
    nodes: dict[int, list[PortNode]] = {}
    for value, number in graph.value_nodes.items():
        values.setdefault(pieces[graph.find(number)], []).append(value)
    for number, node in graph.nodes.items():
        nodes.setdefault(pieces[number], []).append(node)
    matter = {
        piece
        for piece, members in values.items()
        if not _have_one_type(nodes[piece]) or any(value not in fixed or _is_narrowing(value) for value in members)
    }
    return [
        value for value, number in graph.value_nodes.items() if value in fixed and pieces[graph.find(number)] in matter
    ]


def that_narrow(program: Program, values: Iterable[SSAValue]) -> list[SSAValue]:
    """The float results of regions from which `read_ranges` narrows the ranges of `values`."""
    narrowable: set[SSAValue] = set()
    block = program.entry
    for value in reversed([*block.args, *(result for op in block.ops for result in op.results)]):
        readers = [use.operation for use in value.uses]
        if readers and all(_may_narrow(reader, narrowable) for reader in readers):
            narrowable.add(value)
    found: dict[SSAValue, None] = {}
    pending = [value for value in values if value in narrowable]
    while pending:
        results = [result for use in pending.pop().uses for result in use.operation.results]
        new = [result for result in results if result not in found and is_float(result)]
        found |= dict.fromkeys(new)
        pending += [result for result in new if result in narrowable]
    return list(found)


def beside_hidden(program: Program) -> list[SSAValue]:
    """The scores that an op outside of a region selects or joins with constants that hide."""
    found: dict[SSAValue, None] = {}
    for op in program.entry.ops:
        if isinstance(op, INSERTS) and combination(op, program.weights) is op:
            given = {value: different_numbers(value, program.weights) for value in op.operands if is_float(value)}
            constants = [array for array in given.values() if array is not None and array.size]
            if any(array.min() <= HIDDEN for array in constants):
                found |= dict.fromkeys(value for value, array in given.items() if array is None)
    return list(found)


def _may_narrow(reader: Operation, narrowable: Collection[SSAValue]) -> bool:
    if not isinstance(reader, QuantizeRegionOp):
        return False
    is_function = len(reader.inputs) == 1 and reader.outputs[0] in narrowable
    return is_function or reader.logical_kernel.data in PASSES_ELEMENTS


def _connected(graph: PortGraph) -> dict[int, int]:
    """The least node of each node's connected component, over all edges."""
    ahead: dict[int, list[int]] = {number: [] for number in graph.nodes}
    for edge in graph.edges:
        value, port = graph.find(edge.value_node), graph.find(edge.port_node)
        ahead[value].append(port)
        ahead[port].append(value)
    least: dict[int, int] = {}
    for start in sorted(ahead):
        pending = [start]
        while pending:
            number = pending.pop()
            if number not in least:
                least[number] = start
                pending += ahead[number]
    return least


def _have_one_type(nodes: Collection[PortNode]) -> bool:
    """Whether all nodes accept one fixed type."""
    kinds = {node.fixed for node in nodes if node.fixed is not None}
    points = {node.zero_point for node in nodes if node.zero_point is not None} | {kind.zero_point for kind in kinds}
    return len(kinds) == 1 and len(points) == 1 and len({node.storage.type for node in nodes}) == 1


def _is_narrowing(value: SSAValue) -> bool:
    """Whether a reader selects elements of a value or computes a function of it alone."""
    regions = [use.operation for use in value.uses if isinstance(use.operation, QuantizeRegionOp)]
    return any(len(region.inputs) == 1 or region.logical_kernel.data in PASSES_ELEMENTS for region in regions)
