"""C++ MLIR as an oracle in a child process, and short ways to parse."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from xdsl.utils.exceptions import ParseError

from zeropoint.ir.context import new_context
from zeropoint.ir.parser import ProgramParser

SERVER = Path(__file__).with_name("upstream_server.py")


@dataclass(frozen=True)
class Outcome:
    """What became of a text: it was accepted and printed, refused with a sentence at a place, or it crashed."""

    text: str | None = None
    error: str | None = None
    column: int | None = None
    generic: str | None = None
    output: list[float] | None = None

    @property
    def crashed(self) -> bool:
        return self.text is None and self.error is None


class Upstream:
    """C++ MLIR; started again when a question crashes it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def _ask(self, kind: str, text: str, pipeline: str | None, **more: object) -> Outcome:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, str(SERVER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        process = self._process
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps({"kind": kind, "text": text, "pipeline": pipeline, **more}) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            self.close()
            return Outcome()
        found = json.loads(line)
        places = ("text", "error", "column", "generic", "output")
        return Outcome(**{place: found.get(place) for place in places})

    def type(self, text: str) -> Outcome:
        return self._ask("type", text, None)

    def module(self, text: str, pipeline: str | None = None) -> Outcome:
        return self._ask("module", text, pipeline)

    def run(self, text: str, pipeline: str, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """What @f makes of an array when it is compiled."""
        dtypes = [array.dtype.name, dtype.name]
        outcome = self._ask(
            "run", text, pipeline, input=array.reshape(-1).tolist(), shape=list(array.shape), dtypes=dtypes
        )
        assert outcome.output is not None, f"{outcome}\n{text}"
        return np.array(outcome.output, dtype).reshape(array.shape)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@pytest.fixture(scope="session")
def upstream():
    if importlib.util.find_spec("torch_mlir") is None:
        pytest.skip("C++ MLIR (the torch-mlir wheel) is not installed")
    server = Upstream()
    yield server
    server.close()


@pytest.fixture(scope="session")
def context():
    return new_context()


@pytest.fixture(scope="session")
def parse_type(context):
    """The type that a text holds, all of it."""

    def parse(text: str):
        parser = ProgramParser(context, text, "<text>")
        found = parser.parse_type()
        if parser.pos != len(text):
            parser.raise_error(f"found trailing characters: '{text[parser.pos :]}'")
        return found

    return parse


@pytest.fixture(scope="session")
def parse_module(context):
    """The module that a text holds, verified."""

    def parse(text: str):
        module = ProgramParser(context, text, "<text>").parse_module()
        module.verify()
        return module

    return parse


@pytest.fixture(scope="session")
def ours(parse_type):
    """The outcome of a type's text, in the form in which the oracle answers."""

    def outcome(text: str) -> Outcome:
        try:
            return Outcome(text=str(parse_type(text)))
        except ParseError as error:
            return Outcome(error=error.msg, column=error.span.get_location().col)

    return outcome
