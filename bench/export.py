"""Exported files in the runtimes that they are for: are the bytes what we predicted, how good, and how fast are they?

Each model is quantized for LiteRT, with the profile of its reference kernels and with XNNPACK's, for onnxruntime, as
QDQ and with QOperators, and for OpenVINO if it is installed; exported, and run there. On processors with VNNI, the
targets are `onnxruntime-vnni` and `openvino-vnni`. The columns:

- `equal`: output values that equal the prediction of our interpreter, on held-out samples.
- `integer`: operators that compute on integers, of all but the casts at inputs and outputs: in onnxruntime's optimized
  graph, in the LiteRT file, and, of OpenVINO's execution graph, the convolutions and matrix products.
- `SQNR` and `top-1` against float, on other held-out samples, and the same of `its own`: the file of the runtime's own
  quantizer (ai-edge-quantizer, onnxruntime's static quantization, NNCF) with the same calibration samples.
- `ms` of our file and of its own, whose calls take turns; `native` is our machine code of the same integer program, in
  a process of its own. One thread. Figures are the median of the turns with the least other work, which the last line
  reports.

    python bench/export.py [--models demo,...] [--calibration 64] [--samples 32] [--predicted 2] [--effort balanced]

It measures the demo, and those of EfficientNet-Lite0, the PP-OCR classifier, MobileNetV2 and ResNet-50 that `.cache`
has. Files of other quantizers come from `prepare.py` and `models/to_litert.py`, or else are made here (`own_files.py`).
"""

import argparse
import logging
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from agreement import sqnr_db, top1_agreement
from choices import chosen
from engines import LOADERS, litert_input
from latency import Turn, quietest
from other_work import Meter
from own_files import MAKERS
from pages import lines
from suite import CACHE, Feed, engine_file, samples
from zeropoint.calibrate import samples as read_samples
from zeropoint.check_target.runtimes import has_vnni
from zeropoint.export import ExportError, ExportOptions, export_program
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.export.onnx.origins import OPENVINO
from zeropoint.export.onnx.runtime import OnnxFile
from zeropoint.frontend import load_model
from zeropoint.frontend.litert.reader import read_model
from zeropoint.interp import Interpreter
from zeropoint.ir.files import save_program
from zeropoint.ir.program import Program
from zeropoint.pipeline import Options, Quantization, quantize

try:
    import openvino
except ImportError:  # its row is left out
    openvino = None

DIGITS = Path(__file__).resolve().parent.parent / "examples" / "digits"
Run = Callable[[Feed], Mapping[str, np.ndarray]]
HEADS = (
    "model",
    "kernels",
    "equal",
    "integer",
    "SQNR dB",
    "its own",
    "top-1",
    "its own",
    "ms",
    "its own",
    "native",
    "MB",
)
CONTRACTIONS = {"Convolution", "FullyConnected", "MatMul"}
INTEGER = frozenset(
    {"Clip", "Concat", "Expand", "Flatten", "Gather", "MaxPool", "NhwcMaxPool", "QGemm", "Reshape", "Slice", "Squeeze"}
    | {"Transpose", "Unsqueeze"}
)
"""onnxruntime's operators on integers, or that move them, beside those whose name begins with QLinear."""


@dataclass(frozen=True)
class Subject:
    """A float model and its samples: of a part of the data, a number.

    `most` bounds the samples of a model with random weights. Its accuracy says nothing, and each one takes long.
    """

    name: str
    path: Path
    samples: Callable[[str, int], list[Feed]]
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    most: int | None = None


def _digits(part: str, count: int) -> list[Feed]:
    file = DIGITS / ("calib.npz" if part == "calibration" else "test.npz")
    return list(read_samples(file, load_model(DIGITS / "digits.onnx").inputs))[:count]


def _photographs(name: str, most: int | None = None) -> Subject:
    return Subject(name, CACHE / f"{name}.onnx", lambda part, count: samples(name, count, part), most=most)


