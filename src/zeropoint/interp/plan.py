"""A program as a flat list of steps for `Interpreter`.

Values are stored in numbered slots. Bodies of calls, composites and regions are inlined. Steps whose operands are all
constant are computed once, when the plan is built. A value is freed after its last use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import IndexType, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure

from zeropoint.interp import standard
from zeropoint.interp.binding import Binary, BodyFunction, Branch
from zeropoint.interp.control import INLINED, function_body
from zeropoint.interp.errors import UnsupportedError
from zeropoint.interp.plan_steps import Observe, PlanStep, Trace, advance
from zeropoint.interp.run_shapes import verified_when_run
from zeropoint.interp.table import rule_of
from zeropoint.interp.trips import counted_trips
from zeropoint.ir.annotations import own_profile
from zeropoint.ir.constants import elements
from zeropoint.ir.element_types import OPEN
from zeropoint.ir.inlining import RecursionInProgram, check_calls
from zeropoint.ir.locations import TextPosition, describe, text_position
from zeropoint.ir.mapped import mapping
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StatisticsRefOp
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.limits import afford
from zeropoint.numerics import Profile
from zeropoint.numerics.products import sums_of_products
from zeropoint.numerics.profile import DEFAULT_PROFILE, profile


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps in order. `slots` is the initial content of the slots: constants, or None."""

    steps: tuple[PlanStep, ...]
    slots: tuple[Array | None, ...]
    arguments: tuple[int, ...]
    results: tuple[int, ...]

    def run(
        self, values: Sequence[Array], observe: Observe | None = None, trace: Trace | None = None
    ) -> tuple[Array, ...]:
        """The results for the given arguments, which are not checked."""
        with np.errstate(all="ignore"), counted_trips():
            return self.run_inside(values, observe, trace)

    def run_inside(
        self, values: Sequence[Array], observe: Observe | None = None, trace: Trace | None = None
    ) -> tuple[Array, ...]:
        """`run` as part of another run, which has disabled NumPy's warnings and counts trips."""
        # Each run has its own copy, so that calls from several threads do not share values.
        slots = self.begun(values)
        advance(self.steps, slots, observe, trace)
        return self.ended(slots)

    def begun(self, values: Sequence[Array]) -> list[Array | None]:
        """The slots of a run before its first step."""
        slots = list(self.slots)
        for slot, value in zip(self.arguments, values, strict=True):
            slots[slot] = value
        return slots

    def ended(self, slots: Sequence[Array | None]) -> tuple[Array, ...]:
        """The results in the slots of a run after its last step."""
        # NumPy functions return scalars instead of rank-0 arrays. A StableHLO tuple is a Python tuple.
        return tuple(_whole(slots[slot]) for slot in self.results)


def _whole(value: Any) -> Any:
    return cast("Any", value) if isinstance(value, tuple) else np.asarray(value)


MOST_COMPUTED = 256 << 20
"""The maximum number of bytes of computed constants that are kept, such as the real values of stored integers.

Beyond it, such constants are computed again for each reader.
"""


