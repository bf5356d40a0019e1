"""The main job on a real network: a float model becomes an integer program and is measured.

Run by `make demo`. The network reads handwritten digits; see README.md beside this file.
"""

from __future__ import annotations

import textwrap
import time
from pathlib import Path

import numpy as np
from xdsl.ir import Operation

import zeropoint as zp
from zeropoint.calibrate import bar, samples
from zeropoint.ir.annotations import FACTS
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.text import print_ops
from zeropoint.model import Model
from zeropoint.report.counts import constant_bytes, count_ops, float_kernels

HERE = Path(__file__).parent
SHOWN = "block.project.conv"


def main() -> None:
    """Load, calibrate, quantize, run the integer program on images it has not seen, print a table."""
    started = time.perf_counter()
    network = zp.load(HERE / "digits.onnx")
    integers = zp.quantize(network, HERE / "calib.npz")
    stages = integers.quantization
    assert stages is not None

    print(f"One convolution, '{SHOWN}', before (float):\n")
    print(ops_of(stages.fused, SHOWN))
    print("\nand after (integers only):\n")
    print(ops_of(integers.program, SHOWN))
    print()

    test = np.load(HERE / "test.npz")
    reference = outputs(network)
    results = outputs(integers)
    print(table(network, integers, reference, results, test["labels"]))
    print(f"\n{time.perf_counter() - started:.1f} s")


def outputs(model: Model) -> np.ndarray:
    """The probabilities of every test image, (images, 10)."""
    return model.run_samples(samples(HERE / "test.npz", model.inputs), progress=bar)["probabilities"]


def ops_of(program: Program, name: str) -> str:
    """The ops from the first to the last that come from a node of the original model; of a region, its body.

    Without the facts behind their parameters, which `zeropoint explain` shows.
    """
    ops = list(program.clone().entry.ops)
    for op in ops:
        op.attributes.pop(FACTS, None)
    named = [index for index, op in enumerate(ops) if location_text(op.location) == name]
    shown: list[Operation] = []
    for op in ops[named[0] : named[-1] + 1]:
        shown += list(op.body.block.ops)[:-1] if isinstance(op, QuantizeRegionOp) else [op]
    return textwrap.indent(print_ops(shown), "  ").rstrip()


def table(network: Model, integers: Model, reference: np.ndarray, results: np.ndarray, labels: np.ndarray) -> str:
    """What a user wants to know before they ship it."""
    counts = count_ops(integers.program)
    kernels = [found.kernel for found in float_kernels(integers.program)]
    before, after = constant_bytes(network.program), constant_bytes(integers.program)
    noise = 10 * np.log10((reference**2).sum() / ((reference - results) ** 2).sum())
    rows = {
        "test images": f"{len(labels)}",
        "float accuracy": f"{100 * (reference.argmax(1) == labels).mean():.2f} %",
        "integer accuracy": f"{100 * (results.argmax(1) == labels).mean():.2f} %",
        "agreement (same digit)": f"{100 * (reference.argmax(1) == results.argmax(1)).mean():.2f} %",
        "output SQNR": f"{noise:.1f} dB",
        "model size before": f"{before / 1024:.1f} KiB",
        "model size after": f"{after / 1024:.1f} KiB",
        "integer ops": f"{counts.integer}",
        f"float ops ({', '.join(kernels)})": f"{counts.floats}",
        "rescales inserted": f"{counts.rescales}",
        "numerics profile": f"{integers.program.profile}",
    }
    width = max(map(len, rows))
    return "\n".join(f"{name:{width}s}  {value:>10s}" for name, value in rows.items())


if __name__ == "__main__":
    main()
