import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeropoint.numerics.affine import dequantize, quantize
from zeropoint.numerics.ranges import (
    SCALE_FLOOR,
    UNIT_SCALE,
    AffineParameters,
    asymmetric,
    fake_quant,
    minmax_nudged,
    symmetric,
)
from zeropoint.numerics.storage import StorageType

I8, U8 = StorageType(True, 8), StorageType(False, 8)
finite = st.floats(-(2.0**100), 2.0**100, width=32)
storages = st.sampled_from([StorageType(signed, width) for signed in (True, False) for width in (2, 4, 8, 16)])


def ends(parameters: AffineParameters) -> tuple[float, float]:
    """The real values of the storage range's ends."""
    low, high = (
        dequantize(q, parameters.scale, parameters.zero_point, np.float64)
        for q in (parameters.storage_min, parameters.storage_max)
    )
    return float(low), float(high)


@given(finite, finite, storages)
def test_asymmetric_holds_zero_exactly_and_the_range_to_half_a_step(a, b, storage):
    low, high = min(a, b), max(a, b)
    found = asymmetric(low, high, storage.min, storage.max)
    scale = float(found.scale)
    assert storage.min <= int(found.zero_point) <= storage.max
    assert np.isfinite(scale)
    assert scale >= SCALE_FLOOR
    real_low, real_high = ends(found)
    slack = scale * (0.5 + 1e-9)
    assert real_low <= min(low, 0.0) + slack
    assert real_high >= max(high, 0.0) - slack


def test_asymmetric_widens_a_range_that_excludes_zero():
    assert asymmetric(1.0, 5.1, -128, 127).zero_points == (-128,)
    assert asymmetric(-5.1, -1.0, -128, 127).zero_points == (127,)
    assert asymmetric(1.0, 5.1, -128, 127).scales == (5.1 / 255,)


def test_asymmetric_of_a_usual_range():
    found = asymmetric(-1.0, 3.0, 0, 255)
    assert found.scales == (4.0 / 255,)
    assert found.zero_points == (64,)


@given(finite, finite, storages, st.booleans())
def test_symmetric_covers_the_larger_side(a, b, storage, narrow):
    low, high = min(a, b), max(a, b)
    found = symmetric(low, high, storage, narrow)
    zero_point = 0 if storage.signed else 1 << (storage.width - 1)
    assert found.zero_points == (zero_point,)
    assert found.storage_min == (storage.narrow_min if narrow else storage.min)
    bound = max(abs(low), abs(high))
    if low <= 0 <= high and not found.degenerate:
        assert float(found.scale) == bound / (storage.max - zero_point)


def test_symmetric_of_a_part_of_a_type_reaches_its_greatest_value():
    found = symmetric(-3.0, 2.0, StorageType(True, 16), greatest=2047)
    assert (found.scales, found.zero_points, found.storage_max) == ((3.0 / 2047,), (0,), 2047)


@pytest.mark.parametrize(
    ("minimum", "maximum", "storage", "scale", "zero_point"),
    [
        (np.float32(-6.123), np.float32(3.45), I8, 0.037564418067230126, 35),
        (-12.25, np.float32(6.1), I8, 0.072058823529412216, 42),
        (-8.0, 8.0, I8, 0.0629921259842528, -1),
        (-8.0, 7.9375, U8, 0.0625, 128),
    ],
)
def test_minmax_nudged_gives_the_golden_values_of_the_2019_solver(minimum, maximum, storage, scale, zero_point):
    found = minmax_nudged(minimum, maximum, storage.min, storage.max)
    # 1e-12 is the tolerance of the solver's own tests; it stops when a step is below 1e-15.
    assert float(found.scale) == pytest.approx(scale, rel=0, abs=1e-12)
    assert int(found.zero_point) == zero_point


