"""Networks in 8 bits, zeropoint and its peers side by side: how far each is from the float network.

All are calibrated on the same samples and compared with onnxruntime's float results on three sets: the calibration
data, held-out samples, and a second held-out set (`held2`: other pieces of the held-out photographs or scans), so that
a method that overfits or was tuned on the held-out set shows. onnxruntime quantizes per channel with u8 activations and
its batch norms folded (`ort_static.py`), and runs with its integer kernels: the ones that never saturate, and those it
takes by default, which do on an x64 CPU without VNNI. NNCF's default for OpenVINO and LiteRT's file
(`models/to_litert.py`) have a row where they are installed. zeropoint quantizes in a process of its own, whose peak
memory a row states: the model, the calibration data and nothing of the peers. Its program runs in the interpreter and
in native code on some held-out samples; the column `differ` has the number of values of all outputs with other bits.

    python bench/accuracy.py [--network efficientnet_lite0] [--calibration 64] [--heldout 128] [--held2 512] [--exact 4]
                             [--profile fixed16 ...] [--observer output ...] [--effort balanced ...] [--budget ...]
"""

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np

import zeropoint as zp
from agreement import sqnr_db, top1_agreement
from coverage import SUBJECTS, Subject
from engines import SkippedError
from same_bits import differing
from suite import CACHE, Feed, engine_file, samples
from zeropoint.calibrate import bar
from zeropoint.report.counts import count_ops

Run = Callable[[Feed], list[np.ndarray]]
"""The outputs for one sample, batch axis included."""
Noted = tuple[Run, str]
"""With a note: how long it took to quantize, and what was found."""
WIDTH = 16
"""Of the column `differ`."""
T = TypeVar("T")


def _pictures(part: str, count: int) -> list[Feed]:
    """Crops of photographs with values from 0 to 255."""
    from photographs import crops

    return [{"input.1": 128 * image[None] + 127} for image in crops(part, count)]


NETWORKS = {
    "centerface": Subject("centerface.onnx", _pictures),
    **{name: subject for name, subject in SUBJECTS.items() if name != "minilm"},
    **{
        name: Subject(f"{name}.onnx", lambda part, count, name=name: samples(name, count, part))
        for name in ("mobilenet_v2", "resnet50")
    },
}
PARTS = ("calibration", "heldout", "held2")


def _session(path: Path, arithmetic: str = "precise") -> Run:
    from ort_static import session  # not where zeropoint is measured

    network = session(path, arithmetic)
    return lambda feed: network.run(None, feed)


def _stacked(run: Run, feeds: list[Feed]) -> list[np.ndarray]:
    """The outputs for all samples, each in one array."""
    return [np.concatenate(values) for values in zip(*map(run, feeds), strict=True)]


def _timed(work: Callable[[], T]) -> tuple[T, str]:
    """The result of some work, and the seconds it took."""
    started = time.perf_counter(), time.process_time()
    made = work()
    seconds = [time.perf_counter() - started[0], time.process_time() - started[1]]
    return made, f"quantized in {seconds[0]:.1f} s ({seconds[1]:.1f} processor s)"


def onnxruntime(name: str, data: list[Feed], arithmetic: str) -> Noted:
    """onnxruntime's static quantization with the ranges as observed."""
    from ort_static import quantize_feeds

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "quantized.onnx"
        _, note = _timed(lambda: quantize_feeds(CACHE / NETWORKS[name].file, data, out))
        return _session(out, arithmetic), note


def nncf(name: str, data: list[Feed]) -> Noted:
    """NNCF's default post-training quantization, in OpenVINO. Raises SkippedError."""
    try:
        import nncf
        import openvino
    except ImportError as error:
        raise SkippedError(f"{error}; expected the packages of the extra 'bench'") from None
    model = openvino.convert_model(CACHE / NETWORKS[name].file, example_input=data[0])
    quantized, note = _timed(lambda: nncf.quantize(model, nncf.Dataset(data), subset_size=len(data)))
    compiled = openvino.Core().compile_model(quantized, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda feed: [np.array(value) for value in compiled(feed).values()], note


def litert(name: str, data: list[Feed]) -> Noted:
    """LiteRT's file, made by `models/to_litert.py`, which calibrates on the same 64 samples. Raises SkippedError."""
    path = engine_file(name, "litert-int8")
    if not path.exists():
        raise SkippedError(f"found no {path.name}, made by bench/models/to_litert.py")
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path), num_threads=2)
    interpreter.allocate_tensors()
    (given,), (made,) = interpreter.get_input_details(), interpreter.get_output_details()

    def run(feed: Feed) -> list[np.ndarray]:
        (value,) = feed.values()
        scale, point = given["quantization"]
        stored = np.clip(np.round(value.transpose(0, 2, 3, 1) / scale) + point, -128, 127).astype(given["dtype"])
        interpreter.set_tensor(given["index"], np.ascontiguousarray(stored))
        interpreter.invoke()
        scale, point = made["quantization"]
        return [(interpreter.get_tensor(made["index"]).astype(np.float32) - point) * np.float32(scale)]

    return run, "quantized beforehand"


