"""Facts about the kernels of a program that states them itself (`stated_kernels.py`), for `explain` and reports.

```mlir
%1 = stablehlo.convolution(%0, %w) ...                  sums of 32 bits
%2 = stablehlo.uniform_quantize %1 ...                  {zeropoint.facts = [kernel "convolution", parameters ...]}
```
A kernel ends where a value of up to 16 bits is computed, or sums that are dequantized. The ops before it that compute
its sums belong to it, as do the float ops of a function between casts, and a clamp after it. Other ops on floats are
those that the model computes in floats.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import AnyFloat, ArrayAttr, DictionaryAttr, StringAttr, TensorType, UnitAttr
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from zeropoint.ir.annotations import EXPRESSED_SUMS, FACTS, FLOAT_REASON, RESCALE, SAME_INTEGERS, Fact, state_facts
from zeropoint.ir.constants import is_constant
from zeropoint.ir.functions import evaluate_chain, is_function
from zeropoint.ir.locations import location_text
from zeropoint.ir.named_functions import POINTS, function_kernel
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import (
    ClampOp,
    ConstantOp,
    ConvolutionOp,
    DotGeneralOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    ReduceOp,
    ReduceWindowOp,
    UniformQuantizeOp,
)
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.solve.constraints import DEQUANTIZES, QUANTIZES, WIDEST

SOURCE = "the model"
WHY = "the model computes it in floats"
FUNCTION = "elementwise_unary"
REDUCED = {"add": ("sum", "average_pool"), "maximum": ("reduce_max", "max_pool"), "minimum": ("reduce_min", "min_pool")}
"""The kernels of a reduction and of a reduction in windows, by the op of their body."""


@dataclass(frozen=True)
class _Kernel:
    """A kernel that ends at a quantized value: its name, and its ops in program order."""

    name: str
    ops: tuple[Operation, ...]

    def facts(self, kind: UniformQuantizedType) -> list[Fact]:
        """The facts of its result."""
        places = dict.fromkeys(filter(None, (location_text(op.location) for op in self.ops)))
        return [Fact("kernel", self.name, "default", ", ".join(places)), _parameters(kind)]


def with_stated_facts(program: Program) -> Program:
    """A copy with the facts of every kernel, and the reason on every op that the model computes in floats."""
    program = program.for_change()
    positions = {op: index for index, op in enumerate(program.entry.ops)}
    functions: set[Operation] = set()
    for op in program.entry.ops:
        kind = _kind(op.results[0]) if len(op.results) == 1 and not isinstance(op, ConstantOp) else None
        if kind is None or not _is_end(op, kind):
            continue
        if isinstance(op, QUANTIZES) and _is_float(op.operands[0]):
            functions.update(_quantized_float(op, kind, positions, program.weights))
        elif isinstance(op, UniformQuantizeOp) and (given := _kind(op.operand)) and given.storage.type.width <= WIDEST:
            _rescale(op, given, kind)
        else:
            state_facts(op, _kernel(op, positions).facts(kind))
    _clamps(program)
    _inputs(program)
    for op in program.entry.ops:
        if op not in functions and not isinstance(op, (ConstantOp, *QUANTIZES, *DEQUANTIZES)) and _computes_floats(op):
            op.attributes.setdefault(FLOAT_REASON, StringAttr(WHY))
    return program


def _is_end(op: Operation, kind: UniformQuantizedType) -> bool:
    """Whether an op computes the result of a kernel: a value of up to 16 bits, or sums that floats are made of."""
    is_read_as_floats = any(isinstance(use.operation, DEQUANTIZES) for use in op.results[0].uses)
    return (kind.storage.type.width <= WIDEST or is_read_as_floats) and not all(map(is_constant, op.operands))


def _parameters(kind: UniformQuantizedType) -> Fact:
    return EXPRESSED_SUMS if kind.storage.type.width > WIDEST else Fact("parameters", str(kind), "user", SOURCE)


def _kind(value: SSAValue) -> UniformQuantizedType | None:
    element = element_of(value) if isinstance(value.type, TensorType) else None
    return element if isinstance(element, UniformQuantizedType) else None


def _is_float(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and isinstance(element_of(value), AnyFloat)


def _computes_floats(op: Operation) -> bool:
    return any(map(_is_float, op.results)) and not all(map(is_constant, op.operands))


def _rescale(op: UniformQuantizeOp, given: UniformQuantizedType, wanted: UniformQuantizedType) -> None:
    """Mark a cast between two types as a rescale, or as one that only changes the storage."""
    if given.storage.type.signed and (given.scale, given.zero_point) == (wanted.scale, wanted.zero_point):
        op.attributes[SAME_INTEGERS] = UnitAttr()
        return
    op.attributes[RESCALE] = StringAttr(f"{given} -> {wanted}")
    state_facts(op, [Fact("has", str(given), "user", SOURCE), Fact("required", str(wanted), "user", SOURCE)])


def _kernel(op: Operation, positions: dict[Operation, int]) -> _Kernel:
    """The kernel that ends at an op: that op, and those before it whose results have more than 16 bits."""
    found, pending = {op}, [op]
    while pending:
        for operand in pending.pop().operands:
            made, kind = operand.owner, _kind(operand)
            if isinstance(made, Operation) and kind is not None and kind.storage.type.width > WIDEST:
                pending += [made] if made not in found else []
                found.add(made)
    ops = sorted((each for each in found if not isinstance(each, ConstantOp)), key=positions.__getitem__)
    main = next(
        (each for each in ops if isinstance(each, ConvolutionOp | DotGeneralOp | ReduceOp | ReduceWindowOp)), None
    )
    computing = [each for each in ops if not isinstance(each, QUANTIZES)]
    name = _name(main or (computing or ops)[-1])
    is_mean = isinstance(main, ReduceOp) and any(isinstance(each, MultiplyOp) for each in ops)
    return _Kernel("mean" if is_mean else name, tuple(ops))


def _name(op: Operation) -> str:
    if isinstance(op, ConvolutionOp):
        if op.lhs_dilation is not None and any(size != 1 for size in op.lhs_dilation.iter_values()):
            return "transpose_convolution"
        channels = shape_of(op.lhs)[op.dimension_numbers.data.input_feature_dimension]
        groups = op.feature_group_count.value.data
        return "depthwise_convolution" if groups == channels and groups > 1 else "convolution"
    if isinstance(op, DotGeneralOp):
        return "fully_connected" if is_constant(op.rhs) else "batch_matmul"
    if isinstance(op, ReduceOp | ReduceWindowOp):
        body = op.body.block.first_op
        kind = "" if body is None else body.name.partition(".")[2]
        return REDUCED.get(kind, ("reduce", "reduce_window"))[isinstance(op, ReduceWindowOp)]
    return op.name.partition(".")[2].removesuffix("_in_dim")


def _quantized_float(
    op: Operation, kind: UniformQuantizedType, positions: dict[Operation, int], weights: Weights
) -> Iterator[Operation]:
    """State the facts of a quantized float: a function of integers, whose ops are returned, or another float."""
    value = op.operands[0]
    if isinstance(value, BlockArgument):
        return
    chain = _function(value)
    if chain is None:
        state_facts(op, [_parameters(kind)])
        return
    source, ops = chain
    state_facts(
        op, _Kernel(_function_name(value, source, weights), tuple(sorted(ops, key=positions.__getitem__))).facts(kind)
    )
    yield from ops


def _function(value: SSAValue) -> tuple[SSAValue, set[Operation]] | None:
    """The dequantized value that a chain of elementwise ops reads, and the ops; None if there is no single one."""
    sources: set[SSAValue] = set()
    ops: set[Operation] = set()
    pending = [value]
    while pending:
        found = pending.pop()
        if is_constant(found):
            continue
        made = found.owner
        if isinstance(made, DEQUANTIZES):
            sources.add(found)
        elif isinstance(made, Operation) and is_function(made):
            pending += made.operands if made not in ops else ()
            ops.add(made)
        elif not (isinstance(made, Operation) and made.operands and all(map(is_constant, made.operands))):
            return None
    return (sources.pop(), ops) if len(sources) == 1 and ops else None


def _function_name(value: SSAValue, source: SSAValue, weights: Weights) -> str:
    try:
        return (
            function_kernel(evaluate_chain(value, source, POINTS.astype(element_dtype(element_of(source))), weights))
            or FUNCTION
        )
    except ValueError:  # it reads a constant with several numbers
        return FUNCTION


def _clamps(program: Program) -> None:
    """Let a clamp that is the only reader of a kernel's result belong to that kernel."""
    for op in program.entry.ops:
        made = (
            op.operands[1 if isinstance(op, ClampOp) else 0].owner
            if isinstance(op, ClampOp | MaximumOp | MinimumOp)
            else None
        )
        if not isinstance(made, UniformQuantizeOp) or FACTS not in made.attributes or not made.result.has_one_use():
            continue
        if FACTS in op.attributes and _kind(made.result) == _kind(op.results[0]):
            op.attributes[FACTS] = made.attributes.pop(FACTS)


def _inputs(program: Program) -> None:
    """State the types that readers quantize each input to."""
    function = program.main
    given = function.arg_attrs
    known = [DictionaryAttr({})] * len(program.entry.args) if given is None else given.data
    entries = [dict[str, Attribute](entry.data) for entry in known]
    for argument, entry in zip(program.entry.args, entries, strict=True):
        readers = [use.operation.results[0] for use in argument.uses if isinstance(use.operation, QUANTIZES)]
        kinds = dict.fromkeys(kind for value in readers if (kind := _kind(value)) is not None)
        if kinds:
            entry[FACTS] = ArrayAttr([_parameters(kind).attribute() for kind in kinds])
    function.properties["arg_attrs"] = ArrayAttr([DictionaryAttr(entry) for entry in entries])
