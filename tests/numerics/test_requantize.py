from fractions import Fraction
from math import ceil, floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numerics import rational
from numerics.multipliers import multipliers
from zeropoint.numerics.multiplier import fixed16_multiplier, quantize_multiplier
from zeropoint.numerics.requantize import EXACT_LIMIT, Multiplier, RequantizeBehaviour, accumulator_limit, requantize

R = RequantizeBehaviour
EXTREMES = [rational.INT32_MIN, rational.INT32_MIN + 1, rational.INT32_MAX, rational.INT32_MAX - 1, -1, 0, 1]
int32 = st.integers(rational.INT32_MIN, rational.INT32_MAX) | st.sampled_from(EXTREMES)
small = st.integers(-(2**20), 2**20)
accumulators = st.lists(int32 | small, min_size=1, max_size=8)
outputs = st.sampled_from([(-128, 127), (0, 255), (-127, 127), (0, 15), (-8, 7), (-128, 0)])


def reference(acc: int, m: Multiplier, zero_point: int) -> int:
    """The unclamped result for one accumulator, on unbounded integers."""
    behaviour, mantissa = m.behaviour, m.multiplier.item()
    shift = 0 if m.shift is None else int(m.shift)
    if behaviour is R.FIXED16:
        return rational.fixed16(acc, mantissa, shift, zero_point)
    if behaviour is R.FIXED32:
        return rational.half_up(Fraction(acc * mantissa) / Fraction(2) ** shift) + zero_point
    if behaviour is R.FIXED32_DOUBLE:
        return rational.multiply_by_quantized_multiplier(acc, mantissa, shift) + zero_point
    if behaviour is R.TOSA_DOUBLE:
        return rational.tosa_apply_scale_32(acc, mantissa, shift, True) + zero_point
    if behaviour is R.POT:
        return rational.half_away(Fraction(acc) / Fraction(2) ** shift) + zero_point
    if behaviour is R.EXACT:
        return rational.half_even(Fraction(acc) * Fraction(mantissa)) + zero_point
    if behaviour is R.FLOAT64_AWAY:
        return rational.half_away(Fraction(float(acc) * mantissa)) + zero_point
    with np.errstate(over="ignore"):
        product = float(np.float32(acc) * np.float32(mantissa))
    return (10**12 if product > 0 else -(10**12)) if np.isinf(product) else rational.half_even(Fraction(product))


@pytest.mark.parametrize("behaviour", [b for b in R if b is not R.POT])
@settings(max_examples=60)
@given(accs=accumulators, m=multipliers(-40, 34), output=outputs, data=st.data())
def test_each_behaviour_equals_its_formula_on_unbounded_integers(behaviour, accs, m, output, data):
    low, high = output
    zero_point = data.draw(st.integers(low, high))
    multiplier = Multiplier.of(m, behaviour, 8)
    found = requantize(np.array(accs, dtype=np.int32), multiplier, zero_point, low, high)
    offset = zero_point if behaviour is R.FLOAT32_RNE else 0
    expected = [rational.clamp(reference(acc, multiplier, zero_point) + offset, low, high) for acc in accs]
    assert found.tolist() == expected


