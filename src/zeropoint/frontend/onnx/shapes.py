"""Make the shapes of an ONNX graph static: fix the shapes of inputs, then fold everything computed from shapes.

Integers of a usual form are left to the importer (`shape_arithmetic.py`). Other folding is done by onnxscript, which
evaluates nodes with ONNX's reference implementation and keeps the names of the remaining nodes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

from zeropoint.frontend.constants import Constant, typed
from zeropoint.frontend.errors import DynamicShapes, ModelError
from zeropoint.frontend.onnx.bodies import graphs_inside_node, nodes_of
from zeropoint.frontend.onnx.growth import result_elements
from zeropoint.frontend.onnx.shape_arithmetic import evaluates
from zeropoint.frontend.onnx.tensors import read_tensor
from zeropoint.ir.tensors import Array

_SHAPE_OPS = frozenset({"Shape", "Size"})
_FOLDED_ELEMENTS = 8192
_PINNING = frozenset({"DequantizeLinear", "QuantizeLinear"})
"""Ops with the quantization parameters of a constant. They are not folded, because the parameters would be lost."""


def graph_inputs(graph: GraphProto) -> list[ValueInfoProto]:
    """The inputs without an initializer. Older files also list initializers among the inputs."""
    constants = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in constants]


def _sizes(value: ValueInfoProto) -> list[int | None] | None:
    """The sizes of an input, with None for a dynamic one; None if the rank is unknown."""
    if not value.type.tensor_type.HasField("shape"):
        return None
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in value.type.tensor_type.shape.dim]


def fix_inputs(graph: GraphProto, constants: Mapping[str, Constant]) -> None:
    """Replace the named inputs by constants.

    Raises ModelError if a name, element type, rank or size does not match the model.
    """
    inputs = {value.name: value for value in graph_inputs(graph)}
    for name, value in constants.items():
        if name not in inputs:
            raise ModelError(f"found a value for '{name}', expected one of the inputs: {', '.join(inputs)}")
        tensor = inputs[name].type.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
        array = typed(name, value, dtype, sizes)
        fits = len(sizes) == array.ndim and all(s in (None, n) for s, n in zip(sizes, array.shape, strict=True))
        if array.dtype != dtype or (tensor.HasField("shape") and not fits):
            raise ModelError(
                f"found a value of {array.dtype} and shape {list(array.shape)} for '{name}', expected {dtype} and "
                f"{['?' if size is None else size for size in sizes]}"
            )
        graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        graph.input.remove(inputs[name])


def fix_input_shapes(graph: GraphProto, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Write `shapes` into the graph's inputs. Static dimensions are replaced, too.

    If one input fixes a symbolic dimension, it is fixed for all inputs. Raises ModelError if a name or rank does not
    match the model, if a symbol would have two sizes, or if a dimension stays dynamic.
    """
    inputs = graph_inputs(graph)
    for value in inputs:
        _clear_unknown(value)
    names = [value.name for value in inputs]
    for name in shapes:
        if name not in names:
            raise ModelError(f"found a shape for '{name}', expected one of the inputs: {', '.join(names)}")
    symbols: dict[str, int] = {}
    for value in inputs:
        if value.name in shapes:
            _fix(value, shapes[value.name], symbols)
    dynamic: list[str] = []
    for value in inputs:
        dynamic += _dynamic_dimensions(value, symbols)
    if dynamic:
        raise DynamicShapes("; ".join(dynamic), {value.name: _sizes(value) for value in inputs if _is_dynamic(value)})
    # The file's shapes of inner tensors are dropped, because they were inferred from the previous shapes of inputs.
    graph.ClearField("value_info")
    if shapes:
        for value in graph.output:
            value.type.tensor_type.ClearField("shape")


def _clear_unknown(value: ValueInfoProto) -> None:
    """Make dimensions dynamic that an exporter wrote as a negative size or a question mark."""
    for dim in value.type.tensor_type.shape.dim:
        if dim.HasField("dim_value") and dim.dim_value < 0:
            dim.ClearField("dim_value")
        elif dim.dim_param == "?":
            dim.ClearField("dim_param")


def _fix(value: ValueInfoProto, shape: tuple[int, ...], symbols: dict[str, int]) -> None:
    given = "x".join(map(str, shape))
    if min(shape, default=1) < 1:
        raise ModelError(f"found shape {given} for '{value.name}', expected sizes of 1 or more")
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        for _ in shape:
            tensor.shape.dim.add()
    if len(tensor.shape.dim) != len(shape):
        rank = len(tensor.shape.dim)
        raise ModelError(f"found shape {given} for '{value.name}', expected {rank} dimensions as in the model")
    for index, (dim, size) in enumerate(zip(tensor.shape.dim, shape, strict=True)):
        known = symbols.get(dim.dim_param, size) if dim.dim_param else size
        if known != size:
            raise ModelError(f"found shape {given} for '{value.name}', expected {known} at dimension {index}")
        if dim.dim_param:
            symbols[dim.dim_param] = size
        dim.dim_value = size


