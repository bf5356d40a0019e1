"""Rewrite operators on integers to QDQ: `DequantizeLinear` of operands, float operator, `QuantizeLinear` of the result.

onnxruntime's own operators take the parameters of operands and result as inputs. They are equivalent to the float
operator between casts. Operators that only move or compare integers (Reshape, MaxPool, Clip) have no parameters; their
result has those of the data operand.

Sources: onnxruntime's contributed operators (`com.microsoft`); the ONNX operator specification.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from zeropoint.frontend.onnx.bodies import graphs_inside, graphs_inside_node, nodes_of
from zeropoint.frontend.onnx.contributed_weights import (
    attention_weights,
    embedding_tables,
    packed_weights,
    recurrent_weights,
)
from zeropoint.frontend.onnx.fake_quantization import fake_quantized, is_fake_quantize
from zeropoint.frontend.onnx.integer_rewriting import IntegerRewriting, Quantized, attributes_of, input_at
from zeropoint.frontend.onnx.moved_constants import moved_constants
from zeropoint.frontend.onnx.packed_operators import coded_weights, gathered_blocks
from zeropoint.frontend.onnx.quantization import DEQUANTIZING, QUANTIZING, clipped

MICROSOFT = "com.microsoft"
STANDARD = ("", "ai.onnx")
CASTS = frozenset({"DequantizeLinear", "QuantizeLinear"})
"""The casts. They also exist in onnxruntime's domain, for 16 and 4 bits before opset 21."""
MOVES = frozenset(
    {
        "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "MaxPool", "ReduceMax", "ReduceMin", "Reshape",
        "Resize", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
    }
)  # fmt: skip
"""Operators whose result has the parameters of the data operand."""
BOUNDING = frozenset({"Clip", "Pad"})
"""Operators like `MOVES` with further quantized inputs: bounds, or the padding value."""
POSITIONS = frozenset({"ArgMax", "ArgMin"})
"""Operators on the order of elements, which is that of the real values. Their results are positions."""
SORT = "TopK"
"""An operator like `MOVES`, with positions as its second result."""


@dataclass(frozen=True)
class QOperatorForm:
    """The float operator that an operator on integers is equivalent to, and how to read its inputs.

    `read` splits the inputs into operands and the parameters of the result. `dropped` names attributes that the float
    operator does not have.
    """

    op: str
    read: Callable[[Sequence[str]], tuple[list[Quantized], Quantized]]
    dropped: frozenset[str] = frozenset()


def _triple(inputs: Sequence[str], index: int) -> Quantized:
    return Quantized(input_at(inputs, index), input_at(inputs, index + 1), input_at(inputs, index + 2))


def _result(inputs: Sequence[str], index: int) -> Quantized:
    return Quantized("", input_at(inputs, index), input_at(inputs, index + 1))


def _operands(count: int) -> Callable[[Sequence[str]], tuple[list[Quantized], Quantized]]:
    """A `read` for operators whose inputs are the operands with their parameters, then the result's parameters."""

    def read(inputs: Sequence[str]) -> tuple[list[Quantized], Quantized]:
        return [_triple(inputs, 3 * i) for i in range(count)], _result(inputs, 3 * count)

    return read


def _concatenated(inputs: Sequence[str]) -> tuple[list[Quantized], Quantized]:
    return [_triple(inputs, i) for i in range(2, len(inputs), 3)], _result(inputs, 0)


def _chosen(inputs: Sequence[str]) -> tuple[list[Quantized], Quantized]:
    return [Quantized(input_at(inputs, 0), ""), _triple(inputs, 1), _triple(inputs, 4)], _result(inputs, 7)


FORMS: Mapping[str, QOperatorForm] = {
    "QLinearAdd": QOperatorForm("Add", _operands(2)),
    "QLinearAveragePool": QOperatorForm("AveragePool", _operands(1), frozenset({"channels_last"})),
    "QLinearConcat": QOperatorForm("Concat", _concatenated),
    "QLinearGlobalAveragePool": QOperatorForm("GlobalAveragePool", _operands(1), frozenset({"channels_last"})),
    "QLinearLeakyRelu": QOperatorForm("LeakyRelu", _operands(1)),
    "QLinearMul": QOperatorForm("Mul", _operands(2)),
    "QLinearReduceMean": QOperatorForm("ReduceMean", _operands(1)),
    "QLinearSigmoid": QOperatorForm("Sigmoid", _operands(1)),
    "QLinearWhere": QOperatorForm("Where", _chosen),
}
"""The forms of onnxruntime's operators, except for `OTHERS`."""
MODERN_SOFTMAX = 13
"""The first opset whose Softmax normalizes one dimension. Before, it is the axis with all dimensions behind it."""