@given(halves=st.lists(st.integers(-300, 300), min_size=1, max_size=8), n=st.integers(1, 20))
def test_float64_away_rounds_the_middle_of_two_integers_away_from_zero(halves, n):
    accs = [half << (n - 1) for half in halves]
    found = requantize(np.array(accs, dtype=np.int32), Multiplier.of(2.0**-n, R.FLOAT64_AWAY, 8), 0, -128, 127)
    away = [(abs(half) + 1) // 2 * (1 if half >= 0 else -1) for half in halves]
    assert found.tolist() == [rational.clamp(y, -128, 127) for y in away]


def test_float64_away_saturates_products_beyond_any_integer():
    multiplier = Multiplier.of(1e308, R.FLOAT64_AWAY, 8)
    found = requantize(np.array([-(2**31), -1, 0, 1, 2**31 - 1], np.int32), multiplier, 5, -128, 127)
    assert found.tolist() == [-128, -128, 5, 127, 127]


@given(accs=accumulators, n=st.integers(-35, 70), zero_point=st.integers(-128, 127))
def test_pot_is_a_rounding_shift(accs, n, zero_point):
    multiplier = Multiplier.of(2.0**-n, R.POT, 8)
    found = requantize(np.array(accs, dtype=np.int32), multiplier, zero_point, -128, 127)
    exact = [rational.half_away(Fraction(acc) / Fraction(2) ** n) + zero_point for acc in accs]
    assert found.tolist() == [rational.clamp(y, -128, 127) for y in exact]


@given(acc=int32, m=multipliers(-60, 60), output=outputs, data=st.data())
def test_fixed32_is_the_exact_product_rounded_half_up_but_for_the_multipliers_own_rounding(acc, m, output, data):
    low, high = output
    zero_point = data.draw(st.integers(low, high))
    found = int(requantize(np.int32(acc), Multiplier.of(m, R.FIXED32, 8), zero_point, low, high))
    product, error = Fraction(acc) * Fraction(m), abs(Fraction(acc) * Fraction(m)) / 2**31
    bounds = [rational.clamp(rational.half_up(product + e) + zero_point, low, high) for e in (-error, error)]
    assert bounds[0] <= found <= bounds[1]


@given(acc=int32 | small, m=multipliers(-45, -1), output=outputs, data=st.data())
def test_fixed16_is_within_three_128ths_of_a_step_before_its_last_rounding(acc, m, output, data):
    low, high = output
    zero_point = data.draw(st.integers(low, high))
    multiplier = Multiplier.of(m, R.FIXED16, 8)
    found = int(requantize(np.int32(acc), multiplier, zero_point, low, high))
    product = Fraction(acc) * Fraction(m)
    # Rounding a costs M / 2^15 / 2 / 64 of a step, rounding M |a| / 2^16 / 64 <= 1/128, rounding p 1/128.
    error = Fraction(3, 128) if multiplier.behaviour is R.FIXED16 else Fraction(1, 2**10)
    bounds = [rational.clamp(rational.half_up(product + e) + zero_point, low, high) for e in (-error, error)]
    assert bounds[0] <= found <= bounds[1]


def test_fixed16_differs_from_exact_rounding_in_under_one_percent_and_by_one():
    generator = np.random.default_rng(0)
    m = generator.uniform(1e-4, 5e-3, 64)
    acc = (generator.uniform(-160.0, 160.0, (4096, 64)) / m).astype(np.int32)
    fast, exact = (
        requantize(acc, Multiplier.of(m, behaviour, 8), 3, -128, 127, axis=1).astype(int)
        for behaviour in (R.FIXED16, R.EXACT)
    )
    assert np.abs(fast - exact).max() == 1
    assert 0 < (fast != exact).mean() < 0.01


@pytest.mark.parametrize("m", [2**14, 2**14 + 1, 23170, 2**15 - 1])
@pytest.mark.parametrize(("low", "high"), [(-128, 127), (0, 255)])
def test_saturation_of_fixed16_lies_beyond_the_clamp_for_every_zero_point_exhaustively(low, high, m):
    """The unsaturated formula gives the same outputs on both sides of where a saturates."""
    beyond = [2**15 - 2, 2**15 - 1, 2**15, 2**15 + 1, 2**16, 2**20, 2**30]
    for a in [*beyond, *(-x for x in beyond)]:
        p = (a * m + 2**14) >> 15
        for zero_point in range(low, high + 1):
            unsaturated = rational.clamp((p + 64 * zero_point + 32) >> 6, low, high)
            acc = a << 1  # s = 1: (acc + 1) >> 1 = a
            assert rational.clamp(rational.fixed16(acc, m, 1, zero_point), low, high) == unsaturated
            if abs(a) >= 2**15:
                assert unsaturated == (high if a > 0 else low)


@pytest.mark.parametrize("s", [32, 33, 40])
def test_a_vanishing_fixed16_multiplier_is_zero_with_a_shift_that_exists(s):
    m = 1.25 * 2.0 ** -(s + 7)
    assert int(fixed16_multiplier(m)[1]) == s
    multiplier = Multiplier.of(m, R.FIXED16, 8)
    assert (int(multiplier.multiplier), int(multiplier.shift)) == (0, 31)
    for acc in EXTREMES:
        expected = rational.fixed16(acc, int(fixed16_multiplier(m)[0]), s, 5)
        assert int(requantize(np.int32(acc), multiplier, 5, -128, 127)) == expected == 5


class TestResolving:
    def test_fixed16_falls_back_for_the_whole_op_when_one_channel_is_too_large(self):
        m = np.array([1e-3, 0.99, 1.0])
        assert Multiplier.of(m[:2], R.FIXED16, 8).behaviour is R.FIXED16
        assert Multiplier.of(m[:2], R.FIXED16, 8).shift.tolist() == [3, -6]
        fallback = Multiplier.of(m, R.FIXED16, 8)
        assert fallback.behaviour is R.FIXED32
        assert fallback.shift.tolist() == Multiplier.of(m, R.FIXED32, 8).shift.tolist()

    @pytest.mark.parametrize("width", [9, 16, 32])
    def test_fixed16_falls_back_for_storage_wider_than_8_bits(self, width):
        assert Multiplier.of(1e-3, R.FIXED16, width).behaviour is R.FIXED32

    @pytest.mark.parametrize("behaviour", [R.FIXED16, R.FIXED32, R.FIXED32_DOUBLE, R.TOSA_DOUBLE])
    def test_64_bit_accumulators_take_the_16x8_form(self, behaviour):
        found = Multiplier.of(np.array([1e-3, 0.7]), behaviour, 16, 64)
        assert found.behaviour is R.FIXED32
        assert (found.multiplier < 2**15).all()
        assert found.shift.tolist() == [15 + 9, 15]

    def test_the_resolved_real_multiplier_is_near_the_real_one(self):
        m = np.array([1e-3, 3.3e-3, 6e-3])
        for behaviour in R:
            if behaviour is not R.POT:
                assert Multiplier.of(m, behaviour, 8).real == pytest.approx(m, rel=2**-14)
        assert Multiplier.of(0.25, R.POT, 8).real == 0.25

    @pytest.mark.parametrize("behaviour", R)
    def test_a_multiplier_is_rebuilt_from_its_parts(self, behaviour):
        m = np.array([2.0**-9, 2.0**-11])
        first = Multiplier.of(m, behaviour, 8)
        stored = (first.behaviour.value, first.multiplier.copy(), None if first.shift is None else first.shift.copy())
        again = Multiplier(*stored)
        acc = np.random.default_rng(1).integers(-(2**20), 2**20, (50, 2)).astype(np.int32)
        results = [requantize(acc, multiplier, 3, -128, 127, axis=1) for multiplier in (first, again)]
        assert np.array_equal(*results)

    @pytest.mark.parametrize(
        ("behaviour", "multiplier", "shift", "message"),
        [
            ("fixed16", 2**15, 3, "found the multiplier 32768; 'fixed16' has 0 to 32767"),
            ("fixed16", 2**14, -7, "found the shift -7; 'fixed16' has -6 to 31"),
            ("fixed32", 2**31, 3, "found the multiplier 2147483648"),
            ("fixed32", 2**30, 63, "found the shift 63; 'fixed32' has -2 to 62"),
            ("fixed32", 2**30, -1, "found a multiplier of 2\\^30 or more with a left shift"),
            ("fixed32", 2**31 - 1, -2, "found a multiplier of 2\\^30 or more with a left shift"),
            ("fixed32", 2**30, None, "found the shift None beside a multiplier; 'fixed32' has one"),
            ("fixed32-double", 2**30, 31, "'fixed32-double' has -31 to 30"),
            ("tosa-double", 2**30, 1, "'tosa-double' has 2 to 62"),
            ("pot", 2, 1, "'pot' has 1 to 1"),
            ("exact", 0.5, 1, "found the shift 1 beside a multiplier; 'exact' has none"),
            ("exact", np.nan, None, "found the multiplier nan"),
            ("float32-rne", np.inf, None, "found the multiplier inf"),
            ("fixed8", 1, 1, "fixed8"),
        ],
    )
    def test_parts_that_do_not_belong_together_are_rejected(self, behaviour, multiplier, shift, message):
        with pytest.raises(ValueError, match=message):
            Multiplier(behaviour, multiplier, shift)

    def test_one_shift_each_multiplier(self):
        with pytest.raises(ValueError, match="expected the same shape"):
            Multiplier(R.FIXED32, np.array([2**30, 2**30]), np.array([31]))

    @pytest.mark.parametrize("m", [-0.5, np.nan, np.inf])
    @pytest.mark.parametrize("behaviour", R)
    def test_scales_that_are_none_are_rejected(self, behaviour, m):
        with pytest.raises(ValueError, match="expected a finite number >= 0"):
            Multiplier.of(m, behaviour, 8)

    def test_wide_storage_rejects_what_saturation_would_not_excuse(self):
        with pytest.raises(ValueError, match=r"expected at most 2\^16"):
            Multiplier.of(70000.0, R.FIXED32, 32)


class TestLimits:
    @given(m=multipliers(-40, -1))
    def test_the_fixed16_sum_stays_in_int32_up_to_the_limit_and_not_beyond(self, m):
        multiplier = Multiplier.of(m, R.FIXED16, 8)
        if multiplier.behaviour is R.FIXED16 and int(multiplier.shift) <= 0:
            limit, left = int(accumulator_limit(multiplier)), -int(multiplier.shift)
            assert limit << left <= rational.INT32_MAX < (limit + 1) << left
        elif multiplier.behaviour is R.FIXED16:
            limit, term = int(accumulator_limit(multiplier)), 2 ** (int(multiplier.shift) - 1)
            assert limit + term == rational.INT32_MAX
            assert -limit + term >= rational.INT32_MIN

    @pytest.mark.parametrize(
        ("behaviour", "m", "limit"),
        [
            (R.FIXED32, 0.5, 2**31 - 1),
            (R.FIXED32_DOUBLE, 0.5, 2**31 - 1),
            (R.FIXED32_DOUBLE, 3.0, (2**31 - 1) >> 2),
            (R.FIXED32_DOUBLE, 2.0**40, 1),
            (R.TOSA_DOUBLE, 0.001, 2**31 - 1),
            (R.TOSA_DOUBLE, 3.0, 2**28 - 1),
            (R.FLOAT32_RNE, 3.0, 2**31 - 1),
            (R.POT, 0.25, 2**31 - 1),
        ],
    )
    def test_limit_of_each_behaviour(self, behaviour, m, limit):
        assert int(accumulator_limit(Multiplier.of(m, behaviour, 8))) == limit

    def test_limits_are_per_channel(self):
        multiplier = Multiplier.of(np.array([0.001, 3.0]), R.FIXED32_DOUBLE, 8)
        assert accumulator_limit(multiplier).tolist() == [2**31 - 1, (2**31 - 1) >> 2]

    @pytest.mark.parametrize("behaviour", [R.FIXED32_DOUBLE, R.TOSA_DOUBLE])
    @pytest.mark.parametrize("m", [1.0, 1.999, 3.0, 2.0**15, 2.0**29, 2.0**40])
    def test_past_the_limit_of_a_shift_left_storage_of_16_bits_saturates(self, behaviour, m):
        multiplier = Multiplier.of(m, behaviour, 16)
        limit = int(accumulator_limit(multiplier))
        for acc in {limit, min(limit + 1, 2**31 - 1), 2**30, 2**31 - 1}:
            expected = min(int(acc * m), 2**15 - 1)
            found = requantize(np.array([acc, -acc, -(2**31)], np.int32), multiplier, 0, -(2**15), 2**15 - 1)
            assert found.tolist() == [expected, max(-int(acc * m), -(2**15)), -(2**15)]

    @given(x=int32, m=st.integers(0, 2**31 - 1), e=st.integers(-31, 30))
    def test_fixed32_double_saturates_its_shift_left_to_32_bits(self, x, m, e):
        shifted = rational.clamp(x << max(e, 0), rational.INT32_MIN, rational.INT32_MAX)
        expected = rational.rounding_divide_by_pot(rational.srdhm(shifted, m), max(-e, 0))
        multiplier = Multiplier(R.FIXED32_DOUBLE, np.array(m), np.array(e))
        for dtype in (np.int32, np.int64):
            found = requantize(np.array([x], dtype), multiplier, 0, rational.INT32_MIN, rational.INT32_MAX)
            assert found.tolist() == [expected]

    def test_exact_saturates_accumulators_to_its_limbs(self):
        multiplier, ends = Multiplier.of(2.0**-40, R.EXACT, 16, 64), np.array([EXACT_LIMIT + 1, -(2**63)])
        assert requantize(ends, multiplier, 0, -(2**15), 2**15 - 1).tolist() == [16, -16]


def rounded_exactly(behaviour: RequantizeBehaviour, acc: int, m: int, shift: int) -> int:
    """round(acc * m) of an int64, in unbounded integers, by the table of `requantize.py`."""
    if behaviour is R.FIXED32:
        return (acc * m + ((1 << max(shift, 0)) >> 1)) >> shift if shift >= 0 else acc * m << -shift
    if behaviour is R.POT:
        away = (abs(acc) + ((1 << max(shift, 0)) >> 1)) >> max(shift, 0) << max(-shift, 0)
        return away if acc >= 0 else -away
    acc = rational.clamp(acc, rational.INT32_MIN, rational.INT32_MAX)
    extra = (1 << 30) * (1 if acc >= 0 else -1) if shift > 31 else 0
    return (acc * m + (1 << (shift - 1)) + extra) >> shift


int64 = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), 2**63 - 1, 2**62, -(2**62), 2**31, -1, 0])
spread = st.tuples(int64, st.integers(0, 62)).map(lambda drawn: drawn[0] >> drawn[1])


