"""A graph of a .tflite file in memory: its tensors and operators.

Source: the LiteRT schema (`schema.fbs`), version 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, cast

import ml_dtypes
import numpy as np
from xdsl.utils.exceptions import VerifyException

from zeropoint.frontend.errors import ModelError
from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.ir.tensors import Array

NUMBERED = "numbered"
"""The key of the metadata with the names of tensors to which the exporter added a number."""
RESOURCE = "RESOURCE"
"""The type of a tensor that stands for a variable, which keeps its value from run to run."""

DTYPES: Mapping[str, np.dtype[np.generic]] = {
    "BOOL": np.dtype(np.bool_),
    "COMPLEX64": np.dtype(np.complex64),
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


def stored_bytes(type_name: str, shape: tuple[int, ...]) -> int:
    """How many bytes the elements of a tensor take in a file."""
    per_byte = PACKED.get(type_name, 0)
    return -(-prod(shape) // per_byte) if per_byte else prod(shape) * DTYPES[type_name].itemsize


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
        return stored_bytes(self.type_name, self.shape)

    @property
    def is_quantized(self) -> bool:
        """Whether the elements are integers that represent real values."""
        return bool(self.scales.size) and self.dtype.kind != "f"

    @property
    def storage(self) -> str:
        """How the elements are stored, for messages: `INT8 (scale 0.05, zero point 3)`."""
        pairs = zip(self.scales.tolist(), self.zero_points.tolist(), strict=True)
        stated = [f"scale {scale:g}, zero point {point}" for scale, point in pairs]
        more = ", ..." if len(stated) > 1 else ""
        return f"{self.type_name} ({stated[0]}{more})" if stated else self.type_name

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

    A custom operator has its own name, and the bytes of its options in `custom`. A WHILE has its condition and its body
    in `graphs`, with the tensors of the main graph.
    """

    name: str
    index: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Any = None
    custom: bytes = b""
    graphs: tuple[LiteRtGraph, ...] = ()


@dataclass(frozen=True)
class LiteRtGraph:
    """Tensors, operators in order, and the names and tensor indices of inputs and outputs.

    `variables` has the inputs that are values of variables, and the outputs that are their next values.
    """

    tensors: Sequence[LiteRtTensor]
    operators: Sequence[Operator]
    inputs: Ports
    outputs: Ports
    variables: Mapping[str, str] = field(default_factory=dict[str, str], kw_only=True)

    def every_operator(self) -> Iterator[Operator]:
        """The operators, also those of loops."""
        for operator in self.operators:
            yield operator
            for graph in operator.graphs:
                yield from graph.every_operator()


@dataclass(frozen=True)
class LiteRtModel(LiteRtGraph):
    """The main graph of a file. `metadata` is the text that zeropoint's exporter wrote; empty in other files."""

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
        for operator in self.every_operator() if self.tensors[index].data is None else ():
            if operator.name == "DEQUANTIZE" and operator.outputs[:1] == (index,) and operator.inputs[:1] > (-1,):
                found = self.tensors[operator.inputs[0]]
                return self.tensors[index] if found.data is None else found
        return self.tensors[index]