def _kept(node: NodeProto, dropped: frozenset[str]) -> list[AttributeProto] | None:
    """The attributes that the float operator has, too; None if `channels_last` is set, which it does not support."""
    for attribute in node.attribute:
        if attribute.name == "channels_last" and attribute.i:
            return None
    return [attribute for attribute in node.attribute if attribute.name not in dropped]


def _product(node: NodeProto, run: IntegerRewriting) -> bool:
    """Rewrite QGemm, whose bias is i32 at the product of alpha and both scales. Returns False if a scale is computed.

    Alpha becomes a factor of the scale of the weights, so that the product is one kernel.
    """
    left, right = _triple(node.input, 0), _triple(node.input, 3)
    scales = [run.array(part.scale) for part in (left, right)]
    if scales[0] is None or scales[1] is None:
        return False
    given = attributes_of(node)
    axis = None if scales[1].size == 1 else int(not given.get("transB", 0))
    right = replace(right, axis=axis)
    if (alpha := np.float32(given.get("alpha", 1.0))) > 0 and alpha != 1:
        scales[1] = scales[1].astype(np.float32) * alpha
        right = replace(right, scale=run.constant(f"{right.scale}_alpha", scales[1]))
    elif alpha <= 0:
        return False
    operands = [left, right]
    bias = input_at(node.input, 6)
    if bias:
        product = (scales[0].astype(np.float32).reshape(()) * scales[1].astype(np.float32)).astype(np.float32)
        shared = product.size == 1
        scale = run.constant(f"{bias}_scale", product.reshape(()) if shared else product)
        operands.append(Quantized(bias, scale, "", None if shared else 0))
    inputs = [run.real(operand) for operand in operands]
    kept = [attribute for attribute in node.attribute if attribute.name != "alpha"]
    run.between_casts(node, "Gemm", inputs, _result(node.input, 7), kept)
    return True


def _softmax(node: NodeProto, run: IntegerRewriting) -> bool:
    """Rewrite QLinearSoftmax. Returns False for the Softmax of another opset that the model's opset does not have."""
    given, wanted, output = attributes_of(node), _result(node.input, 3), node.output[0]
    axis, is_modern = int(given.get("axis", -1)), int(given.get("opset", MODERN_SOFTMAX)) >= MODERN_SOFTMAX
    opset = next((one.version for one in run.model.opset_import if one.domain in STANDARD), 1)
    if is_modern and opset < MODERN_SOFTMAX and axis != -1:
        return False
    real = run.real(_triple(node.input, 0))
    if is_modern or opset < MODERN_SOFTMAX or axis == -1:
        run.between_casts(node, "Softmax", [real], wanted, [helper.make_attribute("axis", axis)])
        return True
    flat, shape, rows = (run.unique(f"{output}_{part}") for part in ("flat", "shape", "rows"))
    name = node.name or output
    run.nodes.append(helper.make_node("Shape", [real], [shape], shape))
    run.nodes.append(helper.make_node("Flatten", [real], [flat], flat, axis=axis))
    softmax = helper.make_node("Softmax", [flat], [""], name, axis=-1)
    run.nodes.append(softmax)
    softmax.output[0] = run.quantized(rows, wanted)
    result = helper.make_node("Reshape", [run.real(run.known[rows]), shape], [""], f"{name}_shaped")
    run.nodes.append(result)
    result.output[0] = run.quantized(output, wanted)
    return True


OTHERS: Mapping[str, Callable[[NodeProto, IntegerRewriting], bool]] = {
    "DynamicQuantizeLSTM": recurrent_weights,
    "GatherBlockQuantized": gathered_blocks,
    "MatMulBnb4": coded_weights,
    "MatMulNBits": packed_weights,
    "QAttention": attention_weights,
    "QEmbedLayerNormalization": embedding_tables,
    "QGemm": _product,
    "QLinearSoftmax": _softmax,
}
"""The functions that rewrite operators of other forms."""


def _contributed(node: NodeProto, run: IntegerRewriting) -> bool:
    """Rewrite an operator of onnxruntime's domain. Returns False if it is not supported."""
    if node.op_type in CASTS:
        made = NodeProto()
        made.CopyFrom(node)
        made.domain = ""
        run.nodes.append(made)
        _remember(made, run)
        return True
    if node.op_type in OTHERS:
        return OTHERS[node.op_type](node, run)
    form = FORMS.get(node.op_type)
    attributes = None if form is None else _kept(node, form.dropped)
    if form is None or attributes is None:
        return False
    operands, wanted = form.read(node.input)
    run.between_casts(node, form.op, [run.real(operand) for operand in operands], wanted, attributes)
    return True


