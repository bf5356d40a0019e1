"""Exports MobileNetV2 (Sandler et al. 2018, table 2; width 1.0) with random weights to ONNX: for timing only.

Input `input` (1, 3, 224, 224) f32, output `logits` (1, 1000) f32. Batch norms stay nodes of their own; paddings are
even, as in torchvision's form of the network.

    python bench/models/mobilenet_v2.py [OUTPUT.onnx]
"""

import torch
from torch import nn

from exporting import Recipe, main, photograph
from random_weights import fill

STEM, HEAD, CLASSES = 32, 1280, 1000
STAGES = (  # expansion, channels, blocks, stride of the first
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def convolution(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """A convolution without bias and its batch norm."""
    padding = kernel // 2
    return [
        nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]


class InvertedResidual(nn.Module):
    """Expand 1x1, depthwise 3x3, project 1x1; the input is added where shapes allow."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        expand = [*convolution(inputs, hidden), nn.ReLU6()] if expansion != 1 else []
        depthwise = [*convolution(hidden, hidden, 3, stride, hidden), nn.ReLU6()]
        self.body = nn.Sequential(*expand, *depthwise, *convolution(hidden, outputs))
        self.residual = stride == 1 and inputs == outputs

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """(n, inputs, h, w) to (n, outputs, h / stride, w / stride)."""
        return value + self.body(value) if self.residual else self.body(value)


class MobileNetV2(nn.Module):
    """The whole network, average pooling and classifier included."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [*convolution(3, STEM, 3, 2), nn.ReLU6()]
        channels = STEM
        for expansion, outputs, blocks, stride in STAGES:
            for block in range(blocks):
                layers.append(InvertedResidual(channels, outputs, 1 if block else stride, expansion))
                channels = outputs
        layers += [*convolution(channels, HEAD), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(HEAD, CLASSES)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """(n, 3, 224, 224) to (n, 1000)."""
        return self.classifier(self.features(image))


def recipe(name: str) -> Recipe:
    """How the network is made."""
    return Recipe(name, ("input",), "logits", lambda: fill(MobileNetV2(), seed=1), photograph)


if __name__ == "__main__":
    main(recipe("mobilenet_v2"))
