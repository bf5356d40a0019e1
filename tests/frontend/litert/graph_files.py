"""Files of several graphs, made of operators by name, and LiteRT to run them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import Builder

from zeropoint.ir.tensors import Array
from zeropoint.litert_schema import schema

litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT judges")
SHAPE = (1, 4)
QUANTIZED = (0.05, 3)


class Graph:
    """A graph of a file: tensors by name, f32 of shape [1, 4] or i8 with a scale and a zero point.

    Names that start with `b:`, `i:`, `c:` and `s:` are booleans, i32, complex numbers, and variables.
    """

    def __init__(self, file: File, name: str, inputs: Sequence[str], outputs: Sequence[str]):
        self.file, self.tables, self.names = file, schema().SubGraphT(), dict[str, int]()
        self.tables.name, self.tables.tensors, self.tables.operators = name, [], []
        self.tables.inputs = [self.tensor(each) for each in inputs]
        self.tables.outputs = [self.tensor(each) for each in outputs]
        file.tables.subgraphs.append(self.tables)

    def tensor(self, name: str, data: Array | None = None) -> int:
        if name in self.names:
            return self.names[name]
        tensor = schema().TensorT()
        types = schema().TensorType
        tensor.name, tensor.shape, tensor.buffer = name, list(SHAPE), 0
        kinds = {"s:": types.RESOURCE, "b:": types.BOOL, "q:": types.INT8, "c:": types.COMPLEX64, "i:": types.INT32}
        tensor.type = kinds.get(name[:2], types.FLOAT32)
        if name.startswith("s:"):
            tensor.shape = []
        if name.startswith("q:"):
            found = schema().QuantizationParametersT()
            found.scale, found.zeroPoint = [QUANTIZED[0]], [QUANTIZED[1]]
            tensor.quantization = found
        if data is not None:
            tensor.type = {"float32": types.FLOAT32, "int32": types.INT32, "int8": types.INT8}[data.dtype.name]
            tensor.shape, tensor.buffer = list(data.shape), self.file.buffer(data)
        self.tables.tensors.append(tensor)
        self.names[name] = len(self.names)
        return self.names[name]

    def shaped(self, name: str, shape: Sequence[int]) -> str:
        """A tensor with another shape."""
        self.tables.tensors[self.tensor(name)].shape = list(shape)
        return name

    def then(self, op: str, inputs: Sequence[str], outputs: Sequence[str], options: Any = None) -> None:
        found = schema().OperatorT()
        found.opcodeIndex, found.inputs = self.file.code(op), [self.tensor(each) for each in inputs]
        found.outputs = [self.tensor(each) for each in outputs]
        if options is not None:
            kind = type(options).__name__.removesuffix("T")
            found.builtinOptions, found.builtinOptionsType = options, getattr(schema().BuiltinOptions, kind)
        self.tables.operators.append(found)


class File:
    def __init__(self) -> None:
        self.tables = schema().ModelT()
        self.tables.version, self.tables.subgraphs, self.tables.operatorCodes = 3, [], []
        self.tables.buffers = [schema().BufferT()]
        self.codes: dict[str, int] = {}

    def buffer(self, data: Array) -> int:
        found = schema().BufferT()
        found.data = np.frombuffer(data.tobytes(), np.uint8)
        self.tables.buffers.append(found)
        return len(self.tables.buffers) - 1

    def code(self, op: str) -> int:
        if op not in self.codes:
            found = schema().OperatorCodeT()
            number = getattr(schema().BuiltinOperator, op)
            found.builtinCode, found.deprecatedBuiltinCode, found.version = number, min(number, 127), 1
            self.tables.operatorCodes.append(found)
            self.codes[op] = len(self.codes)
        return self.codes[op]

    def write(self, path: Path) -> Path:
        builder = Builder()
        builder.Finish(self.tables.Pack(builder), b"TFL3")
        path.write_bytes(bytes(builder.Output()))
        return path


def options(kind: str, **fields: Any) -> Any:
    made = getattr(schema(), f"{kind}OptionsT")()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def runtime(path: Path) -> Any:
    found = litert.Interpreter(
        str(path), experimental_op_resolver_type=litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )
    found.allocate_tensors()
    return found


def run(found: Any, values: Sequence[Array]) -> list[Array]:
    for detail, value in zip(found.get_input_details(), values, strict=True):
        found.set_tensor(detail["index"], value)
    found.invoke()
    return [found.get_tensor(detail["index"]) for detail in found.get_output_details()]
