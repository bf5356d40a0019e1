"""Parse a .tflite file into tensors and operators. Everything that a corrupt file can get wrong is checked.

Source: the LiteRT schema (`schema.fbs`), version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from math import prod
from typing import Any

import numpy as np

from zeropoint.errors import json_object
from zeropoint.frontend.errors import ModelError
from zeropoint.frontend.litert.flattened import flattened
from zeropoint.frontend.litert.graph import (
    DTYPES,
    PACKED,
    RESOURCE,
    LiteRtGraph,
    LiteRtModel,
    LiteRtTensor,
    Operator,
    Ports,
    stored_bytes,
)
from zeropoint.frontend.litert.sparse import Sparsity, dense
from zeropoint.ir.tensors import Array
from zeropoint.limits import afford
from zeropoint.litert_schema import schema

IDENTIFIER = b"TFL3"
HEADER = 8
"""The size of the file header in bytes: the offset of the root table, and the identifier."""
MOST_DIMENSIONS = 8
MOST_SCALES = 1 << 24
METADATA = "zeropoint"
"""The name of the metadata that zeropoint's exporter writes."""


@contextmanager
def inside(what: str) -> Generator[None]:
    """A context for reading a part of a file. Raises ModelError if an offset or length leads out of the file.

    The flatbuffers package does not check offsets and lengths. A read outside of the buffer may raise one of several
    exceptions of Python.
    """
    try:
        yield
    except (struct.error, IndexError, OverflowError, TypeError, ValueError) as error:
        if not _is_of_flatbuffers(error):
            raise
        raise ModelError(
            f"{what}: found an offset or a length that leads out of the file, expected one inside; the file is broken "
            "or truncated"
        ) from error


def _is_of_flatbuffers(error: Exception) -> bool:
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return place is not None and str(place.tb_frame.f_globals.get("__name__")).startswith("flatbuffers")


def _names_of(kind: type) -> dict[int, str]:
    return {value: name for name, value in vars(kind).items() if isinstance(value, int)}


def read_model(content: bytes) -> LiteRtModel:
    """The main graph of a file.

    Raises ModelError if this is not a .tflite file, or if tensors contradict their descriptions.
    """
    if len(content) < HEADER or content[4:HEADER] != IDENTIFIER:
        raise ModelError(f"found {len(content)} bytes without the identifier 'TFL3', expected a .tflite file")
    with inside("graph"):
        root = schema().Model.GetRootAs(content, 0)
        graphs = _count(root.SubgraphsLength(), "graphs", content)
        if not graphs:
            raise ModelError("found no graph, expected one; the file is broken or truncated")
        codes = [_code(root, index) for index in range(_count(root.OperatorCodesLength(), "codes", content))]

    @cache
    def graph_at(index: int) -> LiteRtGraph:
        if not 0 <= index < graphs:
            raise ModelError(f"found graph {index}, expected 0 to {graphs - 1}; the file is broken")
        return _graph(root, index, codes, content)

    main = graph_at(0)
    with inside("signature"):
        inputs, outputs = _signature(root, main.inputs, main.outputs)
    if not outputs:
        raise ModelError("found no outputs, expected one; the file is broken or truncated")
    with inside("branches, loops and variables"):
        found = flattened(replace(main, inputs=inputs, outputs=outputs), graph_at)
    _check_variables(found)
    with inside("metadata"):
        metadata = _metadata(root)
    ports = found.inputs, found.outputs
    return LiteRtModel(found.tensors, found.operators, *ports, metadata, variables=found.variables)


def _check_variables(graph: LiteRtGraph) -> None:
    """Raise ModelError if something else than the operators of `flattened` reads or returns a variable."""
    variables = {index for index, tensor in enumerate(graph.tensors) if tensor.type_name == RESOURCE}
    readers = [(one.name, (*one.inputs, *one.outputs)) for one in graph.every_operator()] if variables else []
    ports = [(f"the port '{name}'", (index,)) for name, index in (*graph.inputs, *graph.outputs)]
    for what, indices in (*readers, *ports):
        for index in variables.intersection(indices):
            raise ModelError(
                f"tensor '{graph.tensors[index].name}': found {what} of a variable, expected only READ_VARIABLE and "
                "ASSIGN_VARIABLE; convert the model with its state as inputs and outputs"
            )


def _graph(root: Any, index: int, codes: Sequence[str], content: bytes) -> LiteRtGraph:
    with inside(f"graph {index}"):
        graph = root.Subgraphs(index)
        tensors = _count(graph.TensorsLength(), "tensors", content)
        operators = _count(graph.OperatorsLength(), "operators", content)
    types = _names_of(schema().TensorType)
    steps = [_operator(graph, number, codes, tensors) for number in range(operators)]
    with inside("inputs and outputs"):
        ports = [
            _indices(found, tensors, what)
            for found, what in ((graph.InputsAsNumpy(), "input"), (graph.OutputsAsNumpy(), "output"))
        ]
    users = dict.fromkeys(ports[1], "an output") | dict.fromkeys(ports[0], "an input")
    users |= {number: step.name for step in steps for number in (*step.inputs, *step.outputs)}
    read = [_tensor(graph, number, root, types, content, users.get(number)) for number in range(tensors)]
    inputs, outputs = ([(read[number].name, number) for number in numbers] for numbers in ports)
    return LiteRtGraph(read, steps, inputs, outputs)


