"""`prove.py` finds what is wrong, and proves what is right; its whole table is `make prove`."""

from __future__ import annotations

import numpy as np
import pytest

from standard import exact_arithmetic, prove
from standard.fixed_point_programs import Case
from zeropoint.numerics import Multiplier, RequantizeBehaviour


def test_all_pairs_of_a_weighted_sum_are_exact() -> None:
    assert not prove.weighted_sum().failures


@pytest.mark.parametrize("behaviour", ["float32-rne", "exact"])
def test_float_multipliers_compute_what_integers_do(behaviour: str) -> None:
    dtype = np.float32 if behaviour == "float32-rne" else np.float64
    multiplier = Multiplier(RequantizeBehaviour(behaviour), np.array([0.00317], dtype))
    case = Case(multiplier, 32, 8, -3, -128, 127, 1 << 10)
    reference = prove.exact_in_integers if behaviour == "exact" else prove.float32_in_integers
    around = (np.arange(1 << 11, dtype=np.int64) - (1 << 10)) * 61
    assert prove.differing(case, iter([around, around * 17 + 1]), reference) == 0


@pytest.mark.parametrize("behaviour", exact_arithmetic.FORMS)
def test_a_shift_of_each_behaviour_is_proved(behaviour: str) -> None:
    pytest.importorskip("z3", reason="z3-solver (extra prove) is not installed")
    assert prove.counterexample(behaviour, 7, 8, -3, 60) == ""


def test_a_wrong_rounding_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("z3", reason="z3-solver (extra prove) is not installed")
    once = (exact_arithmetic.fixed32, range(2, 63), 31)
    forms = {**exact_arithmetic.FORMS, "tosa-double": once}
    monkeypatch.setattr(exact_arithmetic, "FORMS", forms)
    monkeypatch.setattr(prove, "FORMS", forms)
    assert "differs at" in prove.counterexample("tosa-double", 40, 8, 0, 60)
