"""Settings of the whole suite: hypothesis runs the same cases every time, slow files begin first, the garbage collector
runs rarely and does not look again at what modules of tests have left behind, and bytecode is kept for child processes.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

from codegen.exactness import unoptimized
from zeropoint.codegen import objects

settings.register_profile("deterministic", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("deterministic")


SLOW = (
    *("test_tutorial.py", "test_notebooks.py", "test_native_exactness.py", "test_memory_safety.py", "test_lowering.py"),
    *("test_work.py", "test_measure.py", "test_mutated_inputs.py", "test_conformance.py", "test_litert_layers.py"),
    *("test_optimum.py", "test_integer_transformers.py", "test_exactness.py", "test_example.py", "test_wasm.py"),
    *("test_recurrences.py", "test_streams.py", "test_layer_norm_bits.py", "test_bound_masks.py", "test_rows.py"),
    *("test_stablehlo_reference.py", "test_check_target.py", "test_front_door.py", "test_words.py"),
)
"""Files that take longest. With several processes, a file that begins last would leave the others waiting."""


ALLOCATIONS = 200_000
"""Allocations between two runs of the garbage collector. Python's 700 cost a tenth of the time: the IR has cycles."""


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # by the number of tests, which puts the slowest files last
    os.environ.pop("COLUMNS", None)  # pytest-xdist's 80; texts are as wide as in a pipe
    gc.set_threshold(ALLOCATIONS)
    cache: pytest.Cache | None = getattr(config, "cache", None)  # -p no:cacheprovider leaves it out
    if sys.dont_write_bytecode and cache is not None:
        with contextlib.suppress(OSError):
            keep_bytecode(str(cache.mkdir("bytecode")))


def keep_bytecode(folder: str) -> None:
    """Keep bytecode outside of the source tree, for this process and its children.

    Without it, each of the processes that tests start compiles all modules, which takes it half a second.
    """
    sys.dont_write_bytecode, sys.pycache_prefix = False, folder
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in SLOW)


LEFT = (
    *("test_depthwise.py", "test_dequantized.py", "test_edges.py", "test_expressed.py", "test_float_islands.py"),
    *("test_halves.py", "test_lowering.py", "test_native_forms.py", "test_phases.py", "test_regions.py"),
)
"""Files of tests/codegen whose kernels `test_native_exactness.py` and others have optimized."""


@pytest.fixture(scope="module", autouse=True)
def native_code_outside_of_its_own_tests_is_not_optimized(request: pytest.FixtureRequest) -> Iterator[None]:
    """LLVM's optimizer would take a tenth of the time of all tests. Most files of tests/codegen, and tests/bench, have
    it."""
    path = request.path
    has_it = path.parent.name in ("codegen", "bench") and path.name not in LEFT
    with contextlib.nullcontext() if has_it else unoptimized():
        yield


@pytest.fixture(scope="session", autouse=True)
def code_is_compiled_in_the_process_of_its_test() -> None:
    """All processors run tests already, and a process that compiles takes a quarter of a second to start."""
    objects.PARALLEL.update(dict.fromkeys(objects.PARALLEL, sys.maxsize))


FILES = 5
"""Files between two full runs of the garbage collector. One after every file took 3 % of the time of all tests."""
_run = itertools.count(1)


@pytest.fixture(scope="module", autouse=True)
def old_objects_are_not_scanned() -> Iterator[None]:
    yield
    if next(_run) % FILES == 0:
        gc.collect()
        gc.freeze()
