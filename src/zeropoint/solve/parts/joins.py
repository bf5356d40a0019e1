"""Keep a kernel float if only floats read it and it would force one scale on values of very different ranges.

```mlir
%boxes  = ... observed in [0, 320]
%scores = ... observed in [0, 1]
%both = "quant.region"(%boxes, %scores) ({ concatenate }) ...    one scale of 1.25: every score becomes 0 or 1.25
return %both
```
A join is a kernel that passes on elements of several operands, or inserts a number: concatenate, pack, select, maximum,
minimum, pad. Its result has one scale, even if the row allows each operand its own. If only float ops and the caller
read the result, directly or through kernels that keep the parts apart (`kept_apart.py`), then the join and those
kernels stay float. If integer kernels such as convolutions read it as well, the join is copied. The integer kernels
read one scale in any case. The float readers read the copy, which stays float.

The same holds for every kernel whose result has parts of very different ranges, such as a sum of two concatenations, or
a product of one with a constant per channel. `sized_parts.py` bounds the ranges of the parts.

If a join of such values stays float for another reason, such as a recipe, the kernels that keep its parts apart also
stay float if float ops or the caller read them.

A kernel of one operand that passes elements on also stays float if float ops produce its operand and read its result,
because quantizing it would only add rounding.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import constant_array
from zeropoint.ir.locations import written_name
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, Storage
from zeropoint.ir.stablehlo import ConcatenateOp, ConstantOp
from zeropoint.numerics.ranges import held_scale
from zeropoint.solve.constraints import Constraints
from zeropoint.solve.kernel import ChosenKernel
from zeropoint.solve.kernels import KernelChoice
from zeropoint.solve.parts.kept_apart import KeptApart, is_fixed, passes_on, with_float_readers
from zeropoint.solve.parts.leaves import WORTH
from zeropoint.solve.parts.sized_parts import SizedParts
from zeropoint.solve.ports import PortGraph
from zeropoint.solve.precision import step_of
from zeropoint.solve.rescale import is_rescale
from zeropoint.solve.separate import separate
from zeropoint.solve.specs import Specs
from zeropoint.solve.value_ranges.read_ranges import compares, narrow_ranges
from zeropoint.solve.widths.unrounded import PRODUCTS
from zeropoint.targets import OUTPUT, Role, Target
from zeropoint.targets.logical_kernels import PASSES_ELEMENTS

I8 = Storage.of("i8")
PART_TOLERANCE = 8.0
"""If a join makes the scale of an operand this many times coarser than its own (3 bits), the join stays float."""


def settle_kernels(
    program: Program,
    target: Target,
    constraints: Constraints,
    ranges: str,
    joined: Collection[SSAValue] = (),
    products: str = PRODUCTS[0],
) -> tuple[PortGraph, Specs]:
    """Choose kernels and port types, without the joins that stay float. Their regions carry the reason.

    `joined` has the float values that must have one type for all readers. `products` is one of `unrounded.PRODUCTS`.
    """
    left: dict[QuantizeRegionOp, str] = {}
    compared: set[Operation] = set()
    # Each round keeps more kernels float, or stops narrowing by more comparisons, so the loop ends.
    while True:
        kernels = KernelChoice(target, constraints, left, products).choose(program)
        floats = {op for op in program.entry.ops if compares(op)} - {kernel.region for kernel in kernels}
        if not floats <= compared:
            narrow_ranges(program, constraints, compared := compared | floats)
            continue
        graph = PortGraph.of(kernels, constraints, joined)
        specs = Specs.of(graph, separate(graph), ranges, target.scale_type)
        found = {**_idle_moves(specs, target), **_uneven_joins(program, specs)}
        if not found:
            return graph, specs
        left |= found


def _uneven_joins(program: Program, specs: Specs) -> dict[QuantizeRegionOp, str]:
    """The joins that must stay float and the kernels that pass their results on, with the reason for each.

    Regions that integer kernels read as well are copied.
    """
    kernels: dict[Operation, ChosenKernel] = {kernel.region: kernel for kernel in specs.graph.kernels}
    found: dict[QuantizeRegionOp, str] = {}
    parts = SizedParts.of(program, specs.graph)
    read = with_float_readers(program, kernels, specs.graph.constraints)
    for op in list(program.entry.ops):
        if op not in read:
            continue
        kernel = kernels.get(op)
        if kernel is not None and any(value not in specs.graph.value_nodes for _, value in kernel.data_ports()):
            continue  # it reads a copy from this round, which the graph does not have yet
        if kernel is None:
            part = _uneven_part(program, op, specs) or _uneven_inside(op, parts)
        else:
            part = _hurt_part(program, kernel, specs) or _hurt_inside(kernel, parts, specs)
        if part is None or op in found:
            continue
        behind = KeptApart.behind(op, kernels, specs.graph.constraints, program.weights)
        if kernel is not None and kernel.region not in behind.floats:
            continue
        name, times = part
        coarser = f"{times:.3g} times coarser than its range requires"
        why = f"only floats read it, and at one scale '{name}' would be {coarser}"
        handed_on = f"it passes on '{written_name(op.results[0])}', which stays float"
        for number, region in enumerate(behind.separated()):
            found.setdefault(region, why if kernel is not None and not number else handed_on)
    return found


def _uneven_part(program: Program, op: Operation, specs: Specs) -> tuple[str, float] | None:
    """Like `_hurt_part`, for a join that stays float: what a shared scale after it would cost an operand."""
    kernel = op.logical_kernel.data if isinstance(op, QuantizeRegionOp) else ""
    if not isinstance(op, ConcatenateOp) and kernel not in PASSES_ELEMENTS:
        return None
    steps = [
        (step, written_name(value) or f"operand {index}")
        for index, value in enumerate(op.operands)
        if 0 < (step := _alone(program, value, specs.graph)) < inf
    ]
    least, name = min(steps, default=(0.0, ""))
    greatest = min(max(steps, default=(0.0, ""))[0], _observed_step(op.results[0], specs.graph.constraints) or inf)
    return (name, greatest / least) if greatest > PART_TOLERANCE * least else None


def _uneven_inside(op: Operation, parts: SizedParts) -> tuple[str, float] | None:
    """Like `_uneven_part`, for the parts of what a float op computes; None if they were as uneven in its operands."""
    made = max((_unevenness(value, parts) for value in op.results), default=(0.0, ""))
    given = max((_unevenness(value, parts) for value in op.operands), default=(0.0, ""))
    return (made[1], made[0]) if made[0] > max(PART_TOLERANCE, WORTH * given[0]) else None


def _unevenness(value: SSAValue, parts: SizedParts) -> tuple[float, str]:
    """The ratio of the scales of the largest and the smallest part of a value, and the name of the smallest."""
    steps = [(step, part.name or written_name(value)) for part in parts.parts(value) if (step := part.step(I8))]
    least, name = min(steps, default=(1.0, ""))
    return max(steps, default=(0.0, ""))[0] / least, name


def _alone(program: Program, value: SSAValue, graph: PortGraph) -> float:
    """The scale that a value would have alone, at 8 bits if no kernel produces it; 0 if unknown."""
    if value in graph.value_nodes and not graph.is_quantized_by_readers(value):
        return graph.own_step(value)
    array = constant_array(value, program.weights)
    if array is not None and array.size and array.dtype.kind == "f":
        return step_of(float(array.min()), float(array.max()), I8, None)
    return _observed_step(value, graph.constraints)


def _observed_step(value: SSAValue, constraints: Constraints, storage: Storage = I8) -> float:
    known = constraints.get(value)
    known = None if known is None else known.within(storage)
    return 0.0 if known is None else step_of(known.minimum, known.maximum, storage, None)


def _idle_moves(specs: Specs, target: Target) -> dict[QuantizeRegionOp, str]:
    """The kernels that only move a float op's result to other float ops, with the reason for each."""
    kernels: dict[Operation, ChosenKernel] = {kernel.region: kernel for kernel in specs.graph.kernels}
    found: dict[QuantizeRegionOp, str] = {}
    for kernel in kernels.values():
        picks = kernel.row.kernel == "gather"
        if not (picks or len(kernel.region.inputs) == 1) or not passes_on(kernel, 0) or is_rescale(kernel.region):
            continue
        source = kernel.region.inputs[0].owner
        constant = isinstance(source, ConstantOp) and not (picks and target.real_results)
        if not isinstance(source, Operation) or source in kernels or constant:
            continue
        behind = _only_for_floats(kernel, kernels, specs.graph.constraints)
        moves = [] if behind is None else [kernel.region, *behind]
        if not any(isinstance(use.operation, ReturnOp) for move in moves for out in move.outputs for use in out.uses):
            found |= dict.fromkeys(moves, "only float ops produce and read it")
    return found


