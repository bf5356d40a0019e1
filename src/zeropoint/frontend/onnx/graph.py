"""Converts an ONNX graph with static shapes to a program, node by node; all errors are reported together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import zip_longest
from pathlib import Path

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, checker, helper
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from zeropoint.frontend.errors import ModelError, listed
from zeropoint.frontend.onnx.annotations import annotated, annotated_parameters
from zeropoint.frontend.onnx.attributes import check_enumerated, check_unread_attributes
from zeropoint.frontend.onnx.bodies import graphs_inside, graphs_inside_node, nodes_of
from zeropoint.frontend.onnx.builder import ArrayReader, Builder
from zeropoint.frontend.onnx.converters import CONTRIBUTED, CONTRIBUTED_DOMAIN, CONVERTERS, NodeConverter
from zeropoint.frontend.onnx.evaluation import evaluated
from zeropoint.frontend.onnx.loaded_products import biased_products, moved_casts
from zeropoint.frontend.onnx.node import NodeError, OnnxNode
from zeropoint.frontend.onnx.quantization import DEQUANTIZING, QUANTIZING, clipped, note_scales_by_channel
from zeropoint.frontend.onnx.shapes import derived_from_shapes, graph_inputs, inputs_behind
from zeropoint.frontend.onnx.tensors import program_element, read_tensor
from zeropoint.frontend.onnx.unused_rows import VALUE_SIZED, unused_rows
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.locations import name_location
from zeropoint.ir.program import Program, name_attributes
from zeropoint.ir.tensor_names import state_tensor_names
from zeropoint.ir.tensors import Array
from zeropoint.ir.weights import Weights
from zeropoint.limits import LimitExceeded
from zeropoint.progress import shown

DEFAULT_DOMAINS = ("", "ai.onnx")
SIZED_BY_VALUES: Mapping[str, str] = dict.fromkeys(
    ("NonZero", "Unique"),
    "found a result whose size depends on values, expected one that depends on shapes only; cut the model before it "
    "with onnx.utils.extract_model",
)
"""Operators whose result has no static shape, which a program requires, and the error message."""
BLOCKWISE_OPSET = 21
"""The first opset in which QuantizeLinear and DequantizeLinear have an axis and blocks."""


def opset_of(model: ModelProto) -> int:
    """The version of the default operator set that a model uses; 0 if it does not import one."""
    return max((entry.version for entry in model.opset_import if entry.domain in DEFAULT_DOMAINS), default=0)


def _converter(node: NodeProto) -> NodeConverter | None:
    """The converter of a node of ONNX's or onnxruntime's domain; None if there is none."""
    if node.domain == CONTRIBUTED_DOMAIN:
        return CONTRIBUTED.get(node.op_type)
    return CONVERTERS.get(node.op_type) if node.domain in DEFAULT_DOMAINS else None


def node_name(node: NodeProto) -> str:
    """The node's name, or the name of its first output."""
    return node.name or next(iter(node.output), node.op_type)


def describe_node(node: NodeProto) -> str:
    """A node's name in errors: `'conv1' (Conv)`, with the domain if it is not ONNX's default."""
    domain = "" if node.domain in DEFAULT_DOMAINS else f"{node.domain}::"
    return f"'{node_name(node)}' ({domain}{node.op_type})"


def _constant_node_array(node: NodeProto, folder: Path) -> Array:
    """The array of a `Constant` node.

    Raises ModelError for strings and sparse tensors.
    """
    attribute = node.attribute[0]
    value = helper.get_attribute_value(attribute)
    if attribute.name == "value":
        return read_tensor(value, folder)
    if attribute.name in ("value_float", "value_floats"):
        return np.array(value, np.float32)
    if attribute.name in ("value_int", "value_ints"):
        return np.array(value, np.int64)
    raise ModelError(f"node {describe_node(node)}: found a constant with '{attribute.name}', expected numbers")


