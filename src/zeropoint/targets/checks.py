"""Validation of kernel tables. Errors name the row and the column.

The same checks apply to tables from files and to `Target` objects built in Python.
"""

from __future__ import annotations

import math
from difflib import get_close_matches

from zeropoint.errors import Error
from zeropoint.ir.annotations import PER_ROW
from zeropoint.numerics.profile import PROFILES
from zeropoint.targets.kernels import (
    DATA,
    Custom,
    FixedScale,
    KernelRow,
    MultiplierAccumulatorScale,
    PortRule,
    Role,
    SameScale,
    Target,
    port_label,
)
from zeropoint.targets.logical_kernels import FUSED, WRITTEN

ACCUMULATOR_BITS = (16, 32, 40, 48, 64)
PAIR_BITS = 16
ROW_ACCUMULATOR = 32
LARGEST_SQNR = 100
"""The upper limit for `least_sqnr` in dB. A value that uses all of 16 bits has 98 dB."""


class TargetError(Error, ValueError):
    """An invalid kernel table, or an unknown target."""


def cell_name(target: str, number: int, kernel: str, column: str) -> str:
    """A location in a table, for messages. Rows count from 1."""
    return f"target '{target}', row {number} (kernel '{kernel}'), column '{column}'"


def check_target(target: Target) -> Target:
    """Return the target. Raises TargetError, naming row and column, for an invalid table."""
    if target.profile not in PROFILES:
        raise TargetError(
            f"target '{target.name}': found profile '{target.profile}', expected one of {', '.join(PROFILES)}"
        )
    if not 0 <= target.least_sqnr < LARGEST_SQNR:
        found = f"found least_sqnr {target.least_sqnr:g} dB"
        raise TargetError(f"target '{target.name}': {found}, expected 0 or more and less than {LARGEST_SQNR}")
    for low, high in target.bounds or ():
        if not low < high:
            found = f"found bounds [{low:g}, {high:g}]"
            raise TargetError(f"target '{target.name}': {found}, expected the lower bound first")
    if not target.rows:
        raise TargetError(f"target '{target.name}': found no rows, expected at least one kernel")
    own = frozenset(row.kernel for row in target.rows if row.composites is not None)
    for number, row in enumerate(target.rows, start=1):
        found = _problem(row, own)
        if found is not None:
            column, sentence = found
            raise TargetError(f"{cell_name(target.name, number, row.kernel, column)}: {sentence}")
    return target


def _problem(row: KernelRow, own: frozenset[str]) -> tuple[str, str] | None:
    """The first invalid column and its problem; None for a valid row. Kernels in `own` cover composites."""
    if not row.kernel:
        return "name", "found no name, expected that of a logical kernel"
    if not row.inputs:
        return "inputs", "found no ports, expected at least one"
    for rule in row.outputs:
        if rule.role not in (Role.ACTIVATION, Role.OTHER):
            column = "outputs" if row.more_outputs else "output"
            return column, f"found role '{rule.role.value}', expected 'act', or 'other' where it is not quantized"
    if row.profile and row.profile not in PROFILES:
        return "profile", f"found '{row.profile}', expected one of {', '.join(PROFILES)}"
    if row.accumulator_bits is not None and row.accumulator_bits not in ACCUMULATOR_BITS:
        widths = ", ".join(map(str, ACCUMULATOR_BITS))
        return "accumulator", f"found {row.accumulator_bits} bits, expected one of {widths}"
    if row.pair_bits is not None and (row.pair_bits != PAIR_BITS or not _adds_pairs(row)):
        return "pair_accumulator", f"found {row.pair_bits}, expected {PAIR_BITS}, for 8-bit activations and weights"
    numbers = (("steps_per_term", row.steps_per_term, 1), ("segments", row.segments, 1), ("nonzero", row.nonzero, 0))
    for column, number, least in numbers:
        if number is not None and number < least:
            return column, f"found {number}, expected a whole number of at least {least}"
    return _rows_problem(row) or _roles_problem(row) or _relation_problem(row) or _kernel_problem(row, own)


def _adds_pairs(row: KernelRow) -> bool:
    roles = [rule.role for rule in row.inputs[:2]]
    return roles == [Role.ACTIVATION, Role.WEIGHT] and all(rule.widths == (8,) for rule in row.inputs[:2])


def _rows_problem(row: KernelRow) -> tuple[str, str] | None:
    if row.activation_scales not in ("", PER_ROW):
        return "activation_scales", f"found '{row.activation_scales}', expected '{PER_ROW}'"
    ports = [(rule.role, rule.widths) for rule in row.inputs[:2]]
    taken = ports == [(Role.ACTIVATION, (16,)), (Role.WEIGHT, (8,))] and row.accumulator_bits == ROW_ACCUMULATOR
    if row.activation_scales and (row.kernel != "fully_connected" or not taken):
        found = f"found it for kernel '{row.kernel}'"
        return (
            "activation_scales",
            f"{found}, expected fully_connected with activations of i16, weights of i8 and an accumulator of 32 bits",
        )
    return None


