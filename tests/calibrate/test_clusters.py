"""Calibration on a cluster that the test starts and stops, by joblib's backends: the same bits."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import joblib
import pytest

from calibrate.spread_runs import SAMPLES, Mortal, Stalled, deadly, network, whole
from zeropoint import workers
from zeropoint.calibrate import Work, collect


@contextmanager
def dask() -> Iterator[None]:
    distributed: Any = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config("dask"),
    ):
        yield


@contextmanager
def ray() -> Iterator[None]:
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # else it writes a token into the user's home
    # Else any call of Ray starts it where it is down: that of a thread of an abandoned pool, after its test.
    os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"  # read once, where Ray is imported
    module: Any = pytest.importorskip("ray")
    pytest.importorskip("ray.util.joblib").register_ray()
    try:
        # At Ray's priority, workers start in minutes while other tests run.
        settings = {"PYTHONPATH": os.pathsep.join(sys.path), "RAY_worker_niceness": "0"}
        with patch.dict(os.environ, settings), joblib.parallel_config("ray"):
            module.shutdown()  # what something else has left up
            module.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
            yield
    finally:
        module.shutdown()


@pytest.mark.parametrize("cluster", [dask, ray])
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_gives_the_bits_of_one_process_and_killed_workers_lose_nothing(
    cluster: Callable[[], Any], tmp_path: Path
) -> None:
    expected = whole(collect(network(), SAMPLES))
    with cluster():
        found = collect(network(), SAMPLES, work=Work(-1))
        after_deaths = collect(network(), iter(SAMPLES), engine=deadly(tmp_path, 2), work=Work(2))
    assert not list(tmp_path.iterdir())
    assert found.samples == after_deaths.samples == len(SAMPLES)
    assert whole(found) == whole(after_deaths) == expected


@pytest.mark.filterwarnings("ignore")
def test_what_ray_does_not_finish_is_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "PATIENCE", 0.1)
    with ray():
        found = collect(network(), iter(SAMPLES), engine=Stalled(), work=Work(2))
    assert found.samples == len(SAMPLES)
    assert whole(found) == whole(collect(network(), SAMPLES))


@pytest.mark.filterwarnings("ignore")
def test_workers_of_ray_are_those_of_joblibs_backend_and_what_they_die_of_is_run_here(tmp_path: Path) -> None:
    with ray():
        found = collect(network(), iter(SAMPLES), engine=Mortal(tmp_path / "dead"), work=Work(8))
    assert set((tmp_path / "dead").read_text().split()) == {"ray::PoolActor.run_batch"}
    assert found.samples == len(SAMPLES)
    assert whole(found) == whole(collect(network(), SAMPLES))