SUBJECTS = {
    "demo": Subject("demo", DIGITS / "digits.onnx", _digits),
    "efficientnet_lite0": _photographs("efficientnet_lite0"),
    "mobilenet_v2": _photographs("mobilenet_v2"),
    "resnet50": _photographs("resnet50", most=8),
    "ppocr_cls": Subject(
        "ppocr_cls",
        CACHE / "ppocr_cls.onnx",
        lambda part, count: [{"x": piece[None]} for piece in lines(part, count)],
        {"x": (1, 3, 48, 192)},
    ),
}


class LiteRTsOwn:
    """A file of LiteRT's own tools: NHWC, i8 in and out."""

    def __init__(self, path: Path):
        from ai_edge_litert.interpreter import Interpreter as LiteRT

        self._file = LiteRT(str(path), num_threads=1)
        self._file.allocate_tensors()

    def __call__(self, inputs: Feed) -> dict[str, np.ndarray]:
        """The output as real numbers."""
        for entry, value in zip(self._file.get_input_details(), inputs.values(), strict=True):
            self._file.set_tensor(entry["index"], litert_input(entry, value))
        self._file.invoke()
        [entry] = self._file.get_output_details()
        values, (scale, zero_point) = self._file.get_tensor(entry["index"]), entry["quantization"]
        return {entry["name"]: (values.astype(np.float32) - zero_point) * np.float32(scale) if scale else values}


def integer_onnx(path: Path) -> str:
    """Of the nodes of onnxruntime's optimized graph."""
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.optimized_model_filepath = 4, str(Path(folder) / "optimized.onnx")
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        ops = [node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node]
    integer = sum(op.startswith("QLinear") or op in INTEGER for op in ops)
    return f"{integer} of {len(ops) - len(session.get_inputs()) - len(session.get_outputs())}"


def integer_litert(path: Path) -> str:
    """Of the operators of a .tflite file."""
    model = read_model(path.read_bytes())
    inner = [op for op in model.operators if op.name not in ("QUANTIZE", "DEQUANTIZE")]
    touched = [[model.tensors[index] for index in (*op.inputs, *op.outputs) if index >= 0] for op in inner]
    return f"{sum(all(tensor.dtype.kind != 'f' for tensor in tensors) for tensors in touched)} of {len(inner)}"


def integer_openvino(path: Path) -> str:
    """Of the convolutions and matrix products of OpenVINO's execution graph."""
    facts = [op.get_rt_info() for op in OpenVinoFile(path).compiled.get_runtime_model().get_ordered_ops()]
    kinds = [(fact["layerType"].astype(str), fact["primitiveType"].astype(str)) for fact in facts]
    found = [implementation for kind, implementation in kinds if kind in CONTRACTIONS]
    return f"{sum(implementation.endswith('I8') for implementation in found)} of {len(found)}"


@dataclass(frozen=True)
class Way:
    """A target and a profile, the file that is written, what runs it, and the engine of the runtime's own file."""

    name: str
    target: str
    profile: str | None
    suffix: str
    open: Callable[[Path], Run]
    open_its_own: Callable[[Path], Run]
    engine: str
    integers: Callable[[Path], str]
    options: ExportOptions = field(default_factory=ExportOptions)
    timed: bool = True


def _litert_reference(path: Path) -> Run:
    return LiteRTFile(path, reference=True)


WIDE = "-vnni" if has_vnni() else ""
"""What the names of targets end in whose weights have the whole range, as those of the runtimes' own quantizers."""
QOPERATOR = ExportOptions(onnx_format="qoperator")
LITERT = ("litert-int8", integer_litert)
ORT = (OnnxFile, OnnxFile, "onnxruntime-u8", integer_onnx)
WAYS = (
    Way("LiteRT, reference", "litert", None, ".tflite", _litert_reference, LiteRTsOwn, *LITERT, timed=False),
    Way("LiteRT, XNNPACK", "litert", "xnnpack", ".tflite", LiteRTFile, LiteRTsOwn, *LITERT),
    Way("onnxruntime, QDQ", f"onnxruntime{WIDE}", None, ".onnx", *ORT),
    Way("onnxruntime, QOperator", f"onnxruntime{WIDE}", None, ".onnx", *ORT, QOPERATOR),
    Way(
        "OpenVINO, QDQ", f"openvino{WIDE}", None, ".onnx", OpenVinoFile, OpenVinoFile, "openvino-int8", integer_openvino
    ),
)