def _hurt_part(program: Program, kernel: ChosenKernel, specs: Specs) -> tuple[str, float] | None:
    """The name of the operand that loses most by the shared scale, and the ratio of the two scales; None if none loses
    much."""
    output = _joined_output(kernel)
    if output is None or is_rescale(kernel.region):
        return None
    shared = specs.port_class((kernel.region, output))
    joined = [(i, value) for i, value in enumerate(kernel.region.inputs) if passes_on(kernel, i)]
    if not joined or not shared.is_known:
        return None
    scale, parts = shared.parameters().scale, list[tuple[float, str]]()
    for index, value in joined:
        own = float(held_scale(_own_step(program, kernel, index, value, specs.graph), kernel.scale_type))
        if own > 0 and scale > PART_TOLERANCE * own:
            parts.append((scale / own, written_name(value) or f"operand {index}"))
    times, name = max(parts, default=(0.0, ""))
    return (name, times) if parts else None


def _hurt_inside(kernel: ChosenKernel, parts: SizedParts, specs: Specs) -> tuple[str, float] | None:
    """Like `_hurt_part`, for the parts of what a kernel computes; None if its operands have already lost that part."""
    if is_rescale(kernel.region):
        return None
    lost = [one for port, value in kernel.results() if (one := _coarsest(kernel, port, value, parts, specs))]
    times, name = max(lost, default=(0.0, ""))
    if times <= PART_TOLERANCE:
        return None
    before = [one for port, value in kernel.data_ports() if (one := _coarsest(kernel, port, value, parts, specs))]
    return (name, times) if times > WORTH * max(before, default=(0.0, ""))[0] else None


