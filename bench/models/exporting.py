"""From a PyTorch network to an ONNX file that is checked against it.

What the scripts beside this file have in common; it holds no network.
"""

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn

CACHE = Path(__file__).resolve().parent.parent / ".cache"
OPSET = 17


@dataclass(frozen=True)
class Recipe:
    """How one network is made.

    `build` gives it in inference mode, with the same weights every time. `example` is one sample, in the order of
    `inputs`, batch axis included. `finish` changes the exported graph in place. The file's output may differ from
    PyTorch's by `tolerance` times the largest magnitude.
    """

    name: str
    inputs: tuple[str, ...]
    output: str
    build: Callable[[], nn.Module]
    example: Callable[[], tuple[torch.Tensor, ...]]
    finish: Callable[[nn.Module, onnx.GraphProto], None] = lambda network, graph: None
    tolerance: float = 1e-5


def export(recipe: Recipe, network: nn.Module, path: Path) -> None:
    """Writes `network` to `path` as PyTorch does, its batch norms nodes of their own."""
    torch.onnx.export(
        network,
        recipe.example(),
        str(path),
        input_names=list(recipe.inputs),
        output_names=[recipe.output],
        opset_version=OPSET,
        training=torch.onnx.TrainingMode.PRESERVE,  # EVAL would fold the batch norms
        do_constant_folding=True,
        dynamo=False,
    )


def check(recipe: Recipe, network: nn.Module, path: Path) -> float:
    """The largest difference between the outputs of `network` and of the file, relative to the largest magnitude.

    Raises:
        ValueError: it is larger than the recipe's tolerance.
    """
    sample = recipe.example()
    with torch.no_grad():
        expected = network(*sample).numpy()
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feeds = {name: value.numpy() for name, value in zip(recipe.inputs, sample, strict=True)}
    difference = float(np.abs(session.run(None, feeds)[0] - expected).max() / np.abs(expected).max())
    if not difference <= recipe.tolerance:
        raise ValueError(
            f"the exported file differs from PyTorch by {difference:.1e} of the largest output, "
            f"expected at most {recipe.tolerance:.0e}"
        )
    return difference


def make(recipe: Recipe, output: Path) -> None:
    """Exports under a temporary name, checks against PyTorch and only then gives the file its name."""
    output.parent.mkdir(parents=True, exist_ok=True)
    network = recipe.build()
    partial = output.with_suffix(".partial.onnx")
    try:
        export(recipe, network, partial)
        model = onnx.load(partial)
        recipe.finish(network, model.graph)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, partial)
        difference = check(recipe, network, partial)
        os.replace(partial, output)
    finally:
        partial.unlink(missing_ok=True)
    print(f"wrote {output} ({output.stat().st_size / 1e6:.1f} MB); largest difference from PyTorch {difference:.1e}")


def main(recipe: Recipe, arguments: Sequence[str] | None = None) -> None:
    """The command line of every script here: `python bench/models/NAME.py [OUTPUT.onnx]`."""
    parser = argparse.ArgumentParser(description=f"Exports {recipe.name} to ONNX.")
    parser.add_argument("output", type=Path, nargs="?", default=CACHE / f"{recipe.name}.onnx")
    torch.set_num_threads(2)
    make(recipe, parser.parse_args(arguments).output)


def photograph() -> tuple[torch.Tensor, ...]:
    """One sample of a network of images: (1, 3, 224, 224) f32 noise in [-1, 1], seeded."""
    return (torch.from_numpy(np.random.default_rng(0).uniform(-1, 1, (1, 3, 224, 224)).astype(np.float32)),)
