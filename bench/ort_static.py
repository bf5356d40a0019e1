"""onnxruntime's static quantization of an ONNX file: what zeropoint's accuracy is compared with.

The options are the usual ones for x64: quantize and dequantize nodes (QDQ), weights i8 per channel, activations u8 per
tensor, ranges as observed (MinMax).

Two things decide the figures besides the options, hence the arguments:

- `preprocess` runs onnxruntime's own `quant_pre_process` first. It folds batch norms into convolutions; without it
  every batch norm stays in float between two quantizations.
- `arithmetic` is who computes. "written": each node of the file by itself, in float. "default": the integer kernels
  that onnxruntime chooses; on an x64 CPU without VNNI these add pairs of u8 x i8 products in 16 bits, which saturates.
  "precise": integer kernels with `session.x64quantprecision`, which avoids that at some cost in speed, as
  `reduce_range=True` (weights of 7 bits) does at a cost in accuracy.

    python bench/ort_static.py MODEL.onnx     prints a table over the crops of photographs.py
"""

import argparse
import logging
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import onnx
import onnxruntime
from onnx.version_converter import convert_version
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from agreement import sqnr_db, top1_agreement

Arithmetic = Literal["written", "precise", "default"]

THREADS = 2


class Samples(CalibrationDataReader):
    """Gives the calibrator one sample after the other."""

    def __init__(self, feeds: Iterable[dict[str, np.ndarray]]) -> None:
        self._feeds = iter(feeds)

    def get_next(self) -> dict[str, np.ndarray] | None:  # pyright: ignore[reportIncompatibleMethodOverride] (onnxruntime's base class says dict, and takes None)
        return next(self._feeds, None)


def session(path: Path, arithmetic: Arithmetic = "precise") -> onnxruntime.InferenceSession:
    """A session on the CPU."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 3
    if arithmetic == "written":
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    elif arithmetic == "precise":
        options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(path: Path, samples: np.ndarray, arithmetic: Arithmetic = "precise") -> np.ndarray:
    """The first output of the network at `path` for each of `samples`.

    Args:
        path: an ONNX file, float or quantized, with one input whose leading axis is a batch of 1.
        samples: (n, ...) f32, without the batch axis.
        arithmetic: who computes a quantized network; see above.

    Returns:
        (n, ...) the outputs, without the batch axis.
    """
    network = session(path, arithmetic)
    name = network.get_inputs()[0].name
    return np.concatenate([network.run(None, {name: sample[None]})[0] for sample in samples])


def readable(path: Path, folder: Path) -> Path:
    """A copy that the quantizer takes: of opset 13, the first whose dequantization has an axis, in one file."""
    model = onnx.load(path)
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    if opsets.get("", 1) < 13:
        model = convert_version(model, 13)
    made = folder / "readable.onnx"
    onnx.save(model, made)
    return made


def quantize_static_u8(
    model_path: Path,
    samples: np.ndarray,
    out_path: Path,
    *,
    preprocess: bool = True,
    reduce_range: bool = False,
    method: CalibrationMethod = CalibrationMethod.MinMax,
) -> None:
    """Writes the quantized form of `model_path`, which has one input, to `out_path`.

    Args:
        model_path: an ONNX file with one input whose leading axis is a batch of 1.
        samples: (n, ...) f32, without the batch axis: what to calibrate with.
        out_path: overwritten.
        preprocess: run `quant_pre_process` first.
        reduce_range: weights of 7 bits instead of 8.
        method: how ranges are made of what was observed.
    """
    name = session(model_path).get_inputs()[0].name
    feeds = ({name: sample[None]} for sample in samples)
    quantize_feeds(model_path, feeds, out_path, preprocess=preprocess, reduce_range=reduce_range, method=method)


def quantize_feeds(
    model_path: Path,
    feeds: Iterable[dict[str, np.ndarray]],
    out_path: Path,
    *,
    preprocess: bool = True,
    reduce_range: bool = False,
    method: CalibrationMethod = CalibrationMethod.MinMax,
    activation: QuantType = QuantType.QUInt8,
) -> None:
    """The same for any inputs.

    Args:
        model_path: an ONNX file.
        feeds: the samples to calibrate with, each a dict of the inputs.
        out_path: overwritten.
        preprocess: run `quant_pre_process` first.
        reduce_range: weights of 7 bits instead of 8.
        method: how ranges are made of what was observed.
        activation: storage of the activations, u8 or i8.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = model_path
        if preprocess:
            source = Path(folder) / "preprocessed.onnx"
            quant_pre_process(str(model_path), str(source), skip_symbolic_shape=True)
        quantize_static(
            str(source),
            str(out_path),
            Samples(feeds),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            reduce_range=reduce_range,
            activation_type=activation,
            weight_type=QuantType.QInt8,
            calibrate_method=method,
        )


# Entropy is left out: with its default of 128 bins for 128 levels it always ends at MinMax's ranges.
VARIANTS = {
    "as is": {"preprocess": False},
    "preprocessed": {},
    "preprocessed, 7-bit weights": {"reduce_range": True},
    "preprocessed, percentile": {"method": CalibrationMethod.Percentile},
}


def main() -> None:
    """Quantizes with every variant and prints how far each is from float on the held-out crops."""
    from photographs import crops  # wants packages that quantizing does not

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--variant", choices=VARIANTS, action="append", help="only these (default: all)")
    arguments = parser.parse_args()
    logging.getLogger().setLevel(logging.ERROR)
    calibration, heldout = crops("calibration"), crops("heldout")
    reference = run(arguments.model, heldout)
    print(f"{'onnxruntime ' + onnxruntime.__version__:<28}" + "".join(f"{name:>20}" for name in get_args(Arithmetic)))
    print(f"{'':<28}" + f"{'SQNR dB':>11}{'top-1 %':>9}" * 3)
    for variant in arguments.variant or VARIANTS:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "quantized.onnx"
            quantize_static_u8(arguments.model, calibration, path, **VARIANTS[variant])
            outputs = [run(path, heldout, arithmetic) for arithmetic in get_args(Arithmetic)]
        figures = [f"{sqnr_db(reference, o):11.2f}{100 * top1_agreement(reference, o):9.2f}" for o in outputs]
        print(f"{variant:<28}" + "".join(figures), flush=True)


if __name__ == "__main__":
    main()