@pytest.mark.parametrize(
    ("minimum", "maximum", "storage_min", "storage_max", "zero_point"),
    [
        (-8.0, 8.123, 0, 255, None),
        (1.0, 8.0, 0, 255, 0),
        (-72.0, -4.0, 0, 255, 255),
        (-123.23389, 231.1289, 0, 255, None),
        (-123.23389, 231.1289, 0, 65535, None),
        (-123.23389, 231.1289, 1, 255, None),
        (-1.0, 1.0, 0, 15, None),
    ],
)
def test_minmax_nudged_never_shrinks_the_ranges_of_the_2019_tests(
    minimum, maximum, storage_min, storage_max, zero_point
):
    found = minmax_nudged(minimum, maximum, storage_min, storage_max)
    real_low, real_high = ends(found)
    assert real_low - 1e-12 <= minimum
    assert real_high + 1e-12 >= maximum
    assert storage_min <= int(found.zero_point) <= storage_max
    if zero_point is not None:
        assert int(found.zero_point) == zero_point


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), storages)
def test_minmax_nudged_keeps_both_ends_and_zero(a, b, storage):
    low, high = min(a, b), max(a, b)
    found = minmax_nudged(low, high, storage.min, storage.max)
    real_low, real_high = ends(found)
    width = max(high, 0.0) - min(low, 0.0)
    assert storage.min <= int(found.zero_point) <= storage.max
    if not found.degenerate:
        assert real_low <= min(low, 0.0) + 1e-9 * width
        assert real_high >= max(high, 0.0) - 1e-9 * width
        assert real_high - real_low <= width * (1 + 2.0 / (storage.max - storage.min)) * (1 + 1e-9)


def test_minmax_nudged_does_not_end_short_of_a_range_beside_a_jump():
    # The bisection of 2019 ends one ulp below 22 / 14, where the low end takes 15 steps and leaves none for [0, 1].
    found = minmax_nudged(-22.0, 1.0, -8, 7)
    assert found.zero_points == (6,)
    assert ends(found)[1] >= 1.0


@pytest.mark.parametrize("solver", [asymmetric, minmax_nudged])
def test_solvers_are_vectorised_over_channels(solver):
    lows, highs = np.array([-1.0, 0.0, 2.0, -5.0, 0.0]), np.array([1.0, 3.0, 4.0, -4.0, 0.0])
    together = solver(lows, highs, -128, 127)
    each = [solver(low, high, -128, 127) for low, high in zip(lows, highs, strict=True)]
    assert together.scales == tuple(float(p.scale) for p in each)
    assert together.zero_points == tuple(int(p.zero_point) for p in each)
    assert together.degenerate.tolist() == [False, False, False, False, True]


@pytest.mark.parametrize("solver", [asymmetric, minmax_nudged])
def test_an_all_zero_activation_has_scale_one_and_says_so(solver):
    found = solver(0.0, 0.0, -128, 127)
    assert (found.scales, found.zero_points, bool(found.degenerate)) == ((UNIT_SCALE,), (0,), True)
    assert solver(0.0, 0.0, 3, 255).zero_points == (3,)


def test_all_zero_weights_have_the_floor_and_say_so():
    found = symmetric(np.array([-1.0, 0.0]), np.array([1.0, 0.0]), I8)
    assert found.scales == (1 / 127, SCALE_FLOOR)
    assert found.degenerate.tolist() == [False, True]
    assert symmetric(0.0, 0.0, I8, zero_range_scale=UNIT_SCALE).scales == (UNIT_SCALE,)


@pytest.mark.parametrize("solver", [asymmetric, minmax_nudged])
@pytest.mark.parametrize("bound", [5e-324, 1e-300, 1e-30, 1e-18])
def test_a_denormal_range_has_the_floor_never_nan_or_zero(solver, bound):
    for low, high in [(-bound, 0.0), (0.0, bound), (-bound, bound)]:
        found = solver(low, high, -128, 127)
        assert found.scales == (SCALE_FLOOR,)
        assert bool(found.degenerate)
        assert -128 <= int(found.zero_point) <= 127
        assert int(quantize(0.0, found.scale, found.zero_point, -128, 127)) == int(found.zero_point)


def test_the_product_of_two_floors_is_a_normal_f32():
    assert np.float32(SCALE_FLOOR) * np.float32(SCALE_FLOOR) >= np.finfo(np.float32).tiny


def test_a_range_past_the_greatest_difference_of_f64_stays_finite():
    assert float(asymmetric(-1.7e308, 1.7e308, -128, 127).scale) == pytest.approx(1.7e308 / 127.5)


@pytest.mark.parametrize(("low", "high"), [(np.nan, 1.0), (0.0, np.inf), (1.0, -1.0), (-np.inf, 0.0)])
@pytest.mark.parametrize("solver", [asymmetric, minmax_nudged])
def test_ranges_that_are_none_are_rejected(solver, low, high):
    with pytest.raises(ValueError, match="expected finite bounds, the minimum first"):
        solver(low, high, -128, 127)