@dataclass(frozen=True)
class Measured:
    """A row: the figures of our file, and of the runtime's own where it has one."""

    cells: dict[str, str]
    steps: dict[str, Callable[[], object]]


def its_own(subject: Subject, way: Way, calibration: list[Feed], folder: Path) -> Path | str:
    """The file of the runtime's own quantizer, made here for models without one in `.cache`; or why there is none."""
    kept = engine_file(subject.name, way.engine)
    if kept.is_file():
        return kept
    path = folder / kept.name
    if path.is_file():
        return path
    try:
        MAKERS[way.engine](subject.path, subject.shapes, calibration, path)
        way.open_its_own(path)
    except Exception as error:  # of tools that have no base class; the row says so
        path.unlink(missing_ok=True)
        return type(error).__name__
    return path


def outputs(run: Run, feeds: Sequence[Feed]) -> np.ndarray:
    """The first output of every sample."""
    return np.concatenate([next(iter(run(feed).values())).reshape(1, -1) for feed in feeds])


def equal_share(program: Program, run: Run, feeds: Sequence[Feed]) -> str:
    """How many values of all outputs equal the interpreter's."""
    predict, equal, total = Interpreter(program), 0, 0
    for feed in feeds:
        found = run(feed)
        for key, array in predict(feed).items():
            equal, total = equal + int((found[key] == array).sum()), total + array.size
    return f"{100 * equal / total:.2f} % of {total}"


