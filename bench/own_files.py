"""The files that the runtimes' own quantizers make of a float model, from the same calibration samples as ours.

onnxruntime's static quantization, NNCF for OpenVINO, and ai-edge-quantizer for LiteRT. The last one reads a float
.tflite file, which zeropoint writes of the model: every kernel in float.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import onnx

import ort_static
import zeropoint as zp
from suite import Feed

Shapes = Mapping[str, tuple[int, ...]]


def fixed(model: Path, shapes: Shapes, folder: Path) -> Path:
    """The model with these shapes of its inputs, which the quantizers need."""
    proto = onnx.load(model)
    for value in proto.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False):
            dim.dim_value = size
    onnx.save(proto, folder / "fixed.onnx")
    return folder / "fixed.onnx"


def for_onnxruntime(model: Path, shapes: Shapes, feeds: list[Feed], path: Path) -> None:
    """onnxruntime's static quantization."""
    source = ort_static.readable(fixed(model, shapes, path.parent), path.parent)
    ort_static.quantize_feeds(source, feeds, path)


def for_openvino(model: Path, shapes: Shapes, feeds: list[Feed], path: Path) -> None:
    """NNCF's default quantization."""
    import nncf
    import openvino

    made = nncf.quantize(
        openvino.convert_model(fixed(model, shapes, path.parent)), nncf.Dataset(feeds), subset_size=len(feeds)
    )
    openvino.save_model(made, path, compress_to_fp16=False)


def for_litert(model: Path, shapes: Shapes, feeds: list[Feed], path: Path) -> None:
    """ai-edge-quantizer's static quantization of our float .tflite file."""
    import litert_static

    floats = path.with_suffix(".f32.tflite")
    everything: list[dict[str, object]] = [{"regex": ".*", "quantize": False}]
    zp.quantize(model, None, target="litert", shapes=dict(shapes), recipe=everything).export(floats)
    litert_static.quantize_feeds(floats, feeds, path)


MAKERS: Mapping[str, Callable[[Path, Shapes, list[Feed], Path], None]] = {
    "onnxruntime-u8": for_onnxruntime,
    "openvino-int8": for_openvino,
    "litert-int8": for_litert,
}
"""By the engine that runs the file."""