def zeropoint(name: str, count: int, exact: list[Feed], **options: str | None) -> tuple[Run, str, str]:
    """Our integer program, made in a process of its own from `count` samples, and a line about it.

    With the number of values that differ between native code and the interpreter on the samples `exact`.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "integer.mlir"
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:
            note = apart.submit(_quantized, name, count, path, options).result()
        integers = zp.load(path)
        native = integers.native()
    return lambda feed: list(native(**feed).values()), note, differing(integers, exact)


def _quantized(name: str, count: int, path: Path, options: dict[str, str | None]) -> str:
    """Quantize a network to a file. Returns a line about the program, the time and the memory that it took."""
    network = zp.load(CACHE / NETWORKS[name].file, shapes=dict(NETWORKS[name].shapes))
    data = NETWORKS[name].feeds("calibration", count)
    integers, took = _timed(lambda: zp.quantize(network, data, progress=bar, **options))
    took = f"{took}, peak {_peak_megabytes():.0f} MB"
    integers.save(path)
    counts, found = count_ops(integers.program), integers.quantization
    note = (
        f"{took}; {counts.integer} integer ops, {counts.floats} float, {counts.rescales} rescales; "
        f"{found.corrections.summary()}"
    )
    return note if found.spent is None else f"{note}; {found.spent}"


def _peak_megabytes() -> float:
    """The greatest resident memory of this process. `ru_maxrss` would include the parent, which a child starts as."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=NETWORKS, default="efficientnet_lite0")
    for part, count in zip(PARTS, (64, 128, 512), strict=True):
        parser.add_argument(f"--{part}", type=int, default=count, help=f"samples (default: {count})")
    parser.add_argument("--exact", type=int, default=4, help="held-out samples for the interpreter (default: 4)")
    parser.add_argument("--profile", action="append", help="default: fixed16")
    parser.add_argument("--observer", action="append", help="default: output")
    parser.add_argument("--effort", action="append", help="default: none, fast, balanced, best")
    parser.add_argument("--budget", default=None, help="as of zeropoint quantize")
    parser.add_argument("--no-peers", action="store_true", help="only zeropoint")
    arguments = parser.parse_args()
    name = arguments.network
    counts = {part: getattr(arguments, part) for part in PARTS}
    data = {part: NETWORKS[name].feeds(part, count) for part, count in counts.items() if count}
    float_run = _session(CACHE / NETWORKS[name].file)
    reference = {part: _stacked(float_run, feeds) for part, feeds in data.items()}
    (first, *_) = next(iter(reference.values()))
    classes = first.ndim == 2
    width = max(18, 7 * len(float_run(data["calibration"][0])) + 2)
    print(f"{name}, samples: " + ", ".join(f"{len(feeds)} {part}" for part, feeds in data.items()))
    heads = "".join(f"{part:>{width}}" for part in data) + f"{'differ':>{WIDTH}}"
    print(f"{'SQNR dB, top-1 agreement':<36}{heads}", flush=True)

    def row(label: str, run: Run, note: str = "", differ: str = "") -> None:
        cells: list[str] = []
        for part, feeds in data.items():
            outputs = _stacked(run, feeds)
            top = f"{100 * top1_agreement(reference[part][0], outputs[0]):8.2f} %" if classes else ""
            pairs = zip(reference[part], outputs, strict=True)
            cells.append(", ".join(f"{sqnr_db(*pair):.2f}" for pair in pairs) + top)
        shown = "".join(f"{cell:>{width}}" for cell in cells) + f"{differ:>{WIDTH}}"
        print(f"{label:<36}{shown}", note, flush=True)

    peers: dict[str, Callable[[], Noted]] = {
        "onnxruntime, minmax, precise": lambda: onnxruntime(name, data["calibration"], "precise"),
        "onnxruntime, minmax, default": lambda: onnxruntime(name, data["calibration"], "default"),
        "OpenVINO, NNCF": lambda: nncf(name, data["calibration"]),
        "LiteRT": lambda: litert(name, data["calibration"]),
    }
    for label, peer in () if arguments.no_peers else peers.items():
        try:
            row(label, *peer())
        except SkippedError as error:
            print(f"{label:<36} skipped: {error}", flush=True)
        except Exception as error:  # one peer that refuses a network must not keep the others from theirs
            print(f"{label:<36} failed: {type(error).__name__}: {str(error).splitlines()[0]}", flush=True)
    for profile in arguments.profile or ["fixed16"]:
        for observer in arguments.observer or ["output"]:
            for effort in arguments.effort or ["none", "fast", "balanced", "best"]:
                options = {"profile": profile, "observer": observer, "effort": effort, "budget": arguments.budget}
                ours = zeropoint(name, counts["calibration"], data.get("heldout", [])[: arguments.exact], **options)
                row(f"zeropoint {profile}, {observer}, {effort}", *ours)


if __name__ == "__main__":
    main()