def _constant_readers(graph: GraphProto, folder: Path) -> dict[str, ArrayReader]:
    """Readers for the constants of a graph and of its nested graphs."""
    readers: dict[str, ArrayReader] = {}
    for inner in graphs_inside(graph):
        readers.update(_constant_readers(inner, folder))
    for tensor in graph.initializer:
        readers[tensor.name] = partial(read_tensor, tensor, folder)
    for node in graph.node:
        if node.op_type == "Constant" and node.domain in DEFAULT_DOMAINS and node.attribute and node.output:
            readers[node.output[0]] = partial(_constant_node_array, node, folder)
    return readers


def _read_as_integers(graph: GraphProto, build: Builder) -> set[str]:
    """The tensors that are outputs, or that an op reads other than a dequantization with the same parameters."""
    graphs = [graph, *graphs_inside(graph, deep=True)]
    found = {value.name for each in graphs for value in each.output}
    renamed: dict[str, str] = {}
    made: dict[str, tuple[str, ...]] = {}
    for node in nodes_of(graph):
        index = QUANTIZING.get(node.op_type)
        if index is not None:
            made.update((name, tuple(node.input[index : index + 2])) for name in node.output)
        if node.op_type == "Identity" or (node.input[:1] and node.input[0] in build.clipped):
            renamed.update(zip(node.output, node.input, strict=False))
    for node in nodes_of(graph):
        quantized = DEQUANTIZING.get(node.op_type, frozenset())
        if node.input[:1] and node.input[0] in build.clipped:
            continue
        found.update(name for index, name in enumerate(node.input) if index not in quantized)
        for index in quantized if node.op_type != "Identity" else ():
            parameters = made.get(_original(node.input[index], renamed)) if index < len(node.input) else None
            if parameters and not _same(parameters, tuple(node.input[index + 1 : index + 3]), build):
                found.add(node.input[index])
    for name in list(found):
        while (name := renamed.get(name, "")) and name not in found:  # a broken file may have a cycle
            found.add(name)
    return found


def _original(name: str, renamed: Mapping[str, str]) -> str:
    """The first tensor of a chain of copies."""
    seen: set[str] = set()
    while name in renamed and name not in seen:
        seen.add(name)
        name = renamed[name]
    return name


def _same(made: tuple[str, ...], read: tuple[str, ...], build: Builder) -> bool:
    """Whether a quantization and a dequantization have the same scale and zero point."""
    if made == read:
        return True
    for first, second in zip_longest(made, read, fillvalue=""):
        arrays = [np.zeros((), np.uint8) if not name else build.array(name) for name in (first, second)]
        if first == second:
            continue
        if arrays[0] is None or arrays[1] is None:
            return False
        flat = [array.reshape(-1) for array in arrays if array is not None]
        if flat[0].size != flat[1].size:
            # One parameter for all channels equals the same parameter repeated for each channel.
            flat = [np.unique(array) for array in flat]
            if max(array.size for array in flat) > 1:
                return False
        if not np.array_equal(*flat):
            return False
    return True


