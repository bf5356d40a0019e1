"""Converts the networks to LiteRT: `NAME.litert-f32.tflite` and, quantized, `NAME.litert-int8.tflite`.

From PyTorch rather than from ONNX, as LiteRT's own path goes. Images enter as NHWC, tokens as i32. The quantized form
is ai-edge-quantizer's `static_wi8_ai8` (weights i8 per channel, activations i8 per tensor, inputs and outputs i8 where
they are not tokens), calibrated on the same 64 samples as the other engines.

Needs an environment of its own; README.md beside this file says which.

    python bench/models/to_litert.py [NAME ...]
"""

import argparse
import importlib
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

from exporting import Recipe

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from litert_static import litert_inputs, quantize_feeds  # one folder up
from suite import CALIBRATION, NETWORKS, SUBJECTS, engine_file, samples, script


class AsModule(nn.Module):
    """What the converter wants around a network: nothing but `forward` and its arguments in order."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        """The network's output."""
        return self.network(*values)


def convert(recipe: Recipe, path: Path) -> float:
    """Writes the float network to `path`; its largest difference from PyTorch, relative to the largest magnitude."""
    import litert_torch

    network: nn.Module = AsModule(recipe.build()).eval()
    arguments = recipe.example()
    images = arguments[0].ndim == 4
    feeds = litert_inputs({name: value.numpy() for name, value in zip(recipe.inputs, arguments, strict=True)})
    if images:
        network = litert_torch.to_channel_last_io(network, args=[0])
    inputs = tuple(torch.from_numpy(value) for value in feeds)
    model = litert_torch.convert(network, inputs)
    model.export(str(path))
    with torch.no_grad():
        expected = network(*inputs).numpy()
    return float(np.abs(np.asarray(model(*feeds)) - expected).max() / np.abs(expected).max())


def main() -> None:
    """Convert and quantize each network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*SUBJECTS, []], metavar="NAME", help="default: all networks")
    for name in parser.parse_args().names or NETWORKS:
        floats, integers = engine_file(name, "litert-f32"), engine_file(name, "litert-int8")
        difference = convert(importlib.import_module(script(name)).recipe(name), floats)
        quantize_feeds(floats, samples(name, CALIBRATION), integers)
        print(f"wrote {floats} and {integers}; largest difference of the float one from PyTorch {difference:.1e}")


if __name__ == "__main__":
    main()
