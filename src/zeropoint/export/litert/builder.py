"""Builder for a .tflite model: tensors, buffers, operators, the signature.

Source: the LiteRT schema (`schema.fbs`), version 3.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zeropoint.export.errors import ExportError
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.tensors import Array
from zeropoint.ir.value_names import Names
from zeropoint.litert_schema import flatbuffers, schema

IDENTIFIER = b"TFL3"
VERSION = 3
METADATA = "zeropoint"
"""The name of the metadata buffer. It holds target, profile and moved dimensions as JSON."""
NUMBERED = "numbered"
"""The key of the metadata with the names of tensors that end in a number which `finish` added (`x_1`)."""
LEGACY_CODES = 127
"""The largest operator number in the deprecated one-byte field, which older runtimes read."""

TYPES = {
    "bool": "BOOL",
    "float16": "FLOAT16",
    "float32": "FLOAT32",
    "float64": "FLOAT64",
    "int8": "INT8",
    "int4": "INT4",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
}
"""The schema's type names by NumPy dtype name."""
NIBBLE, WORD = 4, 16
RESHAPE = "RESHAPE"
CASTS = frozenset({"DEQUANTIZE", "QUANTIZE"})

OperatorOptions = tuple[str, Mapping[str, Any]]
"""The name of an options table of the schema, and the fields that differ from their defaults."""