def _kernel_problem(row: KernelRow, own: frozenset[str]) -> tuple[str, str] | None:
    """Check the kernel name. An unknown kernel would never match, and a fused kernel cannot cover composites.

    One row of a kernel, possibly an inherited one, states the composites for all rows of the kernel.
    """
    if row.composites is None and row.kernel not in FUSED | WRITTEN | own:
        near = get_close_matches(row.kernel, sorted(FUSED | WRITTEN), 1)
        hint = f"'{near[0]}'" if near else "one that fusion makes"
        return (
            "name",
            f"found kernel '{row.kernel}', which no pattern produces, expected {hint}; or, for your own kernel, the "
            f"composites that it covers: composites = ['NAMESPACE.NAME'], or [] where the program has its regions",
        )
    if row.composites and row.kernel in FUSED:
        return "composites", f"found composites of '{row.kernel}', which patterns produce, expected your own kernel"
    return None


def _roles_problem(row: KernelRow) -> tuple[str, str] | None:
    roles = [rule.role for rule in row.inputs]
    if Role.WEIGHT in roles and row.accumulator_bits is None:
        return "accumulator", "found none, expected a width in bits, because the kernel sums products with weights"
    if Role.BIAS in roles and not isinstance(row.relation, MultiplierAccumulatorScale | FixedScale | Custom):
        return "relation", "found a bias port, expected multiplier_accumulator_scale, fixed_scale or a function"
    if isinstance(row.relation, MultiplierAccumulatorScale) and roles[:2] != [Role.ACTIVATION, Role.WEIGHT]:
        return "inputs", "found multiplier_accumulator_scale, expected the ports 'act', 'weight' and optionally 'bias'"
    if Role.BIAS in roles and roles != [Role.ACTIVATION, Role.WEIGHT, Role.BIAS]:
        return "inputs", "found a bias port, expected the ports 'act', 'weight' and 'bias'"
    return None


def _relation_problem(row: KernelRow) -> tuple[str, str] | None:
    relation = row.relation
    if isinstance(relation, FixedScale):
        return _fixed_problem(relation, row)
    if isinstance(relation, SameScale):
        return _group_problem(relation, row)
    return None


def _fixed_problem(relation: FixedScale, row: KernelRow) -> tuple[str, str] | None:
    seen: set[int] = set()
    for part in relation.parts:
        for port in part.ports:
            if port in seen:
                return "relation", f"found two fixed scales of {row.port_name(port)}, expected one"
            seen.add(port)
            found = _port_problem(port, row) or _fixed_port_problem(part, row.rule(port), row.port_name(port))
            if found is not None:
                return found
    return None


def _fixed_port_problem(relation: FixedScale, port: PortRule, name: str) -> tuple[str, str] | None:
    if port.role in (Role.BIAS, Role.OTHER):
        found = f"found {name} of role '{port.role.value}'"
        return "relation", f"{found}, expected a port with parameters of its own"
    storage = port.storage
    if not (math.isfinite(relation.scale) and relation.scale > 0):
        return "relation", f"found scale {relation.scale}, expected a positive number"
    if not storage.minimum <= relation.zero_point <= storage.maximum:
        return "relation", f"found zero point {relation.zero_point}, expected one inside the {name}'s {storage}"
    if port.zero_point not in (None, relation.zero_point):
        return (
            "relation",
            f"found zero point {relation.zero_point}, expected that of the {name} port, {port.zero_point}",
        )
    return None


def _port_problem(port: int, row: KernelRow) -> tuple[str, str] | None:
    """Check a port that a relation names."""
    if -len(row.outputs) <= port < len(row.inputs):
        return None
    outputs = "'out'" if len(row.outputs) == 1 else f"'out' to 'out{len(row.outputs) - 1}'"
    expected = f"{outputs} or an operand from 0 to {len(row.inputs) - 1}"
    return "relation", f"found port {port_label(port)}, expected {expected}"


def _group_problem(relation: SameScale, row: KernelRow) -> tuple[str, str] | None:
    for port in relation.group:
        if (found := _port_problem(port, row)) is not None:
            return found
    results = (~number for number, rule in enumerate(row.outputs) if rule.role in DATA)
    ports = relation.group or (*results, *(i for i, rule in enumerate(row.inputs) if rule.role in DATA))
    rules = {port: row.rule(port) for port in ports}
    for port, rule in rules.items():
        if relation.fixed is not None and port in relation.fixed:
            found = f"found {row.port_name(port)} in same_scale and in fixed_scale"
            return "relation", f"{found}, expected one of them; list the ports of same_scale"
        if rule.role not in DATA:
            found = f"found {row.port_name(port)} of role '{rule.role.value}'"
            return "relation", f"{found} in the group, expected activations"
    kinds = {(rule.storage, rule.zero_point, rule.wildcard) for rule in rules.values()}
    if len(kinds) > 1:
        return "relation", "found ports of different storage or zero point in one group, expected the same for all"
    return None if relation.fixed is None else _fixed_problem(relation.fixed, row)