@settings(max_examples=600)
@given(acc=spread, m=st.integers(0, 2**31 - 1), bits=st.integers(0, 30), drawn=st.integers(-31, 62), data=st.data())
def test_no_64_bit_accumulator_wraps_around(acc, m, bits, drawn, data):
    behaviour = data.draw(st.sampled_from([R.FIXED32, R.POT, R.TOSA_DOUBLE]))
    m >>= bits
    shift = max(drawn, {R.FIXED32: -2, R.POT: -31, R.TOSA_DOUBLE: 2}[behaviour])
    m = 1 if behaviour is R.POT else m >> 1 if shift < 0 else m
    low, high, zero = data.draw(
        st.sampled_from([(-128, 127, 3), (-(2**15), 2**15 - 1, 0), (-(2**31), 2**31 - 1, -(2**31))])
    )
    expected = rational.clamp(rounded_exactly(behaviour, acc, m, shift) + zero, low, high)
    # Beside another channel, whose shift has the other form.
    multiplier = Multiplier(behaviour, np.array([m, 1]), np.array([shift, 40]))
    found = requantize(np.array([[acc, acc]]), multiplier, zero, low, high, axis=1)
    other = rational.clamp(rounded_exactly(behaviour, acc, 1, 40) + zero, low, high)
    assert found.tolist() == [[expected, other]]


