"""C++ MLIR as an oracle of quant types and programs, and short ways to parse."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import ParseError

from oracle import mlir
from oracle.mlir import Outcome
from zeropoint.ir.context import new_context
from zeropoint.ir.parser import ProgramParser


@pytest.fixture(scope="session")
def upstream():
    mlir.require()
    return mlir.ORACLE


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
