"""Builder for an ONNX model: nodes, constants, names and the opset they require.

Source: the ONNX IR specification (`onnx.proto`), "External Tensor Data" for constants in a separate file, and
`TensorAnnotation` for parameters of tensors that no cast has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    ModelProto,
    NodeProto,
    StringStringEntryProto,
    TensorAnnotation,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from zeropoint.errors import json_object
from zeropoint.ir.tensors import Array
from zeropoint.ir.value_names import Names

STORED = "_quantized"
"""The end of the names of tensors of integers."""
MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's own operators."""
LEAST_OPSET = 13
"""The first opset with per-channel scales."""
METADATA = "zeropoint"
"""The metadata key under which target and profile are stored, as JSON."""
EXTERNAL_ABOVE = 1_900_000_000
"""The maximum number of bytes of constants in one file. protobuf's limit is 2 GiB."""
EXTERNAL_LEAST = 1024
"""The minimum size in bytes of a constant in the external file."""
SCALE, ZERO_POINT = "SCALE_TENSOR", "ZERO_POINT_TENSOR"
"""The keys of a quantization annotation."""
PAGE = 4096
"""Alignment of constants in bytes, so that they can be memory-mapped."""

Attributes = Mapping[str, "int | float | str | Sequence[int] | Sequence[float]"]


def element_type(dtype: np.dtype[np.generic]) -> int:
    """The ONNX element type of a NumPy dtype."""
    return helper.np_dtype_to_tensor_dtype(dtype)


@dataclass
class GraphBuilder:
    """A graph under construction. Tensors are identified by name. Equal constants share one tensor."""

    nodes: list[NodeProto] = field(default_factory=list[NodeProto])
    constants: dict[str, TensorProto] = field(default_factory=dict[str, TensorProto])
    inputs: list[ValueInfoProto] = field(default_factory=list[ValueInfoProto])
    outputs: list[ValueInfoProto] = field(default_factory=list[ValueInfoProto])
    opset: int = LEAST_OPSET
    domains: set[str] = field(default_factory=set[str])
    taken: Names = field(default_factory=Names)
    shared: dict[tuple[str, tuple[int, ...], bytes], str] = field(
        default_factory=dict[tuple[str, tuple[int, ...], bytes], str]
    )
    renamed: dict[str, str] = field(default_factory=dict[str, str])
    annotations: list[TensorAnnotation] = field(default_factory=list[TensorAnnotation])
    promised: set[str] = field(default_factory=set[str])
    """The names of outputs that are not written yet, which tensors inside the graph cannot have."""
    reserved: set[str] = field(default_factory=set[str])
    """The names that results of the op under construction will have."""
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    """The last number that `result` gave to each name, so that many nodes of one name take no longer each."""

    def unique(self, name: str) -> str:
        """A name that no other tensor or node has: with the first free number, which is the same after an import."""
        return self.taken.free(name)

    def stored(self, name: str) -> str:
        """A name for the integers of a tensor: that of the tensor with `_quantized`, which no other one has.

        The importer gives the tensor the name before `_quantized`, and a second export gets the same names from it.
        """
        stem, count = name, 0
        while f"{stem}{STORED}" in self.taken:
            count += 1
            stem = f"{name}_{count}"
        return self.unique(f"{stem}{STORED}")

    def result(self, name: str) -> str:
        """A name for what a node computes. The node, its tensor and the integers of the tensor have the same number.

        The importer reads one of the three, and a second export gets the same names from it. The tensor of a node with
        the name of an output has another name.
        """
        if name in self.reserved:
            self.reserved.discard(name)
            return name
        stem, count = name, self.numbers.get(name, 0)
        while self._is_taken(stem):
            count += 1
            stem = f"{name}_{count}"
        self.numbers[name] = count
        return self.taken.keep(stem)

    def reserve(self, name: str) -> str:
        """A name that `result` gives out next, so that constants can be named after a node before it exists."""
        stem = self.result(name)
        self.reserved.add(stem)
        return stem

    def release(self) -> None:
        """Give up the reserved names that no node has got."""
        for name in self.reserved - self.promised:
            self.taken.give_back(name)
        self.reserved.clear()

    def _is_taken(self, stem: str) -> bool:
        tensor = stem in self.taken and stem not in self.promised
        return tensor or stem in self.reserved or f"node:{stem}" in self.taken or f"{stem}{STORED}" in self.taken

    def needs(self, opset: int) -> None:
        """Require at least this opset."""
        self.opset = max(self.opset, opset)

    def constant(self, name: str, array: Array, *, shared: bool = True) -> str:
        """Add a constant. With `shared`, one with equal elements, shape and type is reused."""
        array = np.asarray(array, order="C")
        key = (array.dtype.name, array.shape, array.tobytes())
        if not shared or key not in self.shared:
            made = self.unique(name)
            self.constants[made] = numpy_helper.from_array(array, made)
            if not shared:
                return made
            self.shared[key] = made
        return self.shared[key]

    def node(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        name: str,
        attributes: Attributes | None = None,
        domain: str = "",
    ) -> None:
        """Add a node. An empty name means an omitted input."""
        # An output dequantizes a tensor that may be another output, and then has its name already.
        read = [self.renamed.get(tensor, tensor) for tensor in inputs]
        # A node may have the name of a tensor. The prefix separates the two in `taken`.
        made = helper.make_node(op, read, list(outputs), self.unique(f"node:{name}")[5:], domain=domain)
        for key, value in (attributes or {}).items():
            made.attribute.append(_attribute(key, value))
        if domain:
            self.domains.add(domain)
        self.nodes.append(made)

    def annotate(self, name: str, scale: str, zero_point: str) -> None:
        """State the parameters of a float tensor, for readers of the file; runtimes do not read them."""
        parts = {SCALE: scale, ZERO_POINT: zero_point}
        entries = [StringStringEntryProto(key=key, value=value) for key, value in parts.items()]
        self.annotations.append(TensorAnnotation(tensor_name=name, quant_parameter_tensor_names=entries))

    def input(self, name: str, shape: Sequence[int], dtype: np.dtype[np.generic]) -> str:
        """Add an input with a unique name."""
        self.taken.keep(name)
        self.inputs.append(helper.make_tensor_value_info(name, element_type(dtype), list(shape)))
        return name

    def output(self, name: str, tensor: str, shape: Sequence[int], dtype: np.dtype[np.generic]) -> None:
        """Return a tensor as an output of the given name. An `Identity` is added if the tensor has to keep its name."""
        tensor = self.renamed.get(tensor, tensor)
        kept = {value.name for value in (*self.inputs, *self.outputs)} | self.constants.keys()
        if tensor in kept and tensor == name:
            pass  # an input that is returned
        elif tensor in kept:
            self.node("Identity", [tensor], [name], name)
        elif tensor != name:
            self.renamed[tensor] = name
            for node in self.nodes:
                for names in (node.input, node.output):
                    for index, found in enumerate(names):
                        if found == tensor:
                            names[index] = name
        self.outputs.append(helper.make_tensor_value_info(name, element_type(dtype), list(shape)))

    def finish(self, name: str, metadata: Mapping[str, object]) -> ModelProto:
        """The model, with the lowest opset and IR version that can represent it."""
        used = [name for node in self.nodes for name in node.input]
        used += [entry.value for each in self.annotations for entry in each.quant_parameter_tensor_names]
        # Constants that no node reads are not written.
        constants = [self.constants[name] for name in dict.fromkeys(used) if name in self.constants]
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, constants)
        graph.quantization_annotation.extend(self.annotations)
        opsets = [helper.make_opsetid("", self.opset)]
        opsets += [helper.make_opsetid(domain, 1) for domain in sorted(self.domains)]
        # The lowest version, because older runtimes reject files with a newer one.
        version = helper.find_min_ir_version_for(opsets, ignore_unknown=True)
        model = helper.make_model(graph, opset_imports=opsets, ir_version=version, producer_name="zeropoint")
        helper.set_model_props(model, {METADATA: json.dumps(metadata, sort_keys=True)})
        return model