class TestWideAccumulators:
    @given(
        acc=st.integers(-(2**40), 2**40) | st.sampled_from([-(2**39), 2**39 - 1, 0, -1]),
        m=multipliers(-31, 8),
        zero_point=st.sampled_from([0, 5, -300]),
    )
    def test_16x8_equals_litert(self, acc, m, zero_point):
        """(x * M' + 2^(14-e)) >> (15-e), TFLite's MultiplyByQuantizedMultiplier of int64."""
        mantissa, e = (int(part) for part in quantize_multiplier(m))
        reduced = (mantissa + 2**15) >> 16 if mantissa < 0x7FFF0000 else 0x7FFF
        expected = (acc * reduced + (1 << (14 - e))) >> (15 - e)
        multiplier = Multiplier.of(m, R.FIXED32_DOUBLE, 16, 64)
        found = requantize(np.array([acc]), multiplier, zero_point, -(2**15), 2**15 - 1)
        assert found.tolist() == [rational.clamp(expected + zero_point, -(2**15), 2**15 - 1)]

    @given(acc=st.integers(-(2**47), 2**47), m=multipliers(-31, 40), width=st.sampled_from([8, 16, 31]))
    def test_fixed32_with_31_bits_is_its_formula_for_accumulators_of_48_bits(self, acc, m, width):
        multiplier = Multiplier.of(m, R.FIXED32, 8)
        factor, n = int(multiplier.multiplier), int(multiplier.shift)
        expected = (acc * factor + ((1 << max(n, 0)) >> 1)) >> n if n >= 0 else acc * factor << -n
        low, high = -(2 ** (width - 1)), 2 ** (width - 1) - 1
        found = requantize(np.array([acc]), multiplier, 0, low, high)
        assert found.tolist() == [rational.clamp(expected, low, high)]

    @given(acc=st.integers(-(2**44), 2**44), m=multipliers(-60, 16))
    def test_exact_takes_64_bit_accumulators(self, acc, m):
        found = requantize(np.array([acc]), Multiplier.of(m, R.EXACT, 16, 64), 0, -(2**15), 2**15 - 1)
        expected = rational.half_even(Fraction(acc) * Fraction(m))
        assert found.tolist() == [rational.clamp(expected, -(2**15), 2**15 - 1)]

    @given(m=multipliers(17, 300))
    def test_a_huge_multiplier_saturates_16_bits_at_once(self, m):
        multiplier = Multiplier.of(m, R.FIXED32, 16, 64)
        found = requantize(np.array([-1, 0, 1]), multiplier, 7, -(2**15), 2**15 - 1)
        assert found.tolist() == [-(2**15), 7, 2**15 - 1]

    def test_wide_limit_keeps_the_product_in_int64(self):
        multiplier = Multiplier.of(np.array([0.9, 1e-9]), R.FIXED32, 16, 64)
        for limit, m, t in zip(
            accumulator_limit(multiplier, 64).tolist(), multiplier.multiplier, multiplier.shift, strict=True
        ):
            assert limit * int(m) + 2 ** (int(t) - 1) < 2**63
            assert limit >= 2**47


