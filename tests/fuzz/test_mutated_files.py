"""Mutated recipes, targets, statistics, weights, journals, images and .tflite files are accepted or refused.

Of text, tokens are changed; of a header, its JSON; of the others, bytes.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fuzz.cases import run
from fuzz.damage import damaged
from fuzz.survey import listed, survey
from fuzz.texts import PROGRAM, QUANTIZE, accepted, mutated

PICTURES = """func.func @main(%x: tensor<1x3x4x4xf32> {zeropoint.name = "x"}) -> tensor<1x3x4x4xf32> {
  %0 = stablehlo.tanh %x : tensor<1x3x4x4xf32>
  return %0 : tensor<1x3x4x4xf32>
}
"""
RECIPE = """rules:
  - name: dense
    bits: 8
    granularity: per_channel
    weight_bits: 8
    symmetric: true
  - regex: 'd.*e|ac.?t'
    quantize: true
  - op: tanh
    quantize: true
  - op: fully_connected
    range: [-1.5, 1.5]
  - subgraph: {from: dense, to: [act]}
    bits: &width 8
  - name: x
    scale: 0.01
    zero_point: -3
  - name: act
    bits: *width
"""
TARGET = """name = "mine"
profile = "fixed32"
description = "a table"
extends = "litert"
prefer = 8
real_results = true
least_sqnr = 20.5
scale_type = "f32"
bounds = [[0, inf], [0, 6], [-1, 1]]

[[kernel]]
name = ["fully_connected", "convolution"]
inputs = ["act i8", "weight i8<-127:127> zp=0 per_channel axis=0", "bias i32 zp=0 per_channel"]
output = "act i8"
relation = "multiplier_accumulator_scale"
accumulator = 32
profile = "fixed32"
checked = "no"

