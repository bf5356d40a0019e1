"""Worker processes end with the process that started them, however that ends, and print nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

WORKING = """
import sys, time
from pathlib import Path

import joblib
from zeropoint.workers import completed

def work(number):
    Path(f"begun{number}").touch()
    time.sleep(100)

if __name__ == "__main__":
    try:
        with joblib.parallel_config(sys.argv[1]):
            list(completed(work, iter(range(int(sys.argv[2]))), 2))
    except KeyboardInterrupt:
        sys.exit("interrupted")
"""


@contextmanager
def working(folder: Path, backend: str, tasks: int) -> Iterator[subprocess.Popen[str]]:
    """A process whose two workers run tasks."""
    (folder / "working.py").write_text(WORKING)
    heed: Any = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731 (jobs in the background ignore it)
    command = [sys.executable, "working.py", backend, str(tasks)]
    with subprocess.Popen(
        command, cwd=folder, stderr=subprocess.PIPE, text=True, preexec_fn=heed, start_new_session=True
    ) as process:
        deadline = time.monotonic() + 100
        while len(list(folder.glob("begun*"))) < min(tasks, 2) and time.monotonic() < deadline:
            time.sleep(0.05)
        yield process


def test_ctrl_c_ends_workers_in_silence(tmp_path: Path) -> None:
    """Ctrl-C on a terminal goes to all processes of the group."""
    with working(tmp_path, "loky", 4) as process:
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate()
    assert said == "interrupted\n"


@pytest.mark.parametrize("backend", ["loky", "multiprocessing"])
def test_workers_end_soon_after_kill_9_of_their_parent(backend: str, tmp_path: Path) -> None:
    """With one task, a worker of two has none."""
    with working(tmp_path, backend, 1) as process:
        process.kill()
        process.communicate(timeout=20)  # to the end of standard error, which workers hold open
