"""Files that other quantizers made, imported without data: are our bits those of the runtime that the files are for?

For each network: onnxruntime's static quantization with u8 and with i8 activations, in onnxruntime; ai-edge-quantizer's
file, in LiteRT with its reference kernels and with XNNPACK. Each file is imported, quantized for the runtime's target
and profile, and run by our interpreter, beside the runtime itself. `equal` counts the output values that are equal.

onnxruntime's files are taken from `.cache` (`prepare.py`), or made here with `--calibration` samples. LiteRT's come
from `models/to_litert.py`; without one, the row says so.

    python bench/imports.py [--models mobilenet_v2,...] [--calibration 8] [--samples 1]
"""

import argparse
import logging
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnxruntime.quantization import QuantType

from choices import chosen
from engines import litert_input
from ort_static import quantize_feeds
from suite import Feed, engine_file, model_file, samples
from zeropoint.export.onnx.runtime import OnnxFile
from zeropoint.frontend import load_model
from zeropoint.interp import Interpreter
from zeropoint.pipeline import Options, quantize

NETWORKS = ("efficientnet_lite0", "mobilenet_v2", "resnet50")
Run = Callable[[Feed], Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Way:
    """A quantizer's file, the runtime and kernels that run it, and the target and profile of our program."""

    name: str
    engine: str
    options: Options
    reference: bool = False


WAYS = (
    Way("onnxruntime static, u8", "onnxruntime-u8", Options(target="onnxruntime")),
    Way("onnxruntime static, i8", "onnxruntime-s8", Options(target="onnxruntime")),
    Way("LiteRT, reference", "litert-int8", Options(target="litert"), reference=True),
    Way("LiteRT, XNNPACK", "litert-int8", Options(target="litert", profile="xnnpack")),
)
ACTIVATIONS = {"onnxruntime-u8": QuantType.QUInt8, "onnxruntime-s8": QuantType.QInt8}


class LiteRT:
    """A quantized file on real numbers; `on_grid` are the inputs as the numbers that the file's integers stand for."""

    def __init__(self, path: Path, reference: bool):
        from ai_edge_litert.interpreter import Interpreter as Runtime
        from ai_edge_litert.interpreter import OpResolverType

        kind = OpResolverType.BUILTIN_REF if reference else OpResolverType.AUTO
        self._file = Runtime(str(path), num_threads=1, experimental_op_resolver_type=kind)
        self._file.allocate_tensors()

    def on_grid(self, inputs: Feed, names: list[str]) -> Feed:
        """The inputs in the file's layout, by the names of our program."""
        found = {}
        for name, entry, value in zip(names, self._file.get_input_details(), inputs.values(), strict=True):
            found[name] = _real(litert_input(entry, value), entry)
        return found

    def __call__(self, inputs: Feed) -> list[np.ndarray]:
        """The outputs as real numbers, in the file's order."""
        for entry, value in zip(self._file.get_input_details(), inputs.values(), strict=True):
            scale, zero_point = entry["quantization"]
            self._file.set_tensor(entry["index"], (np.rint(value / scale) + zero_point).astype(entry["dtype"]))
        self._file.invoke()
        return [_real(self._file.get_tensor(entry["index"]), entry) for entry in self._file.get_output_details()]


def _real(stored: np.ndarray, entry: dict) -> np.ndarray:
    scale, zero_point = entry["quantization"]
    return (stored.astype(np.float32) - np.float32(zero_point)) * np.float32(scale)


def file_of(network: str, way: Way, count: int, folder: Path) -> Path | None:
    """The quantizer's file: from `.cache`, or made here; None for one of LiteRT's that is not there."""
    kept = engine_file(network, way.engine)
    if kept.is_file():
        return kept
    if way.engine not in ACTIVATIONS:
        return None
    path = folder / kept.name
    quantize_feeds(model_file(network), samples(network, count), path, activation=ACTIVATIONS[way.engine])
    return path


def equal(path: Path, way: Way, feeds: list[Feed]) -> str:
    """How many output values of our program equal the runtime's."""
    program = load_model(path)
    names = [port.name for port in program.inputs]
    predict = Interpreter(quantize(program, None, way.options).quantized)
    same = total = 0
    litert = LiteRT(path, way.reference) if way.engine == "litert-int8" else None
    file = None if litert else OnnxFile(path)
    for feed in feeds:
        given = litert.on_grid(feed, names) if litert else feed
        theirs = litert(given) if litert else list(file(feed).values())
        for ours, found in zip(predict(given).values(), theirs, strict=True):
            same, total = same + int((ours == found).sum()), total + ours.size
    return f"{same} of {total}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=chosen(dict.fromkeys(NETWORKS)), default=list(NETWORKS))
    parser.add_argument("--calibration", type=int, default=8, help="samples to calibrate files with that are made here")
    parser.add_argument("--samples", type=int, default=1, help="held-out samples")
    arguments = parser.parse_args()
    logging.getLogger().setLevel(logging.ERROR)
    print("| model | file and kernels | equal |\n|---|---|---|", flush=True)
    for network in arguments.models:
        if not model_file(network).is_file():
            print(f"{network}: skipped, found no {model_file(network).name}; bench/models makes it", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            for way in WAYS:
                path = file_of(network, way, arguments.calibration, Path(folder))
                found = equal(path, way, samples(network, arguments.samples, "heldout")) if path else "no file"
                print(f"| {network} | {way.name} | {found} |", flush=True)


if __name__ == "__main__":
    main()
