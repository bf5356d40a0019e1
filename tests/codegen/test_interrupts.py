"""Calls that are broken off: what they had begun is completed, and the next one works."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from codegen.classifier import classifier, image
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.codegen.runtime.workers import Workers
from zeropoint.interp import Interpreter


def called(program: NativeProgram, seed: int) -> np.ndarray:
    """The result of a call that has ten seconds for it."""
    found: list[np.ndarray] = []
    caller = threading.Thread(target=lambda: found.append(program(image(seed))["y0"]), daemon=True)
    caller.start()
    caller.join(10)
    assert found, "the call hangs"
    return found[0]


@pytest.mark.parametrize("bell", ["futex", "queue"])
@pytest.mark.parametrize("place", ["after the request", "before the caller's share", "after the caller's share"])
def test_a_call_that_is_interrupted_leaves_nothing_waiting(
    place: str, bell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if bell == "queue":
        monkeypatch.setattr("zeropoint.codegen.runtime.workers.FUTEXES", {})
    elif place != "after the request":
        pytest.skip("the request wakes the workers and computes the caller's share")
    before = set(threading.enumerate())
    program = NativeProgram(classifier(), threads=3)
    expected = [Interpreter(classifier())(image(seed))["y0"] for seed in range(3)]
    np.testing.assert_array_equal(called(program, 0), expected[0])
    (workers,) = (part._workers for part in program._slots)
    assert isinstance(workers, Workers)
    workers._trial = None  # all calls are shared
    request, first = workers._request, workers._share.first

    def interrupting_request(address: int) -> None:
        request(address)
        monkeypatch.undo()
        raise KeyboardInterrupt

    def interrupting_share(address: int) -> None:
        monkeypatch.undo()
        if place == "after the caller's share":
            first(address)
        raise KeyboardInterrupt

    for _ in range(3):
        time.sleep(0.3)  # the workers go to sleep
        if place == "after the request":
            monkeypatch.setattr(workers, "_request", interrupting_request)
        else:
            monkeypatch.setattr(workers._share, "first", interrupting_share)
        with pytest.raises(KeyboardInterrupt):
            program(image(1))
        np.testing.assert_array_equal(called(program, 2), expected[2])
    program.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()


SCRIPT = """
import signal, sys, time
import numpy as np
from codegen.classifier import classifier, image
from zeropoint.codegen.runtime.native import NativeProgram
program = NativeProgram(classifier(), threads=3, callers=2)
samples = [image(seed) for seed in range(4)]
expected = [program(sample)["y0"] for sample in samples]
random, interrupts, calls = np.random.default_rng(0), 0, 0
started = time.monotonic()
for sample in samples:
    program(sample)
each = (time.monotonic() - started) / 4
started = time.monotonic()
while interrupts < 11 or calls < 11 or (interrupts < 300 and time.monotonic() - started < 2):  # busy machines are slow
    if interrupts % 2:
        time.sleep(5e-3)  # the workers go to sleep
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-6 + 5 * each * random.random())
        while True:
            found = program(samples[calls % 4])["y0"]
            assert (found == expected[calls % 4]).all()
            calls += 1
    except KeyboardInterrupt:
        interrupts += 1
signal.setitimer(signal.ITIMER_REAL, 0)
for sample, wanted in zip(samples, expected):
    assert (program(sample)["y0"] == wanted).all()
program.close()
print(interrupts, calls)
"""


def test_interrupts_at_any_moment_do_no_harm() -> None:
    script = "import signal\nsignal.signal(signal.SIGALRM, signal.default_int_handler)\n" + SCRIPT
    folder = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    interrupts, calls = map(int, done.stdout.split())
    assert interrupts > 10
    assert calls > 10