def _count(count: int, what: str, content: bytes) -> int:
    """A number of entries, checked against the file size. Each entry takes at least 4 bytes."""
    if count * 4 > len(content):
        raise ModelError(f"found {count} {what} in {len(content)} bytes, expected fewer; the file is broken")
    return count


def _array(found: Any, dtype: type[np.generic]) -> Array:
    """A vector of numbers. flatbuffers returns 0 for an omitted vector, which becomes an empty one."""
    return np.zeros(0, dtype) if isinstance(found, int) else np.asarray(found, dtype)


def _indices(found: Any, count: int, what: str, least: int = 0) -> tuple[int, ...]:
    indices = tuple(int(index) for index in _array(found, np.int64))
    for index in indices:
        if not least <= index < count:
            raise ModelError(f"found tensor {index} as an {what}, expected 0 to {count - 1}; the file is broken")
    return indices


def _text(found: bytes | None, otherwise: str) -> str:
    return found.decode("utf-8", "replace") if found else otherwise


def _sizes(shape: tuple[int, ...]) -> str:
    """The first sizes of a shape, of which a broken file may have thousands."""
    more = ", ..." if len(shape) > MOST_DIMENSIONS else ""
    return f"[{', '.join(map(str, shape[:MOST_DIMENSIONS]))}{more}]"


def _tensor(
    graph: Any, index: int, root: Any, types: Mapping[int, str], content: bytes, user: str | None
) -> LiteRtTensor:
    """A tensor, and the name of an operator that reads or returns it, if any."""
    with inside(f"tensor {index}"):
        found = graph.Tensors(index)
        name = _text(found.Name(), f"tensor{index}")
    with inside(f"tensor '{name}'"):
        type_name = types.get(found.Type(), str(found.Type()))
        if type_name == RESOURCE or (type_name not in DTYPES and user is None):
            return LiteRtTensor(name, type_name, (), None, np.zeros(0), np.zeros(0), 0)
        if type_name not in DTYPES:
            raise ModelError(f"tensor '{name}': found type {type_name} of {user}, expected one of: {', '.join(DTYPES)}")
        return _named_tensor(found, name, type_name, root, content)


def _named_tensor(found: Any, name: str, type_name: str, root: Any, content: bytes) -> LiteRtTensor:
    shape = tuple(int(size) for size in _array(found.ShapeAsNumpy(), np.int64))
    if len(shape) > MOST_DIMENSIONS or min(shape, default=1) < 0:
        raise ModelError(
            f"tensor '{name}': found shape {_sizes(shape)}, expected at most {MOST_DIMENSIONS} sizes, none negative"
        )
    dtype = DTYPES[type_name]
    afford(shape, max(dtype.itemsize, 1), f"tensor '{name}'")
    dynamic = bool((_array(found.ShapeSignatureAsNumpy(), np.int64) < 0).any())
    scales, zero_points, axis = _parameters(found.Quantization(), name, shape)
    data = _data(root, found, name, shape, type_name, content)
    return LiteRtTensor(name, type_name, shape, data, scales, zero_points, axis, dynamic)


def _parameters(found: Any, name: str, shape: tuple[int, ...]) -> tuple[Array, Array, int]:
    none = np.zeros(0)
    if found is None:
        return none, none, 0
    if found.DetailsType():
        raise ModelError(
            f"tensor '{name}': found quantization by blocks or a custom quantization, expected one scale, or one per "
            "channel; quantize the weights by channels"
        )
    scales = _array(found.ScaleAsNumpy(), np.float64)
    points, axis = _array(found.ZeroPointAsNumpy(), np.int64), int(found.QuantizedDimension())
    if scales.size > MOST_SCALES:
        raise ModelError(f"tensor '{name}': found {scales.size} scales, expected fewer; the file is broken")
    points = np.zeros(scales.size, np.int64) if not points.size else points
    if points.size == 1:
        points = np.repeat(points, scales.size)
    if points.size != scales.size:
        raise ModelError(
            f"tensor '{name}': found {scales.size} scales and {points.size} zero points, expected equal numbers"
        )
    if scales.size > 1 and not (0 <= axis < len(shape) and shape[axis] == scales.size):
        raise ModelError(
            f"tensor '{name}': found {scales.size} scales along dimension {axis} of {list(shape)}, expected one for "
            "each index"
        )
    return scales, points, axis


def _data(root: Any, tensor: Any, name: str, shape: tuple[int, ...], type_name: str, content: bytes) -> Array | None:
    """The elements of a constant; None for a computed tensor, whose buffer is empty."""
    sparsity = None if tensor.Sparsity() is None else Sparsity.of(tensor.Sparsity(), name)
    stored = _stored(root, tensor.Buffer(), name, content)
    if not stored.size and (not tensor.Buffer() or (sparsity is None and prod(shape))):
        return None
    if sparsity is None:
        return _elements(stored, name, type_name, shape)
    positions = sparsity.positions(shape, name)
    return dense(_elements(stored, name, type_name, positions.shape), positions, shape)


