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
    to real numbers.
    """

    def __init__(self, path: Path, *, reference: bool = False):
        """Load a file. `reference` selects LiteRT's reference kernels instead of XNNPACK and the optimized ones.

        Raises ExportError for a file that LiteRT rejects or that has no signature, and if LiteRT is not installed.
        """
        module = _runtime()
        kinds = module.OpResolverType
        resolver = kinds.BUILTIN_REF if reference else kinds.AUTO
        content = path.read_bytes()
        try:
            self._interpreter: Any = module.Interpreter(
                model_content=content, experimental_op_resolver_type=resolver, num_threads=1
            )
            self._interpreter.allocate_tensors()
            signatures = self._interpreter.get_signature_list()
        except (RuntimeError, ValueError) as error:
            raise ExportError(f"{path}: {_refusal(str(error), reference=reference)}") from error
        if not signatures:
            raise ExportError(f"{path}: found no signature, expected one that names inputs and outputs")
        try:
            runner = self._interpreter.get_signature_runner(next(iter(signatures)))
            self._inputs: Mapping[str, Any] = runner.get_input_details()
            self._outputs: Mapping[str, Any] = runner.get_output_details()
        except (RuntimeError, TypeError, ValueError) as error:
            found = "found a signature of tensors that the file does not have"
            raise ExportError(f"{path}: {found}, expected indices of its tensors; convert the model again") from error
        self._path, self._metadata = path, _metadata(content)

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
        for name, detail in self._inputs.items():
            if name not in inputs:
                raise ExportError(f"found no array for input '{name}', expected arrays for {', '.join(self._inputs)}")
            value = inputs[name].transpose(port_order(self._metadata, "inputs", name, inputs[name].ndim))
            if value.shape != tuple(detail["shape"]):
                raise ExportError(
                    f"{self._path}: found shape {list(value.shape)} for input '{name}', expected "
                    f"{list(map(int, detail['shape']))}; its metadata may be broken, export it again"
                )
            self._interpreter.set_tensor(detail["index"], _stored(value, detail))
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