def _coarsest(
    kernel: ChosenKernel, port: int, value: SSAValue, parts: SizedParts, specs: Specs
) -> tuple[float, str] | None:
    """How many times coarser the type of a port is than the part that it hurts most, and that part's name; None without
    parts."""
    found = parts.parts(value)
    shared = specs.port_class((kernel.region, port)) if found else None
    if shared is None or not shared.is_known:
        return None
    scale, storage = shared.parameters().scale, kernel.storage(port)
    own = [(float(held_scale(step, kernel.scale_type)), part) for part in found if (step := part.step(storage))]
    return max(((scale / step, part.name or written_name(value)) for step, part in own), default=None)


def _joined_output(kernel: ChosenKernel) -> int | None:
    """The port of the result that has elements of the operands; None if there is none or it is not quantized."""
    row = kernel.row
    moved = row.kernel in PASSES_ELEMENTS and row.output.role is not Role.OTHER
    return OUTPUT if row.tied_output is None and moved else row.tied_output


def _own_step(program: Program, kernel: ChosenKernel, index: int, value: SSAValue, graph: PortGraph) -> float:
    """The scale that an operand would have alone; 0 if it is unknown or the operand is all zeros."""
    if kernel.is_data(index, value):
        # A float value may have readers of other widths, so the width of this port counts.
        is_float = graph.is_quantized_by_readers(value)
        return _observed_step(value, graph.constraints, kernel.storage(index)) if is_float else graph.own_step(value)
    array = constant_array(value, program.weights)
    if array is None or not array.size:
        return 0.0
    return step_of(float(array.min()), float(array.max()), kernel.storage(index), None)


def _only_for_floats(
    kernel: ChosenKernel,
    kernels: Mapping[Operation, ChosenKernel],
    constraints: Constraints,
) -> list[QuantizeRegionOp] | None:
    """The kernels that pass a result on to its float readers unchanged.

    None if an integer kernel reads it, or if a recipe or a pinned type requires quantization.
    """
    behind: dict[QuantizeRegionOp, None] = {}
    pending = [kernel]
    while pending:
        found = pending.pop()
        if is_fixed(found, constraints):
            return None
        for use in (use for value in found.region.outputs for use in value.uses):
            reader = kernels.get(use.operation)
            if reader is None:
                continue
            if is_rescale(reader.region) or not passes_on(reader, use.index):
                return None
            if reader.region not in behind:
                behind[reader.region] = None
                pending.append(reader)
    return list(behind)
