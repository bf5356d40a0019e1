"""Weights only: an encoder whose linear layers have weights of 4 and 8 bits, beside onnxruntime's MatMulNBits.

    python bench/weights_only.py [--model minilm.onnx] [--data sentences.npz] [--rounds 30] [--threads 1] [--integers]

The network is MiniLM (`models/minilm.py`), the sentences are the held-out ones of `sentences.py`. Everything is
compared with onnxruntime's float results:

- SQNR of the last layer's output at tokens that are no padding;
- the error of sentence embeddings, 1 - cosine, and how often the nearest other sentence is the same;
- megabytes of the linear layers' weights in the file, and of the file (the float embeddings of words are 46.9 MB);
- tokens per second, by the median of calls that alternate between all rows.

`--integers` adds the integer program of target `cpu` with 4-bit weights in blocks and 8-bit activations, which is
calibrated and takes minutes. A second table has single products of one row and of 128, in microseconds.
"""

import argparse
import logging
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import matmul_nbits_quantizer

import zeropoint

Feed = Mapping[str, np.ndarray]
CACHE = Path(__file__).resolve().parent / ".cache"
LINEAR = {"op": "fully_connected", "activations": "float"}
FLOAT = {"regex": ".*", "quantize": False}
OURS = {
    "zeropoint, 8 bits, channels": {"weight_bits": 8},
    "zeropoint, 8 bits, blocks of 32": {"weight_bits": 8, "block_size": 32},
    "zeropoint, 4 bits, blocks of 32": {"weight_bits": 4, "block_size": 32},
    "zeropoint, 4 bits, 32, zero points": {"weight_bits": 4, "block_size": 32, "weight_symmetric": False},
    "zeropoint, 4 bits, blocks of 64": {"weight_bits": 4, "block_size": 64},
    "zeropoint, 4 bits, blocks of 128": {"weight_bits": 4, "block_size": 128},
}
THEIRS = {
    "onnxruntime, 8 bits, blocks of 32": (8, 32, True),
    "onnxruntime, 4 bits, blocks of 32": (4, 32, True),
    "onnxruntime, 4 bits, 32, zero points": (4, 32, False),
    "onnxruntime, 4 bits, blocks of 128": (4, 128, True),
}
"""Bits, block size, symmetric."""


@dataclass
class Row:
    """A form of the network: what runs it, the bytes of its file and of the linear layers' weights."""

    name: str
    run: Callable[[Feed], np.ndarray]
    size: int
    linear: int


def session(model: bytes | str, threads: int) -> Callable[[Feed], np.ndarray]:
    """onnxruntime's CPU provider."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    made = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda feed: made.run(None, dict(feed))[0]


def linear_bytes(model: onnx.ModelProto) -> int:
    """Bytes of the constants of products: weights, scales and zero points, without biases."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    products = [node for node in model.graph.node if node.op_type in ("MatMul", "MatMulNBits")]
    names = {name for node in products for name in node.input if name in constants}
    return sum(numpy_helper.to_array(constants[name]).nbytes for name in names)


def theirs(path: Path, name: str, threads: int) -> Row:
    """onnxruntime's own quantizer: to nearest, by the range of a block."""
    bits, block, symmetric = THEIRS[name]
    made = matmul_nbits_quantizer.MatMulNBitsQuantizer(
        onnx.load(path), bits=bits, block_size=block, is_symmetric=symmetric
    )
    made.process()
    model = made.model.model
    data = model.SerializeToString()
    return Row(name, session(data, threads), len(data), linear_bytes(model))


def ours(path: Path, name: str, rules: list[dict[str, object]], data: object, threads: int) -> Row:
    """Quantize by rules, save, load, compile."""
    made = zeropoint.quantize(path, data, recipe=rules)
    with tempfile.TemporaryDirectory() as folder:
        made.save(Path(folder) / "made.mlir")
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        model = zeropoint.load(Path(folder) / "made.mlir")
        native = model.native(threads=threads)
    [port] = model.outputs
    return Row(name, lambda feed: native(**feed)[port.name], size, 0)


