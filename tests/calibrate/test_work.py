"""Calibration over workers and over runs that are killed: the same bits, nothing lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from calibrate.spread_runs import SAMPLES, deadly, network, whole
from networks import Network
from zeropoint import workers
from zeropoint.calibrate import DataError, JournalError, Observation, Work, WorkerError, collect, journal
from zeropoint.calibrate.choices import observer_factory
from zeropoint.calibrate.states import add, fits, take
from zeropoint.cli import main
from zeropoint.interp import ReferenceEngine, Runnable
from zeropoint.ir import outputs
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ExponentialOp
from zeropoint.ir.tensors import Array
from zeropoint.observed_ranges import check_journals


@pytest.fixture(autouse=True)
def every_chunk_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SECONDS", 0.0)
    monkeypatch.setattr(journal, "SHARE", 0)


@pytest.mark.parametrize("observer", ["entropy", "minmax", "moving_average", "mse", "output", "percentile:99.9"])
def test_the_bits_do_not_depend_on_the_number_of_workers(observer: str, tmp_path: Path) -> None:
    asked = network()
    expected = collect(asked, SAMPLES, observer=observer)
    several = (Work(2), Work(3, tmp_path / "k")) if observer == "mse" else ()  # what they pack: the test below
    for work in (Work(1, tmp_path / "j"), *several):
        found = collect(asked, SAMPLES, observer=observer, work=work)
        assert found.samples == 43
        assert whole(found) == whole(expected)


def test_observers_may_differ_by_key() -> None:
    asked = network()
    observers = {next(iter(collect(asked, SAMPLES[:1]).observations)): "percentile:60"}
    expected = collect(asked, SAMPLES, observers=observers)
    assert whole(collect(asked, SAMPLES, observers=observers, work=Work(2))) == whole(expected)


@pytest.mark.parametrize("name", ["entropy", "minmax", "moving_average", "mse", "output", "percentile:99"])
def test_what_was_packed_is_added_exactly(name: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=50).astype(np.float32) * 10.0**n for n in range(-40, 40, 9)]
    arrays += [np.float32([np.nan, np.inf, -np.inf, 0.0, -0.0])]
    expected, found, part = ({"k": observer_factory(name)()} for _ in range(3))
    for array in arrays:
        expected["k"].update(array)
        part["k"].update(array)
        packed = take(part)
        assert fits(found, packed)
        assert part["k"].count == 0
        add(found, packed)
    assert Observation.of(found["k"]) == Observation.of(expected["k"])
    assert found["k"].quantiles(64) == expected["k"].quantiles(64)


# Faults


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_workers_that_are_killed_lose_nothing(tmp_path: Path) -> None:
    asked = network()
    found = collect(asked, iter(SAMPLES), engine=deadly(tmp_path, 2), work=Work(2))
    assert not list(tmp_path.iterdir())
    assert found.samples == 43
    assert whole(found) == whole(collect(asked, SAMPLES))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_workers_that_always_die_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "DEATHS", 2)  # each death takes the time of starting two processes
    with pytest.raises(WorkerError, match=r"found workers that died 2 times .*; fewer workers need less memory"):
        collect(network(), SAMPLES, engine=deadly(tmp_path, 50), work=Work(2))


def test_the_error_of_a_sample_is_that_of_one_process() -> None:
    bad = [*SAMPLES[:20], {"x0": np.zeros((1, 31), np.float32)}, *SAMPLES[20:]]
    for work in (None, Work(2)):
        with pytest.raises(ValueError, match="found shape"):
            collect(network(), bad, work=work)


def test_an_error_of_the_data_comes_through() -> None:
    def stream():  # pyright: ignore[reportUnknownParameterType] (a stand-in for an engine)
        yield from SAMPLES[:30]
        raise DataError("the disk is gone")

    with pytest.raises(DataError, match="the disk is gone"):
        collect(network(), stream(), work=Work(2))


# The journal


def broken_off(asked: Program, path: Path, after: int, work: Work) -> None:
    """A run whose data ends with an error."""

    def stream():  # pyright: ignore[reportUnknownParameterType] (a stand-in for an engine)
        yield from SAMPLES[:after]
        raise DataError("broken off")

    with pytest.raises(DataError, match="broken off"):
        collect(asked, stream(), work=work)
    assert path.exists()


def test_a_run_goes_on_from_its_journal_with_the_same_bits(tmp_path: Path) -> None:
    asked, path = network(), tmp_path / "j"
    broken_off(asked, path, 30, Work(1, path))
    runs: list[int] = []

    class Counting(ReferenceEngine):
        def prepare(self, program: Program) -> Runnable:
            run = super().prepare(program)

            def counted(inputs: dict[str, Array], *, observe: object = None) -> dict[str, Array]:
                runs.append(1)
                return run(inputs, observe=observe)  # pyright: ignore[reportArgumentType] (a stand-in for an engine)

            return counted  # pyright: ignore[reportReturnType] (a stand-in for an engine)

    found = collect(asked, SAMPLES, engine=Counting(), work=Work(1, path, resume=True))
    assert len(runs) == 43 - 24
    assert found.samples == 43
    assert whole(found) == whole(collect(asked, SAMPLES))
    assert whole(collect(asked, SAMPLES, engine=Counting(), work=Work(1, path, resume=True))) == whole(found)
    assert len(runs) == 43 - 24  # nothing is run a second time


def test_workers_go_on_from_the_journal_of_one_process(tmp_path: Path) -> None:
    asked, path = network(), tmp_path / "j"
    broken_off(asked, path, 30, Work(1, path))
    assert whole(collect(asked, SAMPLES, work=Work(2, path, resume=True))) == whole(collect(asked, SAMPLES))
    assert [found.name for found in tmp_path.iterdir()] == ["j"]


def test_a_journal_of_something_else_is_refused(tmp_path: Path) -> None:
    asked, path = network(), tmp_path / "j"
    broken_off(asked, path, 30, Work(1, path))
    resume = Work(1, path, resume=True)
    with pytest.raises(JournalError, match="found the journal of another model or another observer"):
        collect(asked, SAMPLES, observer="mse", work=resume)
    with pytest.raises(JournalError, match="found other samples in chunk 1 than the journal"):
        collect(asked, [*SAMPLES[:8], *SAMPLES[:8], *SAMPLES], work=resume)
    with pytest.raises(JournalError, match="found 8 samples, expected more"):
        collect(asked, SAMPLES[:8], work=resume)
    for damaged in (b"PK" + bytes(1000), b"", path.read_bytes()[:-1], path.read_bytes() + b"."):
        path.write_bytes(damaged)
        with pytest.raises(JournalError, match="or a damaged one, expected that of this calibration"):
            collect(asked, SAMPLES, work=resume)
    collect(asked, SAMPLES, work=Work(1, path))  # starts over
    collect(asked, SAMPLES, work=resume)


COMMAND = """
import sys
from zeropoint.calibrate import journal
journal.SECONDS, journal.SHARE = 0.0, 0
from zeropoint.cli import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("command", "same"), [("quantize --effort none", "--effort=none"), ("calibrate", "--workers=2")]
)
def test_a_command_goes_on_after_kill_9(command: str, same: str, tmp_path: Path) -> None:
    """`same` is an option of a run from the start, whose result is the same."""
    from zeropoint.ir.files import save_program

    net = Network([(1, 32)])
    save_program(net.finish([net.insert(ExponentialOp(net.values[0]))]), tmp_path / "m.mlir")
    np.savez(tmp_path / "d.npz", x0=np.random.default_rng(0).normal(size=(600, 32)).astype(np.float32))
    model, data, first, second = (str(tmp_path / name) for name in ("m.mlir", "d.npz", "a.mlir", "b.mlir"))
    arguments = [*command.split(), model, "--data", data, "-o"]
    noted = tmp_path / ".a.mlir.journal"
    killed = [sys.executable, "-c", COMMAND, *arguments, first]
    with subprocess.Popen(killed, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not (noted.exists()):
            time.sleep(0.005)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not Path(first).exists()
    for output, option in ((first, "--resume"), (second, same)):
        done = CliRunner().invoke(main, [*arguments, output, option])
        assert done.exit_code == 0, done.stderr
    assert Path(first).read_text() == Path(second).read_text()
    assert not noted.exists()
    again = CliRunner().invoke(main, [*arguments, first, "--resume"])
    assert again.exit_code == 2
    assert "found no journal, expected that of an interrupted calibration" in again.stderr


@pytest.mark.parametrize("suffix", ["", ".parts", ".budget"])
def test_what_killed_workers_left_beside_a_journal_goes_in_a_run_without_workers(suffix: str, tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    path = tmp_path / f".model.mlir.journal{suffix}"
    left = tmp_path / outputs._prefix(path).replace(f".{os.getpid()}.", f".{gone.pid}.")  # pyright: ignore[reportPrivateUsage] (the name of an unfinished file)
    left = left.with_name(left.name + "abc.tmp")
    left.mkdir()
    (left / "program.mlir").write_text("")
    check_journals(Work(1, tmp_path / ".model.mlir.journal", False))
    assert not left.exists()