class _GraphImporter:
    """Converts the nodes of one graph and collects their errors.

    The outputs of a failed node are `lost`. For nodes that read them, only the op is checked. `computed` has the
    tensors that are computed but must be constant. `nodes` has the names of nodes by tensor. `selections` has the
    results whose number of rows depends on values.
    """

    def __init__(self, model: ModelProto, build: Builder):
        self._graph = model.graph
        self._opset = opset_of(model)
        self._build = build
        self._derived = derived_from_shapes(model.graph)
        self._used = {name for node in nodes_of(model.graph) for name in node.input}
        for inner in graphs_inside(model.graph, deep=True):
            self._used.update(value.name for value in inner.output)
        self._used.update(value.name for value in model.graph.output)
        self._lost: set[str] = set()
        self._context = checker.C.CheckerContext()
        self._context.ir_version = model.ir_version
        self._context.opset_imports = {entry.domain: entry.version for entry in model.opset_import}
        # onnxruntime's tools write per-channel casts and packed products into models of any opset, so casts are checked
        # by a newer one.
        self._of_casts = checker.C.CheckerContext()
        self._of_casts.ir_version = model.ir_version
        self._of_casts.opset_imports = {**self._context.opset_imports, "": max(self._opset, BLOCKWISE_OPSET)}
        build.clipped = clipped(nodes_of(model.graph), build.array)
        build.annotated = annotated_parameters(model.graph)
        build.moved_casts = moved_casts(model.graph.node, build.array)
        build.biased_products = biased_products(model.graph.node, build.moved_casts, build.array)
        build.integers = _read_as_integers(model.graph, build)
        build.convert_node = self._convert_inside
        self.problems: list[str] = []
        self.computed: set[str] = set()
        self.nodes: dict[str, str] = {}
        self.selections: list[str] = []

    def convert(self) -> None:
        """Convert all nodes in order."""
        for node in shown(self._graph.node, "import"):
            if node.op_type != "Constant" or node.domain not in DEFAULT_DOMAINS:
                self._convert_or_lose(node)

    def _convert_or_lose(self, node: NodeProto) -> None:
        try:
            self._check(node)
            if self._lost.isdisjoint(node.input):
                self._convert(node)
                return
        except (NodeError, LimitExceeded) as error:
            reason = str(error)
            self.problems.append(f"{describe_node(node)}: {reason}" if reason else describe_node(node))
            if isinstance(error, NodeError) and error.tensor is not None:
                self.computed.add(error.tensor)
        except Exception as error:
            error.add_note(f"node {describe_node(node)}")
            raise
        self._lost.update(node.output)

    def _convert_inside(self, node: NodeProto) -> None:
        """Convert a node of a nested graph. Raises NodeError, which names the node."""
        if node.op_type == "Constant" and node.domain in DEFAULT_DOMAINS:
            return
        location = self._build.location
        try:
            if _converter(node) is None and not self._evaluate(node):
                raise NodeError("not supported")
            if node.op_type in VALUE_SIZED:
                raise NodeError(
                    "found a result whose number of rows depends on values, expected it outside of If and Loop"
                )
            for name in node.input:
                if name and not self._build.is_known(name):
                    raise NodeError(f"found input '{name}', which no earlier node computes")
            self._convert(node)
        except (NodeError, LimitExceeded) as error:
            computed = error.tensor if isinstance(error, NodeError) else None
            raise NodeError(f"{describe_node(node)} in its graph: {error}", computed) from error
        self._build.location = location

    def _evaluate(self, node: NodeProto) -> bool:
        """Evaluate a node if it computes integers from constants only. Returns whether it does."""
        results = evaluated(node, self._opset, self._build)
        for name, array in zip([name for name in node.output if name], results or (), strict=False):
            self._build.values.pop(name, None)
            self._build.set_array(name, array)
        return results is not None

    def _check(self, node: NodeProto) -> None:
        """Raise NodeError for errors that do not depend on the inputs of a node. Without text for an unsupported op."""
        if _converter(node) is None and not (node.domain in DEFAULT_DOMAINS and node.op_type in ("Shape", "Size")):
            if self._is_consequence(node):
                return
            raise NodeError(SIZED_BY_VALUES.get(node.op_type, "") if node.domain in DEFAULT_DOMAINS else "")
        for name in node.input:
            if name and name not in self._lost and not self._build.is_known(name):
                raise NodeError(f"found input '{name}', which no earlier node computes; the file is broken")
        if next(graphs_inside_node(node), None) is not None or node.domain == CONTRIBUTED_DOMAIN:
            return  # the checker knows neither the outer tensors of a nested graph nor onnxruntime's operators
        try:
            casts = node.op_type in ("DequantizeLinear", "QuantizeLinear")
            checker.check_node(node, self._of_casts if casts else self._context)
        except checker.ValidationError as error:
            raise NodeError(str(error).strip().splitlines()[0]) from error

    def _is_consequence(self, node: NodeProto) -> bool:
        """Whether a node is unsupported only because a failed node before it prevented the folding of shapes."""
        return not self._lost.isdisjoint(node.input) and not self._derived.isdisjoint(node.output)

    def _convert(self, node: NodeProto) -> None:
        check_enumerated(node)
        unused = unused_rows(node, self._opset, self._build)
        if self._evaluate(node):
            return
        converter = _converter(node)
        if converter is None:
            raise NodeError
        self._build.location = name_location(node_name(node))
        read = OnnxNode(node, self._opset, self._build)
        results = converter(read, self._build)
        check_unread_attributes(read)
        results = (results,) if isinstance(results, SSAValue) else results
        note_scales_by_channel(node, results, self._build)
        for name in node.output[len(results) :]:
            if name in self._used:
                raise NodeError(f"found a use of output '{name}', expected one of output '{node.output[0]}' only")
        for name, value in zip(node.output, results, strict=False):
            self.nodes[name] = node_name(node)
            self._build.forget_array(name)
            self._build.values[name] = annotated(name, value, self._build)
            if unused is not None:
                self._build.unused_rows[name] = unused
        if node.op_type in VALUE_SIZED and node.output[0]:
            self.selections.append(node.output[0])


