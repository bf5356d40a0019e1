"""One root for all errors that input can cause, and the guard around parsers."""

from __future__ import annotations

import errno
import importlib
import os
import pickle
import pkgutil
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import zeropoint
from zeropoint.calibrate.collect import CalibrationError
from zeropoint.errors import WHOLE, Error, UnreadableFile, is_out_of_memory, json_object, reading
from zeropoint.frontend.errors import DynamicShapes, NodeError
from zeropoint.frontend.ranks import UnrankedInputs
from zeropoint.ir.inlining import RecursionInProgram
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import InvalidProgram

# A kernel that leaves its buffers, a solver that goes on for ever.
OUR_FAULTS = {"NoProgress", "OverrunError"}
SIGNALS = {
    "NotFoundError",
    "_BadHeader",
    "_Damage",
    "_Foreign",
    "_Interrupted",
    "_OtherError",
    "_Misformed",
    "_NoReader",
    "_MissingStep",
}
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


LONG = 400
"""More ops than Python's recursion limit lets pickle follow."""


def test_errors_pass_to_other_processes() -> None:
    lines = [f"%{n + 1} = stablehlo.add %{n}, %{n} : tensor<2xf32>" for n in range(LONG)]
    body = "\n".join([*lines, f"return %{LONG} : tensor<2xf32>"])
    program = parse_program(f"func.func @main(%0: tensor<2xf32>) -> tensor<2xf32> {{\n{body}\n}}")
    (op, *_) = program.entry.ops
    made: list[Error] = [
        CalibrationError("found no samples", op),
        InvalidProgram("found a wrong type", op, (op, "here")),
        RecursionInProgram("found a call of itself", op),
        DynamicShapes("found a dynamic dimension", {"x": (None, 3)}),
        UnrankedInputs(["x"], [program.entry.args[0].type]),
        NodeError("found an axis that is computed", "axis"),
    ]
    for error in made:
        error.add_note("a note")
        found = pickle.loads(pickle.dumps(error))
        assert type(found) is type(error)
        assert (str(found), found.__notes__) == (str(error), ["a note"])
        assert str(found.position) == ("<text>:2:6" if hasattr(error, "op") else "None")
    assert pickle.loads(pickle.dumps(made[3])).inputs == {"x": (None, 3)}


class Refused(Error):
    pass


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (IndexError("list index out of range"), f"unreadable a.onnx (IndexError: list index out of range){WHOLE}"),
        (KeyError(), f"unreadable a.onnx (KeyError){WHOLE}"),
        (RecursionError("maximum recursion depth exceeded"), "unreadable a.onnx (nested too deeply)"),
        (MemoryError(), "unreadable a.onnx (needs more memory than is available)"),
        (UnreadableFile("unreadable b.mlir (why)"), "unreadable b.mlir (why)"),
        (Refused("found a, expected b"), "found a, expected b"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_guard_makes_every_exception_the_error_of_its_parser(raised: Exception, text: str) -> None:
    with pytest.raises(Refused) as error, reading(Path("a.onnx"), Refused):
        raise raised
    assert str(error.value) == text


def as_llvmlite_does() -> None:
    try:
        raise OSError("libllvmlite.so: failed to map segment from shared object")
    except OSError:
        raise OSError("Could not find/load shared object file 'libllvmlite.so'")  # noqa: B904 (as llvmlite does)


def test_a_library_that_memory_is_too_small_for_is_not_called_missing() -> None:
    with pytest.raises(OSError, match="Could not find") as raised:
        as_llvmlite_does()
    assert is_out_of_memory(raised.value)
    assert is_out_of_memory(OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)))
    assert not is_out_of_memory(OSError(errno.ENOENT, "No such file or directory"))
    assert not is_out_of_memory(SystemError("error return without exception set"))


def test_an_error_without_words_while_no_memory_is_left_is_for_lack_of_it() -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_AS, (1, resource.RLIM_INFINITY))
            status = 0 if is_out_of_memory(SystemError("error return without exception set")) else 1
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


PROGRAM = 'func.func @main(%x: tensor<4xi8> {zeropoint.name = "x"}) -> tensor<4xi8> { return %x : tensor<4xi8> }'


def test_a_process_with_little_memory_says_that_it_ran_out(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(PROGRAM)
    np.savez(tmp_path / "x.npz", x=np.zeros((1, 4), np.int8))
    limit = resource.RLIMIT_AS, (250 << 20, 250 << 20)
    done = subprocess.run(
        [sys.executable, "-m", "zeropoint", "run", "m.mlir", "--input", "x.npz", "-o", "o.npz", "--engine", "native"],
        preexec_fn=lambda: resource.setrlimit(*limit),
        cwd=tmp_path,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, "memory" in done.stderr) in [(0, False), (2, True)], done.stderr


def test_the_guard_says_where() -> None:
    raised = ValueError("bad")
    raised.add_note("line 7")
    with pytest.raises(UnreadableFile) as error, reading("a.mlir"):
        raise raised
    assert str(error.value) == f"unreadable a.mlir (ValueError: bad, line 7){WHOLE}"


def test_the_guard_lets_errors_of_the_system_and_interruptions_pass() -> None:
    for raised in (FileNotFoundError(2, "No such file or directory"), KeyboardInterrupt()):
        with pytest.raises(type(raised)), reading("a.mlir"):
            raise raised


@pytest.mark.parametrize("text", ["", "{", "[1]", "3", b"\xff", "[" * 200_000])
def test_a_text_that_is_no_json_object_is_an_empty_one(text: str | bytes) -> None:
    assert json_object(text) == {}


def test_a_json_object_is_read() -> None:
    assert json_object(b'{"a": [1]}') == {"a": [1]}
