from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numerics import rational
from zeropoint.numerics.affine import QuantizeBehaviour
from zeropoint.numerics.elementwise import (
    AddBehaviour,
    CommonScaleSum,
    FloatAdd,
    LiteRTAdd,
    TosaAdd,
    addition,
)
from zeropoint.numerics.multiplication import Multiplication
from zeropoint.numerics.multiplier import quantize_multiplier
from zeropoint.numerics.ranges import AffineParameters
from zeropoint.numerics.requantize import RequantizeBehaviour

I8 = np.arange(-128, 128, dtype=np.int8)
A, B = (grid.astype(np.int8) for grid in np.meshgrid(I8, I8, indexing="ij"))
scales = st.floats(2.0**-8, 1.0)
zero_points = st.integers(-128, 127)


def parameters(scale: float, zero_point: int, low: int = -128, high: int = 127) -> AffineParameters:
    return AffineParameters(scale, zero_point, low, high)


def exact_real_sum(inputs, output, signs, *operands) -> list[Fraction]:
    return [
        sum(
            sign * (q - int(p.zero_point)) * Fraction(float(p.scale))
            for q, p, sign in zip(qs, inputs, signs, strict=True)
        )
        / Fraction(float(output.scale))
        for qs in zip(*operands, strict=True)
    ]


