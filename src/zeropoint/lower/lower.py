"""Lowers the quantized program to the integer program.

```mlir
%1 = stablehlo.convolution(%0, %w) ... : (...i8:f32, 0.5:3..., ...) -> ...!quant.uniform<i32:f32:1, {...}>
%2 = stablehlo.add %1, %b : ...!quant.uniform<i32:f32:1, {...}>
%3 = stablehlo.uniform_quantize %2 : ... -> ...!quant.uniform<i8:f32, 0.02:-128>
```
becomes
```mlir
%0 = stablehlo.pad %x, %zero_point ...                              : tensor<...xi8>
%1 = stablehlo.convolution(%0, %w) ... : (tensor<...xi8>, tensor<...xi8>) -> tensor<...xi32>
%2 = stablehlo.add %1, (broadcast of bias - zero_point * sum of weights) : tensor<...xi32>
%3 = "fxpmath.requantize"(%2, %multiplier, %shift) {behaviour = "fixed16", ...} : ... -> tensor<...xi8>
```
Integers and float ops are connected by `quant.scast` with `uniform_quantize` or `uniform_dequantize`.

Source: the lowering of quantized contractions; the RFC on quantization transformations, "Code-gen kernel targets".
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from xdsl.builder import Builder
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir.annotations import EXPRESSED, FACTS, FLOAT_REASON, PROFILE, RESCALE, carry, is_wide, own_profile
from zeropoint.ir.dead_code import remove_dead_ops, remove_if_dead
from zeropoint.ir.fxpmath import (
    InterpolateOp,
    QuotientOp,
    RequantizeOp,
    TableOp,
    WeightedSumOp,
)
from zeropoint.ir.inline_calls import inline_functions
from zeropoint.ir.locations import describe
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeCastOp, StorageCastOp
from zeropoint.ir.stablehlo import (
    AddOp,
    AllGatherOp,
    AllReduceOp,
    AllToAllOp,
    ReduceScatterOp,
    ReturnOp,
    SubtractOp,
    UnaryOp,
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from zeropoint.lower.bytes import is_narrow, store_in_bytes
from zeropoint.lower.casts import as_stablehlo, lower_quantize, state_cast_profiles, stored_bits
from zeropoint.lower.constants import fold_quantized_constants
from zeropoint.lower.context import (
    Lowering,
    LoweringError,
    check_storage,
    correction_named,
    quantized_element,
    stored_element,
)
from zeropoint.lower.control import is_control, lower_control
from zeropoint.lower.normalization import note_reason
from zeropoint.lower.proof import prove, quantized_part
from zeropoint.lower.rules import LOWERINGS, PREDICATES, SEVERAL
from zeropoint.lower.tables import lower_function
from zeropoint.lower.widths import join_widths
from zeropoint.numerics.profile import DEFAULT_PROFILE
from zeropoint.numerics.profile import profile as named_profile
from zeropoint.quant_passes.legalize_real_math import legalize_real_math
from zeropoint.ranges import ranges_of

COLLECTIVES = (AllGatherOp, AllReduceOp, AllToAllOp, ReduceScatterOp)
"""Collective ops. They have side effects on other processes."""


def _lower_op(lowering: Lowering, op: Operation) -> Sequence[SSAValue] | None:
    """The integers that replace the op's results; None if the op stays unchanged."""
    if is_control(op):
        return lower_control(lowering, op)
    quantized = [quantized_element(result) is not None for result in op.results]
    if not any(quantized) or (not all(quantized) and type(op) not in SEVERAL):
        return None
    rule = SEVERAL.get(type(op))
    if len(op.results) == 1 and (rule is None or type(op) in LOWERINGS):
        if isinstance(op, StorageCastOp) and is_narrow(op.result):
            return None  # an edge that `store_in_bytes` inserted
        check_storage(op)
        made = _lower_value(lowering, op)
        return None if made is None else [made]
    return None if rule is None else rule(lowering, op)


