"""Weights for networks of which only the time is measured.

Random weights whose activations grow or vanish from layer to layer would give ranges that no trained network has, and
rescales that take none of the usual branches. So each batch norm gets the statistics of what really arrives at it, as
training leaves them, and a scale and an offset that differ by channel.
"""

import numpy as np
import torch
from torch import nn

from exporting import CACHE

IMAGES = CACHE / "photographs.npz"
BATCH = 16


def draw(network: nn.Module, seed: int) -> nn.Module:
    """`network` with seeded weights, its batch norms' scales and offsets among them; changed in place."""
    generator = torch.Generator().manual_seed(seed)
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):  # variance 2 / fan-in: what a ReLU halves, the convolution restores
            fan_in = layer.weight[0].numel()
            nn.init.normal_(layer.weight, 0.0, (2 / fan_in) ** 0.5, generator=generator)
            if layer.bias is not None:
                nn.init.normal_(layer.bias, 0.0, 0.1, generator=generator)
        elif isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.weight, 0.5, 1.5, generator=generator)
            nn.init.normal_(layer.bias, 0.0, 0.3, generator=generator)
        elif isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, 0.0, (2 / layer.in_features) ** 0.5, generator=generator)
            nn.init.normal_(layer.bias, 0.0, 0.1, generator=generator)
    return network.eval()


def fill(network: nn.Module, seed: int) -> nn.Module:
    """`network` in inference mode: seeded weights, batch norms settled on the calibration crops of photographs.py.

    Args:
        network: convolutions, linear layers and batch norms, of images (n, 3, 224, 224); changed in place.
        seed: of the weights.

    Raises:
        FileNotFoundError: photographs.py has not been run.
    """
    if not IMAGES.exists():
        raise FileNotFoundError(f"found no {IMAGES}, expected the calibration images; run bench/photographs.py first")
    draw(network, seed)
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = None  # the mean over all batches, rather than a moving one
    images = torch.from_numpy(np.load(IMAGES)["calibration"])
    network.train()
    with torch.no_grad():
        for batch in images.split(BATCH):
            network(batch)
    return network.eval()
