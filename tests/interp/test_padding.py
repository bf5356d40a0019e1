"""Padded positions count neither in ranges nor in what is compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zeropoint as zp
from zeropoint.interp.padding import unpadded
from zeropoint.ir.tensors import Array

MASK = np.array([[1, 1, 1, 0, 0.0]]) != 0
SHAPES = [
    ((1, 5, 4), (1, 3, 4)),
    ((5, 4), (3, 4)),
    ((1, 2, 5, 4), (1, 2, 3, 4)),
    ((1, 2, 5, 5), (1, 2, 3, 5)),
    ((4, 6), (4, 6)),
]


@pytest.mark.parametrize(("shape", "kept"), SHAPES)
def test_a_mask_selects_the_first_dimension_of_its_size(shape: tuple[int, ...], kept: tuple[int, ...]) -> None:
    assert unpadded(np.zeros(shape), MASK).shape == kept


def test_a_mask_of_a_batch_selects_pairs_of_sample_and_position() -> None:
    mask = np.array([[True, False, False], [True, True, False]])
    array = np.arange(12).reshape(2, 3, 2)
    np.testing.assert_array_equal(unpadded(array, mask), array[mask])


TEXT = """
func.func @main(%x: tensor<1x5x4xf32> {zeropoint.name = "x"}, %mask: tensor<1x5xf32> {zeropoint.name = "mask"})
    -> tensor<1x5x4xf32> {
  %w = stablehlo.constant dense<[[1.0, 0.5, 0.0, 0.0], [0.0, 1.0, 0.5, 0.0],
      [0.0, 0.0, 1.0, 0.5], [0.5, 0.0, 0.0, 1.0]]>
      : tensor<4x4xf32>
  %m = stablehlo.broadcast_in_dim %mask, dims = [0, 1] : (tensor<1x5xf32>) -> tensor<1x5x4xf32>
  %f = stablehlo.constant dense<1.0> : tensor<1x5x4xf32>
  %o = stablehlo.maximum %m, %f : tensor<1x5x4xf32>
  %g = stablehlo.multiply %x, %o : tensor<1x5x4xf32>
  %y = stablehlo.dot_general %g, %w, contracting_dims = [2] x [0]
      : (tensor<1x5x4xf32>, tensor<4x4xf32>) -> tensor<1x5x4xf32>
  return %y : tensor<1x5x4xf32>
}
"""


def _samples(padding: float) -> list[dict[str, Array]]:
    x = np.random.default_rng(0).uniform(-1, 1, (8, 1, 5, 4)).astype(np.float32)
    x[:, :, 3:] = padding
    return [{"x": one, "mask": MASK.astype(np.float32)} for one in x]


def _sqnr(reference: zp.Model, model: zp.Model, data: list[dict[str, Array]], mask: str | None) -> float:
    return zp.compare(reference, model, data, mask=mask).outputs[0].sqnr


def test_padding_neither_widens_ranges_nor_counts_in_a_comparison() -> None:
    reference, clean, padded = zp.load(TEXT), _samples(0.0), _samples(100.0)
    whole, masked = (
        zp.quantize(reference, padded, observer="minmax", effort="none", mask=mask) for mask in (None, "mask")
    )
    alone = zp.quantize(reference, clean, observer="minmax", effort="none")
    found = _sqnr(reference, masked, clean, "mask")
    assert found == pytest.approx(_sqnr(reference, alone, clean, "mask"), abs=1.0)
    assert found > _sqnr(reference, whole, clean, "mask") + 20
    assert _sqnr(reference, masked, padded, None) < 10 < 30 < _sqnr(reference, masked, padded, "mask")


def test_corrections_are_judged_without_padding() -> None:
    reference = zp.load(TEXT)
    made = zp.quantize(reference, _samples(100.0), observer="minmax", corrections=["empirical_bias"], mask="mask")
    assert made.quantization.corrections.before.held > 30


@pytest.mark.parametrize("observer", ["output", "mse"])
def test_corrections_and_ranges_do_not_depend_on_what_is_in_the_padding(observer: str) -> None:
    methods = ["analytic_bias", "empirical_bias", "closed_form"]
    figures, programs = [], []
    for padding in (0.0, 100.0):
        data = [{**one, "x": one["x"] + np.float32(0.7) * (one["x"] < 50)} for one in _samples(padding)[:3]]
        made = zp.quantize(zp.load(TEXT), data, observer=observer, corrections=methods, mask="mask")
        corrections = made.quantization.corrections
        figures.append([(one.method, one.held) for one in corrections.attempts])
        programs.append(str(made))
    assert figures[0] == figures[1]
    assert programs[0] == programs[1]


def test_sensitivity_does_not_count_padding() -> None:
    tables = [zp.sensitivity(zp.load(TEXT), _samples(padding), effort="none", mask="mask") for padding in (0.0, 100.0)]
    assert tables[0] == tables[1]
    whole = zp.sensitivity(zp.load(TEXT), _samples(100.0), effort="none", observer="minmax")
    assert whole[-1].total < tables[0][-1].total / 5  # the padding is most of the signal


def test_a_report_and_its_trials_do_not_count_padding(tmp_path: Path) -> None:
    found: list[dict[str, Any]] = []
    for padding in (0.0, 100.0):
        made = zp.quantize(zp.load(TEXT), _samples(0.0), effort="none", mask="mask")
        path = made.report(tmp_path / "r.json", data=_samples(padding), mask="mask", timing=False)
        found.append(json.loads(path.read_text()))
    assert found[0] == found[1]
    with pytest.raises(zp.Error, match="found mask 'attention', expected the name of an input"):
        made.report(tmp_path / "r.json", data=_samples(0.0), mask="attention", timing=False)


def test_a_search_does_not_count_padding() -> None:
    made = [
        zp.quantize(zp.load(TEXT), _samples(p), effort="none", mask="mask", budget="quality=45") for p in (0.0, 100.0)
    ]
    assert str(made[0].quantization.spent) == str(made[1].quantization.spent)


def test_masks_that_mean_nothing_are_refused() -> None:
    with pytest.raises(zp.Error, match=r"found mask 'attention', expected the name of an input .*'x', 'mask'"):
        zp.quantize(zp.load(TEXT), _samples(0.0), mask="attention")
    hidden = [{**sample, "mask": np.zeros((1, 5), np.float32)} for sample in _samples(0.0)]
    with pytest.raises(zp.Error, match="mask 'mask' is 0 everywhere"):
        zp.quantize(zp.load(TEXT), hidden, mask="mask")
