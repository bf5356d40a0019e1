"""Standard streams that fail, Ctrl-C, and wrong usage: a status and at most one line, never a traceback."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import zeropoint as zp
from forked_commands import served
from zeropoint.cli import main

PROGRAM = """func.func @main(%x: tensor<1x4xf32> {zeropoint.name = "x"}) -> tensor<1x4xf32> {
  %0 = stablehlo.tanh %x : tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}
"""
PREPARED = (
    ["opt", "m.mlir", "-p", "simplify", "-o", "n.mlir"],
    ["run", "m.mlir", "--args", "[dense<1.0> : tensor<1x4xf32>]"],
    ["quantize", "m.mlir", "--data", "d.npz", "--effort", "none", "-o", "q.mlir"],
    ["calibrate", "m.mlir", "--data", "d.npz", "-o", "s.json"],
    ["report", "q.mlir", "--no-timing", "-o", "r.html"],
    ["explain", "m.mlir"],
)
CLOSED, FULL = "standard output: Bad file descriptor", "standard output: No space left on device"
CASES = {
    "help to a full device": ("--help > /dev/full", 2, FULL),
    "help of a command to a full device": ("opt --help > /dev/full", 2, FULL),
    "version to a full device": ("--version > /dev/full", 2, FULL),
    "text to a full device": ("opt m.mlir > /dev/full", 2, FULL),
    "help to a closed stream": ("--help >&-", 2, CLOSED),
    "text to a closed stream": ("opt m.mlir >&-", 2, CLOSED),
    "printed values to a closed stream": ("run m.mlir --args '[dense<1.0> : tensor<1x4xf32>]' >&-", 2, CLOSED),
    "text to a full device as the output": ("opt m.mlir -o /dev/full", 2, "/dev/full: No space left on device"),
    "text to a closed stream as the output": ("opt m.mlir -o /dev/stdout >&-", 2, "/dev/stdout: Bad file descriptor"),
    "a reader of the output that leaves": ("opt m.mlir -o /dev/stdout | true; exit ${PIPESTATUS[0]}", 141, ""),
    "no output to a closed stream": ("opt m.mlir -o out.mlir >&-", 0, ""),
    "an error, all streams closed": ("opt none.mlir <&- >&- 2>&-", 2, ""),
    "an error to a full device": ("opt none.mlir 2>/dev/full", 2, ""),
    "messages to a full device": ("opt m.mlir -p simplify -v -o out.mlir 2>/dev/full", 0, ""),
    "a closed input": ("opt - <&-", 2, "standard input: Bad file descriptor"),
    "bytes as the input": ("opt - < d.npz", 2, "standard input: found bytes that are not text, expected MLIR"),
    "a reader that leaves": ("opt m.mlir | true; exit ${PIPESTATUS[0]}", 141, ""),
}
OUTPUTS = {
    "text to no device": ("opt m.mlir -o /dev/null", 0, ""),
    "a journal beside a device": (
        "quantize m.mlir --data d.npz -o /dev/null --resume",
        2,
        "found --resume with /dev/null, which has no journal beside it, expected the name of a file",
    ),
    "a binary file into a pipe": (
        "run m.mlir --input d.npz -o /dev/stdout",
        2,
        "/dev/stdout: found suffix '', expected .npz",
    ),
    "a dash for a binary file": ("run m.mlir --input d.npz -o -", 2, "/dev/stdout: found suffix '', expected .npz"),
    "a dash for two outputs": (
        "quantize m.mlir --data d.npz -o - --report -",
        2,
        "/dev/stdout: found the stream of another output, expected a file or another stream",
    ),
    "a dash for a folder of programs": (
        "quantize m.mlir --data d.npz --shape x=1..2x4 -o -",
        2,
        "/dev/stdout: found a file for several shapes, expected the name of a folder: -o models",
    ),
    "a file that cannot be made": ("opt m.mlir -o /proc/out.mlir", 2, "/proc/out.mlir: No such file or directory"),
    "a name that a terminal obeys": (
        "opt 'a\x1b]0;x\x07\x1b[31m.mlir'",
        2,
        r"a\x1b]0;x\x07\x1b[31m.mlir: No such file or directory",
    ),
    "a name that is too long": (
        f"opt m.mlir -o {'a' * 251}.mlir",
        2,
        f"{'a' * 28}...{'a' * 23}.mlir: found a file name that is too long, expected a shorter one",
    ),
}
"""Outputs that are checked before anything is written: no process of their own needed."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("streams")
    (found / "m.mlir").write_text(PROGRAM)
    np.savez(found / "d.npz", x=np.ones((4, 1, 4), np.float32))
    return found


@pytest.fixture(scope="module")
def zeropoint(folder: Path) -> Iterator[str]:
    """The shell command, without its imports."""
    with served(str(folder), PREPARED) as command:
        yield command


