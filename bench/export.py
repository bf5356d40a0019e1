"""Exported files in the runtime that they are for: are the bytes what we predicted, and how fast are they?

For each model: quantized for LiteRT, exported, and run there with reference kernels (profile fixed32-double) and with
XNNPACK (profile xnnpack). `equal` is the share of output values that equal the prediction of our interpreter; `float
ops` counts operators of the file that compute in floats, those at the edges left out; latencies are medians of one
thread, ours beside the runtime's.

    python bench/export.py [--samples 4] [NAME=MODEL.onnx:CALIBRATION.npz ...]

Without arguments it measures the demo, and EfficientNet-Lite0 and the PP-OCR classifier where `.cache` has them
(`bench/README.md`).
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from zeropoint.calibrate import samples as read_samples
from zeropoint.export import ExportError, export_program
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.frontend import load_model
from zeropoint.interp import Interpreter
from zeropoint.pipeline import Options, quantize

HERE = Path(__file__).resolve().parent
DIGITS = HERE.parent / "examples" / "digits"
SHAPES = {"ppocr_cls": {"x": (1, 3, 48, 192)}}
"""Of inputs with dynamic dimensions, by the stem of the file."""
PROFILES = {"fixed32-double": "reference", "xnnpack": "XNNPACK"}


def median_ms(run: Callable[[], object], repeats: int = 20) -> float:
    """The median time of a call."""
    run()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times)


def measured(name: str, model: Path, calibration: list, tests: list, profile: str) -> str:
    """One row of the table."""
    program = load_model(model, SHAPES.get(model.stem))
    result = quantize(program, calibration, Options(target="litert", profile=profile))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        try:
            export_program(result.propagated, path)
        except ExportError as error:
            return f"| {name} | {profile} | not exported: {error} |"
        file = LiteRTFile(path, reference=profile == "fixed32-double")
        predict, exact = Interpreter(result.quantized), Interpreter(program)
        equal = total = same = 0
        for sample in tests:
            found, expected, real = file(sample), predict(sample), exact(sample)
            for key, array in expected.items():
                equal += int((found[key] == array).sum())
                total += array.size
                same += int(found[key].argmax() == real[key].argmax())
        milliseconds = median_ms(lambda: file(tests[0]))
        size = path.stat().st_size / 1e6
    share = f"{100 * equal / total:.2f} % of {total}"
    return f"| {name} | {PROFILES[profile]} | {share} | {same}/{len(tests)} | {milliseconds:.2f} | {size:.2f} MB |"


def synthetic(model: Path, count: int) -> list:
    """Seeded noise in the range of a normalized photograph, for models without data."""
    random = np.random.default_rng(0)
    ports = load_model(model, SHAPES.get(model.stem)).inputs
    return [
        {port.name: random.normal(0, 1, port.type.get_shape()).astype(np.float32) for port in ports}
        for _ in range(count)
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help="NAME=MODEL.onnx or NAME=MODEL.onnx:DATA.npz")
    parser.add_argument("--samples", type=int, default=4)
    arguments = parser.parse_args()
    rows = [("demo", DIGITS / "digits.onnx", DIGITS / "test.npz")]
    rows += [
        (path.stem, path, None)
        for path in (HERE / ".cache" / "efficientnet_lite0.onnx", HERE / ".cache" / "ppocr_cls.onnx")
        if path.is_file()
    ]
    if arguments.models:
        rows = []
        for text in arguments.models:
            name, _, files = text.partition("=")
            model, _, data = files.partition(":")
            rows.append((name, Path(model), Path(data) if data else None))
    print("| model | kernels | bytes equal to the prediction | top-1 as float | ms | file |\n|---|---|---|---|---|---|")
    for name, model, data in rows:
        count = 16 + arguments.samples
        everything = (
            synthetic(model, count)
            if data is None
            else list(read_samples(data, load_model(model, SHAPES.get(model.stem)).inputs))
        )
        calibration, tests = everything[:16], everything[16:count]
        for profile in PROFILES:
            print(measured(name, model, calibration, tests, profile), flush=True)


if __name__ == "__main__":
    main()
