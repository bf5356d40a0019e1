"""Products of float weights that onnxruntime finds between casts, though the file has other nodes there.

```
r = DequantizeLinear(q, s, z)
m = MaxPool(r)                    # the cast moves behind it
c = Conv(m, w)                    # reads the integers, and its weights are quantized when the file is loaded
```
A MatMul by a matrix whose product only gets a bias becomes a Gemm before that.

Source: onnxruntime's optimizers `QDQPropagationTransformer`, `PadFusion` and `MatMulAddFusion`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from onnx import NodeProto

from zeropoint.ir.tensors import Array

PASSED = {"MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
"""The ops behind which a dequantization moves. Flatten is none of them."""


def moved_casts(nodes: Iterable[NodeProto], array: Callable[[str], Array | None]) -> dict[str, str]:
    """The dequantized tensor of which each result of such ops has the elements. Padding by 0 becomes that of a Conv."""
    sources: dict[str, str] = {}
    for node in nodes:
        if node.op_type == "DequantizeLinear":
            sources[node.output[0]] = node.output[0]
        elif node.input and node.input[0] in sources and (node.op_type in PASSED or _pads_zeros(node, array)):
            sources[node.output[0]] = sources[node.input[0]]
    return sources


def _pads_zeros(node: NodeProto, array: Callable[[str], Array | None]) -> bool:
    if node.op_type != "Pad" or any(each.name == "mode" and each.s != b"constant" for each in node.attribute):
        return False
    number = array(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    given = len(node.input) > 2 and bool(node.input[2])
    return not given or (number is not None and not number.any())


def biased_products(
    nodes: Iterable[NodeProto], sources: Mapping[str, str], array: Callable[[str], Array | None]
) -> set[str]:
    """The products of moved data and a constant matrix of which only a sum with a constant vector is made."""
    listed = list(nodes)
    readers: dict[str, list[NodeProto]] = {}
    for node in listed:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    found: set[str] = set()
    for node in listed:
        if node.op_type != "MatMul" or node.input[0] not in sources:
            continue
        product, weights = node.output[0], array(node.input[1])
        reading = readers.get(product, [])
        if weights is None or weights.ndim != 2 or len(reading) != 1 or reading[0].op_type != "Add":
            continue
        biases = [array(name) for name in reading[0].input if name != product]
        if len(biases) == 1 and biases[0] is not None and biases[0].ndim == 1:
            found.add(product)
    return found
