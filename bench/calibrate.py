"""How long calibration takes with one worker and with several, and what that says of a thousand.

    python bench/calibrate.py [MODEL.onnx] [--samples 64] [--workers 1,2]

The samples are noise: what is measured does not depend on them. All runs must give the same bits. The last lines are
arithmetic, from what one process was measured to need: a chunk of samples goes to a worker, what its observers have
seen comes back packed, and the process that asked adds it up.
"""

from __future__ import annotations

import argparse
import logging
import time
from pathlib import Path

import numpy as np

from zeropoint.calibrate import Report, Work, collect
from zeropoint.calibrate.choices import observer_factory
from zeropoint.calibrate.collect import stats_keys
from zeropoint.calibrate.spread import CHUNK_SAMPLES
from zeropoint.calibrate.states import add, take
from zeropoint.calibrate.workers import observe
from zeropoint.engines import QuickestEngine
from zeropoint.frontend import load_model
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.passes import ASKING_PASSES, FLOAT_PASSES, run_all

DEFAULT_MODEL = Path(__file__).resolve().parent / ".cache" / "efficientnet_lite0.onnx"
DIGITS = Path(__file__).resolve().parent.parent / "examples" / "digits" / "digits.onnx"
MANY = 1000
NETWORK_BYTES = 1.25e9
"""A second, of ten gigabits."""


def noise(program: Program, count: int) -> list[dict[str, Array]]:
    """Samples for a program."""
    rng = np.random.default_rng(0)
    shapes = {port.name: shape_of(port.type) for port in program.inputs}
    return [{n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()} for _ in range(count)]


def everything(report: Report) -> list[object]:
    """What two runs are compared by."""
    return [(key, found, found.quantiles) for key, found in report.observations.items()]


def arithmetic(asked: Program, samples: list[dict[str, Array]], seconds: float) -> None:
    """What a chunk costs, and how many workers one process can keep busy; `seconds` is what a sample takes a worker."""
    states = {key: observer_factory("mse")() for key in stats_keys(asked)}
    observe(QuickestEngine().prepare(asked), states, samples[:CHUNK_SAMPLES])
    packed = take(states)
    began = time.perf_counter()
    for _ in range(10):
        add(states, packed)
    adding = (time.perf_counter() - began) / 10
    sent = sum(array.nbytes for sample in samples[:CHUNK_SAMPLES] for array in sample.values())
    received = sum(array.nbytes for array in packed.values())
    print(f"\na chunk of {CHUNK_SAMPLES} samples, {len(states)} points: {sent / 1e6:.2f} MB there, ", end="")
    print(f"{received / 1e6:.2f} MB back, {1e3 * adding:.2f} ms to add up, {CHUNK_SAMPLES * seconds:.2f} s of a worker")
    by_adding = CHUNK_SAMPLES * seconds / adding
    by_network = CHUNK_SAMPLES * seconds * NETWORK_BYTES / (sent + received)
    print(f"one process keeps {min(by_adding, by_network):.0f} workers busy ({by_adding:.0f} by adding up, ", end="")
    print(f"{by_network:.0f} by ten gigabits a second)")
    least = min(by_adding, by_network)
    print(f"{MANY} workers calibrate on 1,000,000 samples in {1e6 * seconds / min(MANY, least):.0f} s; ", end="")
    print(f"{1e6 / CHUNK_SAMPLES * received / 1e9:.1f} GB are added up")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?", default=DEFAULT_MODEL if DEFAULT_MODEL.is_file() else DIGITS)
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--workers", default="1,2")
    arguments = parser.parse_args()
    logging.getLogger("joblib").setLevel(logging.ERROR)
    program = load_model(arguments.model)
    settings = {"target": "cpu", "profile": None, "ranges": "asymmetric"}
    asked = run_all(ASKING_PASSES, run_all(FLOAT_PASSES, program, settings), settings)
    samples = noise(program, arguments.samples)
    runs = [("in this process", None), *((f"{n} workers", Work(int(n))) for n in arguments.workers.split(","))]
    collect(asked, samples[:2], observer="mse", engine=QuickestEngine(len(samples)))  # what is compiled is compiled
    first, alone = None, 0.0
    print(f"{arguments.model.name}, {len(samples)} samples")
    for name, work in runs:
        if work is not None:
            collect(asked, samples[:2], observer="mse", engine=QuickestEngine(2), work=work)  # the workers are started
        began = time.perf_counter()
        report = collect(asked, samples, observer="mse", engine=QuickestEngine(len(samples)), work=work)
        seconds = time.perf_counter() - began
        first, alone = first or everything(report), alone or seconds
        same = "the same bits" if everything(report) == first else "OTHER BITS"
        print(f"{name:16} {seconds:7.2f} s  {len(samples) / seconds:7.1f} samples/s  {alone / seconds:5.2f} x  {same}")
    arithmetic(asked, samples, alone / len(samples))


if __name__ == "__main__":
    main()
