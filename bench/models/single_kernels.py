"""Exports chains of one kernel with random weights to ONNX: what each engine reaches in a single kind of layer.

`LAYERS` equal layers with bias and ReLU, so that what happens at the edges of the network hardly counts. Names and
shapes are the table `KERNELS` of bench/suite.py. Input `input`, output `output`, f32.

    python bench/models/single_kernels.py [NAME ...]
"""

import argparse
import sys
from pathlib import Path

import torch
from torch import nn

from exporting import CACHE, Recipe, make
from random_weights import draw

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from suite import KERNELS, LAYERS, Kernel, samples  # one folder up


def build(kernel: Kernel) -> nn.Module:
    """The chain, in inference mode."""
    layers: list[nn.Module] = []
    for index in range(LAYERS):
        inputs, outputs = kernel.channels if index % 2 == 0 else kernel.channels[::-1]
        groups = inputs if kernel.depthwise else 1
        if kernel.window:
            layers.append(nn.Conv2d(inputs, outputs, kernel.window, padding=kernel.window // 2, groups=groups))
        else:
            layers.append(nn.Linear(inputs, outputs))
        layers.append(nn.ReLU())
    return draw(nn.Sequential(*layers), seed=3)


def recipe(name: str) -> Recipe:
    """How the chain `name` of `KERNELS` is made."""
    [sample] = samples(name, 1)
    kernel = KERNELS[name]
    example = tuple(torch.from_numpy(value) for value in sample.values())
    return Recipe(name, tuple(sample), "output", lambda: build(kernel), lambda: example)


def main() -> None:
    """Export each chain."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*KERNELS, []], metavar="NAME", help="default: all")
    torch.set_num_threads(2)
    for name in parser.parse_args().names or KERNELS:
        make(recipe(name), CACHE / f"{name}.onnx")


if __name__ == "__main__":
    main()
