"""One root for all errors that input can cause, and the guard around parsers."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import pytest

import zeropoint
from zeropoint.errors import Error, UnreadableFile, reading

# A kernel that leaves its buffers, a solver that goes on for ever.
OUR_FAULTS = {"NoProgress", "OverrunError"}
SIGNALS = {"NotFoundError", "_Interrupted", "_NoReader"}
"""Caught in the module that raises them: nobody sees them."""


def exceptions() -> set[type[BaseException]]:
    """The exception classes that zeropoint defines."""
    names = [module.name for module in pkgutil.walk_packages(zeropoint.__path__, "zeropoint.")]
    modules = [importlib.import_module(name) for name in names if not name.endswith("__main__")]
    return {
        found
        for module in modules
        for found in vars(module).values()
        if isinstance(found, type) and issubclass(found, BaseException) and found.__module__.startswith("zeropoint.")
    }


def test_every_error_that_input_can_cause_has_one_root() -> None:
    found = exceptions()
    assert zeropoint.Error in found
    assert {error.__name__ for error in found if not issubclass(error, Error)} == OUR_FAULTS | SIGNALS


class Refused(Error):
    pass


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (IndexError("list index out of range"), "unreadable a.onnx (IndexError: list index out of range)"),
        (KeyError(), "unreadable a.onnx (KeyError)"),
        (RecursionError("maximum recursion depth exceeded"), "unreadable a.onnx (nested too deeply)"),
        (MemoryError(), "unreadable a.onnx (needs more memory than there is)"),
        (UnreadableFile("unreadable b.mlir (why)"), "unreadable b.mlir (why)"),
        (Refused("found a, expected b"), "found a, expected b"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_guard_makes_every_exception_the_error_of_its_parser(raised: Exception, text: str) -> None:
    with pytest.raises(Refused) as error, reading(Path("a.onnx"), Refused):
        raise raised
    assert str(error.value) == text


def test_the_guard_says_where() -> None:
    raised = ValueError("bad")
    raised.add_note("line 7")
    with pytest.raises(UnreadableFile) as error, reading("a.mlir"):
        raise raised
    assert str(error.value) == "unreadable a.mlir (ValueError: bad, line 7)"


def test_the_guard_lets_errors_of_the_system_and_interruptions_pass() -> None:
    for raised in (FileNotFoundError(2, "No such file or directory"), KeyboardInterrupt()):
        with pytest.raises(type(raised)), reading("a.mlir"):
            raise raised
