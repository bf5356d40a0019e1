"""LiteRT's reference kernels as an oracle: a model of one op is written with its schema and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flatbuffers", reason="flatbuffers writes the one-op models")
schema: Any = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="ai-edge-litert (LiteRT) is the oracle")

TYPES = {
    "bool": "BOOL",
    "float32": "FLOAT32",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "uint8": "UINT8",
}


class Refused(Exception):
    """LiteRT did not take a model: it has no such kernel, or the kernel's checks failed. The text is LiteRT's."""


@dataclass(frozen=True)
class Port:
    """A tensor of the model: its shape and dtype, its parameters, its value where it is constant."""

    shape: tuple[int, ...]
    dtype: str
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    value: np.ndarray | None = None
    axis: int = 0

    def pack(self, index: int, buffers: list[Any]) -> Any:
        tensor = schema.TensorT()
        tensor.shape, tensor.type = list(self.shape), getattr(schema.TensorType, TYPES[self.dtype])
        tensor.name, tensor.buffer = f"t{index}".encode(), 0
        if self.scales:
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale, tensor.quantization.zeroPoint = list(self.scales), list(self.zero_points)
            tensor.quantization.quantizedDimension = self.axis
        if self.value is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.asarray(self.value, self.dtype).tobytes(), dtype=np.uint8)
            tensor.buffer = len(buffers)
            buffers.append(buffer)
        return tensor


Options = tuple[str, Mapping[str, Any]]
"""The name of an options table of the schema, and its fields; those that are not given have their defaults."""


def model(op: str, options: Options | None, inputs: Sequence[Port], outputs: Sequence[Port], version: int) -> bytes:
    """A flatbuffer of one op."""
    import flatbuffers

    buffers = [schema.BufferT()]
    graph, code, operator, made = schema.SubGraphT(), schema.OperatorCodeT(), schema.OperatorT(), schema.ModelT()
    graph.tensors = [port.pack(i, buffers) for i, port in enumerate([*inputs, *outputs])]
    graph.inputs = [i for i, port in enumerate(inputs) if port.value is None]
    graph.outputs = list(range(len(inputs), len(inputs) + len(outputs)))
    code.builtinCode = getattr(schema.BuiltinOperator, op)
    code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    code.version = version
    operator.inputs, operator.outputs, operator.opcodeIndex = list(range(len(inputs))), graph.outputs, 0
    if options is not None:
        name, fields = options
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, name)
        operator.builtinOptions = getattr(schema, f"{name}T")()
        for field, value in fields.items():
            assert hasattr(operator.builtinOptions, field), f"{name} has no {field}"
            setattr(operator.builtinOptions, field, value)
    graph.operators, made.version, made.operatorCodes = [operator], 3, [code]
    made.subgraphs, made.buffers = [graph], buffers
    builder = flatbuffers.Builder(1024)
    builder.Finish(made.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def evaluate(content: bytes, *values: np.ndarray, reference: bool = True) -> list[np.ndarray]:
    """What the reference kernels, or the other built-in ones, compute of a model. Raises `Refused` where they don't."""
    from ai_edge_litert.interpreter import OpResolverType

    return _run(
        content, values, OpResolverType.BUILTIN_REF if reference else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )


def evaluate_by_default(content: bytes, *values: np.ndarray) -> list[np.ndarray]:
    """What LiteRT computes where nothing is chosen: with XNNPACK. Raises `Refused` where it does not."""
    from ai_edge_litert.interpreter import OpResolverType

    return _run(content, values, OpResolverType.AUTO)


def _run(content: bytes, values: Sequence[np.ndarray], resolver: Any) -> list[np.ndarray]:
    from ai_edge_litert.interpreter import Interpreter

    try:
        interpreter = Interpreter(model_content=content, experimental_op_resolver_type=resolver, num_threads=1)
        interpreter.allocate_tensors()
        for detail, value in zip(interpreter.get_input_details(), values, strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
    except (RuntimeError, ValueError) as error:
        raise Refused(str(error)) from error
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def run(op: str, options: Options | None, inputs: list[Port], output: Port, *values: np.ndarray) -> np.ndarray:
    """The output of a model of one op with one result."""
    version = 4 if op in ("FULLY_CONNECTED", "MUL", "SUB") else 2
    return evaluate(model(op, options, inputs, [output], version), *values)[0]


def operators(content: bytes) -> list[str]:
    """The names of the operators of a model, in their order."""
    found = schema.Model.GetRootAs(content)
    graph = found.Subgraphs(0)
    names = {code: name for name, code in vars(schema.BuiltinOperator).items() if isinstance(code, int)}
    codes = [found.OperatorCodes(graph.Operators(index).OpcodeIndex()) for index in range(graph.OperatorsLength())]
    return [names[code.BuiltinCode()] for code in codes]