@dataclass
class ModelBuilder:
    """A model under construction. Tensors are identified by index. Equal constants share a buffer.

    Tensors get unique names in `finish`: numbers in the order of the file, and none for tensors that are not written.
    The metadata lists names with a number, so that an importer has the names from before. A second export of what it
    reads has the same ones.
    """

    tensors: list[Any] = field(default_factory=list[Any])
    operators: list[Any] = field(default_factory=list[Any])
    codes: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    buffers: list[Any] = field(default_factory=lambda: [schema().BufferT()])
    shared: dict[bytes, int] = field(default_factory=dict[bytes, int])
    roles: dict[int, str] = field(default_factory=dict[int, str])
    """The roles of constants whose operator is not added yet (`part`)."""
    parts: dict[int, tuple[int, str]] = field(default_factory=dict[int, tuple[int, str]])
    """The result of the operator of such a constant, and the role."""
    origins: dict[int, int] = field(default_factory=dict[int, int])
    """The operand of the RESHAPE that makes a tensor."""

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str,
        quantized: UniformQuantizedType | None = None,
    ) -> int:
        """Add a tensor with the parameters of its quantized type.

        Raises ExportError for a zero point of 16-bit values, which LiteRT refuses (`kernels/quantize.cc`).
        """
        if quantized is not None and quantized.storage.type.width == WORD and quantized.zero_points.any():
            raise ExportError(
                f"{name}: found 16-bit values with zero point {quantized.zero_points[0]}, expected 0, the only one "
                "that LiteRT's 16-bit kernels have; quantize the float model for --target litert-16x8, or export to "
                ".onnx"
            )
        made = schema().TensorT()
        # By the schema's convention, buffer 0 is empty and means a computed tensor.
        made.name, made.shape, made.buffer = name.encode(), list(shape), 0
        made.type = getattr(schema().TensorType, TYPES[dtype])
        # An empty shape means a scalar only with this flag; otherwise the rank is unknown.
        made.hasRank = True
        if quantized is not None:
            made.quantization = schema().QuantizationParametersT()
            made.quantization.scale = quantized.scales.astype(np.float32)
            made.quantization.zeroPoint = quantized.zero_points
            made.quantization.quantizedDimension = quantized.axis or 0
        self.tensors.append(made)
        return len(self.tensors) - 1

    def constant(self, name: str, array: Array, quantized: UniformQuantizedType | None = None) -> int:
        """Add a tensor whose elements are stored in the file."""
        narrow = quantized is not None and quantized.storage.type.width == NIBBLE
        index = self.tensor(name, array.shape, "int4" if narrow else array.dtype.name, quantized)
        stored = _in_pairs(array) if narrow else np.ascontiguousarray(array)
        self.tensors[index].buffer = self._buffer(stored.tobytes())
        return index

    def part(self, role: str, array: Array, quantized: UniformQuantizedType | None = None) -> int:
        """Add a constant of one operator, such as its bias. Its name follows the operator's result: `conv1/bias`."""
        index = self.constant(role, array, quantized)
        self.roles[index] = role
        return index

    def operator(
        self,
        op: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: OperatorOptions | None = None,
        version: int = 1,
    ) -> None:
        """Add an operator. The input -1 means an omitted one.

        A RESHAPE of a RESHAPE reads the operand of the first. LiteRT 2.3.0 lets an operator after several of them, such
        as SOFTMAX, overwrite a value between them that is read later. One that keeps the shape is left out, unless it
        makes an output.
        """
        made = schema().OperatorT()
        if op == RESHAPE:
            origin = self.origins.get(inputs[0], inputs[0])
            self.origins[outputs[0]] = origin
            inputs = [origin, *inputs[1:]]
        made.opcodeIndex = self.codes.setdefault((op, version), len(self.codes))
        made.inputs, made.outputs = list(inputs), list(outputs)
        for index in inputs:
            if (role := self.roles.pop(index, None)) is not None:
                self.parts[index] = (outputs[0], role)
        if options is not None:
            kind, fields = options
            made.builtinOptionsType = getattr(schema().BuiltinOptions, kind)
            made.builtinOptions = getattr(schema(), f"{kind}T")()
            for name, value in fields.items():
                setattr(made.builtinOptions, name, value)
        self.operators.append(made)

    def finish(
        self, inputs: Mapping[str, int], outputs: Mapping[str, int], description: str, metadata: Mapping[str, Any]
    ) -> bytes:
        """The file: a flatbuffer with one subgraph and the signature `serving_default`."""
        inputs, outputs, numbered = self._without_unread(inputs, outputs)
        self._renumber()
        metadata = {**metadata, NUMBERED: numbered} if numbered else metadata
        graph, model = schema().SubGraphT(), schema().ModelT()
        graph.name, graph.tensors, graph.operators = b"main", self.tensors, self.operators
        graph.inputs, graph.outputs = list(inputs.values()), list(outputs.values())
        model.version, model.description, model.subgraphs = VERSION, description.encode(), [graph]
        model.operatorCodes = [self._code(op, version) for op, version in self.codes]
        model.signatureDefs = [_signature(inputs, outputs)]
        entry = schema().MetadataT()
        entry.name, entry.buffer = METADATA.encode(), self._buffer(json.dumps(metadata, sort_keys=True).encode())
        model.metadata, model.buffers = [entry], self.buffers
        packed = flatbuffers().Builder(1 << 20)
        packed.Finish(model.Pack(packed), IDENTIFIER)
        return bytes(packed.Output())

    def _without_unread(
        self, inputs: Mapping[str, int], outputs: Mapping[str, int]
    ) -> tuple[Mapping[str, int], Mapping[str, int], list[str]]:
        """Drop each RESHAPE whose result is not read, has the shape of the operand, or is constant, and unread tensors.

        Tensors are numbered in the order of their use. Returns the ports, and the names that have a number.
        """
        reshapes = {index for index, (op, _) in enumerate(self.codes) if op == RESHAPE}
        ports = {*inputs.values(), *outputs.values()}
        read, kept, folded = set(ports), list[Any](), dict[int, int]()
        same = self._same_shapes(ports)
        self.parts = {index: (same.get(parent, parent), role) for index, (parent, role) in self.parts.items()}
        for operator in reversed(self.operators):
            is_reshape = operator.opcodeIndex in reshapes
            operator.inputs, operator.outputs = (
                [same.get(index, index) for index in each] for each in (operator.inputs, operator.outputs)
            )
            if is_reshape and operator.inputs[0] == operator.outputs[0]:
                continue
            if is_reshape and self.tensors[operator.inputs[0]].buffer and ports.isdisjoint(operator.outputs):
                # The result of a RESHAPE of a constant has the same bytes.
                self.tensors[operator.outputs[0]].buffer = self.tensors[operator.inputs[0]].buffer
                folded[operator.inputs[0]] = operator.outputs[0]
            elif not is_reshape or not read.isdisjoint(operator.outputs):
                read.update(operator.inputs, operator.outputs)
                kept.insert(0, operator)
        for constant in folded.keys() - read:
            self.tensors[folded[constant]].name = self.tensors[constant].name
            if constant in self.parts:
                self.parts[folded[constant]] = self.parts[constant]
        kept = self._casts_at_readers(kept)
        order = [*inputs.values(), *(index for op in kept for index in (*op.inputs, *op.outputs)), *outputs.values()]
        used = [index for index in dict.fromkeys(order) if index >= 0]
        numbered = self._name(used, ports)
        numbers = {old: new for new, old in enumerate(used)} | {-1: -1}
        for operator in kept:
            operator.inputs, operator.outputs = (
                [numbers[index] for index in each] for each in (operator.inputs, operator.outputs)
            )
        self.operators, self.tensors = kept, [self.tensors[old] for old in used]
        first, second = ({name: numbers[index] for name, index in ports.items()} for ports in (inputs, outputs))
        return first, second, numbered

    def _name(self, used: Sequence[int], ports: Collection[int]) -> list[str]:
        """Give tensors unique names, in the order of their use. Returns those that got a number.

        The names of inputs and outputs are the model's. Parts of an operator are named after its result.
        """
        names, numbered, finished = Names(), list[str](), set(ports)
        for index in ports:
            names.keep(self.tensors[index].name.decode())

        def name(index: int) -> str:
            tensor = self.tensors[index]
            if index not in finished:
                finished.add(index)
                parent, role = self.parts.get(index, (index, ""))
                wanted = f"{name(parent)}/{role}" if role else tensor.name.decode()
                found = names.free(wanted)
                tensor.name = found.encode()
                numbered.extend([found] if found != wanted else [])
            return tensor.name.decode()

        for index in used:
            name(index)
        return numbered

    def _casts_at_readers(self, operators: Sequence[Any]) -> list[Any]:
        """The operators, with each cast directly before the first operator that reads it.

        The cast of an operand is written when the operand is read. A kernel that rescales is written in its own place,
        but it is a cast of an operand after an import. This gives both files the same order.
        """
        numbers = {index for index, (op, _) in enumerate(self.codes) if op in CASTS}
        waiting, made = dict[int, Any](), list[Any]()

        def add(operator: Any) -> None:
            for index in operator.inputs:
                if index in waiting:
                    add(waiting.pop(index))
            made.append(operator)

        for operator in operators:
            if operator.opcodeIndex in numbers:
                waiting[operator.outputs[0]] = operator
            else:
                add(operator)
        while waiting:
            add(waiting.pop(next(iter(waiting))))
        return made

    def _same_shapes(self, ports: Collection[int]) -> Mapping[int, int]:
        """The tensors that a RESHAPE makes in the shape of its operand, and which tensor each of them is.

        An input or output of the model takes the place of what it is made of.
        """
        found: dict[int, int] = {}
        for new, old in self.origins.items():
            if self.tensors[new].shape != self.tensors[old].shape:
                continue
            if new not in ports:
                found[new] = old
            elif old not in ports and old not in found and not self.tensors[old].buffer:
                found[old] = new
        return {index: found.get(other, other) for index, other in found.items()}

    def _renumber(self) -> None:
        """Drop buffers and operator codes that nothing has, and number the others in the order of their use."""
        found: dict[int, int] = {0: 0}
        for tensor in self.tensors:
            tensor.buffer = found.setdefault(int(tensor.buffer), len(found))
        self.buffers = [self.buffers[old] for old in found]
        self.shared = {}
        names, codes = list(self.codes), dict[tuple[str, int], int]()
        for operator in self.operators:
            operator.opcodeIndex = codes.setdefault(names[int(operator.opcodeIndex)], len(codes))
        self.codes = codes

    def _code(self, op: str, version: int) -> Any:
        code = schema().OperatorCodeT()
        code.builtinCode = getattr(schema().BuiltinOperator, op)
        # For newer operators, the schema requires PLACEHOLDER_FOR_GREATER_OP_CODES in this field.
        code.deprecatedBuiltinCode = min(code.builtinCode, LEGACY_CODES)
        code.version = version
        return code

    def _buffer(self, data: bytes) -> int:
        # Equal constants share a buffer; tensors keep their own names and scales.
        if data not in self.shared:
            made = schema().BufferT()
            made.data = np.frombuffer(data, np.uint8)
            self.shared[data] = len(self.buffers)
            self.buffers.append(made)
        return self.shared[data]


def _in_pairs(array: Array) -> Array:
    """Integers of 4 bits, two in a byte, the first in the low bits."""
    numbers = np.ascontiguousarray(array, np.int8).reshape(-1).view(np.uint8) & 15
    padded = np.append(numbers, np.zeros(numbers.size % 2, np.uint8))
    return padded[0::2] | padded[1::2] << 4


def _signature(inputs: Mapping[str, int], outputs: Mapping[str, int]) -> Any:
    made = schema().SignatureDefT()
    made.signatureKey, made.subgraphIndex = b"serving_default", 0
    made.inputs, made.outputs = (
        [_tensor_map(name, index) for name, index in ports.items()] for ports in (inputs, outputs)
    )
    return made


def _tensor_map(name: str, index: int) -> Any:
    made = schema().TensorMapT()
    made.name, made.tensorIndex = name.encode(), index
    return made