class PlanBuilder:
    """Builds a plan. Unsupported ops are collected in `refused`, so that one error names all of them."""

    def __init__(
        self,
        program: Program,
        outer: PlanBuilder | None = None,
        values: dict[SSAValue, int] | None = None,
        captured: dict[int, int] | None = None,
        write: Callable[[str], object] = sys.stdout.write,
        products: Binary = sums_of_products,
    ):
        self.program = program
        self.products: Binary = products if outer is None else outer.products
        self.write: Callable[[str], object] = write if outer is None else outer.write
        self.profile: Profile = profile(program.profile or DEFAULT_PROFILE)
        self.functions = {f.sym_name.data: f for f in program.module.ops if isinstance(f, FuncOp)}
        self.slots: list[Array | None] = []
        self.steps: list[PlanStep] = []
        self.refused: list[str] = [] if outer is None else outer.refused
        self.first_refused: TextPosition | None = None
        """The position in the text of the first unsupported op. Set only in the outermost builder."""
        self._open: list[Block] = []
        self._kept = 0
        self._computed: dict[SSAValue, ConstantOp] = {}
        self.probes: dict[str, list[Array]] = {} if outer is None else outer.probes
        self._outer = outer
        self._outer_values = values
        self._captured = captured
        self.is_process: bool = outer is not None and outer.is_process
        """Whether the steps are run by a parallel process."""

    def lay(self, block: Block, arguments: Sequence[int]) -> tuple[int, ...]:
        """Append the steps of a block, and return the slots of its terminator's operands."""
        terminator = block.last_op
        assert terminator is not None
        if self._is_open(block):
            self._refuse(terminator, "found a function that calls itself; expected no recursion")
            return tuple(self._new() for _ in terminator.operands)
        self._open.append(block)
        values: dict[SSAValue, int] = dict(zip(block.args, arguments, strict=True))
        for op in block.ops:
            if op is not terminator:
                values.update(zip(op.results, self._append(op, values), strict=False))
        self._open.pop()
        return tuple(self._slot(value, values) for value in terminator.operands)

    def _is_open(self, block: Block) -> bool:
        """Whether the steps of a block are being appended, by this builder or an outer one."""
        return block in self._open or (self._outer is not None and self._outer._is_open(block))

    def finish(self, arguments: Sequence[int], results: Sequence[int]) -> Plan:
        """The plan of the appended steps. Raises UnsupportedError if there are unsupported ops."""
        if self.refused and self._outer is None:
            error = UnsupportedError("the interpreter cannot run:\n  " + "\n  ".join(self.refused))
            error.position = self.first_refused
            raise error
        steps = _with_frees(self.steps, self.slots, results)
        return Plan(steps, tuple(self.slots), tuple(arguments), tuple(results))

    def arguments(self, block: Block) -> tuple[int, ...]:
        """New slots for a block's arguments."""
        return tuple(self._new() for _ in block.args)

    def _new(self, constant: Array | None = None) -> int:
        self.slots.append(constant)
        return len(self.slots) - 1

    def _refuse(self, op: Operation, reason: str) -> None:
        self.refused.append(reason if reason.startswith(describe(op)) else f"{describe(op)}: {reason}")
        root = self
        while root._outer is not None:
            root = root._outer
        root.first_refused = root.first_refused or text_position(op)

    def _is_computed_again(self, op: ConstantOp) -> bool:
        """Whether a constant is computed for each of its readers, because kept ones take `MOST_COMPUTED` bytes."""
        size = self.program.weights.computed_bytes(op.value)
        self._kept += size
        return size > 0 and self._kept > MOST_COMPUTED

    def _slot(self, value: SSAValue, values: dict[SSAValue, int]) -> int:
        if value in values:
            return values[value]
        if (op := self._computed.get(value)) is not None:
            made = self._new()
            self.steps.append(PlanStep(op, partial(elements, op, self.program.weights), (), (made,), None))
            return made
        if self._outer is not None and self._outer_values is not None:
            outer = self._outer._slot(value, self._outer_values)
            constant = self._outer.slots[outer]
            if constant is not None:
                # A constant of the outer program is copied, and not passed as an argument.
                return self._new(constant)
            if self._captured is not None:
                return self._captured.setdefault(outer, self._new())
        raise UnsupportedError("found a body that uses a value from outside; expected arguments and constants only")

    def _append(self, op: Operation, values: dict[SSAValue, int]) -> Sequence[int]:
        try:
            if isinstance(op, ConstantOp) and self._is_computed_again(op):
                self._computed[op.output] = op
                return []
            if isinstance(op, ConstantOp):
                return [self._new(elements(op, self.program.weights))]
            if op.name == standard.CONSTANT:
                return [self._new(standard.constant(op, self.program.weights))]
            operands = tuple(self._slot(value, values) for value in op.operands)
            if (body := INLINED.get(type(op))) is not None:
                return self.lay(body(op, self.functions), operands)
            return self._step(op, operands, values)
        except (KeyError, TypeError, ValueError) as error:
            self._refuse(op, str(error.args[0]) if isinstance(error, KeyError) else str(error))
            return [self._new() for _ in op.results]

    def _step(self, op: Operation, operands: tuple[int, ...], values: dict[SSAValue, int]) -> Sequence[int]:
        rule = rule_of(op)
        if rule is None:
            raise UnsupportedError("found an op that has no semantics for these types")
        scope = _BoundScope(self, values, op)
        _afford(op)
        kernel = verified_when_run(op, rule(op, scope))
        operands = (*operands, *scope.captured)
        if isinstance(op, StatisticsRefOp):
            results = [self._new()]
            self.steps.append(PlanStep(op, kernel, operands, tuple(results), op.stats_key.data))
            return results
        constants = [self.slots[slot] for slot in operands]
        if operands and op.has_trait(Pure) and all(constant is not None for constant in constants):
            with np.errstate(all="ignore"):
                computed = kernel(*constants)
            return [self._new(array) for array in (computed if isinstance(computed, tuple) else (computed,))]
        results = [self._new() for _ in op.results]
        self.steps.append(PlanStep(op, kernel, operands, tuple(results), None))
        return results