class TestCommonScaleSum:
    @given(
        st.lists(st.tuples(scales, zero_points, st.sampled_from([1, -1])), min_size=1, max_size=5),
        scales,
        zero_points,
        st.data(),
    )
    def test_the_sum_is_the_exact_one_to_the_stated_bound_and_one_rounding(self, operands, out, out_zero, data):
        inputs, output = [parameters(s, z) for s, z, _ in operands], parameters(out, out_zero)
        signs = [sign for _, _, sign in operands]
        found = CommonScaleSum.of(inputs, output, signs)
        qs = [[data.draw(st.integers(-128, 127))] for _ in inputs]
        (exact,) = exact_real_sum(inputs, output, signs, *qs)
        bound = Fraction(found.error_bound([p.reach for p in inputs])) + Fraction(1, 2**30)
        low, high = (rational.clamp(rational.half_up(exact + e) + out_zero, -128, 127) for e in (-bound, bound))
        (y,) = found.apply(*(np.array(q, np.int8) for q in qs)).tolist()
        assert low <= y <= high

    @given(st.lists(st.tuples(st.floats(2.0**-30, 2.0**15), zero_points), min_size=1, max_size=6), st.floats(0.5, 1.0))
    def test_every_partial_sum_stays_in_int32_and_one_bit_more_would_not(self, operands, out):
        inputs = [parameters(s, z) for s, z in operands]
        found = CommonScaleSum.of(inputs, parameters(out, 0))
        used = sum(p.reach * abs(a) for p, a in zip(inputs, found.multipliers, strict=True))
        assert used + 2 ** (found.shift - 1) <= rational.INT32_MAX
        if found.shift < 31:
            ratios = [Fraction(s) / Fraction(out) for s, _ in operands]
            more = [rational.half_away(r * 2 ** (found.shift + 1)) for r in ratios]
            assert (
                sum(p.reach * a for p, a in zip(inputs, more, strict=True)) + 2**found.shift >= rational.INT32_MAX - 9
            )

    def test_all_pairs_of_8_bit_operands_exhaustively(self):
        inputs, output = [parameters(0.021, -7), parameters(0.013, 30)], parameters(0.027, 5)
        found = CommonScaleSum.of(inputs, output)
        a, b, n = *found.multipliers, found.shift
        total = (A.astype(object) + 7) * a + (B.astype(object) - 30) * b + 2 ** (n - 1)
        assert total.max() <= rational.INT32_MAX
        assert total.min() >= rational.INT32_MIN
        expected = np.clip((total >> n) + 5, -128, 127).astype(np.int8)
        assert np.array_equal(found.apply(A, B), expected)
        exact = ((A.astype(np.float64) + 7) * 0.021 + (B - 30.0) * 0.013) / 0.027
        assert np.array_equal(found.apply(A, B), np.clip(np.floor(exact + 0.5) + 5, -128, 127))

    @pytest.mark.parametrize("moved", [(), (128, 128), (0, 128)])
    def test_the_constant_term_is_all_that_does_not_depend_on_operands(self, moved):
        found = CommonScaleSum.of([parameters(0.021, -7), parameters(0.013, 127)], parameters(0.027, 5))
        a, b, n = *found.multipliers, found.shift
        direct = (A.astype(np.int64) + 7) * a + (B.astype(np.int64) - 127) * b + 2 ** (n - 1)
        term = found.constant_term(moved)
        first, second = moved or (0, 0)
        split = (A.astype(np.int64) + first) * a + (B.astype(np.int64) + second) * b + term
        assert rational.INT32_MIN <= term <= rational.INT32_MAX
        assert np.array_equal(split.astype(np.int32), direct)

    @given(st.lists(st.tuples(scales, zero_points), min_size=1, max_size=4), scales, zero_points)
    def test_factors_of_16_bits_are_taken_where_they_cost_little(self, operands, out, out_zero):
        inputs, output = [parameters(s, z) for s, z in operands], parameters(out, out_zero)
        found = addition(AddBehaviour.COMMON_SCALE_16, inputs, output)
        if max(map(abs, found.multipliers)) < 2**15:
            assert found.error_bound([p.reach for p in inputs]) <= 1 / 32
        else:
            assert found == CommonScaleSum.of(inputs, output)

    def test_a_residual_addition_has_factors_of_16_bits(self):
        found = addition(
            AddBehaviour.COMMON_SCALE_16, [parameters(0.02, -7), parameters(0.013, 30)], parameters(0.03, 5)
        )
        assert (found.multipliers, found.shift) == ((21845, 14199), 15)

    def test_operands_of_a_much_larger_scale_keep_wide_factors(self):
        inputs, output = [parameters(20000.0, 0), parameters(1.0, 0)], parameters(1.0, 0)
        assert addition(AddBehaviour.COMMON_SCALE_16, inputs, output) == CommonScaleSum.of(inputs, output)

    def test_a_difference_has_a_negative_factor(self):
        found = CommonScaleSum.of([parameters(0.5, 0), parameters(0.25, 0)], parameters(0.25, 0), (1, -1))
        assert found.apply(np.int8(10), np.int8(7)) == 13

    def test_16_bit_operands_have_64_bit_accumulators(self):
        wide = [parameters(s, 0, -(2**15), 2**15 - 1) for s in (1e-4, 2.3e-4)]
        found = addition(AddBehaviour.COMMON_SCALE, wide, parameters(3e-4, 0, -(2**15), 2**15 - 1))
        assert found.accumulator_width == 64
        assert found.error_bound([p.reach for p in wide]) < 2.0**-25
        assert found.apply(np.array([-(2**15), 2**15 - 1], np.int16), np.array([-(2**15)] * 2, np.int16)).tolist() == [
            -(2**15),
            round((32767e-4 - 32768 * 2.3e-4) / 3e-4),
        ]

    def test_16_bit_operands_are_added_in_32_bits_where_that_costs_little(self):
        words = -(2**15), 2**15 - 1
        inputs, output = [parameters(s, z, *words) for s, z in ((1e-4, 7), (2.3e-4, 0))], parameters(3e-4, 9, *words)
        found = addition(AddBehaviour.COMMON_SCALE_16, inputs, output)
        assert found.accumulator_width == 32
        assert found.error_bound([p.reach for p in inputs]) <= 8
        a, b = (np.random.default_rng(n).integers(*words, 4000).astype(np.int16) for n in (1, 2))
        exact = ((a.astype(np.int64) - 7) * 1e-4 + b * 2.3e-4) / 3e-4 + 9
        assert np.abs(found.apply(a, b) - np.clip(exact, *words)).max() <= 8.5
        coarse = addition(AddBehaviour.COMMON_SCALE_16, [parameters(1.0, 0, *words)] * 2, parameters(0.1, 0, *words))
        assert coarse.accumulator_width == 64

    def test_operands_that_dwarf_the_result_are_refused(self):
        with pytest.raises(ValueError, match="widen the range of the result"):
            CommonScaleSum.of([parameters(1.0, 0)], parameters(2.0**-30, 0))

    def test_operands_are_per_tensor(self):
        with pytest.raises(ValueError, match="expected per-tensor quantization"):
            CommonScaleSum.of([AffineParameters([1.0, 2.0], [0, 0], -128, 127)], parameters(1.0, 0))

    @pytest.mark.parametrize("signs", [(1,), (1, 0), (1, 2)])
    def test_signs_are_one_each(self, signs):
        with pytest.raises(ValueError, match=r"expected \+1 or -1 for each of 2 operands"):
            CommonScaleSum.of([parameters(1.0, 0)] * 2, parameters(1.0, 0), signs)


