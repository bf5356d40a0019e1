"""C++ MLIR with StableHLO (the torch-mlir wheel) as an oracle of program text.

`checked(program)` is for every test that makes a program: it returns the program, and fails where C++ MLIR does not
read what we print, or we do not read what it prints.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program, print_program, resource_handles

SERVER = Path(__file__).with_name("mlir_server.py")
_LOST = re.compile(r'"quant\.(?!qcast|dcast|scast)')
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


class _Server:
    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
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
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._process = None
            return {"errors": ["C++ MLIR crashed"]}
        return json.loads(line)


_SERVER = _Server()


@functools.lru_cache(maxsize=1024)
def _ask(text: str, allow_unregistered: bool) -> Accepted | tuple[str, ...]:
    found = _SERVER.ask({"text": text, "allow_unregistered": allow_unregistered})
    return tuple(found["errors"]) if "errors" in found else Accepted(**found)


def parse(text: str, *, allow_unregistered: bool = False) -> Accepted:
    """What C++ MLIR makes of a module; raises `Rejected`. Skips the test where the oracle is not installed.

    Upstream's quant dialect lost its regions, statistics and fake quantization, and takes no ops that it does not know:
    with `allow_unregistered` they go there under another dialect's name.
    """
    if importlib.util.find_spec("torch_mlir") is None:
        pytest.skip("C++ MLIR (the torch-mlir wheel) is not installed")
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
    return "fxpmath." in text or _LOST.search(text) is not None


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
    theirs = parse(ours, allow_unregistered=unregistered)
    assert print_program(nameless(theirs.text), inline_weights=inline) == ours
    assert print_program(nameless(theirs.generic), inline_weights=inline) == ours
    generic = print_program(program, generic=True, inline_weights=inline)
    assert canonical(generic, allow_unregistered=unregistered) == theirs.text
    if "loc(" in print_program(program, locations=True):
        _roundtrip_locations(program, unregistered)
    return program


def _roundtrip_locations(program: Program, unregistered: bool) -> None:
    ours = print_program(program, locations=True)
    theirs = parse(ours, allow_unregistered=unregistered)
    returned = print_program(nameless(theirs.debug), locations=True)
    assert parse(returned, allow_unregistered=unregistered).debug == theirs.debug


def checked(program: Program | str) -> Program:
    """A program, or the one that a text holds, after C++ MLIR has read what we print and we what it prints."""
    text = program if isinstance(program, str) else print_program(program, locations=True, inline_weights=True)
    roundtrip(text)
    return parse_program(text) if isinstance(program, str) else program
