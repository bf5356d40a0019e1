"""Progress: a bar on a terminal, nothing on a pipe."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

SCRIPT = """
import sys
from zeropoint.calibrate import bar
items = (n for n in range(3)) if sys.argv[1] == "unknown" else range(3)
assert list(bar(items, "calibrate")) == [0, 1, 2]
print("rich" in sys.modules)
"""


def run_on_terminal(argument: str) -> tuple[str, str]:
    """Standard output, and what a terminal at standard error got."""
    parent, child = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    command = [sys.executable, "-c", SCRIPT, argument]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=child, env=environment, text=True, check=True)
    os.close(child)
    shown = b""
    try:
        while chunk := os.read(parent, 65536):
            shown += chunk
    except OSError:  # the other end is closed
        pass
    os.close(parent)
    return done.stdout, shown.decode()


def test_nothing_is_shown_on_a_pipe_and_rich_is_not_imported():
    done = subprocess.run([sys.executable, "-c", SCRIPT, "known"], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout == "False\n"


def test_a_terminal_gets_a_bar_with_the_count_on_stderr_only():
    out, shown = run_on_terminal("known")
    assert out == "True\n"
    assert "calibrate" in shown
    assert "3/3" in shown


def test_a_stream_of_unknown_length_has_no_end():
    _, shown = run_on_terminal("unknown")
    assert "3/?" in shown