def _moved(node: NodeProto, run: IntegerRewriting) -> bool:
    """Rewrite an operator that moves or clamps quantized integers to one on real values; False if that fails."""
    if node.op_type == SORT or node.op_type in POSITIONS:
        return _sorted(node, run)
    data = node.input[: None if node.op_type == "Concat" else 1]
    given = [run.known[name] for name in data if name in run.known]
    missing = any(name not in run.known and run.array(name) is None for name in data)
    if missing or not given or not all(_are_alike(part, given[0], run) for part in given):
        return False
    first = given[0]
    parts = [run.known.get(name, replace(first, tensor=name)) for name in data]
    if node.op_type == "MaxPool" and len(node.output) > 1:
        return False
    rest = list(node.input[len(data) :])
    if node.op_type in BOUNDING:
        numbers = _real_numbers(node, first, run)
        if numbers is None:
            return False
        rest = numbers
    inputs = [*map(run.real, parts), *rest]
    run.between_casts(node, node.op_type, inputs, first, node.attribute)
    return True


def _sorted(node: NodeProto, run: IntegerRewriting) -> bool:
    """Rewrite a search or sort of quantized integers to one of real values, in the same order; False if that fails.

    Sorted values are not quantized again where they are read as real values, because targets sort real values.
    """
    given = run.known.get(node.input[0])
    if given is None:
        return False
    made = NodeProto()
    made.CopyFrom(node)
    made.input[0] = run.real(given)
    run.nodes.append(made)
    if node.op_type == SORT and node.output[0]:
        values = made.output[0] = run.unique(f"{node.output[0]}_real")
        cast = [name for name in (values, given.scale, given.zero_point) if name]
        run.nodes.append(helper.make_node("QuantizeLinear", cast, [node.output[0]], node.output[0]))
        run.known[node.output[0]] = replace(given, tensor=node.output[0])
        run.exact[node.output[0]] = values
    return True


def _are_alike(one: Quantized, other: Quantized, run: IntegerRewriting) -> bool:
    """Whether two integer tensors have the same scale and zero point, by name or by value."""
    pairs = ((one.scale, other.scale), (one.zero_point, other.zero_point))
    arrays = [(run.array(a), run.array(b)) for a, b in pairs if a != b]
    return all(a is not None and b is not None and np.array_equal(a, b) for a, b in arrays)


def _is_exact(node: NodeProto, run: IntegerRewriting) -> bool:
    """Whether the real values that a `DequantizeLinear` computes exist already."""
    name = node.input[0]
    return name in run.exact and _are_alike(Quantized("", *_pair(node.input, 1)), run.known[name], run)


def _real_numbers(node: NodeProto, given: Quantized, run: IntegerRewriting) -> list[str] | None:
    """The inputs of Clip or Pad after the data, with stored numbers dequantized; None if one is computed."""
    scale, point = run.array(given.scale), run.array(given.zero_point) if given.zero_point else np.zeros(())
    if scale is None or point is None or scale.size != 1:
        return None
    made: list[str] = []
    for index, name in enumerate(node.input[1:], 1):
        if not name or (node.op_type == "Pad" and index != 2):
            made.append(name)
            continue
        number = run.array(name)
        if number is None:
            return None
        real = (number.astype(np.float32) - point.astype(np.float32).reshape(())) * scale.astype(np.float32).reshape(())
        made.append(run.constant(f"{name}_real", real.astype(np.float32)))
    if node.op_type == "Pad" and (len(made) < 2 or not made[1]):
        zero = (-point.astype(np.float32) * scale.astype(np.float32)).reshape(())
        made = [made[0], run.constant(f"{node.output[0]}_zero", zero), *made[2:]]
    return made


def _remember(node: NodeProto, run: IntegerRewriting) -> None:
    """Record the parameters of a node's result."""
    index = QUANTIZING.get(node.op_type)
    if index is not None and _has_one_scale(input_at(node.input, index), run):
        run.known[node.output[0]] = Quantized(node.output[0], *_pair(node.input, index))


def _has_one_scale(name: str, run: IntegerRewriting) -> bool:
    """Whether a scale is one constant positive number.

    With a negative scale, the largest integer is the smallest number, so a max pool is not one of real values.
    """
    scale = run.array(name)
    return scale is not None and scale.size == 1 and bool(scale.reshape(()) > 0)


def _pair(inputs: Sequence[str], index: int) -> tuple[str, str]:
    return input_at(inputs, index), input_at(inputs, index + 1)


