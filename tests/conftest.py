"""Settings of the whole suite: hypothesis runs the same cases every time, and the garbage collector does not look again
at what modules of tests have left behind, some hundred megabytes in the end.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("deterministic", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("deterministic")


@pytest.fixture(scope="module", autouse=True)
def old_objects_are_not_scanned() -> Iterator[None]:
    yield
    gc.collect()
    gc.freeze()
