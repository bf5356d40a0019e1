"""Parameters of integer constants that operators only move: those with which the operators behind them read the result.

In the QOperator form, a table of embeddings is a constant without parameters:
```
q = Gather(table, tokens)      y = QGemm(q, s, z, ...)
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from onnx import NodeProto, TensorProto

from zeropoint.frontend.onnx.integer_rewriting import Quantized, input_at

STORED = frozenset({TensorProto.INT8, TensorProto.UINT8})


def moved_constants(
    nodes: Sequence[NodeProto],
    constants: Mapping[str, TensorProto],
    operands: Callable[[NodeProto], Sequence[Quantized]],
    is_move: Callable[[NodeProto], bool],
) -> Mapping[str, Quantized]:
    """The parameters of 8-bit constants that moves read, by name.

    `operands` returns the operands of other nodes that read integers with parameters.
    """
    stated: dict[str, Quantized] = {}
    found: dict[str, Quantized] = {}
    for node in reversed(nodes):
        if is_move(node):
            name, behind = input_at(node.input, 0), stated.get(node.output[0])
            if behind is None:
                continue
            stated.setdefault(name, replace(behind, tensor=name))
            # With constant operands only, the result is a constant, which the importer evaluates.
            is_computed = any(other and other not in constants for other in node.input)
            if is_computed and name in constants and constants[name].data_type in STORED:
                found[name] = stated[name]
        else:
            for operand in operands(node):
                stated.setdefault(operand.tensor, operand)
    return found
