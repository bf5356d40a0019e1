"""The networks and the chains of one kernel that latency.py measures: samples, and each engine's file of them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference

CACHE = Path(__file__).resolve().parent / ".cache"
CALIBRATION = 64
"""Samples that every engine is calibrated on."""

Feed = dict[str, np.ndarray]
"""One sample: the network's inputs by name, batch axis included."""


@dataclass(frozen=True)
class Network:
    """A row of the table: the .npz file of its samples, and the arrays in it by input."""

    data: str
    inputs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Kernel:
    """A chain of `LAYERS` equal layers, each with bias and ReLU: what one kernel reaches, the edges aside.

    `channels` take turns: (192, 64) is 192 to 64, 64 to 192, and so on. The input is (1, channels[0], size, size), or
    (size, channels[0]) where `window` is 0: fully connected.
    """

    window: int
    size: int
    channels: tuple[int, int]
    depthwise: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the input."""
        return (1, self.channels[0], self.size, self.size) if self.window else (self.size, self.channels[0])


LAYERS = 12
IMAGES = (("input", "{part}"),)
TOKENS = (("input_ids", "{part}.input_ids"), ("attention_mask", "{part}.attention_mask"))
NETWORKS = {
    "efficientnet_lite0": Network("photographs", IMAGES),
    "mobilenet_v2": Network("photographs", IMAGES),
    "resnet50": Network("photographs", IMAGES),
    "minilm": Network("sentences", TOKENS),
}
KERNELS = {
    "conv3x3_56_64": Kernel(3, 56, (64, 64)),
    "conv1x1_28_192_64": Kernel(1, 28, (192, 64)),
    "depthwise3x3_56_144": Kernel(3, 56, (144, 144), depthwise=True),
    "gemm_512": Kernel(0, 512, (512, 512)),
}
SUBJECTS: dict[str, Network | Kernel] = {**NETWORKS, **KERNELS}

ENGINES = {
    "zeropoint-int8": "mlir",
    "onnxruntime-u8": "onnx",
    "onnxruntime-s8": "onnx",
    "litert-int8": "tflite",
    "openvino-int8": "xml",
    "zeropoint-f32": None,
    "onnxruntime-f32": None,
    "litert-f32": "tflite",
    "openvino-f32": None,
}
"""Suffix of an engine's own file of a network; none where it takes the ONNX file as it is."""


def model_file(name: str) -> Path:
    """The float network, made by `script(name)`."""
    return CACHE / f"{name}.onnx"


def script(name: str) -> str:
    """The file in bench/models, without its suffix, that makes a network or a chain of one kernel."""
    return "single_kernels" if name in KERNELS else name


def engine_file(name: str, engine: str) -> Path:
    """What `engine` loads to run the network `name`."""
    suffix = ENGINES[engine]
    return model_file(name) if suffix is None else CACHE / f"{name}.{engine}.{suffix}"


def samples(name: str, count: int, part: str = "calibration") -> list[Feed]:
    """The first `count` samples of a part, "calibration", "heldout" or, for networks of images, "held2".

    Those of a kernel are seeded, normally distributed, without sign: what a ReLU lets through.

    Raises:
        FileNotFoundError: the script that makes them has not been run.
    """
    subject = SUBJECTS[name]
    if isinstance(subject, Kernel):
        generator = np.random.default_rng(("calibration", "heldout").index(part))
        return [{"input": np.abs(generator.standard_normal(subject.shape, np.float32))} for _ in range(count)]
    if part == "held2":
        from photographs import crops  # wants the photographs themselves, which the file does not

        ((port, _),) = subject.inputs
        return [{port: image[None]} for image in crops("held2", count)]
    path = CACHE / f"{subject.data}.npz"
    if not path.exists():
        raise FileNotFoundError(f"found no {path}, expected the samples of {name}; run bench/{subject.data}.py first")
    with np.load(path) as file:
        arrays = {port: file[key.format(part=part)][:count] for port, key in subject.inputs}
    length = len(next(iter(arrays.values())))
    return [{port: array[index : index + 1] for port, array in arrays.items()} for index in range(length)]


def operations(model: onnx.ModelProto) -> int:
    """Multiplications and additions of all convolutions and matrix products, two for each pair.

    Raises:
        ValueError: the shape of one of their outputs, or of a right operand, is not known.
    """
    graph = shape_inference.infer_shapes(model).graph
    shapes = {value.name: _shape(value) for value in [*graph.input, *graph.value_info, *graph.output]}
    shapes |= {value.name: tuple(value.dims) for value in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            shapes[node.output[0]] = numpy_helper.to_array(node.attribute[0].t).shape
    total = 0
    for node in graph.node:
        if node.op_type in _TERMS:
            missing = [value for value in (node.input[1], node.output[0]) if None in shapes.get(value, (None,))]
            if missing:
                raise ValueError(
                    f"found no shape of {missing[0]!r} of {node.op_type} {node.name!r}, expected a fixed one"
                )
            total += 2 * int(np.prod(shapes[node.output[0]])) * _TERMS[node.op_type](node, shapes[node.input[1]])
    return total


def _shape(value: onnx.ValueInfoProto) -> tuple[int | None, ...]:
    dimensions = value.type.tensor_type.shape.dim
    return tuple(entry.dim_value if entry.HasField("dim_value") else None for entry in dimensions)


def _transposed(node: onnx.NodeProto) -> bool:
    return any(entry.name == "transB" and entry.i for entry in node.attribute)


_TERMS = {  # products that make one element of the output, from the shape of the right operand
    "Conv": lambda node, weights: int(np.prod(weights[1:])),
    "Gemm": lambda node, weights: weights[1] if _transposed(node) else weights[0],
    "MatMul": lambda node, weights: weights[-2],
}
