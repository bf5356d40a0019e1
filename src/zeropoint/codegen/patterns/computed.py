"""A chain of elementwise ops from accumulators to i8, in the arithmetic of a runtime: `ComputedOutput`.

%x = convert %acc                                    f32
%v = add (multiply %x, scales), biases               constants are numbers, or have one per channel
%t = add %v, convert(%other)                         at most one value of i8 is added
%q = convert (round_nearest_even %t)                 i32
%y = fxpmath.requantize %q by 1                      i8; the match starts here, backwards

A chain may begin with a requantization of the accumulators to i8. Then the match starts there, and `end_of` finds %y.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Generic, TypeVar

import numpy as np
from xdsl.ir import Operation, OpResult, SSAValue

from zeropoint.codegen.graph import Space, View
from zeropoint.codegen.kernels.bodies import NewBody
from zeropoint.codegen.kernels.computed import ComputedOutput
from zeropoint.codegen.kernels.elements import Argument, Read, Requantize
from zeropoint.codegen.llvm.types import FLOATS
from zeropoint.codegen.patterns.match import Declined
from zeropoint.codegen.schedule.elementwise import ELEMENTWISE, MOVEMENT
from zeropoint.codegen.schedule.expression import Expression, ScalarRule
from zeropoint.codegen.values import Values, dense
from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ClampOp,
    ConvertOp,
    MultiplyOp,
    RoundNearestEvenOp,
    SubtractOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.numerics import RequantizeBehaviour

FoundT = TypeVar("FoundT")
RULES: Mapping[type[Operation], ScalarRule] = {
    BroadcastInDimOp: MOVEMENT[BroadcastInDimOp],
    **{
        op: ELEMENTWISE[op]
        for op in (AddOp, ClampOp, ConvertOp, MultiplyOp, RequantizeOp, RoundNearestEvenOp, SubtractOp)
    },
}
"""The ops of a chain."""
LONGEST = 100
"""The greatest number of ops in a chain. Those of runtimes have 30."""
IN_CHAINS = (RequantizeBehaviour.FLOAT32_RNE.value,)
"""How a chain may requantize. With other roundings, a sum in a loop nest takes about as long (`docs/native.md`)."""


class _Views:
    """A scope of an expression that records of which values its operands are."""

    def __init__(self, values: Values):
        self.values = values
        self.of: dict[View, SSAValue] = {}

    def view(self, value: SSAValue) -> View:
        """A placeholder view of the value."""
        made = dense(value, Space.WEIGHTS)
        self.of[made] = value
        return made

    def constant_view(self, array: Array) -> View:
        """Not for the ops of a chain."""
        raise AssertionError(f"found an array of {array.shape}, expected values only")


class _Chain(Generic[FoundT]):
    """The ops of a chain, from its end on. `sums` says what computes accumulators, or why nothing does."""

    def __init__(self, values: Values, root: RequantizeOp, sums: Callable[[SSAValue], FoundT | Declined]):
        self.values, self.root, self.sums = values, root, sums
        self.shape = shape_of(root.result)
        self.ops: set[Operation] = set()
        self.found: list[tuple[SSAValue, FoundT]] = []
        self.made: list[Operation] = []
        self.others: set[SSAValue] = set()

    def takes(self, value: SSAValue) -> bool:
        """Whether a value is a part of the chain, with all that it is computed from."""
        if self.values.splat(value) is not None:
            return True
        if self.values.has(value) and self.values.constant(value) is None:
            self.others.add(value)
            return element_dtype(element_of(value)) == np.int8 and shape_of(value) == self.shape
        if not isinstance(value, OpResult) or shape_of(value) != self.shape:
            return False
        if value.op in self.ops or any(value is known for known, _ in self.found):
            return True
        if element_dtype(element_of(value)) == np.int32 and not isinstance(found := self.sums(value), Declined):
            self.found.append((value, found))
            self.made.append(value.op)
            return True
        if isinstance(value.op, BroadcastInDimOp):
            return self._is_number(value.op)
        return len(self.ops) < LONGEST and self._takes_op(value.op)

    def _takes_op(self, op: Operation) -> bool:
        """Whether an op is a part of the chain. Bytes are only converted, because a kernel has them in 32 bits."""
        words = all(element_dtype(element_of(value)).itemsize >= 4 for value in op.operands)
        if type(op) not in RULES or not (words or isinstance(op, ConvertOp)):
            return False
        self.ops.add(op)
        if isinstance(op, RequantizeOp):
            return self._requantizes(op)
        return all(self.takes(operand) for operand in op.operands)

    @property
    def is_whole(self) -> bool:
        """Whether the chain has one accumulator, and nothing else reads its ops."""
        one = self.takes(self.root.accumulator) and len(self.found) == 1 and len(self.others) <= 1
        return one and all(self._is_read_here(op) for op in (*self.ops, *self.made))

    def _is_read_here(self, op: Operation) -> bool:
        return all(use.operation in (self.root, *self.ops) for result in op.results for use in result.uses)

    def _requantizes(self, op: RequantizeOp) -> bool:
        """Whether an op requantizes the accumulator by constants: one number, or one per channel."""
        number = self.values.constant(op.multiplier)
        along = op.axis is not None and int(op.axis.value.data) == self.values.innermost(op.result)
        if op.behaviour.data not in IN_CHAINS or number is None or (number.size > 1 and not along):
            return False
        return self.takes(op.accumulator) and any(op.accumulator is known for known, _ in self.found)

    def _is_number(self, op: BroadcastInDimOp) -> bool:
        """Whether an op repeats a constant: one number, or one per channel."""
        number = self.values.constant(op.operand)
        along = array_values(op.broadcast_dimensions) == (self.values.innermost(op.result),)
        self.ops.add(op)
        return number is not None and (number.size == 1 or along)


def end_of(op: RequantizeOp) -> RequantizeOp | None:
    """The end of the chain that a requantized value may be in: the next requantization to i8 that reads it."""
    if op.behaviour.data not in IN_CHAINS:
        return None
    value = op.result
    for _ in range(LONGEST):
        use = value.first_use
        if use is None or type(use.operation) not in RULES:
            return None
        user, value = use.operation, use.operation.results[0]
        if isinstance(user, RequantizeOp) and element_dtype(element_of(value)) == np.int8:
            return user
    return None


def chain_of(
    values: Values, op: RequantizeOp, sums: Callable[[SSAValue], FoundT | Declined]
) -> tuple[FoundT, ComputedOutput, SSAValue | None] | None:
    """What computes the accumulators, the chain, and the added value; None if a requantize ends no such chain."""
    one = values.splat(op.multiplier) == 1 and op.behaviour.data == RequantizeBehaviour.FLOAT32_RNE.value
    if not one or element_dtype(element_of(op.result)) != np.int8:
        return None
    chain = _Chain(values, op, sums)
    if not chain.is_whole:
        return None
    ((accumulator, found),) = chain.found
    other = next(iter(chain.others), None)
    computed = _computed(values, op, accumulator, other, frozenset(chain.ops))
    return None if computed is None else (found, computed, other)


def _computed(
    values: Values, op: RequantizeOp, accumulator: SSAValue, other: SSAValue | None, members: frozenset[Operation]
) -> ComputedOutput | None:
    scope = _Views(values)
    expression = Expression(scope, members, shape_of(op.result), RULES)
    every = expression.every
    expression.bind(accumulator, expression.step(Argument(0), accumulator), every)
    result = expression.value(op.accumulator, every)
    read = [scope.of[view] for view in expression.views]
    constants = [value for value in read if value is not other]
    numbers = [_of_32_bits(values, value) for value in constants]
    if any(array is None for array in numbers):
        return None
    new = NewBody()
    for n, i in enumerate(expression.region([result]).body[: result + 1]):
        if isinstance(i.what, Read):
            value = read[i.what.operand]
            index = len(constants) if value is other else constants.index(value)
            type_ = "i32" if value is other or i.type not in FLOATS else "float"
            argument = new.op(Argument(1 + index), type_)
            new.numbers[n] = new.op("convert", "i32" if value is other else i.type, argument)
        elif isinstance(i.what, Requantize):
            # Only conversions read it, so that it may have 32 bits.
            new.numbers[n] = new.append(replace(new.moved(i), type="i32"))
        else:
            new.numbers[n] = new.append(new.moved(i))
    output = op.requantization(np.ones(1, np.float32))
    return ComputedOutput(
        tuple(new.body),
        tuple(array for array in numbers if array is not None),
        output.zero_point,
        output.storage_min,
        output.storage_max,
    )


def _of_32_bits(values: Values, value: SSAValue) -> Array | None:
    """A constant as f32 or i32; None if these do not represent it."""
    array = values.constant(value)
    assert array is not None
    stored = array.astype(np.float32 if array.dtype.kind == "f" else np.int32)
    return stored.reshape(-1) if np.array_equal(stored, array) else None