def litert_reference(q1, q2, s1, z1, s2, z2, so, zo, sign, left_shift) -> int:
    """LiteRT's AddElementwise for one pair, on unbounded integers that are checked to be int32."""
    s1, s2, so = (float(np.float32(s)) for s in (s1, s2, so))
    twice = 2 * max(s1, s2)
    (m1, e1), (m2, e2), (mo, eo) = (
        (int(part) for part in quantize_multiplier(m)) for m in (s1 / twice, s2 / twice, twice / (2**left_shift * so))
    )
    scaled = [
        rational.multiply_by_quantized_multiplier((q - z) << left_shift, m, e)
        for q, z, m, e in ((q1, z1, m1, e1), (q2, z2, m2, e2))
    ]
    total = scaled[0] + sign * scaled[1]
    assert rational.INT32_MIN <= total <= rational.INT32_MAX
    return rational.multiply_by_quantized_multiplier(total, mo, eo) + zo


class TestLiteRT:
    @given(scales, zero_points, scales, zero_points, scales, zero_points, st.sampled_from([1, -1]), st.data())
    def test_8_bit_kernel(self, s1, z1, s2, z2, so, zo, sign, data):
        found = LiteRTAdd.of([parameters(s1, z1), parameters(s2, z2)], parameters(so, zo), (1, sign))
        q1, q2 = data.draw(st.integers(-128, 127)), data.draw(st.integers(-128, 127))
        expected = litert_reference(q1, q2, s1, z1, s2, z2, so, zo, sign, 20)
        assert int(found.apply(np.int8(q1), np.int8(q2))) == rational.clamp(expected, -128, 127)

    @given(scales, scales, scales, st.sampled_from([1, -1]), st.data())
    def test_16_bit_kernel(self, s1, s2, so, sign, data):
        low, high = -(2**15), 2**15 - 1
        inputs, output = [parameters(s, 0, low, high) for s in (s1, s2)], parameters(so, 0, low, high)
        found = LiteRTAdd.of(inputs, output, (1, sign))
        q1, q2 = data.draw(st.integers(low, high)), data.draw(st.integers(low, high))
        expected = litert_reference(q1, q2, s1, 0, s2, 0, so, 0, sign, 15)
        assert int(found.apply(np.int16(q1), np.int16(q2))) == rational.clamp(expected, low, high)

    def test_the_larger_operand_is_halved_exactly(self):
        found = LiteRTAdd.of([parameters(0.5, 0), parameters(0.25, 0)], parameters(0.5, 0))
        assert found.left_shift == 20
        assert (found.multipliers[0], found.exponents[0]) == (2**30, 0)
        assert (found.multipliers[1], found.exponents[1]) == (2**30, -1)

    def test_a_result_scale_that_the_runtime_refuses(self):
        with pytest.raises(ValueError, match="LiteRT has one below 1"):
            LiteRTAdd.of([parameters(1.0, 0)] * 2, parameters(2.0**-21, 0))

    def test_two_operands_the_first_as_it_is(self):
        with pytest.raises(ValueError, match="found 3 operands; expected 2"):
            LiteRTAdd.of([parameters(1.0, 0)] * 3, parameters(1.0, 0))
        with pytest.raises(ValueError, match="negated first operand"):
            LiteRTAdd.of([parameters(1.0, 0)] * 2, parameters(1.0, 0), (-1, 1))