def _stored(root: Any, buffer: int, name: str, content: bytes) -> Array:
    """The bytes of a buffer, in the tables of the file or behind them."""
    if not 0 <= buffer < root.BuffersLength():
        raise ModelError(f"tensor '{name}': found buffer {buffer}, expected 0 to {root.BuffersLength() - 1}")
    found = root.Buffers(buffer)
    if found.Offset() <= 1:
        return _array(found.DataAsNumpy(), np.uint8)
    start, size = found.Offset(), found.Size()
    if start + size > len(content):
        raise ModelError(f"tensor '{name}': found bytes {start} to {start + size} of {len(content)}; truncated")
    return np.frombuffer(content, np.uint8, size, start)


def _elements(stored: Array, name: str, type_name: str, shape: tuple[int, ...]) -> Array:
    """Stored bytes as elements of a type."""
    dtype, elements, per_byte = DTYPES[type_name], prod(shape), PACKED.get(type_name, 0)
    expected = stored_bytes(type_name, shape)
    if stored.size != expected:
        raise ModelError(
            f"tensor '{name}': found {stored.size} bytes, expected {expected} for {type_name} {list(shape)}; the file "
            "is broken"
        )
    if per_byte:
        return _unpacked(stored, per_byte)[:elements].reshape(shape)
    return np.frombuffer(stored.tobytes(), dtype).reshape(shape)


def _unpacked(stored: Array, per_byte: int) -> Array:
    """Signed integers of 4 or 2 bits, the first one in the lowest bits of a byte."""
    width = 8 // per_byte
    fields = np.stack([stored >> (width * place) & ((1 << width) - 1) for place in range(per_byte)], axis=-1)
    numbers = fields.reshape(-1).astype(np.int8)
    return np.where(numbers >= 1 << (width - 1), numbers - (1 << width), numbers).astype(np.int8)


def _code(root: Any, index: int) -> str:
    """The name of an operator. Codes below 127 may be only in a deprecated one-byte field."""
    with inside(f"operator code {index}"):
        found = root.OperatorCodes(index)
        number = max(found.BuiltinCode(), found.DeprecatedBuiltinCode())
        name = _names_of(schema().BuiltinOperator).get(number, str(number))
        custom = found.CustomCode()
    return _text(custom, "CUSTOM") if name == "CUSTOM" else name


def _operator(graph: Any, index: int, codes: Sequence[str], tensors: int) -> Operator:
    with inside(f"operator {index}"):
        found = graph.Operators(index)
        if not 0 <= found.OpcodeIndex() < len(codes):
            raise ModelError(f"operator {index}: found code {found.OpcodeIndex()}, expected 0 to {len(codes) - 1}")
        inputs = _indices(found.InputsAsNumpy(), tensors, "operand", -1)
        outputs = _indices(found.OutputsAsNumpy(), tensors, "result")
        custom = _array(found.CustomOptionsAsNumpy(), np.uint8).tobytes()
        return Operator(codes[int(found.OpcodeIndex())], index, inputs, outputs, _options(found), custom)


def _options(found: Any) -> Any:
    table, kind = found.BuiltinOptions(), _names_of(schema().BuiltinOptions).get(found.BuiltinOptionsType(), "NONE")
    if table is None or kind == "NONE":
        return None
    made = getattr(schema(), kind)()
    made.Init(table.Bytes, table.Pos)
    return made


def _signature(root: Any, inputs: Ports, outputs: Ports) -> tuple[Ports, Ports]:
    """Inputs and outputs, by the names in the first signature of the main graph, or else by tensor names."""
    for index in range(root.SignatureDefsLength()):
        found = root.SignatureDefs(index)
        if found.SubgraphIndex() == 0:
            return (
                _named(inputs, [found.Inputs(i) for i in range(found.InputsLength())]),
                _named(outputs, [found.Outputs(i) for i in range(found.OutputsLength())]),
            )
    return inputs, outputs


def _named(ports: Ports, maps: Sequence[Any]) -> Ports:
    """The ports by the names in a signature. A tensor that is several outputs has as many names, in any order."""
    names: dict[int, list[str]] = {}
    for found in maps:
        names.setdefault(found.TensorIndex(), []).append(_text(found.Name(), ""))
    waiting = {tensor: iter(found) for tensor, found in names.items()}
    return [(next(waiting.get(tensor, iter(())), "") or name, tensor) for name, tensor in ports]


def _metadata(root: Any) -> Mapping[str, Any]:
    for index in range(root.MetadataLength()):
        entry = root.Metadata(index)
        if entry.Name() == METADATA.encode() and entry.Buffer() < root.BuffersLength():
            return json_object(bytes(_array(root.Buffers(entry.Buffer()).DataAsNumpy(), np.uint8)))
    return {}
