"""Run exported .tflite files with LiteRT."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zeropoint.errors import json_object, port_order
from zeropoint.export.errors import ExportError
from zeropoint.export.litert.builder import METADATA
from zeropoint.export.ports import check_ports
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.litert_schema import schema
from zeropoint.numerics.affine import QuantizeBehaviour, dequantize, quantize


class LiteRTFile:
    """A file with named inputs and outputs that takes and returns arrays in the layout of the original model.

    The file's metadata records how the exporter moved dimensions. Quantized inputs and outputs are converted from and
    to real numbers. A file that the exporter did not write takes inputs of other shapes, too, as `--shape` gives them;
    without a signature, its ports have the names of tensors.
    """

    def __init__(self, path: Path, *, reference: bool = False):
        """Load a file. `reference` selects LiteRT's reference kernels instead of XNNPACK and the optimized ones.

        Raises ExportError for a file that LiteRT rejects, and if LiteRT is not installed.
        """
        self._path, self._content, self._is_reference = path, path.read_bytes(), reference
        self._shapes: dict[str, tuple[int, ...]] = {}
        """Shapes of inputs that replace those in the file."""
        self._interpreter: Any = self._loaded()
        try:
            signature = _signature(self._content)
            if signature is None:
                inputs, outputs = self._interpreter.get_input_details(), self._interpreter.get_output_details()
                ports = [{detail["name"]: detail for detail in details} for details in (inputs, outputs)]
            else:
                runner = self._interpreter.get_signature_runner(signature)
                ports = [runner.get_input_details(), runner.get_output_details()]
        except (RuntimeError, TypeError, ValueError) as error:
            found = "found a signature of tensors that the file does not have"
            raise ExportError(f"{path}: {found}, expected indices of its tensors; convert the model again") from error
        self._inputs: Mapping[str, Any] = ports[0]
        self._outputs: Mapping[str, Any] = ports[1]
        self._metadata = _metadata(self._content)

    def _loaded(self) -> Any:
        """An interpreter of the file for inputs of `_shapes`.

        It is not ready to run if the sizes that stand in the file for open ones do not fit.
        """
        module = _runtime()
        resolver = module.OpResolverType.BUILTIN_REF if self._is_reference else module.OpResolverType.AUTO
        try:
            made = module.Interpreter(
                model_content=self._content, experimental_op_resolver_type=resolver, num_threads=1
            )
            is_open = any((detail["shape_signature"] < 0).any() for detail in made.get_input_details())
            for name, shape in self._shapes.items():
                made.resize_tensor_input(self._inputs[name]["index"], shape)
            self._is_ready = _allocated(made, is_open and not self._shapes)
        except (RuntimeError, ValueError) as error:
            raise ExportError(f"{self._path}: {_refusal(str(error), reference=self._is_reference)}") from error
        return made

    def _resize(self, values: Mapping[str, Array]) -> None:
        """Load the file for inputs of these shapes, if it has others. A file of the exporter has the program's."""
        shapes = {name: value.shape for name, value in values.items()}
        given = {name: self._shapes.get(name, tuple(self._inputs[name]["shape"])) for name in shapes}
        if self._metadata or (shapes == given and self._is_ready):
            return
        self._shapes = shapes
        self._interpreter = self._loaded()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(self._inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return tuple(self._outputs)

    def __call__(self, inputs: Mapping[str, Array], *, observe: object = None) -> dict[str, Array]:
        """The outputs for one sample, by name. `observe` is ignored, because a runtime does not show inner values."""
        values: dict[str, Array] = {}
        for name in self._inputs:
            if name not in inputs:
                raise ExportError(f"found no array for input '{name}', expected arrays for {', '.join(self._inputs)}")
            values[name] = inputs[name].transpose(port_order(self._metadata, "inputs", name, inputs[name].ndim))
        self._resize(values)
        for name, detail in self._inputs.items():
            shape = self._shapes.get(name, tuple(map(int, detail["shape"])))
            if values[name].shape != shape:
                raise ExportError(
                    f"{self._path}: found shape {list(values[name].shape)} for input '{name}', expected "
                    f"{list(shape)}; its metadata may be broken, export it again"
                )
            self._interpreter.set_tensor(detail["index"], _stored(values[name], detail))
        try:
            self._interpreter.invoke()
        except RuntimeError as error:
            raise ExportError(f"{self._path}: LiteRT failed on this sample: {' '.join(str(error).split())}") from error
        found: dict[str, Array] = {}
        for name, detail in self._outputs.items():
            value = _real(self._computed(name, detail["index"]), detail)
            found[name] = value.transpose(np.argsort(port_order(self._metadata, "outputs", name, value.ndim)))
        return found

    def _computed(self, name: str, index: int) -> Array:
        try:
            return self._interpreter.get_tensor(index)
        except ValueError as error:  # LiteRT frees the memory of tensors that the graph does not return
            raise ExportError(
                f"{self._path}: found the output '{name}' in the file's signature, which its graph does not return, "
                "expected one that it returns; the file is broken, export it again"
            ) from error


@dataclass(frozen=True)
class LiteRTEngine:
    """An engine that runs a program from its exported file with LiteRT."""

    path: Path
    reference: bool = False

    def prepare(self, program: Program) -> LiteRTFile:
        """The file, ready to run. Raises ExportError if its input or output names differ from the program's."""
        file = LiteRTFile(self.path, reference=self.reference)
        check_ports(self.path, file, program)
        return file


def _allocated(interpreter: Any, may_fail: bool) -> bool:
    """Whether LiteRT prepared the file to run. Raises RuntimeError if it did not, unless that `may_fail`."""
    try:
        interpreter.allocate_tensors()
    except RuntimeError:
        if not may_fail:
            raise
        return False
    return True


def _refusal(said: str, *, reference: bool) -> str:
    """One line for what LiteRT says about a file that it does not load, with the fix if it lacks an operator."""
    missing = re.search(r"Didn't find op for builtin opcode '(\w+)' version '(\d+)'", said)
    if missing is None:
        return f"found a file that LiteRT refuses: {' '.join(said.split())}"
    name, version = missing.groups()
    if reference:
        return (
            f"found {name}, expected operators that LiteRT's reference kernels have; run the file with the default ones"
        )
    return f"found {name} of version {version}, expected operators of the installed ai-edge-litert; update the package"


def _runtime() -> Any:
    try:
        return importlib.import_module("ai_edge_litert.interpreter")
    except ImportError as error:
        raise ExportError(
            "found no package 'ai-edge-litert', expected it to run .tflite files; pip install 'zeropoint[litert]'"
        ) from error


def _signature(content: bytes) -> str | None:
    """The key of the first signature of the main graph, as the import reads it; None if the file has none."""
    model = schema().Model.GetRootAs(content, 0)
    for index in range(model.SignatureDefsLength()):
        found = model.SignatureDefs(index)
        if found.SubgraphIndex() == 0:
            return (found.SignatureKey() or b"").decode("utf-8", "replace")
    return None


def _metadata(content: bytes) -> Mapping[str, Any]:
    """The metadata that zeropoint's exporter wrote; empty for other files."""
    model = schema().Model.GetRootAs(content, 0)
    for index in range(model.MetadataLength()):
        entry = model.Metadata(index)
        if entry.Name() == METADATA.encode():
            data = model.Buffers(entry.Buffer()).DataAsNumpy()
            return json_object(bytes(data))
    return {}


def _stored(value: Array, detail: Mapping[str, Any]) -> Array:
    scale, point = detail["quantization"]
    dtype = np.dtype(detail["dtype"])
    if dtype.kind == "f" or not scale or value.dtype == dtype:
        return value.astype(dtype, order="C")
    limits = np.iinfo(dtype)
    before = QuantizeBehaviour.RNE_BEFORE_ZERO_POINT
    return quantize(value, scale, point, limits.min, limits.max, behaviour=before, dtype=dtype)


def _real(value: Array, detail: Mapping[str, Any]) -> Array:
    scale, point = detail["quantization"]
    if value.dtype.kind == "f" or not scale:
        return value
    return dequantize(value, scale, point)
