"""`prove.py` finds what is wrong, and proves what is right; its whole table is `make prove`."""

from __future__ import annotations

import shutil
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from standard import exact_arithmetic, exhaustive, prove
from standard.exact_arithmetic import Exact
from standard.fixed_point_programs import Case, requantization
from zeropoint.interp import Interpreter
from zeropoint.numerics import RequantizeBehaviour
from zeropoint.standard import lower_to_standard


def test_all_pairs_of_a_weighted_sum_are_exact() -> None:
    assert not prove.weighted_sum().failures


def in_python(case: Case, x: int) -> int:
    """The stored integer of an accumulator in Python's integers, or in floats where the behaviour has floats."""
    multiplier = case.multiplier
    if multiplier.behaviour is RequantizeBehaviour.FLOAT32_RNE:
        rounded = int(np.rint(np.float32(x) * multiplier.multiplier[0]))
    elif multiplier.behaviour is RequantizeBehaviour.FLOAT64_AWAY:
        product = Fraction(float(x) * float(multiplier.multiplier[0]))
        rounded = (1 if product >= 0 else -1) * int(abs(product) + Fraction(1, 2))
    elif multiplier.behaviour is RequantizeBehaviour.EXACT:
        rounded = round(Fraction(x) * Fraction(float(multiplier.multiplier[0])))
    else:
        assert multiplier.shift is not None
        of = Exact(lambda a: a * int(multiplier.multiplier[0]), lambda condition, a, b: a if condition else b)
        shift, bounds = int(multiplier.shift[0]), (case.low, case.high)
        return exact_arithmetic.requantized(multiplier.behaviour.value, of, x, shift, case.zero_point, bounds)
    return min(max(rounded + case.zero_point, case.low), case.high)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("constants", prove.EXHAUSTED, ids=str)
def test_what_is_compiled_to_c_is_exact_and_what_the_interpreter_runs(
    constants: tuple[str, float, int | None, int],
) -> None:
    """On runs of accumulators at both ends of 32 bits, around 0, around the results' bounds, and anywhere."""
    count, case = 128, prove.case_of_constants(*constants)
    case = replace(case, count=count // 2)
    exact, ops = exhaustive.compiled(case)
    interpreter = Interpreter(lower_to_standard(requantization(case)))
    edge = int((case.high + 3.5) / float(case.multiplier.real[0]))
    places = [-(1 << 31), (1 << 31) - count, -count // 2, min(edge, (1 << 31) - count), max(-edge, -(1 << 31))]
    places += np.random.default_rng(0).integers(-(1 << 31), (1 << 31) - count, 40).tolist()
    for first in places:
        found = [np.empty(count, np.int32), np.empty(count, np.int32)]
        exact(first, found[0])
        ops(first, found[1])
        x = np.arange(first, first + count)
        np.testing.assert_array_equal(found[0], [in_python(case, int(each)) for each in x])
        (expected,) = interpreter.run_values([x.astype(np.int32).reshape(case.shape)])
        np.testing.assert_array_equal(found[1], expected.reshape(-1))


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
