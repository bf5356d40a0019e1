"""Quality on all samples by workers: the bits of one process, and its errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from zeropoint.calibrate import Work
from zeropoint.interp import InputError, ReferenceEngine
from zeropoint.ir.text import parse_program
from zeropoint.verification import sqnr_on

EXACT = parse_program("""func.func @main(%x: tensor<1x16xf32> {zeropoint.name = "x"}) -> tensor<1x16xf32> {
  %0 = stablehlo.tanh %x : tensor<1x16xf32>
  return %0 : tensor<1x16xf32>
}""")
ROUNDED = parse_program("""func.func @main(%x: tensor<1x16xf32> {zeropoint.name = "x"}) -> tensor<1x16xf32> {
  %0 = stablehlo.tanh %x : tensor<1x16xf32>
  %1 = "quant.qcast"(%0) : (tensor<1x16xf32>) -> tensor<1x16x!quant.uniform<i8:f32, 0.0078125>>
  %2 = "quant.dcast"(%1) : (tensor<1x16x!quant.uniform<i8:f32, 0.0078125>>) -> tensor<1x16xf32>
  return %2 : tensor<1x16xf32>
}""")
SAMPLES = [{"x": np.random.default_rng(n).normal(size=(1, 16)).astype(np.float32) * n} for n in range(43)]


def test_the_bits_do_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    alone = sqnr_on(EXACT, ROUNDED, SAMPLES, ReferenceEngine(), None)
    assert 40 < alone.least < 60
    for work in (Work(1), Work(2, chunk=3), Work(2, tmp_path / "journal")):
        assert sqnr_on(EXACT, ROUNDED, iter(SAMPLES), ReferenceEngine(), work) == alone
    assert not list(tmp_path.iterdir())


def test_the_error_of_a_sample_is_that_of_one_process() -> None:
    bad = [*SAMPLES[:20], {"x": np.zeros((1, 15), np.float32)}]
    for work in (None, Work(2)):
        with pytest.raises(InputError, match="found shape"):
            sqnr_on(EXACT, ROUNDED, bad, ReferenceEngine(), work)
