"""EfficientNet-Lite0 in 8 bits, zeropoint and onnxruntime side by side: how far each is from the float network.

Both are calibrated on the same 64 crops and compared with onnxruntime's float results on 128 crops of other
photographs (`photographs.py`). onnxruntime quantizes per channel with u8 activations and its batch norms folded
(`ort_static.py`), and runs with its integer kernels: the ones that never saturate, and those it takes by default, which
do on an x64 CPU without VNNI.

    python bench/accuracy.py [MODEL.onnx] [--profile fixed16 --profile fixed32] [--observer minmax] [--effort balanced]
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import zeropoint as zp
from agreement import sqnr_db, top1_agreement
from ort_static import quantize_static_u8, run
from photographs import crops
from zeropoint.calibrate import bar
from zeropoint.report.counts import count_ops

MODEL = Path(__file__).resolve().parent / ".cache" / "efficientnet_lite0.onnx"


def zeropoint_outputs(
    path: Path, calibration: np.ndarray, heldout: np.ndarray, profile: str, observer: str, effort: str
):
    """Logits of the integer program, and a line about it."""
    network = zp.load(path)
    name = network.inputs[0].name
    started = time.perf_counter()
    integers = zp.quantize(network, {name: calibration}, profile=profile, observer=observer, effort=effort)
    quantized = time.perf_counter()
    outputs = integers.native().run_samples(({name: sample[None]} for sample in heldout), progress=bar)
    seconds = (time.perf_counter() - quantized) / len(heldout)
    counts = count_ops(integers.program)
    note = (
        f"{counts.integer} integer ops, {counts.floats} float, {counts.rescales} rescales; "
        f"quantized in {quantized - started:.0f} s, {seconds:.3f} s an image; "
        + integers.quantization.corrections.summary()
    )
    return outputs[integers.outputs[0].name], note


def onnxruntime_outputs(path: Path, calibration: np.ndarray, heldout: np.ndarray) -> dict[str, np.ndarray]:
    """Logits of onnxruntime's quantized file, by the arithmetic that computes them."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "quantized.onnx"
        quantize_static_u8(path, calibration, out)
        return {arithmetic: run(out, heldout, arithmetic) for arithmetic in ("precise", "default")}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, nargs="?", default=MODEL)
    parser.add_argument("--profile", action="append", help="default: fixed16")
    parser.add_argument("--observer", action="append", help="default: output")
    parser.add_argument("--effort", action="append", help="default: none, fast, balanced, best")
    arguments = parser.parse_args()
    calibration, heldout = crops("calibration"), crops("heldout")
    reference = run(arguments.model, heldout)
    print(f"{len(calibration)} crops to calibrate, {len(heldout)} others to compare; logits against float")
    print(f"{'':<40} {'SQNR dB':>8} {'top-1 agreement':>16}")

    def row(name: str, outputs: np.ndarray, note: str = "") -> None:
        agreement = 100 * top1_agreement(reference, outputs)
        print(f"{name:<40} {sqnr_db(reference, outputs):8.2f} {agreement:14.2f} % {note}", flush=True)

    for arithmetic, outputs in onnxruntime_outputs(arguments.model, calibration, heldout).items():
        row(f"onnxruntime, minmax, {arithmetic} kernels", outputs)
    for profile in arguments.profile or ["fixed16"]:
        for observer in arguments.observer or ["output"]:
            for effort in arguments.effort or ["none", "fast", "balanced", "best"]:
                outputs, note = zeropoint_outputs(arguments.model, calibration, heldout, profile, observer, effort)
                row(f"zeropoint {profile}, {observer}, {effort}", outputs, note)


if __name__ == "__main__":
    main()
