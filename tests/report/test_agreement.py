"""Figures of a comparison, against their definitions."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from zeropoint.report.agreement import Accumulated, Agreement, Comparison, ComparisonError


def of(*pairs: tuple[object, object]) -> Agreement:
    accumulated = Accumulated("y")
    for reference, value in pairs:
        accumulated.add(np.asarray(reference, np.float32), np.asarray(value, np.float32))
    return accumulated.result()


def test_sqnr_is_the_ratio_of_all_power_to_all_noise() -> None:
    found = of(([3.0, 4.0], [3.0, 3.0]), ([0.0, 5.0], [1.0, 5.0]))
    assert found.sqnr == pytest.approx(10 * math.log10(50 / 2))
    assert found.max_error == 1.0


def test_cosine_is_that_of_all_samples_in_one_vector() -> None:
    a, b = [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, -3.0, 5.0]
    expected = np.dot(a, b) / (np.linalg.norm(a) * np.linalg.norm(b))
    assert of((a[:2], b[:2]), (a[2:], b[2:])).cosine == pytest.approx(expected)


def test_top1_is_the_share_of_samples_with_the_same_greatest_element() -> None:
    pairs = [([0, 1], [0.2, 0.9]), ([1, 0], [0.4, 0.6]), ([1, 0], [1, 0]), ([1, 0], [1, 0])]
    assert of(*pairs).top1 == 0.75
    assert of(([1.0], [2.0])).top1 is None
    assert of((1.0, 2.0)).top1 is None


def test_equal_values_have_infinite_sqnr_and_a_reference_of_zeros_the_lowest() -> None:
    assert of(([1.0, 2.0], [1.0, 2.0])) == Agreement("y", math.inf, pytest.approx(1.0), 0.0, 1.0)
    assert of(([0.0, 0.0], [0.0, 0.0])) == Agreement("y", math.inf, 1.0, 0.0, 1.0)
    lost = of(([0.0, 0.0], [0.0, 2.0]))
    assert (lost.sqnr, lost.cosine, lost.max_error) == (-math.inf, 0.0, 2.0)


@pytest.mark.filterwarnings("error")
def test_an_infinity_that_float_does_not_have_is_the_lowest_sqnr_and_a_shared_one_is_no_noise() -> None:
    assert of(([1.0, 2.0], [1.0, -math.inf])).sqnr == -math.inf
    assert of(([1.0, -math.inf], [1.0, -math.inf])).sqnr == math.inf


@pytest.mark.filterwarnings("error")
def test_infinities_that_both_have_do_not_hide_the_noise_of_the_others() -> None:
    """Masked scores were at inf dB, with a cosine of NaN, whatever the others were."""
    found, alone = of(([-1.0, -2.0, -math.inf], [-1.0, -2.1, -math.inf])), of(([-1.0, -2.0], [-1.0, -2.1]))
    assert found == alone
    lost = of(([1.0, 2.0], [1.0, -math.inf]))
    assert (lost.sqnr, lost.cosine, lost.max_error) == (-math.inf, 0.0, math.inf)


def test_values_of_different_shapes_are_refused_by_name() -> None:
    with pytest.raises(ComparisonError, match=r"'y': found shapes \(2,\) and \(3,\), expected the same"):
        of(([1.0, 2.0], [1.0, 2.0, 3.0]))


def test_json_has_null_for_what_json_cannot_say() -> None:
    rows = [of(([1.0], [1.0])), of(([0.0], [1.0])), of(([np.nan], [1.0]))]
    text = Comparison(1, rows, []).json()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert [row["sqnr"] for row in json.loads(text)["outputs"]] == [None, None, None]


def test_the_table_names_outputs_and_layers() -> None:
    table = Comparison(3, [of(([1.0, 2.0], [1.0, 2.1]))], [of(([1.0], [1.0]))]).table()
    assert "3 samples" in table
    assert "output y" in table
    assert "layer y" in table
    assert "100.00 %" in table


def test_positions_are_equal_or_not_and_how_far_apart_they_are_says_nothing() -> None:
    accumulated = Accumulated("y")
    accumulated.add(np.array([5, 900, 3, 0]), np.array([5, 2, 3, 0]))
    accumulated.add(np.array([1, 1, 1, 1]), np.array([1, 1, 1, 1]))
    found = accumulated.result()
    assert found.equal == 7 / 8
    assert found.sqnr == pytest.approx(10 * math.log10(8))
    table = Comparison(2, [found], []).table()
    assert "87.50 % equal" in table
    assert json.loads(Comparison(2, [found], []).json())["outputs"][0]["equal"] == 7 / 8
    assert of(([1.0, 2.0], [1.0, 2.0])).equal is None
