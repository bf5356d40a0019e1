"""The check dialect, and the custom calls of the same names: assertions that fail a run.

Source: upstream StableHLO's check ops. Elements are *equal* if they are the same number; NaN equals NaN, and 0 equals
-0. They are *almost equal* if they are equal, both NaN, or of the same sign and differ by at most a tolerance. They are
*close* if they differ by a number of ulps within bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from zeropoint.interp.binding import ArrayFunction, Kernel, Scope
from zeropoint.interp.errors import CheckFailed, UnsupportedError
from zeropoint.ir.locations import describe, text_position
from zeropoint.ir.stablehlo import ConstantOp, CustomCallOp
from zeropoint.ir.tensors import Array
from zeropoint.ir.testing.check_ops import (
    DEFAULT_TOLERANCE,
    DEFAULT_ULPS,
    ExpectAlmostEqConstOp,
    ExpectAlmostEqOp,
    ExpectCloseOp,
    ExpectEqConstOp,
    ExpectEqOp,
    ExpectSerializedEqOp,
)
from zeropoint.ir.weights import inline_array

Holds = Callable[[Array, Array], Array]
"""An elementwise relation."""
SHOWN = 3
"""Number of differing elements in a message."""


def equal(found: Array, expected: Array) -> Array:
    """Whether elements are the same number, or both NaN."""
    same = found == expected
    if found.dtype.kind in "iub":
        return same
    return same | (np.isnan(found) & np.isnan(expected))


def almost_equal(tolerance: float) -> Holds:
    """Whether elements are equal, or have the same sign and differ by at most `tolerance`.

    For complex numbers, this must hold for both parts.
    """

    def holds(found: Array, expected: Array) -> Array:
        if found.dtype.kind == "c":
            return holds(np.real(found), np.real(expected)) & holds(np.imag(found), np.imag(expected))
        if found.dtype.kind in "iub":
            return found == expected
        one, other = found.astype(np.float64), expected.astype(np.float64)
        with np.errstate(invalid="ignore"):  # the difference of infinities may be NaN; `equal` compares them
            near = (np.abs(one - other) <= tolerance) & (np.signbit(one) == np.signbit(other))
        return equal(one, other) | near

    return holds


def close(least: int, greatest: int) -> Holds:
    """Whether elements are `least` to `greatest` ulps apart, the same infinity, or both NaN."""

    def holds(found: Array, expected: Array) -> Array:
        if found.dtype.kind == "c":
            return holds(np.real(found), np.real(expected)) & holds(np.imag(found), np.imag(expected))
        apart = np.abs(_position(found).astype(object) - _position(expected).astype(object))
        finite = np.isfinite(found) & np.isfinite(expected)
        apart = np.where(finite, apart, np.where(equal(found, expected), 0, greatest + 1))
        return ((apart >= least) & (apart <= greatest)).astype(np.bool_)

    return holds


def _position(floats: Array) -> Array:
    """The position of each float in the order of all floats of its type. -0 and 0 have the same position."""
    bits = floats.view(np.dtype(f"i{floats.dtype.itemsize}")).astype(np.int64)
    magnitude = bits & np.int64((1 << (8 * floats.dtype.itemsize - 1)) - 1)
    return np.where(np.signbit(floats), -magnitude, magnitude)


def _checked(op: Operation, value: SSAValue, holds: Holds) -> Callable[[Array, Array], None]:
    where = _where(op)
    name = f" of %{value.name_hint}" if value.name_hint else ""

    def check(found: Array, expected: Array) -> None:
        fits = np.asarray(holds(np.asarray(found), np.asarray(expected)))
        if not fits.all():
            raise CheckFailed(f"{where}: {_difference(np.asarray(found), np.asarray(expected), ~fits, name)}")

    return check


def _where(op: Operation) -> str:
    """The function, the op and its position: `@main: check.expect_eq_const at program.mlir:12:3`."""
    where = text_position(op)
    return f"@{_function_name(op)}: {describe(op)}{'' if where is None else f' at {where}'}"


def _function_name(op: Operation) -> str:
    parent: Any = op
    while parent is not None and not isinstance(parent, FuncOp):
        parent = parent.parent_op()
    return "?" if parent is None else parent.sym_name.data


def _difference(found: Array, expected: Array, wrong: Array, name: str) -> str:
    indices = np.argwhere(wrong)
    pairs = "; ".join(
        f"{list(map(int, index))}: found {found[tuple(index)]}, expected {expected[tuple(index)]}"
        for index in indices[:SHOWN]
    )
    more = f"; and {len(indices) - SHOWN} more" if len(indices) > SHOWN else ""
    return f"{len(indices)} of {wrong.size} elements{name} differ: {pairs}{more}"


def _against_operand(op: Operation, holds: Holds) -> Kernel:
    check = _checked(op, op.operands[0], holds)

    def run(found: Array, expected: Array) -> tuple[Array, ...]:
        check(found, expected)
        return ()

    return run


def _against_constant(op: ExpectEqConstOp | ExpectAlmostEqConstOp, holds: Holds) -> Kernel:
    check, expected = _checked(op, op.lhs, holds), inline_array(op.value)

    def run(found: Array) -> tuple[Array, ...]:
        check(found, expected)
        return ()

    return run


def expect_eq(op: ExpectEqOp, scope: Scope) -> Kernel:
    """Fails if an element differs."""
    return _against_operand(op, equal)


def expect_eq_const(op: ExpectEqConstOp, scope: Scope) -> Kernel:
    """Fails if an element differs from the constant's."""
    return _against_constant(op, equal)


