"""Keep a kernel float if it would force one scale on values of very different ranges and only floats read it.

```mlir
%boxes  = ... observed in [0, 320]
%scores = ... observed in [0, 1]
%both = "quant.region"(%boxes, %scores) ({ concatenate }) ...    one scale of 1.25: every score becomes 0 or 1.25
return %both
```
Such joins are kernels that pass elements on and have more than one operand or a number of their own: concatenate, pack,
select, maximum, minimum, pad. Their result has one scale, whether the row says `same_scale` or gives each operand its
own. If only float ops and the caller read the result, directly or through kernels that pass elements on or compute a
function of each (the clip or the scaling at the end of a detector), then the join and those kernels stay float. An
integer kernel that mixes elements, such as a convolution, reads one scale in any case: the value would be quantized to
that scale right after the join. So a join with such a reader stays quantized.

A kernel of one operand that passes elements on also stays float if float ops produce its operand and read its result:
quantizing there would only round.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import constant_array
from zeropoint.ir.functions import is_function
from zeropoint.ir.locations import value_name
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConstantOp
from zeropoint.numerics.ranges import held_scale
from zeropoint.solve.constraints import Constraints
from zeropoint.solve.kernels import Kernel, KernelChoice
from zeropoint.solve.ports import PortGraph
from zeropoint.solve.precision import step_of
from zeropoint.solve.rescale import is_rescale
from zeropoint.solve.separate import separate
from zeropoint.solve.specs import Specs
from zeropoint.targets import OUTPUT, Role, Target
from zeropoint.targets.logical_kernels import PASSES_ELEMENTS

PART_TOLERANCE = 8.0
"""How many times coarser than its own scale an operand of a join may become before the join stays float: 3 bits."""


def settle_kernels(
    program: Program, target: Target, constraints: Constraints, ranges: str, joined: Collection[SSAValue] = ()
) -> tuple[PortGraph, Specs]:
    """Choose kernels and port types, without the joins that stay float; those regions carry the reason.

    `joined` has the float values that must have one type for all readers.
    """
    left: dict[QuantizeRegionOp, str] = {}
    while True:
        kernels = KernelChoice(target, constraints, left).choose(program)
        graph = PortGraph.of(kernels, constraints, joined)
        specs = Specs.of(graph, separate(graph), ranges, target.scale_type)
        found = {**_idle_moves(specs, target), **_uneven_joins(program, specs)}
        if not found:
            return graph, specs
        left |= found


def _uneven_joins(program: Program, specs: Specs) -> dict[QuantizeRegionOp, str]:
    """The joins that must stay float, and the kernels that pass their results on, each with the reason."""
    kernels: dict[Operation, Kernel] = {kernel.region: kernel for kernel in specs.graph.kernels}
    found: dict[QuantizeRegionOp, str] = {}
    for kernel in kernels.values():
        if kernel.region in found:
            continue
        part = _hurt_part(program, kernel, specs)
        behind = None if part is None else _only_for_floats(kernel, kernels, specs.graph.constraints, _keeps_apart)
        if part is None or behind is None:
            continue
        name, times = part
        why = f"at one scale '{name}' would be {times:.3g} times coarser than its range wants"
        found[kernel.region] = f"only floats read it, and {why}"
        for other in behind:
            name = value_name(kernel.region.outputs[0])
            found.setdefault(other, f"it hands on '{name}', which stays float")
    return found


def _idle_moves(specs: Specs, target: Target) -> dict[QuantizeRegionOp, str]:
    """The kernels that move a result of a float op to float ops, each with the reason."""
    kernels: dict[Operation, Kernel] = {kernel.region: kernel for kernel in specs.graph.kernels}
    found: dict[QuantizeRegionOp, str] = {}
    for kernel in kernels.values():
        picks = kernel.row.kernel == "gather"
        if not (picks or len(kernel.region.inputs) == 1) or not _passes_on(kernel, 0) or is_rescale(kernel.region):
            continue
        source = kernel.region.inputs[0].owner
        constant = isinstance(source, ConstantOp) and not (picks and target.real_results)
        if not isinstance(source, Operation) or source in kernels or constant:
            continue
        behind = _only_for_floats(kernel, kernels, specs.graph.constraints, _passes_on)
        moves = [] if behind is None else [kernel.region, *behind]
        if not any(isinstance(use.operation, ReturnOp) for move in moves for out in move.outputs for use in out.uses):
            found |= dict.fromkeys(moves, "only float ops make and read it")
    return found


def _hurt_part(program: Program, kernel: Kernel, specs: Specs) -> tuple[str, float] | None:
    """The operand that loses most by the shared scale, as (name, ratio to its own scale); None if none loses much."""
    output = _joined_output(kernel)
    if output is None or is_rescale(kernel.region):
        return None
    shared = specs.port_class((kernel.region, output))
    joined = [(i, value) for i, value in enumerate(kernel.region.inputs) if _passes_on(kernel, i)]
    if not joined or not shared.is_known:
        return None
    scale, parts = shared.parameters().scale, list[tuple[float, str]]()
    for index, value in joined:
        own = float(held_scale(_own_step(program, kernel, index, value, specs.graph), kernel.scale_type))
        if own > 0 and scale > PART_TOLERANCE * own:
            parts.append((scale / own, value_name(value) or f"operand {index}"))
    times, name = max(parts, default=(0.0, ""))
    return (name, times) if parts else None


def _joined_output(kernel: Kernel) -> int | None:
    """The port of the result that has elements of the operands; None if there is none, or it is not quantized."""
    row = kernel.row
    moved = row.kernel in PASSES_ELEMENTS and row.output.role is not Role.OTHER
    return OUTPUT if row.tied_output is None and moved else row.tied_output


def _passes_on(kernel: Kernel, index: int) -> bool:
    """Whether elements of an operand become elements of the result."""
    row = kernel.row
    moved = row.kernel in PASSES_ELEMENTS and row.input_rule(index).role is not Role.OTHER
    return moved or row.tied(index)


def _keeps_apart(kernel: Kernel, index: int) -> bool:
    """Whether every element of the result comes from one element of an operand: passed on, or a function of it."""
    if _passes_on(kernel, index):
        return True
    *body, _ = kernel.region.body.block.ops
    others = [op for op in body if not is_function(op)]
    elementwise = len(others) < len(body) and all(isinstance(op, BroadcastInDimOp | ConstantOp) for op in others)
    return elementwise and len(list(kernel.data_ports())) == 1


def _own_step(program: Program, kernel: Kernel, index: int, value: SSAValue, graph: PortGraph) -> float:
    """The scale that an operand would have alone; 0 if it is unknown or the operand is all zeros."""
    if kernel.is_data(index, value):
        return graph.own_step(value)
    array = constant_array(value, program.weights)
    if array is None or not array.size:
        return 0.0
    return step_of(float(array.min()), float(array.max()), kernel.storage(index), None)


def _only_for_floats(
    kernel: Kernel,
    kernels: Mapping[Operation, Kernel],
    constraints: Constraints,
    hands_on: Callable[[Kernel, int], bool],
) -> list[QuantizeRegionOp] | None:
    """The kernels that hand a result on to its float readers, each by an operand that `hands_on` accepts.

    None if an integer kernel reads it, or if a recipe or a pinned type asks for quantization.
    """
    behind: dict[QuantizeRegionOp, None] = {}
    pending = [kernel]
    while pending:
        found = pending.pop()
        values = [*found.region.inputs, *found.region.outputs]
        if found.demands or any(known.pinned for known in map(constraints.get, values) if known is not None):
            return None
        for use in (use for value in found.region.outputs for use in value.uses):
            reader = kernels.get(use.operation)
            if reader is None:
                continue
            if is_rescale(reader.region) or not hands_on(reader, use.index):
                return None
            if reader.region not in behind:
                behind[reader.region] = None
                pending.append(reader)
    return list(behind)
