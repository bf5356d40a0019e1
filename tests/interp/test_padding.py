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


ATTENTION = """
func.func @main(%x: tensor<1x1x6x6xf32> {zeropoint.name = "x"}, %mask: tensor<1x6xf32> {zeropoint.name = "mask"})
    -> tensor<1x1x6x6xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<1x6xf32>
  %much = stablehlo.constant dense<-100.0> : tensor<1x6xf32>
  %off = stablehlo.subtract %one, %mask : tensor<1x6xf32>
  %m = stablehlo.multiply %off, %much : tensor<1x6xf32>
  %b = stablehlo.broadcast_in_dim %m, dims = [0, 3] : (tensor<1x6xf32>) -> tensor<1x1x6x6xf32>
  %scores = stablehlo.dot_general %x, %x, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3]
      : (tensor<1x1x6x6xf32>, tensor<1x1x6x6xf32>) -> tensor<1x1x6x6xf32>
  %s = stablehlo.add %scores, %b : tensor<1x1x6x6xf32>
  %none = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %top = stablehlo.reduce(%s init: %none) applies stablehlo.maximum across dimensions = [3]
      : (tensor<1x1x6x6xf32>, tensor<f32>) -> tensor<1x1x6xf32>
  %tops = stablehlo.broadcast_in_dim %top, dims = [0, 1, 2] : (tensor<1x1x6xf32>) -> tensor<1x1x6x6xf32>
  %d = stablehlo.subtract %s, %tops : tensor<1x1x6x6xf32>
  %e = stablehlo.exponential %d : tensor<1x1x6x6xf32>
  %sum = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [3]
      : (tensor<1x1x6x6xf32>, tensor<f32>) -> tensor<1x1x6xf32>
  %sums = stablehlo.broadcast_in_dim %sum, dims = [0, 1, 2] : (tensor<1x1x6xf32>) -> tensor<1x1x6x6xf32>
  %p = stablehlo.divide %e, %sums : tensor<1x1x6x6xf32>
  return %p : tensor<1x1x6x6xf32>
}
"""


@pytest.mark.parametrize("effort", ["none", "balanced"])
def test_a_mask_of_scores_hides_padding_though_only_padding_has_its_values(effort: str) -> None:
    mask = np.array([[1, 1, 1, 1, 0, 0]], np.float32)
    x = np.random.default_rng(0).normal(0, 1, (8, 1, 1, 6, 6)).astype(np.float32)
    data = [{"x": one, "mask": mask} for one in x]
    reference = zp.load(ATTENTION)
    made = zp.quantize(reference, data, target="cpu-integer", effort=effort, mask="mask", integer_only=True)
    assert _sqnr(reference, made, data, "mask") > 30
    (hidden,) = made(**data[0]).values()
    assert not hidden[..., 4:].any()


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
