"""A function of a residual sum of a quantized file becomes one kernel with it, if the runtime has such a kernel.

```mlir
%1 = "quant.region"(%a, %c) ({ add })          no cast quantizes %1; %c is the quantized result of a convolution
%2 = "quant.region"(%1) ({ leaky relu })
%3 = quant.qcast %2 : ... to tensor<1x4x8x8x!quant.uniform<i8:f32, 0.02>>
```
becomes
```mlir
%2 = "quant.region"(%a, %c) ({ add, leaky relu })
       {logical_kernel = "function_of_sum", output_specs = [!quant.uniform<i8:f32, 0.02>], ...}
```
OpenVINO computes both in the convolution that makes `%c` (`joins_functions` in a target's table). The convolution's
result is not rounded then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, BlockArgument, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir.annotations import DEMANDS, FUNCTION, Fact, state_facts
from zeropoint.ir.functions import evaluate_chain
from zeropoint.ir.named_functions import POINTS, function_kernel
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, QuantizeRegionOp, ReturnOp, UniformQuantizedType
from zeropoint.ir.stablehlo import AddOp, ConstantOp
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.materialize.file_contractions import BYTE, read_type, type_at
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.openvino_sums import is_computed_in_convolution
from zeropoint.targets.logical_kernels import FUNCTION_OF_SUM

FUNCTIONS = frozenset({"elu", "gelu", "hard_swish", "leaky_relu", "silu"})
MOST = 8
"""The greatest number of regions that one function is written as."""


@dataclass(frozen=True)
class JoinedFunction:
    """A float sum, the regions of the function that reads it, and the type to which the function is quantized."""

    total: QuantizeRegionOp
    regions: Sequence[QuantizeRegionOp]
    kind: UniformQuantizedType

    @staticmethod
    def of(total: QuantizeRegionOp, weights: Weights) -> JoinedFunction | None:
        """The sum that a region is, with its function; None for other regions."""
        body = list(total.body.block.ops)
        if total.logical_kernel.data != "add" or not _is_free(total) or not isinstance(body[0], AddOp):
            return None
        same = all(shape_of(value) == shape_of(total.outputs[0]) for value in total.inputs)
        if len(body) != 2 or len(total.inputs) != 2 or not same or not all(map(is_byte, map(read_type, total.inputs))):
            return None
        regions = following(total)
        kinds = [type_at(use) for region in regions[-1:] for use in region.outputs[0].uses]
        kind = kinds[0] if len({*kinds}) == 1 else None
        return JoinedFunction(total, regions, kind) if kind is not None and is_byte(kind) else None

    def replace(self, program: Program) -> None:
        """Replace the regions by one, in place, if the runtime computes them in a convolution."""
        block, last = joined(self.total.inputs, (self.total, *self.regions)), self.regions[-1]
        if (name := _name(block, program.weights)) not in FUNCTIONS:
            return
        given = list(self.total.inputs)
        values = list(map(without_casts, given))
        kinds = [kind for value in given if (kind := read_type(value)) is not None]
        made = QuantizeRegionOp(values, [last.outputs[0].type], FUNCTION_OF_SUM, kinds, [self.kind], Region(block))
        made.location = last.location
        made.attributes[FUNCTION] = StringAttr(name)
        state_facts(made, [Fact("parameters", str(self.kind), "user", "the model")])
        program.entry.insert_ops_before([made], last)
        self.total.operands = []  # while it is asked whether the sum is the only reader
        if not is_computed_in_convolution(MaterializedKernel(made, Builder(InsertPoint.before(made)), program.weights)):
            self.total.operands = given
            Rewriter.erase_op(made)
            return
        last.outputs[0].replace_all_uses_with(made.outputs[0])
        for region in (*reversed(self.regions), self.total):
            Rewriter.erase_op(region)


def joined(given: Sequence[SSAValue], regions: Sequence[QuantizeRegionOp]) -> Block:
    """The ops of all regions, as a block of the given values."""
    block = Block(arg_types=[value.type for value in given])
    values: dict[SSAValue, SSAValue] = dict(zip(given, block.args, strict=True))
    for region in regions:
        for argument, value in zip(region.body.block.args, region.inputs, strict=True):
            if value not in values:  # a constant
                assert isinstance(value.owner, ConstantOp)  # `following`
                block.add_op(copy := value.owner.clone())
                values[value] = copy.output
            values[argument] = values[value]
        *ops, returned = region.body.block.ops
        block.add_ops(op.clone(values) for op in ops)
        values[region.outputs[0]] = values[returned.operands[0]]
    block.add_op(ReturnOp([values[regions[-1].outputs[0]]]))
    return block


def following(total: QuantizeRegionOp) -> list[QuantizeRegionOp]:
    """The float regions that compute a function of a region's result, in program order; none if there is anything else.

    Only the result of the last one is read in a type.
    """
    found, values = list[QuantizeRegionOp](), [total.outputs[0]]
    block = total.parent_block()
    places = {op: place for place, op in enumerate(block.ops if block is not None else ())}
    while readers := {use.operation for value in values for use in value.uses if type_at(use) is None} - {*found}:
        op = min(readers, key=lambda op: places.get(op, -1))
        if not isinstance(op, QuantizeRegionOp) or not _is_free(op) or len(op.outputs) != 1 or len(found) == MOST:
            return []
        if not all(value in values or isinstance(value.owner, ConstantOp) for value in op.inputs):
            return []
        found.append(op)
        values.append(op.outputs[0])
    is_inner = all(type_at(use) is None for value in values[:-1] for use in value.uses)
    return found if is_inner else []


def _is_free(region: QuantizeRegionOp) -> bool:
    """Whether a region is float, and no recipe demands that it stays so."""
    specs = (*region.input_specs, *region.output_specs)
    return DEMANDS not in region.attributes and not any(isinstance(spec, UniformQuantizedType) for spec in specs)


def is_byte(kind: UniformQuantizedType | None) -> bool:
    """Whether a type has 8 bits and one scale."""
    return kind is not None and kind.is_per_layer and kind.storage.type.width == BYTE


def without_casts(value: SSAValue) -> SSAValue:
    """An input of the program behind casts, or a result behind casts to its type; other values as they are."""
    cast = value.owner.input.owner if isinstance(value.owner, DequantizeCastOp) else None
    if not isinstance(cast, QuantizeCastOp):
        return value
    is_same = isinstance(cast.input, BlockArgument) or read_type(cast.input) == element_of(cast.result)
    return cast.input if is_same else value


def _name(block: Block, weights: Weights) -> str | None:
    """The name of the function of the sum that a block returns."""
    total = block.first_op
    assert isinstance(total, AddOp)
    return function_of(block, total.result, weights)


def function_of(block: Block, value: SSAValue, weights: Weights) -> str | None:
    """The name of the function of a value that a block returns."""
    returned = block.last_op
    assert isinstance(returned, ReturnOp)
    try:
        return function_kernel(evaluate_chain(returned.operands[0], value, POINTS, weights))
    except ValueError:
        return None