def _afford(op: Operation) -> None:
    """Check that no result exceeds the memory limit. Raises LimitExceeded."""
    for result in op.results:
        if isinstance(result.type, TensorType) and not isinstance(element_of(result), (IndexType, *OPEN)):
            afford(shape_of(result), element_dtype(element_of(result)).itemsize, "a result")


class _BoundScope:
    """The `Scope` of the ops of one block at one position in the plan."""

    def __init__(self, builder: PlanBuilder, values: dict[SSAValue, int], op: Operation):
        self._builder = builder
        self._own = own_profile(op)
        self._values = values
        self.captured: dict[int, int] = {}
        """Maps outer slots that the branches of the op read to indices of captured values."""

    @property
    def profile(self) -> Profile:
        return self._builder.profile if self._own is None else profile(self._own)

    @property
    def states_profile(self) -> bool:
        return self._own is not None or self._builder.program.profile is not None

    def constant(self, value: SSAValue) -> Array | None:
        return self._builder.slots[self._values[value]] if value in self._values else None

    @property
    def float_products(self) -> Binary:
        return self._builder.products

    @property
    def probes(self) -> dict[str, list[Array]]:
        return self._builder.probes

    @property
    def write(self) -> Callable[[str], object]:
        return self._builder.write

    def argument_count(self, name: str) -> int:
        return len(function_body(self._builder.functions, name).args)

    def function(self, name: str) -> BodyFunction:
        block = function_body(self._builder.functions, name)
        if self._builder.is_process:
            raise UnsupportedError("found processes that start processes, expected one grid")
        inner = PlanBuilder(self._builder.program, self._builder)
        inner.is_process = True
        arguments = inner.arguments(block)
        return inner.finish(arguments, inner.lay(block, arguments)).run

    def branch(self, block: Block) -> Branch:
        reads: dict[int, int] = {}
        inner = PlanBuilder(self._builder.program, self._builder, self._values, reads)
        arguments = inner.arguments(block)
        results = inner.lay(block, arguments)
        plan = inner.finish([*arguments, *reads.values()], results)
        positions = [self.captured.setdefault(slot, len(self.captured)) for slot in reads]
        return lambda given, captured: plan.run_inside([*given, *(captured[position] for position in positions)])

    def body(self, block: Block) -> BodyFunction:
        inner = PlanBuilder(self._builder.program, self._builder, self._values)
        arguments = inner.arguments(block)
        results = inner.lay(block, arguments)
        plan = inner.finish(arguments, results)

        return _function(plan)


def _function(plan: Plan) -> BodyFunction:
    """A plan as a function. If the plan is one op on the arguments (add, maximum), its kernel is called directly."""

    def run(*operands: Array) -> tuple[Array, ...]:
        return plan.run_inside(operands)

    if len(plan.steps) != 1 or not set(plan.steps[0].operands) <= set(plan.arguments):
        return run
    step = plan.steps[0]
    if step.results != plan.results or len(step.results) != 1:
        return run
    positions = [plan.arguments.index(slot) for slot in step.operands]

    def run_op(*operands: Array) -> tuple[Array, ...]:
        computed = step.kernel(*[operands[position] for position in positions])
        return computed if isinstance(computed, tuple) else (computed,)

    return run_op


def _with_frees(
    steps: Sequence[PlanStep], slots: Sequence[Array | None], results: Sequence[int]
) -> tuple[PlanStep, ...]:
    """The steps, each with the slots to free after it, and with the mapped weights that it reads.

    A step frees the slots of which it is the last reader, and those of its unused results.
    """
    needed = set(results)
    freed: list[PlanStep] = []
    for step in reversed(steps):
        last = tuple(slot for slot in {*step.operands, *step.results} if slot not in needed)
        needed.update(last)
        constants = [array for slot in step.operands if (array := slots[slot]) is not None]
        mapped = tuple(array for array in constants if mapping(array) is not None)
        freed.append(replace(step, freed=last, mapped=mapped))
    return tuple(reversed(freed))


def plan_of(
    program: Program,
    entry: Block | None = None,
    write: Callable[[str], object] = sys.stdout.write,
    products: Binary = sums_of_products,
) -> Plan:
    """The plan of a function's body, by default the program's entry. `products` adds up products of floats.

    Raises UnsupportedError, which names every unsupported op, and LimitExceeded if inlined calls become too many ops.
    """
    with suppress(RecursionInProgram):  # if the recursion is reached, `lay` reports it with its position
        check_calls(program)
    builder, block = PlanBuilder(program, write=write, products=products), program.entry if entry is None else entry
    arguments = builder.arguments(block)
    return builder.finish(arguments, builder.lay(block, arguments))
