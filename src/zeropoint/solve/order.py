"""A canonical order of a program's ops that does not change if independent ops are swapped in the text.

The order breaks ties between cuts of equal cost, and between kernels whose functions could run first. Ops are ordered
by their depth in the dataflow, then by a hash of the op, its operands, its users and the constraints on its values. The
hash comes from two rounds of hashing along the edges and against them. Ops with equal hashes are ordered by name, then
by position.

Source: the RFC on quantization transformations, section "Propagation pass": it is deterministic. The hashes are color
refinement: B. Weisfeiler and A. Leman, "The reduction of a graph to canonical form" (1968).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from zeropoint.ir.constants import constant_array
from zeropoint.ir.dataflow_order import dataflow_order
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.solve.constraints import Constraints

ROUNDS = 2
SHOWN = 16
"""Number of elements at each end of a constant that enter its hash."""


def _hash(*parts: object) -> str:
    return blake2b(repr(parts).encode(), digest_size=12).hexdigest()


class _Texts(dict[Attribute, str]):
    """The texts of attributes. A program repeats its types, and printing one takes longer than finding it."""

    def __missing__(self, attribute: Attribute) -> str:
        self[attribute] = text = str(attribute)
        return text


def _properties(op: Operation, texts: _Texts) -> str:
    return repr(sorted((name, texts[value]) for name, value in op.properties.items()))


def _known(value: SSAValue, constraints: Constraints, texts: _Texts) -> object:
    """The type of a value and the constraints that the model puts on it."""
    found = constraints.get(value)
    if found is None:
        return texts[value.type]
    stated = (found.minimum, found.maximum, str(found.pinned), found.least_bits, found.float_reason is None)
    return texts[value.type], stated, found.coupled is None


def _itself(op: Operation, program: Program, constraints: Constraints, texts: _Texts) -> str:
    """The hash of an op alone, without its operands and users."""
    known = [_known(result, constraints, texts) for result in op.results]
    if isinstance(op, ConstantOp):
        array = constant_array(op.output, program.weights)
        ends = None if array is None else (array.ravel()[:SHOWN].tobytes(), array.ravel()[-SHOWN:].tobytes())
        return _hash("constant", known, ends)
    inside: list[object] = []
    if isinstance(op, QuantizeRegionOp):
        specs = [texts[spec] for spec in (*op.input_specs, *op.output_specs)]
        body = [inner for covered in dataflow_order(op.body.block) for inner in covered.walk()]
        inside = [op.logical_kernel.data, specs, [(o.name, _properties(o, texts)) for o in body]]
        return _hash(op.name, known, inside)
    return _hash(op.name, _properties(op, texts), known)


def _operand(value: SSAValue, hashes: dict[Operation, str], constraints: Constraints, texts: _Texts) -> object:
    if isinstance(value, OpResult) and value.op in hashes:
        return hashes[value.op], value.index
    index = value.index if isinstance(value, BlockArgument) else -1
    return "argument", index, _known(value, constraints, texts)


def _around(
    ops: Sequence[Operation], hashes: dict[Operation, str], constraints: Constraints, texts: _Texts
) -> dict[Operation, str]:
    """One round: combine each hash with those of all ops that it depends on, then with those of all its users."""
    before: dict[Operation, str] = {}
    for op in ops:
        before[op] = _hash(hashes[op], [_operand(operand, before, constraints, texts) for operand in op.operands])
    after: dict[Operation, str] = {}
    for op in reversed(ops):
        users = [(after[u.operation], u.index, r.index) for r in op.results for u in r.uses if u.operation in after]
        after[op] = _hash(before[op], sorted(users))
    return after


def canonical_ranks(program: Program, constraints: Constraints) -> dict[Operation, int]:
    """The rank of each op of the entry function in the canonical order. Definitions come before uses."""
    ops = list(program.entry.ops)
    depths: dict[Operation, int] = {}
    for op in ops:
        makers = [operand.owner for operand in op.operands]
        depths[op] = 1 + max((depths.get(maker, 0) for maker in makers if isinstance(maker, Operation)), default=0)
    texts = _Texts()
    hashes = {op: _itself(op, program, constraints, texts) for op in ops}
    for _ in range(ROUNDS):
        hashes = _around(ops, hashes, constraints, texts)
    positions = {op: position for position, op in enumerate(ops)}

    def key(op: Operation) -> tuple[int, str, str, int]:
        return depths[op], hashes[op], location_text(op.location) or "", positions[op]

    return {op: rank for rank, op in enumerate(sorted(ops, key=key))}
