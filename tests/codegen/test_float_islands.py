"""Native code and the interpreter give equal bytes where floats are computed between integers, on every target."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from codegen.emulation import EVERYWHERE
from codegen.exactness import HERE, assert_native_is_exact
from codegen.island_models import island_model
from property_cases import CASES
from zeropoint.frontend.sources import load_source
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.pipeline import Options, quantize

SEEDS = range(CASES or 1)


@functools.cache
def quantized(seed: int, target: str) -> tuple[Program, list[dict[str, Array]]]:
    """The integer program, and samples: two that calibration has seen, small and great ones, and zeros."""
    proto, shape = island_model(seed)
    random = np.random.default_rng(seed)
    drawn = [{"x": random.normal(size=shape).astype(np.float32)} for _ in range(4)]
    made = quantize(load_source(proto), drawn, Options(target, effort="none")).integer
    sizes = np.array([0.0, 1e-3, 5.0, 100.0], np.float32)
    return made, drawn[:2] + [{"x": drawn[0]["x"] * size} for size in sizes]


@pytest.mark.parametrize("target", ["cpu", "cpu-integer", "onnxruntime", "litert"])
@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_behind_islands_of_floats_are_the_interpreters(seed: int, target: str) -> None:
    assert_native_is_exact(*quantized(seed, target), HERE[0], threads=(1, 3))


@pytest.mark.parametrize("name", EVERYWHERE)
def test_they_are_on_every_instruction_set(name: str) -> None:
    for seed in range(100, 100 + max(1, CASES // 4)):
        assert_native_is_exact(*quantized(seed, "cpu"), EVERYWHERE[name])
