"""The range that costs the readers of a value least, against quantizing the value and computing the readers."""

from __future__ import annotations

import numpy as np
import pytest

from networks import Network
from zeropoint.calibrate import collect, instrument
from zeropoint.calibrate.candidates import Kept, OutputObserver, best
from zeropoint.calibrate.output_noise import output_noise
from zeropoint.fuse import fuse
from zeropoint.interp import ReferenceEngine
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import AddOp, ConvolutionLayout, ConvolutionOp, TransposeOp
from zeropoint.ir.tensors import with_shape
from zeropoint.numerics.affine import dequantize, quantize
from zeropoint.numerics.ranges import asymmetric

CHANNELS = 4
RANGES = [(-1.0, 1.0), (-4.0, 4.0), (-40.0, 40.0)]
WEIGHT = np.random.default_rng(3).normal(0, 1, (5, CHANNELS, 1, 1)).astype(np.float32)


def network(*, moved: bool = False, other: bool = False) -> Program:
    """A convolution of the input, transposed or not, and the sum of the input with itself."""
    net = Network([(1, CHANNELS, 3, 3)])
    (value,) = net.values
    if moved:
        net.layer("moved")
        value = net.insert(TransposeOp(value, [0, 1, 3, 2]))
    net.layer("conv")
    layout = ConvolutionLayout.channels_first(2)
    made = ConvolutionOp(value, net.constant(WEIGHT), with_shape(value, [1, 5, 3, 3]), layout)
    results = [net.insert(made)]
    if other:
        net.layer("sum")
        results.append(net.insert(AddOp(net.values[0], net.values[0])))
    return net.finish(results)


def samples(count: int = 3, seed: int = 0) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(seed)
    arrays = random.normal(0, 1, (count, 1, CHANNELS, 3, 3))
    arrays[:, :, 0] *= 8  # a channel of outliers
    return [{"x0": array.astype(np.float32)} for array in arrays]


def rounded(values: np.ndarray, low: float, high: float) -> np.ndarray:
    chosen = asymmetric(low, high, -128, 127)
    stored = quantize(values, chosen.scale, chosen.zero_point, -128, 127)
    return dequantize(stored, chosen.scale, chosen.zero_point).astype(np.float64)


def expected(readers: list[np.ndarray], limits: tuple[float, float]) -> float:
    """Noise over signal, summed over readers that are matrices from channels to results."""
    data = np.concatenate([s["x0"].reshape(CHANNELS, -1) for s in samples()], axis=1).astype(np.float64)
    error = rounded(data, *limits) - data
    return sum(float(((matrix @ error) ** 2).sum() / ((matrix @ data) ** 2).sum()) for matrix in readers)


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("other", [False, True])
def test_noise_is_that_of_the_readers_and_kernels_that_move_are_looked_through(moved: bool, other: bool) -> None:
    asked = instrument(fuse(network(moved=moved, other=other)))
    found = output_noise(asked, {"x0": RANGES}, samples(), ReferenceEngine())["x0"]
    readers = [WEIGHT[:, :, 0, 0].astype(np.float64), *([2 * np.eye(CHANNELS)] if other else [])]
    assert found == pytest.approx([expected(readers, limits) for limits in RANGES], rel=1e-3)


def test_the_range_with_the_least_noise_is_taken() -> None:
    asked = instrument(fuse(network()))
    report = collect(asked, samples(8), observer="output")
    observer = OutputObserver()
    for sample in samples(8):
        observer.update(sample["x0"])
    candidates = observer.candidates()
    noise = output_noise(asked, {"x0": candidates}, samples(8), ReferenceEngine())["x0"]
    seen = report.observations["x0"]
    assert (seen.minimum, seen.maximum) == candidates[best(noise)]
    assert min(noise) >= 0.98 * noise[best(noise)]


def test_the_order_of_the_samples_changes_nothing() -> None:
    asked = instrument(fuse(network(other=True)))
    forwards = collect(asked, samples(30), observer="output")
    backwards = collect(asked, samples(30)[::-1], observer="output")
    assert forwards == backwards


def test_samples_are_kept_by_their_contents() -> None:
    first, second = Kept(), Kept()
    for sample in samples(40):
        first.see(sample)
    for sample in samples(40)[::-1]:
        second.see(sample)
    assert [s["x0"].tobytes() for s in first.samples] == [s["x0"].tobytes() for s in second.samples]
    assert len(first.samples) == 8