def embedded(hidden: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The mean over tokens that are no padding, of length 1."""
    mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def nearest(sentences: np.ndarray) -> np.ndarray:
    """The number of the nearest other sentence, for each."""
    return np.argmax(sentences @ sentences.T - 2 * np.eye(len(sentences)), axis=1)


def network_table(options: argparse.Namespace) -> None:
    """Print a line for each form of the network."""
    path, stored = Path(options.model), np.load(options.data)
    part = {name: stored[f"heldout.{name}"] for name in ("input_ids", "attention_mask")}
    feeds = [{name: array[n : n + 1] for name, array in part.items()} for n in range(len(part["input_ids"]))]
    model = onnx.load(path)
    whole, linear = path.stat().st_size, linear_bytes(model)
    float_ours = zeropoint.load(path)
    native = float_ours.native(threads=options.threads)
    [port] = float_ours.outputs
    rows = [
        Row("onnxruntime, f32", session(str(path), options.threads), whole, linear),
        Row("zeropoint, f32", lambda feed: native(**feed)[port.name], whole, linear),
    ]
    for name, rule in OURS.items():
        rules = [FLOAT, {"op": "gather", "activations": "float"}, {**LINEAR, **rule}]
        rows.append(ours(path, name, rules, None, options.threads))
    rows += [theirs(path, name, options.threads) for name in THEIRS]
    if options.integers:
        samples = {name: stored[f"calibration.{name}"][:32] for name in part}
        rule = {"op": "fully_connected", "weight_bits": 4, "block_size": 32}
        rows.append(ours(path, "zeropoint, 4 bits, 32, 8-bit activations", [rule], samples, options.threads))
    for row in rows:
        if not row.linear:
            row.linear = row.size - (whole - linear)
    results = [np.concatenate([row.run(feed) for feed in feeds]) for row in rows]
    times = alternating([partial(row.run, feeds[0]) for row in rows], options.rounds)
    mask, reference = part["attention_mask"].astype(np.float64), results[0].astype(np.float64)
    expected = embedded(reference, mask)
    titles = ("linear MB", "file MB", "SQNR dB", "1 - cosine", "nearest", "tokens/s")
    print(f"{'':42s}" + "".join(f"{title:>11s}" for title in titles))
    for row, found, seconds in zip(rows, results, times, strict=True):
        error = np.square((found - reference) * mask[..., None]).sum()
        signal = np.square(reference * mask[..., None]).sum()
        sqnr = 10 * np.log10(signal / error) if error else np.inf
        given = embedded(found.astype(np.float64), mask)
        cosine = 1 - (given * expected).sum(1).mean()
        same = (nearest(given) == nearest(expected)).mean()
        size, speed = f"{row.linear / 1e6:11.2f}{row.size / 1e6:11.2f}", mask.shape[1] / seconds
        print(f"{row.name:42s}{size}{sqnr:11.1f}{cosine:11.6f}{100 * same:9.1f} %{speed:11.0f}")


def alternating(calls: list[Callable[[], object]], rounds: int) -> list[float]:
    """The median seconds of each call."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for times, call in zip(taken, calls, strict=True):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
    return [statistics.median(times) for times in taken]


def product(rows: int, terms: int, channels: int, random: np.random.Generator) -> onnx.ModelProto:
    """A float product of `rows` rows with random weights."""
    weight = (random.normal(size=(terms, channels)) / np.sqrt(terms)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "product")],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, terms])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, channels])],
        [numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def product_table(options: argparse.Namespace) -> None:
    """Print a line for each size of a single product."""
    random = np.random.default_rng(0)
    names = ["zeropoint f32", "zeropoint 8", "zeropoint 4", "onnxruntime f32", "onnxruntime 8", "onnxruntime 4"]
    print(f"\n{'microseconds, blocks of 32':28s} " + " ".join(f"{name:>15s}" for name in names))
    for rows, terms, channels in ((1, 384, 1536), (1, 2048, 2048), (128, 384, 1536)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "product.onnx"
            onnx.save(product(rows, terms, channels, random), path)
            feed = {"x": random.normal(size=(rows, terms)).astype(np.float32)}
            calls = [zeropoint.load(path).native(threads=options.threads)]
            for bits in (8, 4):
                rule = {**LINEAR, "weight_bits": bits, "block_size": 32}
                calls.append(zeropoint.quantize(path, recipe=[rule]).native(threads=options.threads))
            peers = [session(str(path), options.threads)]
            for bits in (8, 4):
                made = matmul_nbits_quantizer.MatMulNBitsQuantizer(onnx.load(path), bits, 32, is_symmetric=True)
                made.process()
                peers.append(session(made.model.model.SerializeToString(), options.threads))
            runs = [partial(call, **feed) for call in calls] + [partial(peer, feed) for peer in peers]
            times = alternating(runs, 10 * options.rounds)
        print(f"{f'{rows} x {terms} by {channels}':28s} " + " ".join(f"{1e6 * seconds:15.0f}" for seconds in times))


def main() -> None:
    """Both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=CACHE / "minilm.onnx", help="MiniLM as ONNX (default: %(default)s)")
    parser.add_argument("--data", default=CACHE / "sentences.npz", help="token sequences (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=30, help="calls of each row (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="threads of every engine (default: %(default)s)")
    parser.add_argument("--integers", action="store_true", help="also 4-bit weights with 8-bit activations")
    options = parser.parse_args()
    logging.disable(logging.INFO)  # onnxruntime's quantizer turns on all messages
    network_table(options)
    product_table(options)


if __name__ == "__main__":
    main()