@pytest.mark.parametrize("name", CASES)
def test_a_stream_that_fails_gives_a_status_and_at_most_a_line(name: str, zeropoint: str, folder: Path) -> None:
    """Commands that read no program have processes of their own."""
    command, status, line = CASES[name]
    ours = f"{sys.executable} -m zeropoint" if "m.mlir" not in command else zeropoint
    done = subprocess.run(
        ["bash", "-c", f"{ours} {command}"],
        cwd=folder,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert (done.returncode, done.stderr) == (status, line and f"zeropoint: {line}\n")


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_output_is_taken_or_refused_in_a_line(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    command, status, line = OUTPUTS[name]
    done = CliRunner().invoke(main, shlex.split(command), prog_name="zeropoint")
    assert (done.exit_code, done.stderr) == (status, line and f"zeropoint: {line}\n")


@pytest.mark.parametrize(
    ("command", "first"),
    [
        ("opt m.mlir -p simplify", "builtin.module {"),
        ("quantize m.mlir --data d.npz --effort none", "builtin.module attributes {zeropoint.profile"),
        ("calibrate m.mlir --data d.npz", '{"format": "zeropoint statistics 1"'),
        ("report q.mlir --no-timing", "<!doctype html>"),
    ],
)
def test_text_is_written_into_streams(command: str, first: str, zeropoint: str, folder: Path) -> None:
    if command.startswith("report"):
        quantize_in_process(folder)
    # What was written to the file before stays, and what comes after follows.
    done = _shell(f"(echo before; {zeropoint} {command} -o -; echo after) > f; cat f", folder)
    assert not (folder / "-").exists()
    assert done.stdout.startswith(f"before\n{first}")
    assert done.stdout.endswith("\nafter\n")
    assert ("wrote /dev/stdout\n" in done.stderr) == (not command.startswith("opt"))  # not among the text


def test_files_and_pipes_with_and_without_a_name_get_the_same_text(zeropoint: str, folder: Path) -> None:
    command = f"{zeropoint} opt m.mlir"
    texts = [
        _shell(f"{command} -o /dev/stdout | cat", folder).stdout,
        _shell(f"{command} -o /dev/stdout > f; cat f", folder).stdout,
        _shell(f"{command} -o - | cat", folder).stdout,
        _shell(f"mkfifo p.mlir; cat p.mlir & {command} -o p.mlir; wait; test -p p.mlir && rm p.mlir", folder).stdout,
    ]
    assert texts == [texts[0]] * 4
    assert texts[0].startswith("builtin.module {")


def quantize_in_process(folder: Path) -> None:
    """Make q.mlir of m.mlir, as `zeropoint quantize` in the folder does."""
    with contextlib.chdir(folder):
        arguments = ["quantize", "m.mlir", "--data", "d.npz", "--effort", "none", "-o", "q.mlir"]
        assert CliRunner().invoke(main, arguments).exit_code == 0


def _shell(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", text], cwd=folder, capture_output=True, text=True, check=True)


def test_large_weights_are_inline_in_a_stream(zeropoint: str, folder: Path) -> None:
    weights = np.random.default_rng(0).normal(size=(32, 32))
    kinds = "(tensor<1x32xf32>, tensor<32x32xf32>) -> tensor<1x32xf32>"
    big = f"""func.func @main(%x: tensor<1x32xf32> {{zeropoint.name = "x"}}) -> tensor<1x32xf32> {{
  %w = stablehlo.constant dense<{weights.tolist()}> : tensor<32x32xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : {kinds}
  return %0 : tensor<1x32xf32>
}}"""
    (folder / "big.mlir").write_text(big)
    np.savez(folder / "big.npz", x=np.ones((4, 1, 32), np.float32))
    _shell(f"{zeropoint} quantize big.mlir --data big.npz --effort none -o /dev/stdout > written.mlir", folder)
    assert "dialect_resources" in (folder / "written.mlir").read_text()
    assert not (folder / "written.safetensors").exists()
    zp.load(folder / "written.mlir")


def test_a_file_that_is_opened_does_not_take_the_place_of_a_closed_stream(zeropoint: str, folder: Path) -> None:
    command = f"{zeropoint} quantize m.mlir --data d.npz --effort none -o q.mlir <&- >&- 2>&-"
    closed = subprocess.run(["bash", "-c", command], cwd=folder)
    assert closed.returncode == 2  # for the summary; the program has been written
    found = (folder / "q.mlir").read_bytes()
    quantize_in_process(folder)
    assert (folder / "q.mlir").read_bytes() == found


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_names_that_the_encoding_does_not_have_are_printed(encoding: str, zeropoint: str, tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(PROGRAM.replace('"x"', '"日é\\FF"'), encoding="utf-8")
    done = subprocess.run(
        [*shlex.split(zeropoint), "explain", "m.mlir"],
        cwd=tmp_path,
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding, "LC_ALL": "C"},
    )
    assert done.returncode in (0, 2), done.stderr
    assert done.stderr.count(b"\n") <= 1


def test_ctrl_c_ends_in_a_line_and_status_130(folder: Path) -> None:
    command = [sys.executable, "-m", "zeropoint", "opt", "-"]
    pipe = subprocess.PIPE
    heed: Any = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731 (jobs in the background ignore it)
    with subprocess.Popen(command, cwd=folder, stdin=pipe, stderr=pipe, text=True, preexec_fn=heed) as process:
        deadline = time.monotonic() + 30
        while "pipe_read" not in Path(f"/proc/{process.pid}/wchan").read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert (process.returncode, said) == (130, "zeropoint: interrupted\n")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["quantize", "--foo"], "zeropoint quantize: No such option '--foo'"),
        (["quantize", "m.mlir"], "zeropoint quantize: Missing option '-o' / '--output'"),
        (["opt", "m.mlir", "-o", "."], "zeropoint opt: Invalid value for '-o' / '--output': File '.' is a directory"),
        (["opt"], "zeropoint opt: Missing argument 'FILE'"),
        (["run", "m.mlir", "--max-trips", "a"], "zeropoint run: Invalid value for '--max-trips': 'a' is not a valid"),
        (["nothing"], "zeropoint: No such command 'nothing'"),
    ],
)
def test_wrong_usage_is_one_line_that_names_the_help(arguments: list[str], line: str) -> None:
    result = CliRunner().invoke(main, arguments, prog_name="zeropoint")
    assert result.exit_code == 2
    assert result.stderr.startswith(line)
    assert result.stderr.endswith(f"; see '{line.partition(':')[0]} --help'\n")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("option", ["--save-stages", "--model-explorer"])