def _lower_value(lowering: Lowering, op: Operation) -> SSAValue | None:
    """The integers that replace the op's only result; None if the op stays unchanged."""
    if isinstance(op, UniformQuantizeOp) and quantized_element(op.operand) is None:
        return lower_quantize(lowering, op)
    if isinstance(op, QuantizeCastOp):
        return None  # of a sub-channel type
    if isinstance(op, StorageCastOp):
        kind = stored_element(op.result)
        return op.input if kind is None or kind.storage.type.signed else lowering.flipped(op.input)
    if isinstance(op, UnaryOp):
        return lower_function(lowering, op)
    # 64-bit accumulators exist only between a contraction and its requantization.
    if any(map(is_wide, op.operands)) and not isinstance(op, AddOp | SubtractOp | UniformQuantizeOp):
        raise LoweringError(
            f"{describe(op)}: found accumulators of 64 bits, expected a sum with a bias, or uniform_quantize"
        )
    rule = LOWERINGS.get(type(op))
    if rule is None:
        raise LoweringError(f"{describe(op)}: found a quantized op with no integer form; dequantize around it")
    return rule(lowering, op)


def _quantized_again(lowering: Lowering, value: SSAValue, op: Operation) -> SSAValue:
    """A quantized value for an op that stays float, cast from its integers.

    Dequantization may read the signed type, because it expresses the same real values.
    """
    # The signed type saves a flip of the highest bit. Other ops require the declared type.
    kind = quantized_element(value) if isinstance(op, UniformDequantizeOp) else stored_element(value)
    assert kind is not None
    return lowering.quantized_again(lowering.values[value], kind)


def _keep(lowering: Lowering, op: Operation, replaced: set[SSAValue]) -> None:
    """Restore the quantized operands of an op that stays unchanged, and record the reason."""
    for index, operand in enumerate(op.operands):
        if operand in replaced:
            op.operands[index] = _quantized_again(lowering, operand, op)
    if op.dialect_name() == "stablehlo" and not isinstance(op, UniformDequantizeOp):
        reason = "it reads quantized values but has no quantized result: only ops with one have integer forms"
        op.attributes.setdefault(FLOAT_REASON, StringAttr(reason))


def _drop_inner_facts(made: Sequence[Operation], integers: Sequence[SSAValue], block: Block) -> None:
    """Keep the facts of a lowered op only on the ops that make its results. Other emitted ops have copies of them."""
    owners = {value.owner for value in integers}
    for op in made:
        if op not in owners and op.parent is block:
            op.attributes.pop(FACTS, None)


def _note_expressed(integers: SSAValue, result: SSAValue, op: Operation) -> None:
    """Record on an integer value its quantized type and the origin of its parameters, for reports."""
    quantized = quantized_element(result)
    computes = (InterpolateOp, QuotientOp, RequantizeOp, WeightedSumOp, TableOp)
    if isinstance(integers.owner, Operation):
        carry(op, integers.owner, FACTS)
    if quantized is not None and isinstance(integers.owner, computes):
        integers.owner.attributes[EXPRESSED] = quantized
        carry(op, integers.owner, RESCALE)


def lower(program: Program, profile: str | None = None, zero_points: str | None = None) -> Program:
    """The integer program under a numerics profile: the given one, or those that the program and its ops carry.

    Calls and composites of the entry function are inlined.

    `zero_points` forces where contractions correct zero points: `inside` or `after` (`zero_points.py`).

    Raises LoweringError, with the op's name and location, for a quantized op without an integer form, a contraction
    without the forced form, or an integer that may overflow its type (`proof.py`); ValueError for an unknown profile.
    """
    # Functions are inlined, so that the proof covers them, too.
    program = inline_functions(program).for_change()
    chosen = named_profile(profile or program.profile or DEFAULT_PROFILE)
    if profile is not None:
        for op in program.module.walk():
            # The given profile holds for every op.
            op.attributes.pop(PROFILE, None)
    elif program.profile is None:
        state_cast_profiles(program)
    # Recorded, because the program's results are only defined together with its profile.
    program.module.attributes[PROFILE] = StringAttr(chosen.name)  # the edges round by it, too
    block = program.entry
    part = quantized_part(block)
    as_stablehlo(block)
    join_widths(block)
    fold_quantized_constants(block, program.weights, chosen)
    # Before `ranges_of`, because ranges hold for the values that are lowered.
    store_in_bytes(program)
    lowering = Lowering(
        profile=chosen,
        default=chosen,
        weights=program.weights,
        builder=Builder(InsertPoint.at_start(block)),
        ranges=ranges_of(program),
        lower_ops=_lower_ops,
    )
    lowering.zero_points = None if zero_points is None else correction_named(zero_points)
    _lower_ops(lowering, block)
    prove(lowering, program, part)
    # Real math ops that stayed float become StableHLO, which native code and standard forms support.
    return legalize_real_math(program)


