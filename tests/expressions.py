"""What a program computes, whatever the order and the names of its ops: to compare programs."""

from __future__ import annotations

from hashlib import sha256

from xdsl.ir import Block, SSAValue

from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConstantOp


def expressions(program: Program) -> list[str]:
    """One hash for each result of the entry function: of the op, its types and properties, and of its operands.

    Attributes, names and locations do not count, nor do ops whose results nothing reads.
    """
    return _results(program, program.entry, {})


def _results(program: Program, block: Block, known: dict[SSAValue, str]) -> list[str]:
    """The hashes of the operands of a block's terminator."""
    known = {**known, **{argument: f"{argument.type} {number}" for number, argument in enumerate(block.args)}}
    *ops, last = block.ops
    for op in ops:
        parts = [op.name, *(str(result.type) for result in op.results), *(known[operand] for operand in op.operands)]
        if isinstance(op, ConstantOp):
            parts.append(sha256(program.weights.array(op.value).tobytes()).hexdigest())
        else:
            parts += sorted(f"{name}={value}" for name, value in op.properties.items())
        for region in op.regions:
            parts += _results(program, region.block, known)
        made = sha256("\n".join(parts).encode()).hexdigest()
        known.update({result: f"{made}.{number}" for number, result in enumerate(op.results)})
    return [known[operand] for operand in last.operands]
