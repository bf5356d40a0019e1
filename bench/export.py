"""Exported files in the runtimes that they are for: are the bytes what we predicted, and how fast are they?

Each model is quantized for LiteRT, with the profile of its reference kernels and with XNNPACK's, for onnxruntime, as
QDQ and with QOperators, and for OpenVINO if it is installed; exported, and run there. `equal` is the share of output
values that equal the prediction of our interpreter; `float ops` counts nodes of onnxruntime's optimized graph that
compute in floats, the casts at the edges left out; latencies are medians of one thread. `its own` is a file that
onnxruntime's static quantization made of the same model (u8, weights i8 per channel), in the same runtime.

    python bench/export.py [--samples 4] [NAME=MODEL.onnx:CALIBRATION.npz ...]

Without arguments it measures the demo, and those of EfficientNet-Lite0, the PP-OCR classifier, MobileNetV2 and
ResNet-50 that `.cache` has (`bench/README.md`).
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from ort_static import quantize_feeds
from zeropoint.calibrate import samples as read_samples
from zeropoint.export import ExportError, ExportOptions, export_program
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.export.onnx.runtime import OnnxFile
from zeropoint.frontend import load_model
from zeropoint.interp import Interpreter
from zeropoint.pipeline import Options, quantize

try:
    import openvino
except ImportError:  # its row is left out
    openvino = None

HERE = Path(__file__).resolve().parent
DIGITS = HERE.parent / "examples" / "digits"
SHAPES = {"ppocr_cls": {"x": (1, 3, 48, 192)}}
"""Of inputs with dynamic dimensions, by the stem of the file."""


@dataclass(frozen=True)
class Way:
    """A target and a profile, the file that is written, and what runs it."""

    name: str
    target: str
    profile: str | None
    suffix: str
    open: Callable[[Path], Any]
    options: ExportOptions = field(default_factory=ExportOptions)


class OpenVinoFile:
    """A QDQ file in OpenVINO, on one thread, with f32 for what is not quantized."""

    def __init__(self, path: Path):
        core = openvino.Core()
        settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
        self._compiled = core.compile_model(core.read_model(str(path)), "CPU", settings)

    def __call__(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs by name."""
        found = self._compiled(inputs)
        return {port.get_any_name(): found[port] for port in self._compiled.outputs}


WAYS = (
    Way("LiteRT, reference", "litert", None, ".tflite", lambda path: LiteRTFile(path, reference=True)),
    Way("LiteRT, XNNPACK", "litert", "xnnpack", ".tflite", LiteRTFile),
    Way("onnxruntime, QDQ", "onnxruntime", None, ".onnx", OnnxFile),
    Way("onnxruntime, QOperator", "onnxruntime", None, ".onnx", OnnxFile, ExportOptions(onnx_format="qoperator")),
    *([Way("OpenVINO, QDQ", "openvino", None, ".onnx", OpenVinoFile)] if openvino else []),
)
INTEGER = frozenset(
    {"Clip", "Concat", "Expand", "Flatten", "Gather", "MaxPool", "NhwcMaxPool", "QGemm", "Reshape", "Slice", "Squeeze"}
    | {"Transpose", "Unsqueeze"}
)
"""Operators on integers, or that move them, beside those whose name begins with QLinear."""


def float_nodes(path: Path) -> str:
    """How many nodes of onnxruntime's optimized graph compute in floats; nothing for files of another runtime."""
    if path.suffix != ".onnx":
        return ""
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.optimized_model_filepath = 4, str(Path(folder) / "optimized.onnx")
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        ops = [node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node]
    left = [op for op in ops if not op.startswith("QLinear") and op not in INTEGER]
    return str(len(left) - len(session.get_inputs()) - len(session.get_outputs()))


def its_own(model: Path, calibration: list, test: dict, repeats: int) -> str:
    """The latency of the file that onnxruntime's static quantization makes of a model."""
    with tempfile.TemporaryDirectory() as folder:
        fixed, path = Path(folder) / "fixed.onnx", Path(folder) / "static.onnx"
        proto = onnx.load(model)
        for value in proto.graph.input:
            sizes = test[value.name].shape if value.name in test else ()
            for dim, size in zip(value.type.tensor_type.shape.dim, sizes, strict=False):
                dim.dim_value = size
        onnx.save(proto, fixed)
        try:
            quantize_feeds(fixed, calibration, path)
            file = OnnxFile(path)
        except Exception as error:  # of its tools, which have no base class
            return f"not quantized: {type(error).__name__}"
        return f"{median_ms(lambda: file(test), repeats):.2f}"


def median_ms(run: Callable[[], object], repeats: int) -> float:
    """The median time of a call."""
    run()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times)


def measured(name: str, model: Path, calibration: list, tests: list, way: Way, repeats: int) -> str:
    """One row of the table."""
    program = load_model(model, SHAPES.get(model.stem))
    result = quantize(program, calibration, Options(target=way.target, profile=way.profile))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model{way.suffix}"
        try:
            export_program(result.propagated, path, way.options)
        except ExportError as error:
            return f"| {name} | {way.name} | not exported: {error} |"
        file = way.open(path)
        predict, exact = Interpreter(result.quantized), Interpreter(program)
        equal = total = same = 0
        for sample in tests:
            found, expected, real = file(sample), predict(sample), exact(sample)
            for key, array in expected.items():
                equal += int((found[key] == array).sum())
                total += array.size
                same += int(found[key].argmax() == real[key].argmax())
        milliseconds = median_ms(lambda: file(tests[0]), repeats)
        peer = its_own(model, calibration, tests[0], repeats) if way.name == "onnxruntime, QDQ" else ""
        size, floats = path.stat().st_size / 1e6, float_nodes(path)
    share = f"{100 * equal / total:.2f} % of {total}"
    cells = (name, way.name, share, floats, f"{same}/{len(tests)}", f"{milliseconds:.2f}", peer, f"{size:.2f} MB")
    return f"| {' | '.join(cells)} |"


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
    parser.add_argument("--repeats", type=int, default=20, help="calls whose median is the latency")
    arguments = parser.parse_args()
    rows = [("demo", DIGITS / "digits.onnx", DIGITS / "test.npz")]
    rows += [
        (path.stem, path, None)
        for stem in ("efficientnet_lite0", "ppocr_cls", "mobilenet_v2", "resnet50")
        if (path := HERE / ".cache" / f"{stem}.onnx").is_file()
    ]
    if arguments.models:
        rows = []
        for text in arguments.models:
            name, _, files = text.partition("=")
            model, _, data = files.partition(":")
            rows.append((name, Path(model), Path(data) if data else None))
    heads = ("model", "kernels", "equal", "float ops", "top-1 as float", "ms", "its own, ms", "file")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name, model, data in rows:
        count = 16 + arguments.samples
        everything = (
            synthetic(model, count)
            if data is None
            else list(read_samples(data, load_model(model, SHAPES.get(model.stem)).inputs))
        )
        calibration, tests = everything[:16], everything[16:count]
        for way in WAYS:
            print(measured(name, model, calibration, tests, way, arguments.repeats), flush=True)


if __name__ == "__main__":
    main()