def _lower_ops(lowering: Lowering, block: Block) -> None:
    """Lower the ops of the entry function or of a body. The integers of quantized block arguments are already known."""
    as_stablehlo(block)
    join_widths(block)
    fold_quantized_constants(block, lowering.weights, lowering.default)
    # A copy of the list, because lowering inserts ops into the block while it is walked.
    original = list(block.ops)
    replaced: set[SSAValue] = {value for value in block.args if value in lowering.values}
    # Loops and branches are pure if their bodies are, but `remove_if_dead` does not look into bodies.
    gone = [op for op in original if is_control(op)]
    for op in original:
        lowering.builder = Builder(InsertPoint.before(op))
        lowering.location = op.location
        own = own_profile(op)
        # A target may compute one kernel by another profile (XNNPACK's fallbacks).
        lowering.profile = lowering.default if own is None else named_profile(own)
        # A predicate is an i1 before and after, so its readers are redirected now. Integers change the type of a value,
        # so readers get them from `lowering.stored`.
        start = len(lowering.made)
        integers = _integers(lowering, op) or ()
        _drop_inner_facts(lowering.made[start:], integers, block)
        for result, value in zip(op.results, integers, strict=False):
            if quantized_element(result) is None:
                result.replace_all_uses_with(value)
                continue
            lowering.values[result] = value
            replaced.add(result)
            _note_expressed(value, result, op)
    _return_integers(lowering, original[-1])
    # Last, because only now is it known which quantized values have readers that stay float.
    _settle(lowering, original, replaced, gone)
    remove_dead_ops(block)


def _integers(lowering: Lowering, op: Operation) -> Sequence[SSAValue] | None:
    """The integers that replace the op's results; None if the op stays. Errors get the op."""
    with _naming(op):
        if isinstance(op, StorageCastOp) and (bits := stored_bits(lowering, op)) is not None:
            return [bits]
        compares = PREDICATES.get(type(op))
        if compares is not None and (compared := compares(lowering, op)) is not None:
            return [compared]
        return _lower_op(lowering, op)


@contextmanager
def _naming(op: Operation) -> Generator[None]:
    """A context that names the op in errors, such as those of dynamic shapes or of the profile's arithmetic."""
    try:
        yield
    except LoweringError as error:
        # The position of an inner op is more precise than that of the op around it.
        error.op = error.op or op
        raise
    except ValueError as error:
        raise LoweringError(f"{describe(op)}: {error}", op) from error


def _return_integers(lowering: Lowering, terminator: Operation) -> None:
    """Return integers from a body. The entry function keeps its types."""
    if not isinstance(terminator, ReturnOp):
        return
    for n, value in enumerate(terminator.operands):
        if quantized_element(value) is not None:
            with _naming(terminator):
                terminator.operands[n] = lowering.stored(value)


def _settle(lowering: Lowering, original: list[Operation], replaced: set[SSAValue], gone: Sequence[Operation]) -> None:
    """Erase the ops that integers or `gone` replace, and restore quantized operands of the others."""
    meetings = {op for op in original if isinstance(op, COLLECTIVES) and not replaced.isdisjoint(op.results)}
    # From the end: the producers of an op's quantized operands die when the op gets these from integers, and float ops
    # that became tables die before their operands are restored.
    for op in reversed(original):
        remove_if_dead(op)
        if op.parent is None:
            continue
        if op in meetings or op in gone:  # `remove_if_dead` keeps effects on other processes, and bodies
            Rewriter.erase_op(op)
            continue
        if any(quantized_element(operand) is not None for operand in op.operands):
            lowering.builder = Builder(InsertPoint.before(op))
            lowering.location = op.location
            with _naming(op):
                _keep(lowering, op, replaced)
        note_reason(lowering, op)
