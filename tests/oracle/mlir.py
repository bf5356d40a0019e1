"""C++ MLIR with StableHLO (the torch-mlir wheel) as an oracle: of types, of program text, of passes, of values.

`ORACLE` answers single questions. `checked(program)` is for every test that makes a program: it returns the program,
and fails where C++ MLIR does not read what we print, or we do not read what it prints.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, DenseResourceAttr
from xdsl.ir import Operation

from zeropoint.ir import text as text_module
from zeropoint.ir.printer import ProgramPrinter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.text import parse_program, print_program, resource_handles

SERVER = Path(__file__).with_name("mlir_server.py")
_LOST = re.compile(r'"quant\.(?!qcast|dcast|scast)(?=\w+"\()')  # ops; attributes may speak of them
_STAND_IN = '"lost_quant.'


class Rejected(Exception):
    """C++ MLIR did not accept a text; `sentences` are its error messages."""

    def __init__(self, sentences: list[str], text: str):
        super().__init__("\n".join([*sentences, text]))
        self.sentences = sentences


@dataclass(frozen=True)
class Accepted:
    """What C++ MLIR prints of a module: pretty, in generic form, and with locations."""

    text: str
    generic: str
    debug: str


@dataclass(frozen=True)
class Outcome:
    """What became of a text: it was accepted and printed, refused with a sentence at a place, or it crashed."""

    text: str | None = None
    error: str | None = None
    line: int | None = None
    column: int | None = None
    generic: str | None = None

    @property
    def crashed(self) -> bool:
        return self.text is None and self.error is None


def installed() -> bool:
    """Whether the oracle is installed."""
    return importlib.util.find_spec("torch_mlir") is not None


def require() -> None:
    """Skip the test where the oracle is not installed."""
    if not installed():
        pytest.skip("C++ MLIR (the torch-mlir wheel) is not installed")


class Oracle:
    """C++ MLIR in a child process, which is started again when a question crashes it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def ask(
        self, kind: str, text: str, pipeline: str | None = None, *, allow_unregistered: bool = False, **more: Any
    ) -> dict[str, Any]:
        """The answer to a question, as the server's docstring says; empty after a crash."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, str(SERVER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            atexit.register(self._process.kill)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        question = {"kind": kind, "text": text, "pipeline": pipeline, "allow_unregistered": allow_unregistered, **more}
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._process.communicate()
            self._process = None
            return {}
        return json.loads(line)

    def _outcome(self, answer: dict[str, Any]) -> Outcome:
        if "errors" in answer:
            first = answer["errors"][0]
            return Outcome(error=first["message"], line=first["line"], column=first["column"])
        return Outcome(text=answer.get("text"), generic=answer.get("generic"))

    def type(self, text: str) -> Outcome:
        """What becomes of a type."""
        return self._outcome(self.ask("type", text))

    def module(self, text: str, pipeline: str | None = None) -> Outcome:
        """What becomes of a module, after passes where a pipeline is given."""
        return self._outcome(self.ask("module", text, pipeline))

    def run(self, text: str, pipeline: str, array: Array, dtype: np.dtype[Any]) -> Array:
        """What @f makes of an array when it is compiled."""
        dtypes = [array.dtype.name, dtype.name]
        answer = self.ask("run", text, pipeline, input=array.reshape(-1).tolist(), shape=array.shape, dtypes=dtypes)
        assert "output" in answer, f"{answer}\n{text}"
        return np.array(answer["output"], dtype).reshape(array.shape)

    def call(self, program: Program, calls: Sequence[Sequence[Array]], pipeline: str = "") -> list[list[Array]]:
        """What the compiled @main of a program returns in each of several calls."""
        arguments = [
            [{"data": array.reshape(-1).tolist(), "shape": array.shape, "dtype": array.dtype.name} for array in arrays]
            for arrays in calls
        ]
        kinds = [(shape_of(port.type), element_dtype(element_of(port.type)).name) for port in program.outputs]
        results = [{"shape": shape, "dtype": dtype} for shape, dtype in kinds]
        text = with_inline_constants(program)
        answer = self.ask("call", text, pipeline, calls=arguments, results=results)
        assert "output" in answer, f"{answer}\n{text[:4000]}"
        return [
            [np.array(data, dtype).reshape(shape) for data, (shape, dtype) in zip(output, kinds, strict=True)]
            for output in answer["output"]
        ]


ORACLE = Oracle()


@functools.lru_cache(maxsize=1024)
def _ask(text: str, allow_unregistered: bool) -> Accepted | tuple[str, ...]:
    found = ORACLE.ask("module", text, allow_unregistered=allow_unregistered)
    if "text" in found:
        return Accepted(**found)
    return tuple(error["message"] for error in found.get("errors", [{"message": "C++ MLIR crashed"}]))


def parse(text: str, *, allow_unregistered: bool = False) -> Accepted:
    """What C++ MLIR makes of a module; raises `Rejected`. Skips the test where the oracle is not installed.

    Upstream's quant dialect lost its regions, statistics and fake quantization, and takes no ops that it does not know:
    with `allow_unregistered` they go there under another dialect's name.
    """
    require()
    found = _ask(_LOST.sub(_STAND_IN, text) if allow_unregistered else text, allow_unregistered)
    if isinstance(found, tuple):
        raise Rejected(list(found), text)
    texts = (found.text, found.generic, found.debug)
    return Accepted(*(answer.replace(_STAND_IN, '"quant.') for answer in texts))


def canonical(text: str, *, allow_unregistered: bool = False) -> str:
    """C++ MLIR's own print of a module."""
    return parse(text, allow_unregistered=allow_unregistered).text


