"""The example network: its files, and what it becomes with a part of its data, once for all tests of a process."""

from __future__ import annotations

import functools
from itertools import islice
from pathlib import Path

from zeropoint.calibrate import samples
from zeropoint.frontend import load_model
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.pipeline import Options, Quantization, quantize

DIGITS = Path(__file__).parent.parent / "examples" / "digits"


@functools.cache
def network() -> Program:
    """The float program; not to be changed."""
    return load_model(DIGITS / "digits.onnx")


def images(name: str, count: int) -> list[dict[str, Array]]:
    """The first samples of `calib` or `test`."""
    return [dict(sample) for sample in islice(samples(DIGITS / f"{name}.npz", network().inputs), count)]


@functools.cache
def quantized_digits(target: str = "cpu", profile: str | None = None, count: int = 16) -> Quantization:
    """The network after each stage, calibrated with so many samples and not corrected."""
    return quantize(network(), images("calib", count), Options(target, profile))
