"""Mutated folders of saved stages and StableHLO's portable artifacts are accepted or refused.

Of a stage, the text or its weights are changed; of an artifact, bytes, or names that it then means something else by.
"""

from __future__ import annotations

import faulthandler
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fuzz.damage import damaged
from fuzz.survey import listed, survey
from fuzz.texts import PROGRAM, QUANTIZE, accepted, mutated, mutated_text
from zeropoint.frontend import artifact, artifact_text

REPORT = ["report", "stages/6-integer.mlir", "--stages", "stages", "--no-timing", "-o", "r.json"]
COMMANDS = {
    # stage: the commands that read it, each with the files of the stage as its first argument
    "1-fused": (["opt", "-p", "instrument{target=cpu},channels-last,unfuse"], ["explain"]),
    "2-calibrated": (["opt", "-p", "propagate{target=litert},materialize"], ["explain"], ["opt", "-p", "unfuse"]),
    "3-propagated": (["export", "-o", "e.tflite"], ["opt", "-p", "materialize,integer-program"]),
    "4-corrected": (["export", "-o", "e.tflite"], ["opt", "-p", "move-rescales,insert-casts"], ["explain"]),
    "5-quantized": (["opt", "-p", "integer-program,lower-to-standard"], ["explain"]),
    "6-integer": (
        ["run", "--input", "good.npz", "--engine", "native", "-o", "o.npz"],
        ["run", "--input", "good.npz", "--engine", "interp", "-o", "o.npz"],
        ["opt", "-p", "lower-to-loops"],
        ["opt", "-p", "group,layout"],
        ["compile", "-o", "compiled.o"],
        ["explain"],
    ),
}


def stages_case(choose: random.Random) -> list[str]:
    """A folder of which one stage or its weights are changed, or of which a file is missing or another's."""
    shutil.rmtree("stages", ignore_errors=True)
    shutil.copytree("good", "stages")
    stage = choose.choice(list(COMMANDS))
    text, weights = Path("stages", f"{stage}.mlir"), Path("stages", f"{stage}.safetensors")
    match choose.randrange(8):
        case 0:
            weights.write_bytes(damaged(weights.read_bytes(), choose, 400))
        case 1:
            other = choose.choice(list(Path("good").iterdir()))
            choose.choice((text, weights)).write_bytes(other.read_bytes())
        case 2:
            text.write_bytes(damaged(text.read_bytes(), choose))
        case 3:
            choose.choice((text, weights)).unlink()
        case 4 | 5:
            text.write_text(mutated(text.read_text(), choose))
        case _:
            text.write_text(mutated_text(choose, text.read_text()))
    command, *options = choose.choice(COMMANDS[stage])
    return REPORT if choose.random() < 0.3 else [command, str(text), *options]


def _read_in_a_fork(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
    """The reader of artifacts in a fork of this process: a new one takes seconds to import it."""
    with tempfile.TemporaryFile("w+") as text, tempfile.TemporaryFile("w+") as errors:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.dup2(errors.fileno(), 2)
                faulthandler.disable()  # the reader ends the process on some broken files, which is expected
                sys.stdout, sys.argv = text, command[2:]
                artifact_text.main()
                text.flush()
                code = 0
            finally:
                os._exit(code)
        status = os.waitpid(child, 0)[1]
        text.seek(0)
        errors.seek(0)
        found = text.read(), errors.read()
    return subprocess.CompletedProcess(command, os.waitstatus_to_exitcode(status), *found)


def artifact_case(choose: random.Random) -> list[str]:
    artifact.subprocess.run = _read_in_a_fork  # pyright: ignore (this is the child of one case)
    data = Path("good.mlirbc").read_bytes()
    if choose.random() < 0.6:
        names = [found.span() for found in re.finditer(rb"[A-Za-z_.0-9]{3,}", data)]
        for _ in range(choose.choice((1, 1, 2, 4))):
            (start, end), (other, _) = choose.choice(names), choose.choice(names)
            data = data[:start] + data[other : other + end - start] + data[end:]
    Path("m.mlirbc").write_bytes(damaged(data, choose) if choose.random() < 0.6 else data)
    return choose.choice(
        (["explain", "m.mlirbc"], ["run", "m.mlirbc", "--input", "good.npz", "-o", "o.npz"], ["opt", "m.mlirbc"])
    )


def prepare(kind: str) -> None:
    """What the cases read, in the working folder. Without a mutation all is accepted; the imports are then done."""
    Path("float.mlir").write_text(PROGRAM)
    np.savez("good.npz", x=np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32))
    if kind == "artifact":
        accepted(*QUANTIZE[:-1], "good.mlirbc", "--target", "stablehlo")
        accepted("run", "good.mlirbc", "--input", "good.npz", "-o", "o.npz")
        made: Any = import_module("torch_mlir.ir")
        import_module("torch_mlir._mlir_libs._stablehlo")
        assert made.Context is not None
        return
    accepted(*QUANTIZE, "--save-stages", "good", "--target", "litert")
    shutil.copytree("good", "stages")
    accepted(*REPORT)
    for stage, commands in COMMANDS.items():
        for command, *options in commands:
            accepted(command, f"stages/{stage}.mlir", *options)


@pytest.mark.parametrize(("kind", "count"), [("stages", 25), ("artifact", 10)])
def test_mutated_stages_and_artifacts_are_accepted_or_refused(kind: str, count: int) -> None:
    if kind == "artifact" and find_spec("torch_mlir") is None:
        pytest.skip("torch-mlir, which reads artifacts, is not installed")
    bugs = survey(kind, stages_case if kind == "stages" else artifact_case, partial(prepare, kind), count)
    assert not bugs, listed(bugs)