def test_tosa_rescales_equal_the_specification_on_all_pairs():
    s1, s2, so = (float(np.float32(s)) for s in (0.021, 0.013, 0.027))
    found = TosaAdd.of([parameters(s1, -7), parameters(s2, 30)], parameters(so, 5))
    values = []
    for q, zero, scale in ((A, -7, s1), (B, 30, s2)):
        multiplier = found.operand_multipliers[0 if q is A else 1]
        assert float(multiplier.real) == pytest.approx(scale / (2 * s1) * 2**20, rel=1e-9)
        m, shift = int(multiplier.multiplier), int(multiplier.shift)
        column = {v: rational.tosa_apply_scale_32(v - zero, m, shift, True) for v in range(-128, 128)}
        values.append(np.vectorize(column.__getitem__)(q.astype(int)))
    out = found.output_multiplier
    total = (values[0] + values[1]).reshape(-1)[::97]
    expected = [rational.tosa_apply_scale_32(int(t), int(out.multiplier), int(out.shift), True) + 5 for t in total]
    assert found.apply(A, B).reshape(-1)[::97].tolist() == np.clip(expected, -128, 127).tolist()


@pytest.mark.parametrize(("dtype", "digits"), [("float32", 24), ("float64", 53)])
def test_float_addition_is_dequantize_add_quantize(dtype, digits):
    inputs, output = [parameters(0.021, -7), parameters(0.013, 30)], parameters(0.027, 5)
    found = FloatAdd.of(inputs, output, (1, -1), QuantizeBehaviour.RNE_BEFORE_ZERO_POINT, dtype)
    t = np.dtype(dtype).type
    real = (A.astype(t) - t(-7)) * t(0.021) - (B.astype(t) - t(30)) * t(0.013)
    expected = np.clip(np.rint(real / t(0.027)) + 5, -128, 127)
    assert np.array_equal(found.apply(A, B), expected)
    assert np.finfo(t).nmant + 1 == digits


@pytest.mark.parametrize("behaviour", AddBehaviour)
@pytest.mark.parametrize("signs", [(1, 1), (1, -1)])
def test_every_behaviour_is_within_one_step_of_the_exact_sum_on_all_pairs(behaviour, signs):
    inputs, output = [parameters(0.021, -7), parameters(0.013, 30)], parameters(0.027, 5)
    found = addition(behaviour, inputs, output, signs).apply(A, B)
    exact = ((A.astype(np.float64) + 7) * 0.021 + signs[1] * (B - 30.0) * 0.013) / 0.027 + 5
    assert found.dtype == np.int8
    assert np.abs(found - np.clip(exact, -128, 127)).max() <= 0.51


@given(scales, zero_points, scales, zero_points, scales, zero_points)
def test_common_scale_and_float64_agree_but_for_ties(s1, z1, s2, z2, so, zo):
    inputs, output = [parameters(s1, z1), parameters(s2, z2)], parameters(so, zo)
    a, b = A[::5, ::7], B[::5, ::7]
    ours, exact = (addition(x, inputs, output).apply(a, b) for x in (AddBehaviour.COMMON_SCALE, AddBehaviour.FLOAT64))
    differs = ours != exact
    real = ((a.astype(np.float64) - z1) * s1 + (b.astype(np.float64) - z2) * s2) / so
    bound = CommonScaleSum.of(inputs, output).error_bound([p.reach for p in inputs]) + 1e-9
    assert (np.abs(real[differs] - np.floor(real[differs]) - 0.5) <= bound).all()


