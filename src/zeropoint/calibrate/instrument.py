"""Insert requests for statistics (`quant.stats_ref`) on the values that calibration has to observe.

```mlir
func.func @main(%x: tensor<1x3x8x8xf32> {zeropoint.name = "image"}) -> ... {
  %0 = "quant.region"(%x, %w, %b) ({...}) {logical_kernel = "convolution", ...} loc("conv1")
  %1 = "quant.region"(%0) ({...}) {logical_kernel = "max_pool", ...} loc("pool1")
```
becomes
```mlir
func.func @main(%x: tensor<1x3x8x8xf32> {zeropoint.name = "image"}) -> ... {
  %x_1 = "quant.stats_ref"(%x) {statsKey = "image"}
  %0 = "quant.region"(%x_1, %w, %b) ({...}) {logical_kernel = "convolution", ...} loc("conv1")
  %1 = "quant.stats_ref"(%0) {statsKey = "conv1"}
  %2 = "quant.region"(%1) ({...}) {logical_kernel = "max_pool", ...} loc("pool1")
  %3 = "quant.stats_ref"(%2) {statsKey = "pool1"}
```

Source: "MLIR Quantization", section "Solver tools": instrument mode. The solver decides which points a target needs
(`asks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from zeropoint.ir.locations import name_location
from zeropoint.ir.normalizations import row_variances
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    CalibratedQuantizedType,
    DequantizeCastOp,
    QuantizeRegionOp,
    StatisticsOp,
    StatisticsRefOp,
    UniformQuantizedType,
)
from zeropoint.ir.result_names import feeds_region, result_names, varying_values
from zeropoint.ir.stablehlo import UniformDequantizeOp
from zeropoint.ir.tensors import has_floats
from zeropoint.ir.value_names import Names

Asks = Callable[[Program], Callable[[SSAValue], bool]]
"""Maps a program to a predicate, which says whether calibration has to observe a value of it."""

_STATISTICS = (StatisticsOp, StatisticsRefOp)
# The parameters of the results of these ops are known.
_ANSWERED = (*_STATISTICS, DequantizeCastOp, UniformDequantizeOp)


def asks_all(program: Program) -> Callable[[SSAValue], bool]:
    """Observe every value that a region produces or reads."""

    def asks(value: SSAValue) -> bool:
        maker = value.op if isinstance(value, OpResult) else None
        inside = maker is not None and isinstance(maker.parent_op(), QuantizeRegionOp)
        return not inside and (isinstance(maker, QuantizeRegionOp) or feeds_region(value))

    return asks


def _is_open_float(value: SSAValue) -> bool:
    """Whether a value is a float tensor without statistics and without a request for them."""
    if not (isinstance(value.type, TensorType) and has_floats(value)):
        return False
    if isinstance(value.owner, _ANSWERED):
        return False
    return not any(isinstance(use.operation, _STATISTICS) for use in value.uses)


def _is_asked(value: SSAValue, asks: Callable[[SSAValue], bool]) -> bool:
    """Whether to observe a value: an undecided result of a region, a float op's result that a region reads, or an
    argument."""
    if isinstance(value, OpResult) and isinstance(value.op, QuantizeRegionOp):
        spec = value.op.output_specs.data[value.index]
        return not isinstance(spec, UniformQuantizedType | CalibratedQuantizedType) and asks(value)
    # Float ops may write hidden scores beside an argument's (`solve/masks/bound_masks.py`).
    return (isinstance(value, BlockArgument) or feeds_region(value)) and asks(value)


def _points(program: Program, asks: Callable[[SSAValue], bool], every_result: bool) -> Iterator[tuple[SSAValue, str]]:
    """The values to observe, in program order, with their names."""
    names = result_names(program, every_result=every_result)
    varying = varying_values(program.entry)
    for argument in program.entry.args:
        asked = argument.first_use if every_result else _is_asked(argument, asks)
        if _is_open_float(argument) and asked:
            yield argument, names[argument]
    for op in program.entry.ops:
        variances = row_variances(op)
        if variances is not None and _is_open_float(variances) and asks(variances):
            yield variances, f"{names[op.results[0]]}.variances"
        for inner in op.body.block.ops if isinstance(op, QuantizeRegionOp) else ():
            for value in inner.results:
                if value is not variances and _is_open_float(value) and asks(value):
                    yield value, f"{names[op.results[0]]}.{inner.name.partition('.')[2]}"
        for result in op.results:
            is_activation = result in varying or isinstance(op, QuantizeRegionOp)
            if is_activation and _is_open_float(result) and (every_result or _is_asked(result, asks)):
                yield result, names[result]


def _ask(value: SSAValue, key: str, before: Operation) -> None:
    """Insert a new `quant.stats_ref` before an op, and let every use of `value` read it."""
    reference = StatisticsRefOp(value, key)
    reference.location = value.op.location if isinstance(value, OpResult) else name_location(key)
    assert before.parent is not None
    before.parent.insert_op_before(reference, before)
    value.replace_uses_with_if(reference.res, lambda use: use.operation is not reference)


def instrument(program: Program, *, asks: Asks = asks_all, every_result: bool = False) -> Program:
    """A copy with a `quant.stats_ref` for each float value that calibration has to observe. All uses of the value read
    it.

    These values are the results of regions, the results of float ops that a region reads, and the arguments of `@main`.
    They are left out if `asks` declines them, or if their spec decides them already. The variances of the rows that a
    region normalizes (`row_variances`) and other values inside regions are requested if `asks` selects them. Values
    computed from constants alone are never observed, because their range is known. A value that has statistics keeps
    them. With `every_result`, which is meant for programs without regions, every used float argument and every float
    result is observed.

    Keys are unique names (`ir/result_names.py`), from the original model if it has names. The same program always gets
    the same keys, whatever `asks` declines.
    """
    program = program.for_change()
    block = program.entry
    first = block.first_op
    # Existing keys are reserved, so a program that is instrumented twice keeps the keys of the first time.
    keys = Names()
    for op in block.ops:
        if isinstance(op, StatisticsRefOp):
            keys.free(op.stats_key.data)
    for value, name in list(_points(program, asks(program), every_result)):
        # Requests of arguments come first, in the order of the arguments, so that keys are in program order.
        before = first if value.owner is block else _next_in_order(value)
        assert before is not None
        _ask(value, keys.free(name), before)
    return program


def _next_in_order(value: SSAValue) -> Operation | None:
    """The op before which statistics of a result are inserted: the next op after the statistics of earlier results."""
    assert isinstance(value, OpResult)
    following = value.op.next_op
    while isinstance(following, StatisticsRefOp) and following.arg.owner is value.op:
        following = following.next_op
    return following