[[kernel]]
name = "tanh"
inputs = ["act i8"]
output = "act i8"
relation = "fixed_scale(1/128, 0)"
"""


def write_mutated(file: str, text: str, choose: random.Random) -> None:
    """Write a mutated text; sometimes its bytes are damaged as well."""
    data = mutated(text, choose).encode()
    Path(file).write_bytes(damaged(data, choose) if choose.random() < 0.1 else data)


SEARCH = [*QUANTIZE, "--budget", "quality=99,size=10"]
PICTURED = ["quantize", "pictures.mlir", "--data", "pictures", "--effort", "none", "-o", "q.mlir"]


def recipe_case(choose: random.Random) -> list[str]:
    write_mutated("r.yaml", RECIPE, choose)
    return [*QUANTIZE, "--recipe", "r.yaml"]


def target_case(choose: random.Random) -> list[str]:
    write_mutated("t.toml", TARGET, choose)
    return ["targets", "./t.toml"] if choose.random() < 0.3 else [*QUANTIZE, "--target", "./t.toml"]


def statistics_case(choose: random.Random) -> list[str]:
    write_mutated("s.json", Path("good.json").read_text(), choose)
    return ["opt", "asked.mlir", "-p", "state-statistics{file=s.json},propagate{target=cpu},materialize"]


def weights_case(choose: random.Random) -> list[str]:
    """A safetensors file whose header lies, or whose bytes are damaged."""
    data = Path("good.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    if choose.random() < 0.7:
        header = mutated(json.dumps(json.loads(data[8 : 8 + size])), choose).encode()
        stated = choose.choice((len(header), len(header), len(header), 0, 2**63, 2**64 - 1, len(header) + 1))
        data = stated.to_bytes(8, "little") + header + data[8 + size :]
    Path("weights.safetensors").write_bytes(damaged(data, choose, size + 8) if choose.random() < 0.4 else data)
    return choose.choice((["explain", "weights.mlir"], ["run", "weights.mlir", "--input", "good.npz", "-o", "o.npz"]))


def journal_case(choose: random.Random) -> list[str]:
    Path(".q.mlir.journal").write_bytes(damaged(Path("good.journal").read_bytes(), choose, 3000))
    return [*QUANTIZE, "--resume"]


def search_case(choose: random.Random) -> list[str]:
    """The journal of a search for a budget, of which records are changed, or the first line as well."""
    first, _, records = Path("good.search").read_text().partition("\n")
    head = first if choose.random() < 0.9 else mutated(first, choose)
    data = f"{head}\n{mutated(records, choose)}".encode()
    Path(".q.mlir.journal.budget").write_bytes(damaged(data, choose) if choose.random() < 0.1 else data)
    return [*SEARCH, "--resume"]


def picture_case(choose: random.Random) -> list[str]:
    kind = choose.choice(("png", "jpeg", "gif", "bmp", "tiff", "webp", "ppm"))
    for old in Path("pictures").iterdir():
        old.unlink()
    data = damaged(Path(f"good.{kind}").read_bytes(), choose, 200)
    Path("pictures", f"a.{choose.choice((kind, kind, 'png', 'npy'))}").write_bytes(data)
    steps = choose.choice(("resize=8 crop=4", "crop=4", "resize=99999x99999", "scale=nan crop=4", "mean=1,2 crop=4"))
    return [*PICTURED, "--preprocess", steps]


def litert_case(choose: random.Random) -> list[str]:
    """Bytes and little-endian words of a flat buffer: offsets, lengths, enumerations."""
    data = bytearray(Path("good.tflite").read_bytes())
    for _ in range(choose.choice((0, 1, 1, 2, 5))):
        at = choose.randrange(0, len(data) - 4, 4)
        word = choose.choice((0, 1, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(data), choose.randrange(len(data))))
        data[at : at + 4] = word.to_bytes(4, "little")
    Path("m.tflite").write_bytes(damaged(bytes(data), choose) if choose.random() < 0.4 else bytes(data))
    return choose.choice((["explain", "m.tflite"], ["run", "m.tflite", "--input", "good.npz", "-o", "o.npz"]))


def prepare(formats: Sequence[str]) -> None:
    """What the cases read, in the working folder. Without a mutation all is accepted; the imports are then done."""
    Path("float.mlir").write_text(PROGRAM)
    rows = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
    np.savez("good.npz", x=rows)
    if "recipe" in formats:
        Path("r.yaml").write_text(RECIPE)
        accepted(*QUANTIZE, "--recipe", "r.yaml")
    if "target" in formats:
        Path("t.toml").write_text(TARGET)
        accepted(*QUANTIZE, "--target", "./t.toml")
        accepted("targets", "./t.toml")
    if "statistics" in formats:
        accepted("opt", "float.mlir", "-p", "simplify,fuse,instrument{target=cpu}", "-o", "asked.mlir")
        accepted("calibrate", "asked.mlir", "--data", "good.npz", "-o", "good.json")
        Path("s.json").write_text(Path("good.json").read_text())
        accepted("opt", "asked.mlir", "-p", "state-statistics{file=s.json},propagate{target=cpu},materialize")
    if "weights" in formats:
        accepted("opt", "float.mlir", "-p", "simplify", "-o", "weights.mlir")
        Path("good.safetensors").write_bytes(Path("weights.safetensors").read_bytes())
        accepted("explain", "weights.mlir")
        accepted("run", "weights.mlir", "--input", "good.npz", "-o", "o.npz")
    if "journal" in formats:
        _write_journal()
        accepted(*QUANTIZE, "--resume")
    if "search" in formats:
        assert run(SEARCH)[0] == "refused"  # which leaves the journal
        Path("good.search").write_bytes(Path(".q.mlir.journal.budget").read_bytes())
        assert run([*SEARCH, "--resume"])[0] == "refused"
    if "picture" in formats:
        _write_pictures()
    if "litert" in formats:
        accepted(*QUANTIZE[:-1], "good.tflite", "--target", "litert")
        accepted("explain", "good.tflite")
        accepted("run", "good.tflite", "--input", "good.npz", "-o", "o.npz")


def _write_journal() -> None:
    """The journal of a calibration that wrote one at once."""
    from zeropoint.calibrate import journal

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "SECONDS", 0.0)
        patch.setattr(Path, "unlink", _kept(Path.unlink))
        accepted(*QUANTIZE)
    Path("good.journal").write_bytes(Path(".q.mlir.journal").read_bytes())


def _kept(unlink: Callable[..., None]) -> Callable[..., None]:
    return lambda path, *rest, **named: None if path.name.endswith(".journal") else unlink(path, *rest, **named)


def _write_pictures() -> None:
    Path("pictures.mlir").write_text(PICTURES)
    Path("pictures").mkdir(exist_ok=True)
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (9, 8, 3), np.uint8))
    for kind in ("png", "jpeg", "gif", "bmp", "tiff", "webp", "ppm"):
        held = io.BytesIO()
        picture.save(held, kind)
        Path(f"good.{kind}").write_bytes(held.getvalue())
        Path("pictures", f"{kind}.{kind}").write_bytes(held.getvalue())
    accepted(*PICTURED, "--preprocess", "resize=8 crop=4")


CASES = {
    "recipe": (recipe_case, 15),
    "target": (target_case, 15),
    "statistics": (statistics_case, 15),
    "weights": (weights_case, 15),
    "journal": (journal_case, 10),
    "search": (search_case, 10),
    "picture": (picture_case, 10),
    "litert": (litert_case, 15),
}


@pytest.mark.parametrize("kind", CASES)
def test_mutated_files_are_accepted_or_refused(kind: str) -> None:
    if kind == "litert" and find_spec("ai_edge_litert") is None:
        pytest.skip("the schema of .tflite files is not installed")
    make, count = CASES[kind]
    bugs = survey(kind, make, partial(prepare, (kind,)), count)
    assert not bugs, listed(bugs)
