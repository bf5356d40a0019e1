"""Compute kernels before a reshape that merges channels and rows, on the dimensions before the merge.

```mlir
%1 = "quant.region"(%0) ({ reshape }) : (tensor<1x8x4x6xf32>) -> tensor<1x2x96xf32>
%2 = "quant.region"(%1) ({ layer_norm over dimension 2 }) : (tensor<1x2x96xf32>) -> tensor<1x2x96xf32>
%3 = "quant.region"(%2) ({ reshape }) : (tensor<1x2x96xf32>) -> tensor<1x8x4x6xf32>
```
becomes
```mlir
%1 = "quant.region"(%0) ({ reshape }) : (tensor<1x8x4x6xf32>) -> tensor<1x2x4x4x6xf32>
%2 = "quant.region"(%1) ({ layer_norm over dimensions 2, 3, 4 }) : (tensor<1x2x4x4x6xf32>) -> tensor<1x2x4x4x6xf32>
%3 = "quant.region"(%2) ({ reshape }) : (tensor<1x2x4x4x6xf32>) -> tensor<1x8x4x6xf32>
```
because the layout pass moves channels through a reshape that splits dimensions, but not through one that merges them
with others. This is a group normalization. Functions between a flatten and a fully connected layer are the other case:
the product is rewritten over the dimensions before the merge (`merged_terms.py`). Kernels stay where they are unless
all that reads the last of them is reshapes and such products.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.core import Use
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.export.movement_regions import movement_region
from zeropoint.export.region_types import only_moves
from zeropoint.export.reshaped_orders import last_order, reshaped_order
from zeropoint.export.split_dimensions import SplitDimensions, region_on_parts
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import DotGeneralOp, ReshapeOp
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.ir.weights import Weights


def compute_before_merges(program: Program) -> Program:
    """The program with kernels after a merge of dimensions computed before it, where that helps."""
    program = program.clone()
    for region in list(program.entry.ops):
        split = None if region.parent is None else _split_of(region)
        if split is not None and isinstance(region, QuantizeRegionOp):
            _Move(region, split, program.weights).run()
    return program


def _split_of(op: Operation) -> SplitDimensions | None:
    """The dimensions before a reshape of an image that channels cannot be moved through; None for other ops."""
    # A float kernel would read what the reshape rounds without the rounding.
    if not isinstance(op, QuantizeRegionOp) or not _only_reshapes(op) or not only_moves(op, 0):
        return None
    given, made = shape_of(op.inputs[0]), shape_of(op.outputs[0])
    if len(given) < 3 or not all(given) or reshaped_order(given, made, last_order(len(given))) is not None:
        return None
    return SplitDimensions.between(given, made)


def _only_reshapes(op: Operation) -> bool:
    if not isinstance(op, QuantizeRegionOp) or len(op.inputs) != 1:
        return False
    (first, *rest) = op.body.block.ops
    return isinstance(first, ReshapeOp) and len(rest) == 1


@dataclass
class _Move:
    """The move of the kernels that read the result of one reshape."""

    merge: QuantizeRegionOp
    split: SplitDimensions
    weights: Weights
    known: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """The values before the merge, by the merged ones."""
    made: list[Operation] = field(default_factory=list[Operation])
    replaced: list[QuantizeRegionOp] = field(default_factory=list[QuantizeRegionOp])

    def run(self) -> None:
        """Move the kernels, or leave the program as it is."""
        (spec,), source = self.merge.input_specs.data, self.merge.inputs[0]
        if shape_of(source) != self.split.shape:
            source = self._insert(self._reshape(source, self.split.shape, spec), self.merge)
        self.known[self.merge.outputs[0]] = source
        self._follow()
        ends = list(self._ends())
        if self.replaced and all(map(_takes_split, ends)):
            for use in ends:
                self._finish(use)
            self._erase_replaced()
        else:
            for op in reversed(self.made):
                Rewriter.erase_op(op)

    def _follow(self) -> None:
        """Compute the kernels that read known values."""
        pending = [self.merge.outputs[0]]
        while pending:
            for use in list(pending.pop().uses):
                region = use.operation
                if not isinstance(region, QuantizeRegionOp) or region in self.replaced:
                    continue
                found = region_on_parts(region, self.split, self.known, self.weights)
                if found is not None:
                    (*constants, made) = found
                    for op in constants:
                        self._insert(op, region)
                    self.known[region.outputs[0]] = self._insert(made, region)
                    self.replaced.append(region)
                    pending.append(region.outputs[0])

    def _erase_replaced(self) -> None:
        """Erase the replaced kernels, each before those whose results it reads, and the merge."""
        left = list(self.replaced)
        while left:
            op = next(op for op in left if not op.outputs[0].first_use)
            left.remove(op)
            Rewriter.erase_op(op)
        Rewriter.erase_op(self.merge)

    def _ends(self) -> Iterable[Use]:
        """The uses of known values that stay."""
        return (use for value in self.known for use in value.uses if use.operation not in self.replaced)

    def _finish(self, use: Use) -> None:
        """Let a reader that stays read the value before the merge."""
        reader, value = use.operation, self.known[use.operation.operands[use.index]]
        assert isinstance(reader, QuantizeRegionOp)
        if _only_reshapes(reader):
            made = self._reshape(value, shape_of(reader.outputs[0]), reader.input_specs.data[0])
            made.attributes.update({**reader.attributes, **made.attributes, "output_specs": reader.output_specs})
            reader.outputs[0].replace_all_uses_with(self._insert(made, reader))
            Rewriter.erase_op(reader)
        else:
            shape, spec = shape_of(reader.inputs[use.index]), reader.input_specs.data[use.index]
            reader.operands[use.index] = self._insert(self._reshape(value, shape, spec), reader)

    def _reshape(self, value: SSAValue, shape: tuple[int, ...], spec: Attribute) -> QuantizeRegionOp:
        kind = TensorType(element_of(value), shape)
        return movement_region([value], spec, lambda given: ReshapeOp(given[0], kind))

    def _insert(self, op: Operation, before: Operation) -> SSAValue:
        op.location = before.location
        Rewriter.insert_op(op, InsertPoint.before(before))
        self.made.append(op)
        return op.results[0]


def _takes_split(use: Use) -> bool:
    """Whether a reader does not need the merged dimension: a reshape, or a product with constant weights."""
    reader = use.operation
    if not isinstance(reader, QuantizeRegionOp):
        return False
    products = [op for op in reader.body.block.ops if isinstance(op, DotGeneralOp)]
    return _only_reshapes(reader) or (use.index == 0 and len(products) == 1)