def test_a_dash_is_no_folder(option: str) -> None:
    result = CliRunner().invoke(main, ["quantize", "m.mlir", "-o", "q.mlir", option, "-"], prog_name="zeropoint")
    assert result.exit_code == 2
    assert "found '-', standard output, expected a folder" in result.stderr


def test_no_command_prints_the_help() -> None:
    result = CliRunner().invoke(main, [], prog_name="zeropoint")
    assert result.exit_code == 2
    assert "Commands:" in result.stderr


def test_warnings_of_libraries_are_printed_only_if_python_is_asked_for_them(folder: Path) -> None:
    (folder / "warns.py").write_text(
        "import warnings\n"
        "import click\n"
        "from zeropoint.cli import main\n"
        "@click.command()\n"
        "def warn():\n"
        "    warnings.warn('old')\n"
        "main.add_command(warn)\n"
        "main(['warn'])\n"
    )
    for setting, said in (("", ""), ("default", "UserWarning: old")):
        environment = {**os.environ, "PYTHONWARNINGS": setting}
        done = subprocess.run([sys.executable, "warns.py"], cwd=folder, capture_output=True, text=True, env=environment)
        assert done.returncode == 0
        assert said in done.stderr
        assert bool(said) == bool(done.stderr)


INTERRUPTED_IMPORT = """
import _thread, signal, sys, weakref

class Waits:
    pass

class Finder:
    def find_spec(self, name, *others):
        if name == {module!r}:
            {way}

def lose():
    found = Waits()
    callback = weakref.ref(found, lambda _: signal.raise_signal(signal.SIGINT))
    del found

sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize(
    "way",
    ["signal.raise_signal(signal.SIGINT)", "exec('signal.raise_signal(signal.SIGINT)')", "lose()"],
    ids=["where it is raised", "in a text that is executed", "where exceptions are dropped"],
)
@pytest.mark.parametrize("module", ["click", "zeropoint.ir.program"], ids=["before the command line", "in a command"])
def test_ctrl_c_while_modules_are_imported_is_a_line_and_a_status(
    module: str, way: str, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTED_IMPORT.format(module=module, way=way))
    done = subprocess.run(
        [sys.executable, "-m", "zeropoint", "explain", str(folder / "m.mlir")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # jobs in the background ignore it
    )
    assert (done.returncode, done.stderr) == (130, "zeropoint: interrupted\n")


def test_names_in_a_file_do_not_command_the_terminal(zeropoint: str, tmp_path: Path) -> None:
    named = PROGRAM.replace("tensor<1x4xf32>\n  return", 'tensor<1x4xf32> loc("a\\1B]0;x\\07b")\n  return')
    (tmp_path / "m.mlir").write_text(named)
    ours, theirs = os.openpty()
    subprocess.run([*shlex.split(zeropoint), "explain", "m.mlir"], cwd=tmp_path, stdout=theirs, check=True)
    os.close(theirs)
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        shown = terminal.read(65536)
    assert b"]0;x" in shown
    assert b"\x1b" not in shown
    assert b"\x07" not in shown