def import_graph(model: ModelProto, folder: Path) -> Program:
    """The program of a model with static input shapes. `folder` contains its external data.

    Raises ModelError, which names every node that cannot be converted.
    """
    graph, weights = model.graph, Weights()
    if graph.sparse_initializer:
        raise ModelError(f"found sparse weights '{graph.sparse_initializer[0].values.name}', expected dense ones")
    inputs = graph_inputs(graph)
    block = Block(arg_types=[_input_type(value) for value in inputs])
    build = Builder(block, weights, _constant_readers(graph, folder))
    for argument, value in zip(block.args, inputs, strict=True):
        argument.location = name_location(value.name)
        build.values[value.name] = argument
    importer = _GraphImporter(model, build)
    importer.convert()
    if importer.problems:
        count = f"{len(importer.problems)} nodes are" if len(importer.problems) > 1 else "1 node is"
        wanted = inputs_behind(graph, importer.computed)
        fix = f"; make constants of the inputs they depend on: {', '.join(wanted)}" if wanted else ""
        if not fix and not all(": " in problem for problem in importer.problems):
            fix = "; see docs/onnx.md"
        raise ModelError(f"{count} not supported: {listed(importer.problems)}{fix}", wanted)
    outputs = [value.name for value in graph.output]
    for name in outputs:
        if not build.is_known(name):
            raise ModelError(f"found output '{name}', which no node computes; the file is broken or truncated")
    results = [build.value(name) for name in outputs]
    for name in importer.selections:  # as additional outputs, because they tell which rows of other outputs are used
        if build.value(name) not in results:
            outputs.append(name)
            results.append(build.value(name))
    block.add_op(ReturnOp(*results))
    remove_dead_ops(block)
    names = name_attributes([value.name for value in inputs], build.input_bounds(block))
    module = _module(block, names, outputs)
    state_tensor_names(module, {tensor: node for tensor, node in importer.nodes.items() if tensor not in outputs})
    return Program(module, weights)


def _input_type(value: ValueInfoProto) -> TensorType[Attribute]:
    tensor = value.type.tensor_type
    try:
        return TensorType(program_element(tensor.elem_type), [dim.dim_value for dim in tensor.shape.dim])
    except ModelError as error:
        raise ModelError(f"input '{value.name}': {error}") from error


def _module(block: Block, inputs: ArrayAttr[DictionaryAttr], outputs: list[str]) -> ModuleOp:
    terminator = block.last_op
    assert isinstance(terminator, ReturnOp)
    types = ([argument.type for argument in block.args], [value.type for value in terminator.operands])
    function = FuncOp(
        "main",
        types,
        Region(block),
        arg_attrs=inputs,
        res_attrs=name_attributes(outputs),
    )
    return ModuleOp([function])
