"""Find the kernels that compute the state of a recurrent layer from its gates, which take more than 8 bits.

```mlir
%kept = quant.region "multiply"(%forget, %cell) ...
%new = quant.region "multiply"(%input, %candidate) ...
%cell_1 = quant.region "add"(%kept, %new) ...
```

The state of an LSTM or a GRU is a sum whose terms are products with gates; one of these is a product with the state of
the step before. What is rounded off in one step stays in the state for many steps. So the kernels between the state and
the contractions behind it (`_cone`) take the rows of the table that are for recurrences only (`recurrent = true`), if
the target has such rows. Contractions still read 8 bits.

The states and their products take the widest of these rows (`Recurrences.rows`). Example: an element of a cell that
counts 80 steps reaches 80, while half of the elements stay below 0.04, which is two steps of 13 bits.

Steps in time are kernels of their own in an unrolled program. A chain of `STEPS` such sums is a recurrence. Its first
state is a product alone if the state before it is zeros (`drop-zero-terms`).

A program of one step gets the state as an input and returns it (`carried_states.py`): one such sum is a recurrence.
What moves the state in and out has its width, too, and so has the product with the output gate of an LSTM, if it is
returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from xdsl.ir import SSAValue

from zeropoint.ir.constants import is_constant
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp, Storage
from zeropoint.ir.regions import regions_of
from zeropoint.solve.termination import PortNumber
from zeropoint.solve.widths.carried_states import DIFFERENCES, EdgeWay, carried, is_step, ways_out
from zeropoint.targets import OUTPUT, KernelRow, Target
from zeropoint.targets.logical_kernels import CONTRACTIONS, FUNCTIONS

STEPS = 4
"""The least number of states in a chain. In shorter ones, little noise adds up."""
MOVES = ("broadcast", "concatenate", "reshape", "select", "slice", "transpose")
COMPUTED = ("add", "subtract", "multiply", *FUNCTIONS, *MOVES)
"""Kernels between contractions and the state."""


@dataclass(frozen=True)
class Recurrences:
    """The regions that take a target's rows for recurrences, those of them that are states or their products, and the
    storage of the ports on the way of a state from an input and to an output."""

    target: Target
    regions: frozenset[QuantizeRegionOp] = frozenset()
    states: frozenset[QuantizeRegionOp] = frozenset()
    stored: Mapping[PortNumber, Storage] = field(default_factory=dict[PortNumber, Storage])
    _rows: dict[tuple[str, bool, bool], tuple[KernelRow, ...]] = field(
        default_factory=dict[tuple[str, bool, bool], "tuple[KernelRow, ...]"], compare=False, repr=False
    )
    """The rows by kernel, for kernels inside of recurrences or not, and for states."""

    def rows(self, region: QuantizeRegionOp) -> tuple[KernelRow, ...]:
        """The rows of the target for a kernel: in a recurrence those for recurrences first, elsewhere none of them. For
        a state, those with the widest results come first."""
        name, is_state = region.logical_kernel.data, region in self.states
        key = name, region in self.regions, is_state
        if key not in self._rows:
            rows, recurrent = self.target.by_kernel.get(name, ()), self.target.recurrent_rows.get(name, ())
            if is_state:
                recurrent = sorted(recurrent, key=lambda row: row.output.storage.minimum - row.output.storage.maximum)
            self._rows[key] = (*recurrent, *rows) if region in self.regions else rows
        return self._rows[key]

    def made_as(self, region: QuantizeRegionOp) -> Storage:
        """The storage of the result of a sum or a product of a recurrence."""
        return self.rows(region)[0].output.storage

    def read_as(self, region: QuantizeRegionOp, index: int) -> Storage | None:
        """The storage of an operand of a recurrence whose rows take several; None if the row decides."""
        if region not in self.regions or (stored := self.stored.get((region, index))) is not None:
            return self.stored.get((region, index))
        rule = self.rows(region)[0].input_rule(index)
        maker = _maker(region.inputs[index])
        while rule.wildcard and maker is not None and maker in self.regions:
            output = self.rows(maker)[0].output
            if not output.wildcard:
                return output.storage
            if (stored := self.stored.get((maker, OUTPUT))) is not None or not maker.inputs:
                return stored
            maker = _maker(maker.inputs[0])
        return None


def recurrences(program: Program, target: Target) -> Recurrences:
    """The recurrences of a program; none if the target has no rows for them."""
    rows = target.recurrent_rows.get("add", ())
    if not rows:
        return Recurrences(target)
    given = _given_states(program)
    states = [*_states(program), *given]
    functions = {reader for state in states for reader in _readers(state) if reader.logical_kernel.data in FUNCTIONS}
    # The output gate of an LSTM and the reset gate of a GRU multiply what a contraction reads.
    products = [reader for read in (*states, *functions) for reader in _readers(read) if _is_product(reader)]
    gates = [made for product in products for value in product.inputs if (made := _maker(value)) is not None]
    cone = _cone([*states, *functions, *(gate for gate in gates if gate.logical_kernel.data in FUNCTIONS)])
    returned = [product for product in products if given and any(True for _ in ways_out(product))]
    kept = frozenset({*states, *(made for state in states for made in _products(state))})
    found = Recurrences(target, frozenset({*cone, *returned}), kept)
    ways = [(region, way) for region, passed in given.items() for way in passed]
    ways += [(product, way) for product in returned for way in ways_out(product)]
    moves = {region for _, way in ways for region in way.regions if region.logical_kernel.data in MOVES}
    stored = {port: found.made_as(region) for region, way in ways for port in way.ports}
    stored |= {(product, OUTPUT): found.made_as(product) for product in returned}
    return replace(found, regions=found.regions | moves, stored=stored)


def _given_states(program: Program) -> dict[QuantizeRegionOp, list[EdgeWay]]:
    """The sums that are states of a program of one step, with their ways in and out."""
    found: dict[QuantizeRegionOp, list[EdgeWay]] = {}
    for region in regions_of(program) if is_step(program) else ():
        if region.logical_kernel.data in ("add", "subtract"):
            ways = [way for product in _products(region) for both in carried(region, product) for way in both]
            if ways:
                found[region] = ways
    return found


def _readers(region: QuantizeRegionOp) -> list[QuantizeRegionOp]:
    """The regions that read the result of a region, behind its statistics."""
    found: list[QuantizeRegionOp] = []
    open_ = [use.operation for use in region.outputs[0].uses]
    while open_:
        op = open_.pop()
        if isinstance(op, QuantizeRegionOp):
            found.append(op)
        elif isinstance(op, StatisticsOp):
            open_ += [use.operation for use in op.results[0].uses]
    return found


def _is_product(region: QuantizeRegionOp) -> bool:
    """Whether a region multiplies two computed values."""
    return region.logical_kernel.data == "multiply" and not any(map(is_constant, region.inputs))


def _states(program: Program) -> list[QuantizeRegionOp]:
    """The sums that are states, of chains of at least `STEPS`, and the products that such chains begin with."""
    length: dict[QuantizeRegionOp, int] = {}
    before: dict[QuantizeRegionOp, list[QuantizeRegionOp]] = {}
    for region in regions_of(program):
        if region.logical_kernel.data not in ("add", "subtract"):
            continue
        if products := _products(region):
            before[region] = [state for made in products for state in _read(made.inputs, length, DIFFERENCES)]
            length[region] = 1 + max((length.setdefault(state, 1) for state in before[region]), default=0)
    found: dict[QuantizeRegionOp, None] = {}
    open_ = [region for region in length if length[region] >= STEPS]
    while open_:
        state = open_.pop()
        if state not in found:
            found[state] = None
            open_ += before.get(state, [])
    return list(found)


def _products(state: QuantizeRegionOp) -> list[QuantizeRegionOp]:
    """The products that are terms of a sum."""
    return [made for value in state.inputs if (made := _product(value)) is not None]


def _product(value: SSAValue) -> QuantizeRegionOp | None:
    """The product of two computed values that is a term of a sum; None if the term is something else."""
    made = _maker(value)
    while made is not None and made.logical_kernel.data in MOVES and len(made.inputs) == 1:
        made = _maker(made.inputs[0])
    return made if made is not None and _is_product(made) else None


def _read(values: Iterable[SSAValue], states: dict[QuantizeRegionOp, int], left: int) -> list[QuantizeRegionOp]:
    """The states, or products that may be the first ones, from which values are made by movements and differences."""
    found: list[QuantizeRegionOp] = []
    for value in values:
        made = _maker(value)
        if made is None:
            continue
        if made in states or _is_product(made):
            found.append(made)
        elif left and made.logical_kernel.data in (*MOVES, "subtract"):
            found += _read(made.inputs, states, left - 1)
    return found


def _cone(states: Iterable[QuantizeRegionOp]) -> set[QuantizeRegionOp]:
    """The states and all kernels that compute them, back to contractions and these included."""
    found: set[QuantizeRegionOp] = set()
    open_ = list(states)
    while open_:
        region = open_.pop()
        if region in found:
            continue
        found.add(region)
        if region.logical_kernel.data in CONTRACTIONS:
            continue
        makers = (_maker(value) for value in region.inputs)
        open_ += [
            made for made in makers if made is not None and made.logical_kernel.data in (*COMPUTED, *CONTRACTIONS)
        ]
    return found


def _maker(value: SSAValue) -> QuantizeRegionOp | None:
    """The region that makes a value, behind its statistics; None if an op or the caller makes it."""
    owner = value.owner
    while isinstance(owner, StatisticsOp):
        owner = owner.arg.owner
    return owner if isinstance(owner, QuantizeRegionOp) else None