def _tolerance(op: ExpectAlmostEqOp | ExpectAlmostEqConstOp) -> float:
    return DEFAULT_TOLERANCE if op.tolerance is None else float(op.tolerance.value.data)


def expect_almost_eq(op: ExpectAlmostEqOp, scope: Scope) -> Kernel:
    """Fails if an element differs by more than the tolerance, or in its sign."""
    return _against_operand(op, almost_equal(_tolerance(op)))


def expect_almost_eq_const(op: ExpectAlmostEqConstOp, scope: Scope) -> Kernel:
    """Fails if an element differs from the constant's by more than the tolerance, or in its sign."""
    return _against_constant(op, almost_equal(_tolerance(op)))


def expect_close(op: ExpectCloseOp, scope: Scope) -> Kernel:
    """Fails if the difference of two elements in ulps is not within the bounds."""
    least = 0 if op.min_ulp_difference is None else op.min_ulp_difference.value.data
    greatest = DEFAULT_ULPS if op.max_ulp_difference is None else op.max_ulp_difference.value.data
    return _against_operand(op, close(least, greatest))


def expect_serialized_eq(op: ExpectSerializedEqOp, scope: Scope) -> Kernel:
    """Fails if the value differs from the latest value that the probe of that name recorded."""
    check, probes, name = _checked(op, op.expected, equal), scope.probes, op.probe_id.data
    turn = -1 if op.iter is None else op.iter.value.data

    def run(found: Array) -> tuple[Array, ...]:
        seen = probes.get(name, [])
        if not -1 <= turn < len(seen) or not seen:
            raise CheckFailed(
                f"{_where(op)}: found {len(seen)} runs of probe '{name}', expected more before this check"
            )
        check(found, seen[turn])
        return ()

    return run


_CALLS: dict[str, Holds] = {
    "check.eq": equal,
    "check.expect_eq": equal,
    "check.expect_almost_eq": almost_equal(DEFAULT_TOLERANCE),
    "check.expect_close": close(0, DEFAULT_ULPS),
}
"""The relation that each custom call target checks between its two operands."""


def custom_call(op: CustomCallOp, scope: Scope) -> ArrayFunction:
    """A custom call of a check. If it has a result, the result is true.

    Raises UnsupportedError for any other target.
    """
    target = op.call_target_name.data
    if target not in _CALLS or len(op.inputs) != 2:
        raise UnsupportedError(f"found a call of '{target}'; expected one of {', '.join(_CALLS)} on two values")
    # Some exporters write the expected value first.
    first_is_constant, second_is_constant = (isinstance(value.owner, ConstantOp) for value in op.inputs)
    swapped = first_is_constant and not second_is_constant
    check, results = _checked(op, op.inputs[1 if swapped else 0], _CALLS[target]), len(op.results)

    def run(first: Array, second: Array) -> tuple[Array, ...]:
        check(*((second, first) if swapped else (first, second)))
        return (np.asarray(True),) * results

    return cast("ArrayFunction", run)