def _dynamic_dimensions(value: ValueInfoProto, symbols: Mapping[str, int]) -> list[str]:
    """Messages about the dynamic dimensions of an input, after symbols of known size are replaced."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return [f"input '{value.name}' has no shape"]
    found: list[str] = []
    for index, dim in enumerate(tensor.shape.dim):
        if dim.dim_param in symbols:
            dim.dim_value = symbols[dim.dim_param]
        elif not dim.HasField("dim_value"):
            symbol = f" ({dim.dim_param})" if dim.dim_param else ""
            found.append(f"input '{value.name}' has a dynamic dimension {index}{symbol}")
    return found


def _is_dynamic(value: ValueInfoProto) -> bool:
    tensor = value.type.tensor_type
    return not tensor.HasField("shape") or any(not dim.HasField("dim_value") for dim in tensor.shape.dim)


def derived_from_shapes(graph: GraphProto) -> set[str]:
    """The tensors that are computed from constants and shapes only, not from the values of inputs."""
    derived: set[str] = set()
    known = {"", *(tensor.name for tensor in graph.initializer)}
    for node in graph.node:
        if node.op_type == "Constant":
            known.update(node.output)
        elif node.op_type in _SHAPE_OPS or known.issuperset(node.input):
            derived.update(node.output)
            known.update(node.output)
    return derived


def inputs_behind(graph: GraphProto, tensors: set[str]) -> tuple[str, ...]:
    """The inputs on whose values, and not only shapes, the given tensors depend."""
    behind = set(tensors)
    for node in reversed(graph.node):
        if node.op_type not in _SHAPE_OPS and not behind.isdisjoint(node.output):
            behind.update(node.input)
            for inner in graphs_inside_node(node):
                behind.update(name for each in nodes_of(inner) for name in each.input)
                behind.update(value.name for value in inner.output)
    return tuple(value.name for value in graph_inputs(graph) if value.name in behind)


def is_foldable(node: NodeProto, derived: set[str]) -> bool:
    """Whether folding is expected to replace a node."""
    return node.op_type == "If" or any(output in derived for output in node.output)


def _is_left(op_type: str, inputs: Sequence[Array | None], axes: Sequence[int]) -> bool:
    """Whether a node has a form that ONNX's reference gets wrong. The importer evaluates it (`evaluation.py`).

    These are slices backwards, no dimensions to squeeze, and negative `axes` as an attribute.
    """
    if op_type == "Slice":
        return len(inputs) > 4 and (steps := inputs[4]) is not None and bool((steps < 0).any())
    if op_type == "Squeeze":
        return len(inputs) > 1 and (dropped := inputs[1]) is not None and not dropped.size
    return op_type == "Unsqueeze" and min(axes, default=0) < 0


def fold_shapes(model: ModelProto, folder: Path) -> ModelProto:
    """The model without the nodes that compute shapes; the model itself if it has none that the importer leaves.

    Tensors of more than 8192 elements are not folded here, because they are weights, which `simplify` folds.

    Raises ModelError if folding fails.
    """
    derived = derived_from_shapes(model.graph)
    if not any(is_foldable(node, derived) for node in model.graph.node) or evaluates(model.graph, derived, folder):
        return model
    import onnx_ir
    from onnx_ir.external_data import set_base_dir  # pyright: ignore[reportUnknownVariableType] (the package has no types)
    from onnxscript.optimizer import fold_constants  # pyright: ignore[reportUnknownVariableType] (the package has no types)

    def is_small(node: onnx_ir.Node) -> bool:
        if node.op_type in _PINNING:
            return False
        inputs = [None if value is None else value.const_value for value in node.inputs]
        if max((found.size for found in inputs if found is not None), default=0) > _FOLDED_ELEMENTS:
            return False
        arrays = [None if found is None else found.numpy() for found in inputs]
        if _is_left(node.op_type, arrays, node.attributes.get_ints("axes", ())):
            return False
        return result_elements(node.op_type, arrays) <= _FOLDED_ELEMENTS

    for package in ("onnx_ir", "onnxscript"):  # their warnings are hidden: the errors below report the same
        logging.getLogger(package).addHandler(logging.NullHandler())
    try:
        ir_model = onnx_ir.from_proto(model)
        set_base_dir(ir_model.graph, folder)
        fold_constants(ir_model, onnx_shape_inference=True, should_fold=is_small)
        return onnx_ir.to_proto(ir_model)
    except Exception as error:  # the evaluation of broken nodes may raise anything
        for tensor in model.graph.initializer:
            read_tensor(tensor, folder)  # a broken one has an error that names it
        reason = f": {error.__cause__}" if error.__cause__ else ""
        raise ModelError(f"found shape arithmetic that cannot be evaluated: {error}{reason}") from error
