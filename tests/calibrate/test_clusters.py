"""Calibration on a cluster that the test starts and stops, by joblib's backends: the same bits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import joblib
import pytest

from calibrate.spread_runs import SAMPLES, network, whole
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
    module: Any = pytest.importorskip("ray")
    pytest.importorskip("ray.util.joblib").register_ray()
    module.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        with joblib.parallel_config("ray"):
            yield
    finally:
        module.shutdown()


@pytest.mark.parametrize("cluster", [dask, ray])
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_gives_the_bits_of_one_process(cluster: Callable[[], Any]) -> None:
    with cluster():
        found = collect(network(), SAMPLES, work=Work(-1))
    assert found.samples == len(SAMPLES)
    assert whole(found) == whole(collect(network(), SAMPLES))
