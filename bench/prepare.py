"""Makes the quantized form of each network for each engine, once; latency.py loads them.

All are calibrated on the same 64 samples, with the options that each engine's manual gives for x64: onnxruntime QDQ,
weights i8 per channel, activations u8 or s8 (`ort_static.py`); OpenVINO by NNCF's default post-training quantization,
for the encoder with its model type "transformer"; zeropoint's default, for the encoder target `cpu-integer`. LiteRT's
files come from `models/to_litert.py`, whose packages don't go together with these.

    python bench/prepare.py [--models NAME,...] [--engines ENGINE,...] [--again]
"""

import argparse
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from choices import chosen
from suite import CACHE, CALIBRATION, NETWORKS, SUBJECTS, Network, engine_file, model_file, samples


def onnxruntime_qdq(name: str, path: Path, activation: str) -> None:
    """Quantize and dequantize nodes, `activation` "QUInt8" or "QInt8"."""
    from onnxruntime.quantization import QuantType

    from ort_static import quantize_feeds

    logging.getLogger().setLevel(logging.ERROR)
    quantize_feeds(model_file(name), samples(name, CALIBRATION), path, activation=QuantType[activation])


def is_encoder(name: str) -> bool:
    """Whether a network reads sentences."""
    subject = SUBJECTS[name]
    return isinstance(subject, Network) and subject.data == "sentences"


def openvino_nncf(name: str, path: Path) -> None:
    """OpenVINO's own form with NNCF's fake quantization; its weights lie in a .bin beside it."""
    import nncf
    import openvino

    model = openvino.convert_model(model_file(name))
    kind = nncf.ModelType.TRANSFORMER if is_encoder(name) else None
    data = samples(name, CALIBRATION)
    quantized = nncf.quantize(model, nncf.Dataset(data), subset_size=len(data), model_type=kind)
    openvino.save_model(quantized, path, compress_to_fp16=False)


def zeropoint_integers(name: str, path: Path) -> None:
    """The integer program; its weights lie in a .safetensors beside it.

    An encoder is for the target whose softmax, layer norms and GELU are integers, and its padding is left out.
    """
    import zeropoint

    options = {"target": "cpu-integer", "mask": "attention_mask"} if is_encoder(name) else {}
    zeropoint.quantize(zeropoint.load(model_file(name)), samples(name, CALIBRATION), **options).save(path)


MAKERS: dict[str, Callable[[str, Path], None]] = {
    "zeropoint-int8": zeropoint_integers,
    "onnxruntime-u8": lambda name, path: onnxruntime_qdq(name, path, "QUInt8"),
    "onnxruntime-s8": lambda name, path: onnxruntime_qdq(name, path, "QInt8"),
    "openvino-int8": openvino_nncf,
}


def make(name: str, engine: str) -> str:
    """Makes the file of `engine` in a folder of its own and moves it to its place; what to print about it."""
    path = engine_file(name, engine)
    folder = CACHE / f"making.{name}.{engine}.{os.getpid()}"
    folder.mkdir(parents=True)
    started = time.perf_counter()
    try:
        MAKERS[engine](name, folder / path.name)
        # What lies beside the file goes first: latency.py never sees a file without its weights.
        for file in sorted(folder.iterdir(), key=lambda entry: entry.name == path.name):
            os.replace(file, CACHE / file.name)
    except Exception as error:  # one engine that refuses a network must not keep the others from theirs
        return f"failed: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    finally:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    return f"made in {time.perf_counter() - started:.0f} s"


def main() -> None:
    """Make what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=chosen(SUBJECTS), default=list(NETWORKS))
    parser.add_argument("--engines", type=chosen(MAKERS), default=list(MAKERS))
    parser.add_argument("--again", action="store_true", help="also what is there already")
    arguments = parser.parse_args()
    for name in arguments.models:
        for engine in arguments.engines:
            exists = engine_file(name, engine).exists()
            print(
                f"{name:<20} {engine:<16} {make(name, engine) if arguments.again or not exists else 'kept'}", flush=True
            )


if __name__ == "__main__":
    main()