@given(acc=int32, m=multipliers(-80, 80))
def test_exact_is_half_even_of_the_rational_product_into_32_bits(acc, m):
    if m <= 2**16:
        multiplier = Multiplier.of(m, R.EXACT, 32)
        expected = rational.half_even(Fraction(acc) * Fraction(m))
        found = requantize(np.int32(acc), multiplier, 0, rational.INT32_MIN, rational.INT32_MAX)
        assert int(found) == rational.clamp(expected, rational.INT32_MIN, rational.INT32_MAX)


@pytest.mark.parametrize("m", [0.5, 0.25, 2.0**-20, 1.5, 2.5 / 4])
def test_exact_decides_ties_to_even(m):
    acc = np.arange(-64, 65, dtype=np.int32) * np.int32(max(1, round(0.5 / m)))
    found = requantize(acc, Multiplier.of(m, R.EXACT, 16), 0, -(2**15), 2**15 - 1)
    assert found.tolist() == [rational.half_even(Fraction(int(a)) * Fraction(m)) for a in acc]


def test_ties_tell_the_behaviours_apart():
    acc = np.array([-3, -1, 1, 3], dtype=np.int32)
    found = {b.value: requantize(acc, Multiplier.of(0.5, b, 16), 0, -128, 127).tolist() for b in R}
    up = [floor(Fraction(int(a), 2) + Fraction(1, 2)) for a in acc]
    away = [floor(a / 2 + 0.5) if a > 0 else ceil(a / 2 - 0.5) for a in acc.tolist()]
    assert (up, away) == ([-1, 0, 1, 2], [-2, -1, 1, 2])
    assert found == {
        "fixed16": up,  # storage too wide for it, so fixed32
        "fixed32": up,
        "fixed32-double": up,  # SRDHM rounds up; nothing is left for the second rounding
        "tosa-double": up,
        "float32-rne": [-2, 0, 0, 2],
        "float64-away": away,
        "exact": [-2, 0, 0, 2],
        "pot": away,
    }