def native_milliseconds(program: Program, feed: Feed, folder: Path) -> str:
    """The latency of our machine code, in a process of its own."""
    path, data = folder / "native.mlir", folder / "native.npz"
    save_program(program, path)
    np.savez(data, **feed)
    command = [sys.executable, __file__, "--native", str(path), str(data)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def measured(subject: Subject, way: Way, result: Quantization, data: dict[str, list[Feed]], folder: Path) -> Measured:
    """All figures but the latencies, and the calls to time."""
    path = folder / f"{subject.name}.{WAYS.index(way)}{way.suffix}"
    try:
        export_program(result.propagated, path, way.options)
    except ExportError as error:
        return Measured({"equal": f"not exported: {error}"}, {})
    run, own = way.open(path), its_own(subject, way, data["calibration"], folder)
    reference, found = outputs(OnnxFile(subject.path), data["heldout"]), outputs(run, data["heldout"])
    cells = {
        "equal": equal_share(result.quantized, run, data["predicted"]),
        "integer": way.integers(path),
        "SQNR dB": f"{sqnr_db(reference, found):.2f}",
        "top-1": f"{100 * top1_agreement(reference, found):.1f} %",
        "MB": f"{path.stat().st_size / 1e6:.2f}",
    }
    library, feed = way.engine.partition("-")[0], data["heldout"][0]
    steps: dict[str, Callable[[], object]] = {}
    if way.timed:
        steps["ms"] = LOADERS[library](path, 1, feed).step
        cells["native"] = native_milliseconds(result.integer, feed, folder)
    if isinstance(own, str):
        return Measured({**cells, "its own SQNR": own}, steps)
    theirs = outputs(way.open_its_own(own), data["heldout"])
    cells["its own SQNR"] = f"{sqnr_db(reference, theirs):.2f}"
    cells["its own top-1"] = f"{100 * top1_agreement(reference, theirs):.1f} %"
    if way.timed:
        steps["its own ms"] = LOADERS[library](own, 1, feed).step
    return Measured(cells, steps)


def timed(steps: Mapping[Any, Callable[[], object]], rounds: int) -> tuple[dict[Any, float], float]:
    """The median milliseconds of each call over its quietest turns, and the cores that other work took in them."""
    turns: dict[Any, list[Turn]] = {key: [] for key in steps}
    for step in steps.values():
        step()
    for _ in range(rounds):
        for key, step in steps.items():
            meter, taken, end = Meter(), list[float](), time.perf_counter() + 0.1
            while len(taken) < 2 or time.perf_counter() < end:
                started = time.perf_counter()
                step()
                taken.append(time.perf_counter() - started)
            turns[key].append(Turn(tuple(taken), meter.cores()))
    kept = {key: quietest(found) for key, found in turns.items()}
    medians = {key: 1e3 * statistics.median(s for turn in found for s in turn.seconds) for key, found in kept.items()}
    others = [turn.others for found in kept.values() for turn in found]
    return medians, statistics.mean(others) if others else 0.0


def rows_of(subject: Subject, arguments: argparse.Namespace) -> list[str]:
    """The rows of a model."""
    counts = {
        "calibration": ("calibration", arguments.calibration),
        "heldout": ("heldout", arguments.samples),
        "predicted": ("heldout", arguments.predicted),
    }
    data = {
        use: subject.samples(part, count if subject.most is None else min(count, subject.most))
        for use, (part, count) in counts.items()
    }
    # Ways with one target and profile differ in the form of the file only.
    results: dict[tuple[str, str | None], Quantization] = {}
    with tempfile.TemporaryDirectory() as name:
        ways = [way for way in WAYS if openvino or way.target not in OPENVINO]
        found: dict[Way, Measured] = {}
        for way in ways:
            key = way.target, way.profile
            if key not in results:
                options = Options(target=way.target, profile=way.profile, effort=arguments.effort)
                results[key] = quantize(load_model(subject.path, subject.shapes), data["calibration"], options)
            found[way] = measured(subject, way, results[key], data, Path(name))
        steps = {(way.name, key): step for way in ways for key, step in found[way].steps.items()}
        medians, others = timed(steps, arguments.rounds)
    columns = (
        "equal",
        "integer",
        "SQNR dB",
        "its own SQNR",
        "top-1",
        "its own top-1",
        "ms",
        "its own ms",
        "native",
        "MB",
    )
    rows = []
    for way in ways:
        times = {key: f"{value:.2f}" for (name, key), value in medians.items() if name == way.name}
        cells = {**found[way].cells, **times}
        rows.append(f"| {' | '.join([subject.name, way.name, *(cells.get(column, '') for column in columns)])} |")
    return [*rows, f"| {subject.name} | | other work in the turns: {others:.2f} cores |{' |' * (len(HEADS) - 3)}"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=chosen(SUBJECTS), default=list(SUBJECTS))
    parser.add_argument("--calibration", type=int, default=64, help="samples to calibrate with")
    parser.add_argument("--samples", type=int, default=32, help="held-out samples whose accuracy is measured")
    parser.add_argument("--predicted", type=int, default=2, help="held-out samples that the interpreter predicts")
    parser.add_argument("--rounds", type=int, default=12, help="turns of each latency")
    parser.add_argument("--effort", default="balanced", help="the corrections: none, fast, balanced, best")
    parser.add_argument("--native", nargs=2, type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    logging.getLogger().setLevel(logging.ERROR)
    if arguments.native:
        program, data = arguments.native
        native = LOADERS["zeropoint"](program, 1, dict(np.load(data)))
        print(f"{timed({'native': native.step}, arguments.rounds)[0]['native']:.2f}")
        return
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}", flush=True)
    for name in arguments.models:
        if not SUBJECTS[name].path.is_file():
            print(f"{name}: skipped, found no {SUBJECTS[name].path.name}; bench/models makes it")
            continue
        print("\n".join(rows_of(SUBJECTS[name], arguments)), flush=True)


if __name__ == "__main__":
    main()