def test_a_storage_range_of_one_value_is_rejected():
    with pytest.raises(ValueError, match="at least two values"):
        asymmetric(-1.0, 1.0, 4, 4)


class TestFakeQuant:
    @pytest.mark.parametrize("num_bits", [2, 3, 4, 7, 8, 12, 16, 32])
    @pytest.mark.parametrize("signed", [True, False])
    @pytest.mark.parametrize("narrow", [True, False])
    def test_storage_is_exactly_as_wide_as_asked(self, num_bits, signed, narrow):
        found = fake_quant(-1.0, 1.0, num_bits, narrow, signed)
        storage = StorageType(signed, num_bits)
        assert (found.storage_min, found.storage_max) == (storage.min + narrow, storage.max)

    def test_compat_rounds_the_width_up_to_a_byte(self):
        found = fake_quant(-1.0, 1.0, 4, True, True, compat=True)
        assert (found.storage_min, found.storage_max) == (-127, 127)
        assert fake_quant(-1.0, 1.0, 12, False, False, compat=True).storage_max == 65535

    @pytest.mark.parametrize(("low", "high", "zero_point"), [(-1.0, 1.0, 127), (-128.0, 127.0, 128), (-0.1, 0.2, 85)])
    def test_zero_points_are_rounded_in_f32_as_tensorflow_does(self, low, high, zero_point):
        assert fake_quant(low, high, 8).zero_points == (zero_point,)
        assert fake_quant(low, high, 8, signed=True).zero_points == (zero_point - 128,)

    @given(st.floats(-100.0, 0.0, width=32), st.floats(0.0, 100.0, width=32), st.integers(2, 16), st.booleans())
    def test_scales_are_tensorflows_in_f32(self, low, high, num_bits, narrow):
        steps = np.float32((1 << num_bits) - 1 - narrow)
        theirs = (np.float32(high) - np.float32(low)) / steps
        if theirs > 0:
            assert np.float32(fake_quant(low, high, num_bits, narrow).scale) == theirs

    def test_a_range_that_excludes_zero_is_shifted(self):
        found = fake_quant(2.0, 4.0, 8)
        assert found.scales == (2.0 / 255,)
        assert found.zero_points == (0,)
        assert fake_quant(2.0, 4.0, 24).scales == (4.0 / ((1 << 24) - 1),)

    def test_compat_shifts_it_and_keeps_its_scale(self):
        found = fake_quant(2.0, 4.0, 8, compat=True)
        assert found.scales == (2.0 / 255,)
        assert found.zero_points == (0,)
        below = fake_quant(-4.0, -2.0, 8, signed=True, compat=True)
        assert (below.scales, below.zero_points) == ((2.0 / 255,), (127,))

    def test_compat_of_an_empty_range_is_upstreams(self):
        found = fake_quant(np.array([0.0, -1.0]), np.array([1e-17, 1.0]), 8, signed=True, compat=True)
        assert found.scales == (1.0, 2.0 / 255)
        assert found.zero_points == (-128, -1)
        assert found.degenerate.tolist() == [True, False]

    @given(st.floats(-100.0, -0.01), st.floats(0.01, 100.0), st.booleans(), st.booleans())
    def test_compat_differs_by_rounding_only_for_8_bits_that_straddle_zero(self, low, high, narrow, signed):
        ours, theirs = (fake_quant(low, high, 8, narrow, signed, compat) for compat in (False, True))
        assert ours.scales == pytest.approx(theirs.scales, rel=2.0**-22)  # f32 or f64
        assert abs(ours.zero_points[0] - theirs.zero_points[0]) <= 1

    @pytest.mark.parametrize("num_bits", [0, 1, 33])
    def test_other_widths_are_rejected(self, num_bits):
        with pytest.raises(ValueError, match="expected 2 to 32"):
            fake_quant(-1.0, 1.0, num_bits)


def test_parameters_take_plain_numbers_and_know_their_reach():
    found = AffineParameters(0.5, 3, -128, 127)
    assert (found.scales, found.zero_points, found.reach) == ((0.5,), (3,), 131)
    assert AffineParameters([0.5, 0.25], [0, -100], -128, 127).reach == 227