def test_a_second_rounding_is_seen():
    """acc = 5, m = 0.7/8: one rounding of 0.4375 gives 0; SRDHM first gives 4 (3.5 up), and 4/8 rounds away to 1."""
    acc, m = np.int32(5), 0.7 / 8
    assert int(requantize(acc, Multiplier.of(m, R.FIXED32, 8), 0, -128, 127)) == 0
    assert int(requantize(acc, Multiplier.of(m, R.FIXED32_DOUBLE, 8), 0, -128, 127)) == 1


class TestShapes:
    def test_per_channel_parameters_go_along_the_axis(self):
        m = np.array([0.5, 0.25, 1.0])
        acc = np.full((2, 3, 4), 8, dtype=np.int32)
        found = requantize(acc, Multiplier.of(m, R.FIXED32, 8), np.array([0, 1, 2]), -128, 127, axis=1)
        assert found[0, :, 0].tolist() == [4, 3, 10]
        assert (found == found[:1, :, :1]).all()
        moved = requantize(acc.transpose(0, 2, 1), Multiplier.of(m, R.FIXED32, 8), 0, -128, 127, axis=-1)
        assert moved[0, 0].tolist() == [4, 2, 8]

    def test_blocks_broadcast_as_they_are(self):
        m = np.array([[0.5], [0.25]])
        acc = np.full((2, 3), 8, dtype=np.int32)
        assert requantize(acc, Multiplier.of(m, R.FIXED32, 8), 0, -128, 127).tolist() == [[4] * 3, [2] * 3]

    def test_one_channel_needs_no_axis(self):
        assert requantize(np.array([8, 4], np.int32), Multiplier.of([0.5], R.FIXED32, 8), 0, -128, 127).tolist() == [
            4,
            2,
        ]

    def test_several_multipliers_need_an_axis(self):
        multiplier = Multiplier.of([0.5, 0.25], R.FIXED32, 8)
        with pytest.raises(ValueError, match="2 values of multiplier and no axis"):
            requantize(np.zeros((2, 2), np.int32), multiplier, 0, -128, 127)
        with pytest.raises(ValueError, match="along axis 2 of a tensor of 2 dimensions"):
            requantize(np.zeros((2, 2), np.int32), multiplier, 0, -128, 127, axis=2)

    @pytest.mark.parametrize("shape", [(2, 1), (2, 4)])
    def test_as_many_multipliers_as_channels(self, shape):
        multiplier = Multiplier.of([0.5, 0.25, 1.0], R.FIXED32, 8)
        with pytest.raises(ValueError, match="found 3 values of multiplier for a tensor of shape"):
            requantize(np.zeros(shape, np.int32), multiplier, 0, -128, 127, axis=1)

    def test_fixed16_is_for_8_bits_of_storage(self):
        with pytest.raises(ValueError, match="expected at most 8 bits of it"):
            requantize(np.int32(1), Multiplier.of(1e-3, R.FIXED16, 8), 0, -(2**15), 2**15 - 1)

    @pytest.mark.parametrize("behaviour", R)
    @pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64])
    def test_any_integer_dtype_is_an_accumulator(self, behaviour, dtype):
        multiplier = Multiplier.of(2.0**-8, behaviour, 8)
        acc = np.array([0, 1, 127, 127], dtype=dtype)
        found = requantize(acc, multiplier, 0, -128, 127)
        assert found.tolist() == requantize(acc.astype(np.int32), multiplier, 0, -128, 127).tolist()
        assert found.dtype == np.int8

    @pytest.mark.parametrize("behaviour", R)
    def test_scalars_and_empty_arrays(self, behaviour):
        multiplier = Multiplier.of(2.0**-8, behaviour, 8)
        assert requantize(np.int32(1024), multiplier, 1, -128, 127).shape == ()
        assert int(requantize(np.int32(1024), multiplier, 1, -128, 127)) == 5
        assert requantize(np.zeros((0, 3), np.int32), multiplier, 1, -128, 127).shape == (0, 3)

    @pytest.mark.parametrize("behaviour", R)
    def test_the_accumulator_is_left_alone(self, behaviour):
        acc = np.array([1000, -1000], dtype=np.int32)
        for copy in (acc.copy(), acc.astype(np.int64)):
            requantize(copy, Multiplier.of(2.0**-8, behaviour, 8), 0, -128, 127)
            assert copy.tolist() == [1000, -1000]

    def test_the_result_has_the_dtype_asked_for(self):
        found = requantize(np.int32(8), Multiplier.of(0.5, R.FIXED32, 8), 0, 0, 127, dtype=np.uint8)
        assert found.dtype == np.uint8


