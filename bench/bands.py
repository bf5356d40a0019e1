"""What fusing a producer into its consumer could save at most: chains of layers on whole images and on bands of them.

A band is so few rows that what one kernel writes is near when the next one reads it, as it is where kernels are fused.
The rows that fused kernels would compute twice at the edges of bands are left out, so the saving is an upper bound.
One thread; whole images and bands take turns.

    python bench/bands.py [--rounds N]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import zeropoint
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.codegen.runtime.profiling import StepTime, profile


@dataclass(frozen=True)
class Chain:
    """A chain of convolutions on an image: (output channels, window, stride, depthwise) of each, ReLU behind all."""

    name: str
    rows: int
    width: int
    channels: int
    layers: tuple[tuple[int, int, int, bool], ...]
    band: int
    """Rows of a band."""
    pointwise_before: bool = True
    """A 1x1 convolution makes the image, so that its bytes and not floats are what the chain reads."""


def block(rows: int, channels: tuple[int, int, int], window: int, stride: int, band: int) -> Chain:
    """Expand, depthwise, project, as EfficientNet and MobileNetV2 have them."""
    narrow, wide, out = channels
    layers = ((wide, 1, 1, False), (wide, window, stride, True), (out, 1, 1, False))
    return Chain(f"{rows}x{rows}: {narrow}, {wide} {window}x{window}/{stride}, {out}", rows, rows, narrow, layers, band)


CHAINS = (
    Chain("quantize, 224x224: 3, 32 3x3/2", 224, 224, 3, ((32, 3, 2, False),), 32, pointwise_before=False),
    block(112, (16, 96, 24), 3, 2, 16),
    block(56, (24, 144, 24), 3, 1, 14),
    block(56, (24, 144, 40), 5, 2, 14),
    block(28, (40, 240, 40), 5, 1, 14),
    block(14, (80, 480, 80), 3, 1, 7),
)


def model(chain: Chain, seed: int = 0) -> onnx.ModelProto:
    """The chain with random weights."""
    random = np.random.default_rng(seed)
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []
    channels = 4 if chain.pointwise_before else chain.channels
    layers = [("before", chain.channels, 1, 1, False)] if chain.pointwise_before else []
    layers += [(f"layer{index}", *layer) for index, layer in enumerate(chain.layers)]
    value = "input"
    for name, out, window, stride, depthwise in layers:
        groups = channels if depthwise else 1
        weights = random.normal(size=(out, channels // groups, window, window)) / window
        for kind, array in (("weight", weights), ("bias", random.normal(size=out))):
            constants.append(numpy_helper.from_array(array.astype(np.float32), f"{name}.{kind}"))
        inputs = [value, f"{name}.weight", f"{name}.bias"]
        attributes = {"group": groups, "strides": [stride, stride], "pads": [window // 2] * 4}
        nodes.append(helper.make_node("Conv", inputs, [f"{name}.sum"], name=name, **attributes))
        nodes.append(helper.make_node("Relu", [f"{name}.sum"], [name]))
        value, channels = name, out
    shape = [1, 4 if chain.pointwise_before else chain.channels, chain.rows, chain.width]
    ends = [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)]
    results = [helper.make_tensor_value_info(value, TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "chain", ends, results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def native(chain: Chain) -> tuple[NativeProgram, dict[str, np.ndarray]]:
    """The integer program of a chain, and an input."""
    random = np.random.default_rng(1)
    file = model(chain)
    shape = [d.dim_value for d in file.graph.input[0].type.tensor_type.shape.dim]
    sample = {"input": random.normal(size=shape).astype(np.float32)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chain.onnx"
        onnx.save(file, path)
        quantized = zeropoint.quantize(zeropoint.load(path), [sample])
    return NativeProgram(quantized.program), sample


def seconds(steps: list[StepTime], chain: Chain) -> float:
    """Time of the chain itself: of its layers, and of the quantize where it begins with it."""
    names = [f"'layer{index}'" for index in range(len(chain.layers))]
    names += [] if chain.pointwise_before else ["uniform_quantize"]
    return sum(step.seconds for step in steps if any(name in step.name for name in names))


def measured(chain: Chain, rounds: int) -> tuple[float, float]:
    """Seconds of the whole image, and of as many rows in bands; the least of turns that alternate."""
    whole, banded = native(chain), native(replace(chain, rows=chain.band))

    def turns() -> Iterator[tuple[float, float]]:
        for _ in range(rounds):
            one, other = (seconds(profile(*program, 20), chain) for program in (whole, banded))
            yield one, other * chain.rows / chain.band

    best = np.array(list(turns())).min(axis=0)
    return float(best[0]), float(best[1])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    print("| chain | rows of a band | whole us | in bands us | saved at most |\n| --- | --- | --- | --- | --- |")
    for chain in CHAINS:
        whole, banded = measured(chain, options.rounds)
        print(f"| {chain.name} | {chain.band} | {1e6 * whole:.1f} | {1e6 * banded:.1f} | {1 - banded / whole:+.0%} |")


if __name__ == "__main__":
    main()
