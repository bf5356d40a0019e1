"""Exports ResNet-50 (He et al. 2015, table 1; stride in the 3x3, "v1.5") with random weights to ONNX: for timing only.

Input `input` (1, 3, 224, 224) f32, output `logits` (1, 1000) f32. Batch norms stay nodes of their own.

    python bench/models/resnet50.py [OUTPUT.onnx]
"""

import torch
from torch import nn

from exporting import Recipe, main, photograph
from random_weights import fill

STEM, EXPANSION, CLASSES = 64, 4, 1000
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, stride of the first


def convolution(inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> list[nn.Module]:
    """A convolution without bias and its batch norm."""
    return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)]


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 beside a shortcut, which is a convolution where the shape changes."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * EXPANSION
        self.body = nn.Sequential(
            *convolution(inputs, width),
            nn.ReLU(),
            *convolution(width, width, 3, stride),
            nn.ReLU(),
            *convolution(width, outputs),
        )
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Sequential(*convolution(inputs, outputs, 1, stride))
        self.activation = nn.ReLU()

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """(n, inputs, h, w) to (n, 4 width, h / stride, w / stride)."""
        return self.activation(self.body(value) + self.shortcut(value))


class ResNet50(nn.Module):
    """The whole network, average pooling and classifier included."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [*convolution(3, STEM, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        channels = STEM
        for width, blocks, stride in STAGES:
            for block in range(blocks):
                layers.append(Bottleneck(channels, width, 1 if block else stride))
                channels = width * EXPANSION
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classifier = nn.Linear(channels, CLASSES)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """(n, 3, 224, 224) to (n, 1000)."""
        return self.classifier(self.features(image))


def recipe(name: str) -> Recipe:
    """How the network is made."""
    return Recipe(name, ("input",), "logits", lambda: fill(ResNet50(), seed=2), photograph)


if __name__ == "__main__":
    main(recipe("resnet50"))
