"""The networks that latency.py measures, their samples, and where each engine's file of a network lies."""

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
    """A row of the table: the .npz file of its samples, the arrays in it by input, and what it is."""

    data: str
    inputs: tuple[tuple[str, str], ...]
    about: str


IMAGES = (("input", "{part}"),)
TOKENS = (("input_ids", "{part}.input_ids"), ("attention_mask", "{part}.attention_mask"))
NETWORKS = {
    "efficientnet_lite0": Network("photographs", IMAGES, "trained"),
    "mobilenet_v2": Network("photographs", IMAGES, "random weights"),
    "resnet50": Network("photographs", IMAGES, "random weights"),
    "minilm": Network("sentences", TOKENS, "trained, 128 tokens"),
}

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
    """The float network, made by bench/models/NAME.py."""
    return CACHE / f"{name}.onnx"


def engine_file(name: str, engine: str) -> Path:
    """What `engine` loads to run the network `name`."""
    suffix = ENGINES[engine]
    return model_file(name) if suffix is None else CACHE / f"{name}.{engine}.{suffix}"


def samples(name: str, count: int, part: str = "calibration") -> list[Feed]:
    """The first `count` samples of a part, "calibration" or "heldout".

    Raises:
        FileNotFoundError: the script that makes them has not been run.
    """
    network = NETWORKS[name]
    path = CACHE / f"{network.data}.npz"
    if not path.exists():
        raise FileNotFoundError(f"found no {path}, expected the samples of {name}; run bench/{network.data}.py first")
    with np.load(path) as file:
        arrays = {port: file[key.format(part=part)][:count] for port, key in network.inputs}
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