def needs_unregistered(text: str) -> bool:
    """Whether a program has ops that C++ MLIR does not know."""
    return "fxpmath." in text or "quant.region" in text or _LOST.search(text) is not None


class _UpstreamPrinter(ProgramPrinter):
    """Prints the ops of the quant dialect that upstream lost in the generic form, which needs no dialect."""

    def print_op(self, op: Operation) -> None:
        before, self.print_generic_format = self.print_generic_format, op.name in ("quant.region", "quant.return")
        super().print_op(op)
        self.print_generic_format = before


def for_upstream(program: Program, *, locations: bool = False, inline_weights: bool = False) -> str:
    """The text of a program that C++ MLIR can read."""
    with patch.object(text_module, "ProgramPrinter", _UpstreamPrinter):
        return print_program(program, locations=locations, inline_weights=inline_weights)


def with_inline_constants(program: Program) -> str:
    """The text of a program without handles: the engine compiles no resources."""
    program = program.clone()
    for op in program.module.walk():
        for name, value in op.properties.items():
            if isinstance(value, DenseResourceAttr):
                data = BytesAttr(np.ascontiguousarray(program.weights.array(value)).tobytes())
                op.properties[name] = DenseIntOrFPElementsAttr(value.type, data)
    return for_upstream(program)


def nameless(text: str) -> Program:
    """The program that a text holds, with numbers for names: C++ MLIR numbers values of its own accord."""
    program = parse_program(text)
    for op in program.module.walk():
        for value in (
            *op.results,
            *(argument for region in op.regions for block in region.blocks for argument in block.args),
        ):
            value.name_hint = None
    return program


def roundtrip(text: str) -> Program:
    """Fail unless our print of a program goes through C++ MLIR and comes back the same, in every form.

    The program is the one that the text holds; large constants whose data is there are put inline.
    """
    unregistered = needs_unregistered(text)
    program = nameless(text)
    inline = all(handle in program.weights for handle in resource_handles(program.module))
    ours = print_program(program, inline_weights=inline)
    theirs = parse(for_upstream(program, inline_weights=inline), allow_unregistered=unregistered)
    assert print_program(nameless(theirs.text), inline_weights=inline) == ours
    assert print_program(nameless(theirs.generic), inline_weights=inline) == ours
    generic = print_program(program, generic=True, inline_weights=inline)
    assert canonical(generic, allow_unregistered=unregistered) == theirs.text
    if "loc(" in print_program(program, locations=True):
        _roundtrip_locations(program, unregistered)
    return program


def _roundtrip_locations(program: Program, unregistered: bool) -> None:
    theirs = parse(for_upstream(program, locations=True), allow_unregistered=unregistered)
    returned = for_upstream(nameless(theirs.debug), locations=True)
    assert parse(returned, allow_unregistered=unregistered).debug == theirs.debug


def checked(program: Program | str) -> Program:
    """A program, or the one that a text holds, after C++ MLIR has read what we print and we what it prints."""
    text = program if isinstance(program, str) else print_program(program, locations=True, inline_weights=True)
    roundtrip(text)
    return parse_program(text) if isinstance(program, str) else program
