"""Parse a .tflite file into tensors and operators. Everything that a corrupt file can get wrong is checked.

Source: the LiteRT schema (`schema.fbs`), version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, cast

import ml_dtypes
import numpy as np
from xdsl.utils.exceptions import VerifyException

from zeropoint.errors import json_object
from zeropoint.frontend.errors import ModelError
from zeropoint.frontend.litert.sparse import Sparsity, dense
from zeropoint.ir.quant import Storage, UniformQuantizedType
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
NUMBERED = "numbered"
"""The key of the metadata with the names of tensors to which the exporter added a number."""

DTYPES: Mapping[str, np.dtype[np.generic]] = {
    "BOOL": np.dtype(np.bool_),
    "FLOAT16": np.dtype(np.float16),
    "FLOAT32": np.dtype(np.float32),
    "FLOAT64": np.dtype(np.float64),
    "INT2": np.dtype(ml_dtypes.int2),
    "INT4": np.dtype(ml_dtypes.int4),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype(np.int16),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype(np.uint16),
    "UINT32": np.dtype(np.uint32),
}
STORAGE: Mapping[str, Storage] = {
    "INT2": Storage.of("i8", -2, 1),
    "INT4": Storage.of("i8", -8, 7),
    "INT8": Storage.of("i8"),
    "INT16": Storage.of("i16"),
    "UINT8": Storage.of("u8"),
}
"""The storage types of quantized values. Biases of 32 and 64 bits need no type: their scale is that of the products."""
PACKED: Mapping[str, int] = {"INT2": 4, "INT4": 2}
"""How many elements of a type are in a byte."""


Ports = Sequence[tuple[str, int]]
"""Names of inputs or outputs, and their tensor indices."""


@dataclass(frozen=True)
class LiteRtTensor:
    """A tensor. `data` has the elements of a constant in the stored dtype. `scales` is empty if it is not quantized."""

    name: str
    type_name: str
    shape: tuple[int, ...]
    data: Array | None
    scales: Array
    zero_points: Array
    axis: int
    dynamic: bool = False

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The dtype of the elements."""
        return DTYPES[self.type_name]

    @property
    def stored_bytes(self) -> int:
        """How many bytes the elements take in a file."""
        return _stored_bytes(self.type_name, self.shape)

    @property
    def is_quantized(self) -> bool:
        """Whether the elements are integers that represent real values."""
        return bool(self.scales.size) and self.dtype.kind != "f"

    @property
    def quantized(self) -> UniformQuantizedType | None:
        """The quantized type; None for other tensors and for biases."""
        storage = STORAGE.get(self.type_name)
        if not self.is_quantized or storage is None:
            return None
        wrong = self.scales[~np.isfinite(self.scales) | (self.scales <= 0)]
        if wrong.size:
            raise ModelError(
                f"tensor '{self.name}': found scale {wrong[0]:g}, expected finite numbers above 0; the file is broken"
            )
        try:
            if self.scales.size == 1:
                return UniformQuantizedType.per_layer(storage, float(self.scales[0]), int(self.zero_points[0]))
            return UniformQuantizedType.per_channel(storage, self.axis, self.scales, self.zero_points)
        except VerifyException as error:
            raise ModelError(
                f"tensor '{self.name}': found invalid scale and zero point: {error}; expected zero points of type "
                f"{self.type_name}; the file is broken"
            ) from error


@dataclass(frozen=True)
class Operator:
    """An operator: its name in the schema, the indices of its tensors (-1: omitted), and its options table.

    A custom operator has its own name, and the bytes of its options in `custom`.
    """

    name: str
    index: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Any = None
    custom: bytes = b""


@dataclass(frozen=True)
class LiteRtModel:
    """The main graph of a file. `metadata` is the text that zeropoint's exporter wrote; empty in other files."""

    tensors: Sequence[LiteRtTensor]
    operators: Sequence[Operator]
    inputs: Ports
    outputs: Ports
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @cached_property
    def _numbered(self) -> frozenset[str]:
        found = self.metadata.get(NUMBERED)
        return frozenset(map(str, cast("list[object]", found))) if isinstance(found, list) else frozenset()

    def origin(self, tensor: LiteRtTensor) -> str:
        """The name of what a tensor holds in the program that was exported: without a number that the exporter added.

        In other files, it is the name of the tensor.
        """
        return tensor.name.rpartition("_")[0] if tensor.name in self._numbered else tensor.name

    def stored(self, index: int) -> LiteRtTensor:
        """The constant that a DEQUANTIZE makes a tensor of; the tensor itself if none does."""
        for operator in self.operators if self.tensors[index].data is None else ():
            if operator.name == "DEQUANTIZE" and operator.outputs[:1] == (index,) and operator.inputs[:1] > (-1,):
                found = self.tensors[operator.inputs[0]]
                return self.tensors[index] if found.data is None else found
        return self.tensors[index]


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
        if not root.SubgraphsLength():
            raise ModelError("found no graph, expected one; the file is broken or truncated")
        graph = root.Subgraphs(0)
        counts = [
            _count(count, what, content)
            for count, what in (
                (graph.TensorsLength(), "tensors"),
                (root.OperatorCodesLength(), "codes"),
                (graph.OperatorsLength(), "operators"),
            )
        ]
    types = _names_of(schema().TensorType)
    tensors = [_tensor(graph, index, root, types, content) for index in range(counts[0])]
    codes = [_code(root, index) for index in range(counts[1])]
    operators = [_operator(graph, index, codes, len(tensors)) for index in range(counts[2])]
    with inside("inputs and outputs"):
        inputs, outputs = (
            [(tensors[index].name, index) for index in _indices(found, len(tensors), what)]
            for found, what in ((graph.InputsAsNumpy(), "input"), (graph.OutputsAsNumpy(), "output"))
        )
        inputs, outputs = _signature(root, inputs, outputs)
    if not outputs:
        raise ModelError("found no outputs, expected one; the file is broken or truncated")
    with inside("metadata"):
        return LiteRtModel(tensors, operators, inputs, outputs, _metadata(root))


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


def _tensor(graph: Any, index: int, root: Any, types: Mapping[int, str], content: bytes) -> LiteRtTensor:
    with inside(f"tensor {index}"):
        found = graph.Tensors(index)
        name = _text(found.Name(), f"tensor{index}")
    with inside(f"tensor '{name}'"):
        return _named_tensor(found, name, root, types, content)


def _named_tensor(found: Any, name: str, root: Any, types: Mapping[int, str], content: bytes) -> LiteRtTensor:
    type_name = types.get(found.Type(), str(found.Type()))
    if type_name == "RESOURCE":
        raise ModelError(
            f"tensor '{name}': found a variable, which keeps its value from run to run, expected a model without "
            "state; convert the model with its state as inputs and outputs"
        )
    if type_name not in DTYPES:
        raise ModelError(f"tensor '{name}': found type {type_name}, expected one of: {', '.join(DTYPES)}")
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


def _stored_bytes(type_name: str, shape: tuple[int, ...]) -> int:
    per_byte = PACKED.get(type_name, 0)
    return -(-prod(shape) // per_byte) if per_byte else prod(shape) * DTYPES[type_name].itemsize


def _elements(stored: Array, name: str, type_name: str, shape: tuple[int, ...]) -> Array:
    """Stored bytes as elements of a type."""
    dtype, elements, per_byte = DTYPES[type_name], prod(shape), PACKED.get(type_name, 0)
    expected = _stored_bytes(type_name, shape)
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
