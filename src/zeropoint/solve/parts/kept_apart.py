"""Find the kernels between a join and float readers that keep the parts of the join apart.

```mlir
%c = "quant.region"(%boxes, %scores) ({ concatenate })
%m = "quant.region"(%c, %keep) ({ multiply })        keeps boxes and scores apart: stays float with the join
return %m
```
If one scale would destroy a part, the join and these kernels stay float. Parts are followed through every op that keeps
them apart (`ir/element_parts.py`): data movement, elementwise ops on one or more values, and poolings, means and
interpolations along other dimensions. Contractions with many terms are not followed: they should be integer.

If integer kernels read a value on the way as well, they read the quantized kernel, and the float readers a copy of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue, Use

from zeropoint.ir.constants import constant_array, is_constant
from zeropoint.ir.element_parts import MOVES, carried, concatenated, through
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import ConcatenateOp, ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.solve.constraints import Constraints
from zeropoint.solve.kernel import ChosenKernel
from zeropoint.solve.rescale import is_rescale
from zeropoint.targets import Role
from zeropoint.targets.logical_kernels import MOVEMENTS, PASSES_ELEMENTS

TERMS = 16
"""A product with a constant of up to this many terms costs as little in float. Linear and cubic interpolations have no
more."""
ChosenKernels = Mapping[Operation, ChosenKernel]


@dataclass
class KeptApart:
    """The kernels after a join whose results float ops or the caller read, in program order.

    `kernels` has all kernels that are quantized so far. `floats` has the kernels found, and the join if it is a kernel.
    `shared` has those of them whose results integer kernels read as well.
    """

    join: Operation
    kernels: ChosenKernels
    constraints: Constraints
    weights: Weights
    chain: dict[Operation, None] = field(default_factory=dict[Operation, None])
    """The kernels on the path, and the ops that move elements without a kernel."""
    floats: list[QuantizeRegionOp] = field(default_factory=list[QuantizeRegionOp])
    shared: list[QuantizeRegionOp] = field(default_factory=list[QuantizeRegionOp])

    @staticmethod
    def behind(join: Operation, kernels: ChosenKernels, constraints: Constraints, weights: Weights) -> KeptApart:
        """The kernels after a join, which is a region of one result or an op."""
        found = KeptApart(join, kernels, constraints, weights)
        # Demands of the user and types pinned by the model are kept, even at the cost of precision.
        if join not in kernels or not is_fixed(kernels[join], constraints):
            found._follow()
            found._choose()
        return found

    def _follow(self) -> None:
        """Walk through the program after the join."""
        parts: dict[SSAValue, Array] = {self.join.results[0]: _of_join(self.join)}
        if self.join in self.kernels:
            self.chain[self.join] = None
        op = self.join.next_op
        while op is not None:
            if not isinstance(op, ReturnOp) and any(value in parts for value in op.operands):
                kernel = self.kernels.get(op)
                made = self._handed_on(op, kernel, parts)
                parts |= zip(op.results, made, strict=False)
                if made and (kernel is not None or _moves(op)):
                    self.chain[op] = None
            op = op.next_op

    def _handed_on(self, op: Operation, kernel: ChosenKernel | None, parts: Mapping[SSAValue, Array]) -> list[Array]:
        """The parts of the results of an op. Empty if the op may not stay float, or does not keep parts apart."""
        if kernel is not None and (is_rescale(kernel.region) or is_fixed(kernel, self.constraints)):
            return []
        if not isinstance(op, QuantizeRegionOp):
            made = carried(op, parts, self.weights)
            return [] if made is None else [made]
        made = through(op, parts, self.weights, lambda inner: _is_expensive(inner, op, self.weights))
        if made or kernel is None:
            return made
        passing = [value for index, value in enumerate(op.inputs) if value in parts and passes_on(kernel, index)]
        # The elements of one operand move to unknown positions, so each element counts as a part of its own that is
        # never mixed.
        return [_each_its_own(value) for value in op.outputs] if len(passing) == 1 else []

    def _choose(self) -> None:
        """Select the kernels on the path that have float readers."""
        floats: set[Operation] = set()
        # From the end, because a kernel has a float reader if the next kernel stays float.
        for op in reversed(self.chain):
            readers = [use.operation for value in op.results for use in value.uses]
            if not any(reader in floats or self._computes_in_float(reader) for reader in readers):
                continue
            floats.add(op)
            if isinstance(op, QuantizeRegionOp) and op in self.kernels:
                self.floats.insert(0, op)
                if not all(self._reads_floats(reader) for reader in readers):
                    self.shared.insert(0, op)

    def _computes_in_float(self, reader: Operation) -> bool:
        """Whether a reader is the caller, or a float op that does more than move elements."""
        return reader not in self.kernels and reader not in self.chain

    def _reads_floats(self, reader: Operation) -> bool:
        """Whether all readers after this one are floats."""
        return reader not in self.kernels or (reader in self.floats and reader not in self.shared)

    def separated(self) -> list[QuantizeRegionOp]:
        """The regions that stay float. A region that integer kernels read as well is copied, in place, and the copy is
        returned."""
        copies: dict[SSAValue, SSAValue] = {}
        found: list[QuantizeRegionOp] = []
        for region in self.floats:
            kept = region
            if region in self.shared:
                assert region.parent is not None
                # The original stays quantized for its integer readers. Constraints belong to values, so the copy gets a
                # copy of them.
                region.parent.insert_op_after(kept := region.clone(), region)
                self._copy_constraints(region, kept)
                copies |= zip(region.outputs, kept.outputs, strict=True)
            found.append(kept)
        for value, copy in copies.items():
            for use in list(value.uses):
                if self._is_float(use, found):
                    use.operation.operands[use.index] = copy
        return found

    def _is_float(self, use: Use, found: list[QuantizeRegionOp]) -> bool:
        return use.operation in found or use.operation not in self.kernels

    def _copy_constraints(self, region: QuantizeRegionOp, copy: QuantizeRegionOp) -> None:
        for value, other in zip(region.outputs, copy.outputs, strict=True):
            if (known := self.constraints.get(value)) is not None:
                self.constraints.of_value[other] = replace(known, facts=list(known.facts))
        if region in self.constraints.variances:
            self.constraints.variances[copy] = self.constraints.variances[region]


def with_float_readers(program: Program, kernels: ChosenKernels, constraints: Constraints) -> set[Operation]:
    """The ops whose results floats or the caller read, directly or behind kernels that may keep parts apart.

    Behind other ops, no kernel stays float, so parts need not be followed. One walk for the program: in a recurrence,
    the parts of each step would be followed through all later steps.
    """
    found: set[Operation] = set()
    for op in reversed(program.entry.ops):
        for reader in (use.operation for value in op.results for use in value.uses):
            kernel = kernels.get(reader)
            if kernel is None or (reader in found and _may_keep_apart(kernel, constraints, program.weights)):
                found.add(op)
                break
    return found


def _may_keep_apart(kernel: ChosenKernel, constraints: Constraints, weights: Weights) -> bool:
    """Whether `KeptApart` may find a kernel, whatever the parts of its operands are."""
    region = kernel.region
    if is_rescale(region) or is_fixed(kernel, constraints):
        return False
    computed = sum(not is_constant(value) for value in region.inputs)
    if computed != 1 or any(passes_on(kernel, index) for index in range(len(region.inputs))):
        return True
    return not any(_is_expensive(op, region, weights) for op in region.body.block.ops)


def is_fixed(kernel: ChosenKernel, constraints: Constraints) -> bool:
    """Whether a recipe or a pinned type requires quantization of a kernel."""
    values = [*kernel.region.inputs, *kernel.region.outputs]
    pinned = any(known.pinned for known in map(constraints.get, values) if known is not None)
    return bool(kernel.demands) or pinned


def passes_on(kernel: ChosenKernel, index: int) -> bool:
    """Whether elements of an operand become elements of the result."""
    row = kernel.row
    moved = row.kernel in PASSES_ELEMENTS and row.input_rule(index).role is not Role.OTHER
    return moved or row.tied(index)


def _of_join(join: Operation) -> Array:
    """The parts of a join. Each operand of a concatenation is a part; in other joins, each element is a part."""
    op = join
    if isinstance(join, QuantizeRegionOp):
        first, *others = join.body.block.ops
        op = first if len(others) == 1 else join
    if not isinstance(op, ConcatenateOp):
        return _each_its_own(join.results[0])
    return concatenated(op, [np.array(number, np.int32) for number in range(len(op.inputs))])


def _moves(op: Operation) -> bool:
    """Whether an op or a region only moves elements."""
    if isinstance(op, QuantizeRegionOp):
        return op.logical_kernel.data in MOVEMENTS
    return isinstance(op, MOVES)


def _each_its_own(value: SSAValue) -> Array:
    shape = shape_of(value)
    return np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)


def _is_expensive(op: Operation, region: QuantizeRegionOp, weights: Weights) -> bool:
    """Whether an op is a contraction of more than a few terms per result. Zeros in constants do not count as terms."""
    if not isinstance(op, DotGeneralOp | ConvolutionOp):
        return False
    return max(_terms(op, region, weights), default=TERMS + 1) > TERMS


def _terms(op: DotGeneralOp | ConvolutionOp, region: QuantizeRegionOp, weights: Weights) -> Iterator[int]:
    """The numbers of terms of the results of a contraction by a constant; empty for any other op."""
    arguments: list[SSAValue] = list(region.body.block.args)
    if op.rhs not in arguments:
        return
    array = constant_array(region.inputs[arguments.index(op.rhs)], weights)
    if array is None or not array.size:
        return
    if isinstance(op, ConvolutionOp):
        kept: tuple[int, ...] = (op.dimension_numbers.data.kernel_output_feature_dimension,)
    else:
        contracted = op.dot_dimension_numbers.data.rhs_contracting_dimensions
        kept = tuple(axis for axis in range(array.ndim) if axis not in contracted)
    summed = tuple(axis for axis in range(array.ndim) if axis not in kept)
    # Each row of an interpolation matrix has few nonzero terms, however wide the matrix is.
    yield int(np.count_nonzero(array, axis=summed).max())
