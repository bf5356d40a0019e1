"""Chains of matrix products with constant weights, of which OpenVINO makes one kernel if they are matrices.

The pass that does so (`TokenizeMLPSeqSnippets`) ends the process for some chains: a product, a sum with another value,
a product with a third, and another product, as in a GRU. Whether it applies depends on the number of rows and of
threads, and the kernel's roundings are not those of single products. It takes no batches of matrices, so products in a
chain are written as a batch of one.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue

from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import ReshapeOp
from zeropoint.ir.tensors import shape_of

PRODUCT = "fully_connected"


def is_in_chain(region: QuantizeRegionOp) -> bool:
    """Whether another product with constant weights follows or precedes a product, with elementwise ops between."""
    return _reaches(region.outputs[0], forward=True) or _reaches(region.inputs[0], forward=False)


def _reaches(start: SSAValue, *, forward: bool) -> bool:
    """Whether values of one shape lead from a value to a product that reads it, or that it comes from.

    Dimensions of size 1 do not count, because files have a batch of one around each product. Neither do reshapes,
    because an imported product has its rows in one dimension.
    """
    seen, pending = {start}, [start]
    while pending:
        value = pending.pop()
        for op in _readers(value) if forward else _makers(value):
            if _is_product(op) and (not forward or op.operands[0] is value):
                return True
            following = op.results if forward else op.operands
            new = [each for each in following if each not in seen and (_is_reshape(op) or _are_alike(each, value))]
            seen.update(new)
            pending += new
    return False


def _are_alike(first: SSAValue, second: SSAValue) -> bool:
    return _without_ones(first) == _without_ones(second)


def _without_ones(value: SSAValue) -> list[int]:
    return [size for size in shape_of(value) if size != 1]


def _readers(value: SSAValue) -> Iterator[Operation]:
    return (use.operation for use in value.uses)


def _makers(value: SSAValue) -> Iterator[Operation]:
    return iter([value.owner] if isinstance(value.owner, Operation) else [])


def _is_product(op: Operation) -> bool:
    return isinstance(op, QuantizeRegionOp) and op.logical_kernel.data == PRODUCT


def _is_reshape(op: Operation) -> bool:
    return isinstance(op, ReshapeOp) or (isinstance(op, QuantizeRegionOp) and op.logical_kernel.data == "reshape")