def _read_with_parameters(node: NodeProto) -> list[Quantized]:
    """The integers that a node reads as real numbers, except for weights."""
    if node.op_type == "DequantizeLinear" or (node.domain == MICROSOFT and node.op_type in ("QGemm", "QLinearSoftmax")):
        return [_triple(node.input, 0)]
    is_form = node.domain == MICROSOFT and node.op_type in FORMS
    return FORMS[node.op_type].read(node.input)[0] if is_form else []


def _is_move(node: NodeProto) -> bool:
    return node.domain in STANDARD and node.op_type in (*MOVES, *BOUNDING, *POSITIONS, SORT)


def _moved_results(node: NodeProto) -> Sequence[str]:
    """The results of a move that have the parameters of its operand."""
    if node.op_type == SORT:
        return [name for name in node.output[:1] if name]
    return () if node.op_type in POSITIONS else node.output


def _only_dequantized(nodes: Sequence[NodeProto], outputs: Sequence[str]) -> set[str]:
    """The tensors that are no graph outputs, and that are only read by ops which have or preserve their parameters."""
    readers: dict[str, list[bool]] = {name: [False] for name in outputs}
    found: set[str] = set()
    for node in reversed(nodes):
        unread = [node.op_type == SORT]  # its positions may be all that is read
        found.update(name for name in node.output if all(readers.get(name, unread)))
        contributed = node.domain == MICROSOFT and node.op_type in (*FORMS, *OTHERS, *CASTS)
        quantized = DEQUANTIZING.get(node.op_type, frozenset()) if node.domain in STANDARD else frozenset[int]()
        moved = _is_move(node) and all(name in found for name in _moved_results(node))
        for index, name in enumerate(node.input):
            data = moved and (index == 0 or node.op_type == "Concat")
            readers.setdefault(name, []).append(contributed or index in quantized or data)
    return found


def _constants(model: ModelProto) -> dict[str, TensorProto]:
    """The initializers, and the tensors of Constant nodes, also of nested graphs."""
    graphs = [model.graph, *graphs_inside(model.graph, deep=True)]
    found = {tensor.name: tensor for graph in graphs for tensor in graph.initializer}
    for node in nodes_of(model.graph):
        tensors = [each.t for each in node.attribute if each.name == "value"] if node.op_type == "Constant" else []
        found.update(zip(node.output, tensors, strict=False))
    return found


def expand_qoperators(model: ModelProto, folder: Path) -> ModelProto:
    """The model with onnxruntime's operators on integers, and moves of quantized integers, rewritten to QDQ.

    Unsupported operators are kept. So are integers that arithmetic reads. Every name is defined in one graph only.
    """
    prefixes = ("QLinear", "Quantize")
    if not any(
        node.domain == MICROSOFT or node.op_type.startswith(prefixes) or is_fake_quantize(node)
        for node in nodes_of(model.graph)
    ):
        return model
    changed = ModelProto()
    changed.CopyFrom(model)
    run = IntegerRewriting(changed, folder, _constants(model))
    run.taken = {name for node in nodes_of(model.graph) for name in (*node.input, *node.output)} | set(run.constants)
    _rewrite(model.graph, changed.graph, run)
    return changed


def _rewrite(graph: GraphProto, changed: GraphProto, run: IntegerRewriting) -> None:
    """Write the nodes of a graph to its copy, then those of the graphs nested in it."""
    nodes = graph.node
    moved = moved_constants(nodes, run.constants, _read_with_parameters, _is_move)
    run.known |= {name: given for name, given in moved.items() if _has_one_scale(given.scale, run)}
    only = _only_dequantized(nodes, [value.name for value in graph.output])
    narrowed = clipped(nodes, run.array)
    run.nodes = []
    for node in nodes:
        if node.op_type == "Clip" and node.input[0] in narrowed:
            run.nodes.append(node)
            continue
        if node.domain == MICROSOFT and _contributed(node, run):
            continue
        if is_fake_quantize(node) and fake_quantized(node, run):
            continue
        if _is_move(node) and all(name in only for name in _moved_results(node)) and _moved(node, run):
            continue
        if node.op_type == "DequantizeLinear" and _is_exact(node, run):
            run.nodes.append(helper.make_node("Identity", [run.exact[node.input[0]]], node.output, node.name))
            continue
        run.nodes.append(node)
        if node.domain in STANDARD:
            _remember(node, run)
    del changed.node[:]
    changed.node.extend(run.nodes)
    originals = [inner for node in run.nodes for inner in graphs_inside_node(node)]
    for original, copy in zip(originals, graphs_inside(changed), strict=True):
        _rewrite(original, copy, run)
