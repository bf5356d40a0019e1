"""State the ranges that follow from the ranges of operands, so that a model with stated ranges may need no data.

```mlir
%b = "quant.stats"(%x) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} ...
%d = "quant.stats"(%y) {layerStats = dense<[-2.0, 2.0]> : tensor<2xf32>} ...
%0 = "quant.region"(%b, %d) ({ maximum }) ...
%c = "quant.stats_ref"(%0) {statsKey = "c"} ...
```
becomes
```mlir
%0 = "quant.region"(%b, %d) ({ maximum }) ...
%c = "quant.stats"(%0) {layerStats = dense<[-1.0, 2.0]> : tensor<2xf32>, zeropoint.derived = "..."} ...
```
The range follows for kernels whose results are elements of their operands, moved or selected (`PASSES_ELEMENTS`). It
also follows for continuous functions of one value (`FUNCTIONS`): their range is the image of the operand's range. It
does not follow for other kernels. The sum of two values in [-1, 1] is within [-2, 2], but it may never be near these
ends. An observed range would have a finer scale.

The remaining requests are those of the values that need an observed range. The pass removes requests of values whose
range would follow from observed ones, and requests of values whose range no kernel needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.annotations import DERIVED
from zeropoint.ir.constants import splat_value
from zeropoint.ir.functions import evaluate_chain
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp, StatisticsRefOp
from zeropoint.ir.quant.statements import unstated
from zeropoint.ir.weights import Weights
from zeropoint.solve.classes import real_range
from zeropoint.solve.constraints import Constraints, take_constraints
from zeropoint.solve.kernel import ADDS_ELEMENTS, is_float
from zeropoint.solve.parts.leaves import known_range, span
from zeropoint.solve.parts.part_readers import RealRange
from zeropoint.solve.wanted_statistics import all_values, undecided
from zeropoint.targets import Target
from zeropoint.targets.logical_kernels import FUNCTIONS, PASSES_ELEMENTS

CARRIES = PASSES_ELEMENTS.union(FUNCTIONS)
ENDS = {"maximum": max, "minimum": min}
"""How the ends of the result's range follow from those of the operands, for kernels that compare elements.

The range of other kernels of `PASSES_ELEMENTS` is the union of the operands' ranges.
"""
POINTS = 1025
"""The number of points at which a function is evaluated in its operand's range. A second run with four times as many
finds poles."""
STEPS = 256
"""The two runs may differ by at most 1 / `STEPS` of the range: one step of 8 bits."""


@dataclass
class _Derivation:
    """The derived ranges, and the values that need an observed one."""

    constraints: Constraints
    weights: Weights
    target: Target
    derived: dict[SSAValue, RealRange] = field(default_factory=dict[SSAValue, RealRange])
    needed: set[SSAValue] = field(default_factory=set[SSAValue])
    following: set[SSAValue] = field(default_factory=set[SSAValue])
    """Values whose range follows from the ranges of needed values."""

    def visit(self, value: SSAValue) -> None:
        """Derive the range of a value, or note that it needs an observed one. Operands have to be visited first."""
        found = self.range_of(value)
        if found is None:
            region = value.owner
            if not isinstance(region, QuantizeRegionOp) or region.logical_kernel.data not in CARRIES:
                self.needed.add(value)
                return
            operands = [one for one in region.inputs if is_float(one)]
            if any(one in self.needed or one in self.following for one in operands):
                self.following.add(value)
                return
            ranges = [self.range_of(one) for one in operands]
            known = [one for one in ranges if one is not None]
            found = _made(region, known, self.weights) if known and len(known) == len(ranges) else None
        if found is None or not np.isfinite(found).all():
            self.needed.add(value)
        else:
            self.derived[value] = found

    def range_of(self, value: SSAValue) -> RealRange | None:
        """The range of a value: of its pinned or fixed type, or stated, or derived."""
        known = self.constraints.get(value)
        if known is not None and known.pinned is not None and known.pinned.is_per_layer:
            return real_range(known.pinned)
        fixed = known_range(value, self.weights, self.target)
        if fixed is None and known is not None and known.minimum is not None and known.maximum is not None:
            return known.minimum, known.maximum
        return fixed or self.derived.get(value)


def _made(region: QuantizeRegionOp, ranges: list[RealRange], weights: Weights) -> RealRange | None:
    """The range of a kernel's result, from those of its operands; None if it does not follow."""
    kernel = region.logical_kernel.data
    if kernel in FUNCTIONS:
        return _image(region, ranges[0], weights)
    if (end := ENDS.get(kernel)) is not None:
        return end(low for low, _ in ranges), end(high for _, high in ranges)
    inserted = list(_constants(region, weights)) if kernel in ADDS_ELEMENTS else []
    return span([*ranges, *((number, number) for number in inserted)])


def _constants(region: QuantizeRegionOp, weights: Weights) -> Iterator[float]:
    """The constant numbers that the body of a region inserts."""
    for op in region.body.block.ops:
        for value in op.results:
            if is_float(value) and (number := splat_value(value, weights)) is not None:
                yield number


def _image(region: QuantizeRegionOp, span: RealRange, weights: Weights) -> RealRange | None:
    """The image of a range under a function. None if the function has a pole there, or depends on more than one
    operand."""
    block = region.body.block
    assert block.last_op is not None
    ends: list[RealRange] = []
    for count in (POINTS, 4 * POINTS):
        points = np.linspace(*span, count, dtype=np.float64)
        # 0 is added, because many functions have a pole or an extreme there.
        points = np.append(points, 0.0) if span[0] < 0 < span[1] else points
        try:
            with np.errstate(all="ignore"):
                made = evaluate_chain(block.last_op.operands[0], block.args[0], points.astype(np.float32), weights)
        except ValueError:
            return None
        if not np.isfinite(made).all():
            return None
        ends.append((float(made.min()), float(made.max())))
    (low, high), (least, greatest) = ends
    return ends[1] if max(low - least, greatest - high) * STEPS <= greatest - least else None


def derive_ranges(program: Program, target: Target) -> Program:
    """A copy of an instrumented program that requests only the statistics which do not follow from other ranges.

    Raises PropagationError as `propagate` does.
    """
    program = program.clone()
    copy = program.clone()
    original = dict(zip(all_values(copy), all_values(program), strict=True))
    constraints = take_constraints(copy, target.scale_type, kernels=target.by_kernel)
    found = _Derivation(constraints, copy.weights, target)
    open_values, graph, _ = undecided(copy, target, constraints)
    for value in graph.value_nodes:  # definitions first
        found.visit(value)
    derived = {original[value]: found.derived[value] for value in open_values if value in found.derived}
    needed = {original[value] for value in open_values if value in found.needed}
    for request in [op for op in program.module.walk() if isinstance(op, StatisticsRefOp)]:
        value = unstated(request.arg)
        if value in derived:
            stated = StatisticsOp(request.arg, derived.pop(value))
            stated.attributes[DERIVED] = StringAttr("derived from the ranges of the operands")
            stated.location = request.location
            Rewriter.replace_op(request, stated)
        elif value not in needed:
            request.res.replace_all_uses_with(request.arg)
            Rewriter.erase_op(request)
    return program