def _attribute(key: str, value: int | float | str | Sequence[int] | Sequence[float]) -> AttributeProto:
    if isinstance(value, Sequence) and not isinstance(value, str) and not value:
        # onnx cannot infer the type of an empty list.
        return helper.make_attribute(key, [], attr_type=AttributeProto.INTS)
    return helper.make_attribute(key, value)


def file_metadata(path: Path) -> Mapping[str, Any]:
    """The metadata that zeropoint's exporter wrote into a file; empty for other files."""
    model = ModelProto.FromString(path.read_bytes())
    return next((json_object(entry.value) for entry in model.metadata_props if entry.key == METADATA), dict[str, Any]())


def files_of(model: ModelProto, name: str, limit: int | None = None) -> dict[str, bytes]:
    """The model as bytes by file name. Constants go to `NAME.data` if they exceed `limit` bytes.

    The model is the last entry, so that it is written after its data.
    """
    limit = EXTERNAL_ABOVE if limit is None else limit
    constants = model.graph.initializer
    if sum(len(tensor.raw_data) for tensor in constants) <= limit:
        return {name: model.SerializeToString()}
    file = f"{name}.data"
    data = bytearray()
    for tensor in constants:
        content = tensor.raw_data
        if len(content) < EXTERNAL_LEAST:
            continue
        data += bytes(-len(data) % PAGE)
        entries = {"location": file, "offset": str(len(data)), "length": str(len(content))}
        data += content
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, text in entries.items():
            entry = tensor.external_data.add()
            entry.key, entry.value = key, text
    return {file: bytes(data), name: model.SerializeToString()}