STATED = {(R.FIXED16, 8): Fraction(1, 2) + Fraction(3, 128), (R.FIXED32, 8): Fraction(5001, 10000)}
STATED[R.FIXED32, 16] = STATED[R.FIXED32, 8]


@pytest.mark.parametrize(("behaviour", "width"), STATED)
def test_results_are_as_near_as_the_docs_state(behaviour: RequantizeBehaviour, width: int) -> None:
    """Of products m * acc inside the storage; the multipliers that 15 bits hold worst are among them."""
    rng, half = np.random.default_rng(0), 1 << (width - 1)
    exponents = [*rng.uniform(-20, 0, 60), *(np.log2((2**14 + 0.5) / 2**15) - np.arange(9))]
    greatest = Fraction(0)
    for m in [float(2.0**e) for e in exponents]:
        multiplier = Multiplier.of(m, behaviour, width)
        acc = (rng.uniform(0, 2 * half - 1, 300) / m).astype(np.int64)
        found = requantize(acc.clip(0, 2**31 - 1).astype(np.int32), multiplier, -half, -half, half - 1)
        exact = [min(a * Fraction(m) - half, Fraction(half - 1)) for a in acc.clip(0, 2**31 - 1).tolist()]
        errors = [abs(n - e) for n, e in zip(found.tolist(), exact, strict=True)]
        greatest = max(greatest, *errors)
    assert Fraction(2, 5) < greatest <= STATED[behaviour, width]