class TestMultiplication:
    @pytest.mark.parametrize(
        "behaviour",
        [
            RequantizeBehaviour.FIXED16,
            RequantizeBehaviour.FIXED32,
            RequantizeBehaviour.FIXED32_DOUBLE,
            RequantizeBehaviour.FLOAT32_RNE,
            RequantizeBehaviour.EXACT,
        ],
    )
    def test_all_pairs_are_within_one_step_of_the_exact_product(self, behaviour):
        inputs, output = [parameters(0.02, -7), parameters(0.05, 30)], parameters(0.13, 5)
        found = Multiplication.of(inputs, output, behaviour, 8).apply(A, B)
        exact = (A.astype(np.float64) + 7) * 0.02 * (B - 30.0) * 0.05 / 0.13 + 5
        assert np.abs(found - np.clip(exact, -128, 127)).max() <= 0.53

    @given(scales, zero_points, scales, zero_points, scales, zero_points, st.data())
    def test_exact_products_are_half_even(self, s1, z1, s2, z2, so, zo, data):
        inputs, output = [parameters(s1, z1), parameters(s2, z2)], parameters(so, zo)
        found = Multiplication.of(inputs, output, RequantizeBehaviour.EXACT, 8)
        q1, q2 = data.draw(st.integers(-128, 127)), data.draw(st.integers(-128, 127))
        expected = rational.half_even(Fraction((q1 - z1) * (q2 - z2)) * Fraction(s1 * s2 / so)) + zo
        assert int(found.apply(np.int8(q1), np.int8(q2))) == rational.clamp(expected, -128, 127)

    def test_unsigned_16_bit_products_have_64_bit_accumulators(self):
        inputs = [parameters(1e-4, 0, 0, 65535)] * 2
        found = Multiplication.of(inputs, parameters(1e-3, 0, 0, 65535), RequantizeBehaviour.FIXED32, 16)
        assert found.accumulator_width == 64
        assert int(found.apply(np.uint16(65535), np.uint16(65535))) == round(65535**2 * float(found.multiplier.real))

    def test_a_product_past_the_limit_is_refused(self):
        inputs = [parameters(1.0, 0)] * 2
        with pytest.raises(ValueError, match="found products up to 16384"):
            Multiplication.of(inputs, parameters(2.0**-18, 0), RequantizeBehaviour.FIXED32_DOUBLE, 8)


def test_scales_far_apart_still_add():
    inputs = [parameters(1.0, 0), parameters(2.0**-30, 0)]
    found = addition(AddBehaviour.COMMON_SCALE, inputs, parameters(1.0, 0))
    assert found.apply(np.int8(100), np.int8(127)) == 100


STATED_ERRORS = {8: Fraction(1, 32), 16: Fraction(8)}


@pytest.mark.parametrize("width", STATED_ERRORS)
def test_sums_under_fixed16_are_as_near_as_the_docs_state(width: int) -> None:
    """Of two operands, inside of the result's storage: 1/32 or 8 steps, or R (2 P + 1) / 2^32 where that is more."""
    rng, half, errors = np.random.default_rng(0), 1 << (width - 1), [Fraction(0)]
    for _ in range(60):
        drawn = [float(2.0**e) for e in rng.uniform(-3, 3 if width == 8 else 0, 2)]
        zeros = [int(z) for z in rng.integers(-half, half, 3)]
        inputs = [parameters(s, z, -half, half - 1) for s, z in zip(drawn, zeros, strict=False)]
        output, signs = parameters(1.0, zeros[2], -half, half - 1), [1, int(rng.choice([-1, 1]))]
        found = addition(AddBehaviour.COMMON_SCALE_16, inputs, output, signs)
        reach = [p.reach for p in inputs]
        wide = Fraction(sum(reach)) * (2 * sum(r * Fraction(s) for r, s in zip(reach, drawn, strict=True)) + 1) / 2**32
        stated = Fraction(1, 2) + max(STATED_ERRORS[width], wide)
        qs = rng.integers(-half, half, (2, 150))
        qs[:, :4] = [[-half, -half, half - 1, half - 1], [-half, half - 1, -half, half - 1]]
        exact = [n + zeros[2] for n in exact_real_sum(inputs, output, signs, *qs.tolist())]
        results = found.apply(*qs).tolist()

        errors += [
            abs(y - min(max(x, Fraction(-half)), Fraction(half - 1))) for y, x in zip(results, exact, strict=True)
        ]
        assert max(errors) <= stated
    assert max(errors) > Fraction(1, 2)
