"""LiteRT's reference kernels, one op at a time, give the bits that profile fixed32-double names."""

from __future__ import annotations

import numpy as np
import pytest

from oracle.litert import Port, evaluate, model, run
from zeropoint.numerics.affine import QuantizeBehaviour, dequantize, quantize
from zeropoint.numerics.elementwise import LiteRTAdd
from zeropoint.numerics.interpolation import interpolated
from zeropoint.numerics.litert import function_table, mean_multiplier
from zeropoint.numerics.litert_division import divides, quotient_table
from zeropoint.numerics.litert_words import interpolation_table, whole_table
from zeropoint.numerics.multiplication import Multiplication
from zeropoint.numerics.profile import PROFILES
from zeropoint.numerics.ranges import AffineParameters
from zeropoint.numerics.requantize import Multiplier, RequantizeBehaviour, requantize


def f32(value: float) -> float:
    return float(np.float32(value))


def test_quantize_rounds_half_away_before_the_zero_point():
    scale, zero_point = f32(0.37), 3
    # x / scale past int32 is undefined in the runtime (1e9 gives -128); ours clamps.
    x = np.concatenate([np.arange(-300, 301) * np.float32(0.185), np.linspace(-60, 60, 3000), [1e8, -1e8]])
    x = x.astype(np.float32)
    found = run("QUANTIZE", None, [Port(x.shape, "float32")], Port(x.shape, "int8", (scale,), (zero_point,)), x)
    behaviour = QuantizeBehaviour.HALF_AWAY_BEFORE_ZERO_POINT
    assert np.array_equal(found, quantize(x, scale, zero_point, -128, 127, behaviour=behaviour))


def test_dequantize_is_the_one_formula():
    q = np.arange(-128, 128, dtype=np.int8)
    found = run("DEQUANTIZE", None, [Port(q.shape, "int8", (f32(0.037),), (-5,))], Port(q.shape, "float32"), q)
    assert np.array_equal(found, dequantize(q, f32(0.037), -5))


@pytest.mark.parametrize("op", ["ADD", "SUB"])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_add_and_sub(op, seed, dtype):
    generator = np.random.default_rng(seed)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    s1, s2, so = (f32(s) for s in 2.0 ** generator.uniform(-9, -2, 3))
    z1, z2, zo = (int(z) for z in generator.integers(-128, 128, 3)) if dtype == "int8" else (0, 0, 0)
    a, b = (generator.integers(low, high + 1, 20000).astype(dtype) for _ in range(2))
    if dtype == "int8":
        a, b = (grid.reshape(-1).astype(np.int8) for grid in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)))
    ports = [Port(a.shape, dtype, (s,), (z,)) for s, z in ((s1, z1), (s2, z2))]
    found = run(op, (f"{op.title()}Options", {"potScaleInt16": False}), ports, Port(a.shape, dtype, (so,), (zo,)), a, b)
    parameters = [AffineParameters(s, z, low, high) for s, z in ((s1, z1), (s2, z2), (so, zo))]
    ours = LiteRTAdd.of(parameters[:2], parameters[2], (1, 1 if op == "ADD" else -1))
    assert np.array_equal(found, ours.apply(a, b))


def quotients(kinds: list[AffineParameters]) -> np.ndarray:
    """LiteRT's quotients of all int8 values, [dividend, divisor], but for a divisor of real 0, which it refuses."""
    first, second, wanted = ((float(kind.scale), int(kind.zero_point)) for kind in kinds)
    divisors = np.delete(np.arange(-128, 128), second[1] + 128)
    a, b = (grid.astype(np.int8) for grid in np.meshgrid(np.arange(-128, 128), divisors, indexing="ij"))
    ports = [Port(a.shape, "int8", (scale,), (point,)) for scale, point in (first, second)]
    return run("DIV", ("DivOptions", {}), ports, Port(a.shape, "int8", (wanted[0],), (wanted[1],)), a, b)


def random_division(generator: np.random.Generator, steps: float) -> list[AffineParameters]:
    """Parameters with s_a / (s_b s_out) = `steps`."""
    first, second = (f32(scale) for scale in 10 ** generator.uniform(-4, 1, 2))
    scales = (first, second, f32(first / second / steps))
    return [AffineParameters(scale, int(generator.integers(-128, 128)), -128, 127) for scale in scales]


@pytest.mark.parametrize("seed", range(8))
def test_quotients_of_all_values(seed):
    generator = np.random.default_rng(seed)
    kinds = random_division(generator, 2 ** generator.uniform(7, 22))
    table = quotient_table(*kinds)
    assert table is not None
    ours = np.delete(table.reshape(256, 256), int(kinds[1].zero_point) + 128, axis=1)
    assert np.array_equal(quotients(kinds), ours)


def test_quotients_in_coarse_steps_are_wrong_in_the_runtime():
    kinds = random_division(np.random.default_rng(1), 0.4)
    assert not divides(*kinds)
    assert quotient_table(*kinds) is None
    (s1, z1), (s2, z2), (so, zo) = ((float(kind.scale), int(kind.zero_point)) for kind in kinds)
    divisors = np.delete(np.arange(-128, 128), z2 + 128)
    real = (np.arange(-128, 128)[:, None] - z1) * s1 / ((divisors - z2) * s2)
    assert np.abs(quotients(kinds) - np.clip(real / so + zo, -128, 127)).max() > 100


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("op", "root"), [("SQRT", 0.5), ("RSQRT", -0.5)])
def test_roots_of_every_value_that_is_not_negative(op, root, seed):
    generator = np.random.default_rng(seed)
    scale = f32(10 ** generator.uniform(-4, 1))
    wanted = f32((scale * (256 if root > 0 else 1)) ** root / generator.integers(5, 256))
    given, offset = (int(point) for point in generator.integers(-128, 100, 2))
    q = np.arange(given, 128).astype(np.int8)
    ports = Port(q.shape, "int8", (scale,), (given,)), Port(q.shape, "int8", (wanted,), (offset,))
    found = run(op, None, [ports[0]], ports[1], q)
    parameters = [AffineParameters(s, z, -128, 127) for s, z in ((scale, given), (wanted, offset))]
    entries = function_table(op.lower(), parameters[0], parameters[1], lambda x: x)
    assert entries is not None
    assert np.array_equal(found, entries[q.astype(np.int64) + 128])


def product(scales: list[float], zeros: list[int], bits: int, a: np.ndarray, b: np.ndarray) -> None:
    """LiteRT's MUL gives the products of profile fixed32-double."""
    dtype, by = f"int{bits}", PROFILES["fixed32-double"]
    ports = [Port(a.shape, dtype, (scale,), (zero,)) for scale, zero in zip(scales, zeros, strict=True)]
    found = run("MUL", ("MulOptions", {}), ports[:2], ports[2], a.astype(dtype), b.astype(dtype))
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    kinds = [AffineParameters(scale, zero, low, high) for scale, zero in zip(scales, zeros, strict=True)]
    ours = Multiplication.of(kinds[:2], kinds[2], by.requantize(bits), bits, in_f32=by.multiplies_in_f32)
    assert np.array_equal(found, ours.apply(a.astype(dtype), b.astype(dtype)))


@pytest.mark.parametrize("seed", range(4))
def test_mul(seed):
    """The multiplier is computed in f32: in f64, four products of seed 2 differ."""
    generator = np.random.default_rng(seed)
    scales = [f32(s) for s in 2.0 ** generator.uniform(-7, -3, 3)]
    zeros = [int(z) for z in generator.integers(-128, 128, 3)]
    a, b = (grid.reshape(-1) for grid in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)))
    product(scales, zeros, 8, a, b)


@pytest.mark.parametrize("seed", range(4))
def test_mul_of_words(seed):
    generator = np.random.default_rng(seed)
    first, second = (f32(s) for s in 2.0 ** generator.uniform(-16, -12, 2))
    scales = [first, second, f32(first * second * 2.0 ** generator.uniform(13, 15))]
    a, b = generator.integers(-32768, 32768, (2, 200_000))
    product(scales, [0, 0, 0], 16, a, b)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("wide", [False, True], ids=["8x8", "16x8"])
def test_convolution_requantizes_per_channel(seed, wide):
    generator = np.random.default_rng(seed)
    rows, depth, channels = 500, 24, 32
    dtype, bias_dtype, bound = ("int16", "int64", 2**15) if wide else ("int8", "int32", 2**7)
    x = generator.integers(-bound, bound, (1, rows, 1, depth)).astype(dtype)
    w = generator.integers(-127, 128, (channels, 1, 1, depth)).astype(np.int8)
    bias = generator.integers(-20000, 20000, channels).astype(bias_dtype)
    zx, zo = (0, 0) if wide else (-7, 11)
    acc = (x[0, :, 0].astype(np.int64) - zx) @ w[:, 0, 0].astype(np.int64).T + bias
    sx, sw = f32(0.013), generator.uniform(0.001, 0.1, channels).astype(np.float32).astype(np.float64)
    so = f32(sx * np.abs(acc * sw).max() / bound * 0.6)
    found = run(
        "CONV_2D",
        ("Conv2DOptions", {"strideW": 1, "strideH": 1}),
        [
            Port(x.shape, dtype, (sx,), (zx,)),
            Port(w.shape, "int8", tuple(sw), (0,) * channels, w),
            Port(bias.shape, bias_dtype, tuple(sx * sw), (0,) * channels, bias),
        ],
        Port((1, rows, 1, channels), dtype, (so,), (zo,)),
        x,
    )
    behaviour, widths = RequantizeBehaviour.FIXED32_DOUBLE, (16, 64) if wide else (8, 32)
    multiplier = Multiplier.of(sx * sw / so, behaviour, *widths)
    acc = acc if wide else acc.astype(np.int32)
    assert np.array_equal(found[0, :, 0], requantize(acc, multiplier, zo, -bound, bound - 1, axis=1))


FUNCTIONS = {
    "abs": ("ABS", ("AbsOptions", {}), 2),
    "exp": ("EXP", ("ExpOptions", {}), 2),
    "gelu": ("GELU", ("GeluOptions", {}), 2),
    "hard_swish": ("HARD_SWISH", ("HardSwishOptions", {}), 1),
    "leaky_relu": ("LEAKY_RELU", ("LeakyReluOptions", {"alpha": 0.3}), 2),
    "log": ("LOG", None, 2),
    "logistic": ("LOGISTIC", None, 2),
    "tanh": ("TANH", None, 2),
}
FIXED = {"logistic": (1 / 256, -128), "tanh": (1 / 128, 0)}


def at(point: float) -> float:
    """Leaky relu at -1, gelu at 2: what tables ask of their function."""
    return -float(np.float32(0.3)) if point == -1.0 else 1.9544997


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tables_of_functions_are_litert_s_on_every_byte(name: str) -> None:
    op, options, version = FUNCTIONS[name]
    random = np.random.default_rng(5)
    for _ in range(8):
        scale, zero = float(np.float32(random.uniform(0.01, 0.1))), int(random.integers(-60, 60))
        zero = -128 if name == "log" else zero
        out = float(np.float32(0.05 if name in ("log", "exp") else scale * random.uniform(0.6, 1.1)))
        given, wanted = (scale, zero), FIXED.get(name, (out, int(random.integers(-60, 60))))
        stored = np.arange(-127 if name == "log" else -128, 128, dtype=np.int8)
        ports = [Port(stored.shape, "int8", (s,), (z,)) for s, z in (given, wanted)]
        (found,) = evaluate(model(op, options, ports[:1], ports[1:], version), stored)
        parameters = [AffineParameters(np.array(s), np.array(z), -128, 127) for s, z in (given, wanted)]
        entries = function_table(name, *parameters, at)
        assert entries is not None
        np.testing.assert_array_equal(found, entries[256 - stored.size :])


@pytest.mark.parametrize("axes", [(1, 2), (2,), (0, 3), (1, 2, 3)])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_means_divide_the_count_into_the_multiplier(axes: tuple[int, ...], dtype: str) -> None:
    random = np.random.default_rng(6)
    for _ in range(4):
        scale, zero = float(np.float32(random.uniform(1e-4, 1e-3))), int(random.integers(-90, 90))
        out, shift = float(np.float32(scale * random.uniform(0.2, 1.5))), int(random.integers(-90, 90))
        if dtype == "int16":
            zero = shift = 0
        limits = np.iinfo(dtype)
        stored = random.integers(limits.min, limits.max + 1, (2, 5, 7, 6)).astype(dtype)
        sums = (stored.astype(np.int64) - zero).sum(axes)
        ports = [Port(stored.shape, dtype, (scale,), (zero,)), Port((len(axes),), "int32", value=np.array(axes))]
        result = Port(sums.shape, dtype, (out,), (shift,))
        (found,) = evaluate(model("MEAN", ("ReducerOptions", {}), ports, [result], 2), stored)
        multiplier = mean_multiplier(scale / out, stored.size // sums.size)
        np.testing.assert_array_equal(found, requantize(sums, multiplier, shift, limits.min, limits.max))


WORDS = {
    "abs": ("ABS", None, lambda x: abs(x)),
    "exp": ("EXP", None, np.exp),
    "gelu": ("GELU", ("GeluOptions", {"approximate": False}), lambda x: 1.9544997),
    "leaky_relu": ("LEAKY_RELU", ("LeakyReluOptions", {"alpha": f32(0.137)}), lambda x: f32(0.137) * x),
    "log": ("LOG", None, np.log),
    "logistic": ("LOGISTIC", None, None),
    "rsqrt": ("RSQRT", None, None),
    "sqrt": ("SQRT", None, None),
    "tanh": ("TANH", None, None),
    "tanh gelu": ("GELU", ("GeluOptions", {"approximate": True}), lambda x: 1.9545977),
}


@pytest.mark.parametrize("factor", [0.9985, 0.9994, 1.0006, 1.0008])
@pytest.mark.parametrize("name", ["logistic", "tanh"])
def test_scales_near_a_power_of_two_count_as_that_power(name: str, factor: float) -> None:
    x, scale = np.arange(-32768, 32768).astype(np.int16), f32(2.0**-12 * factor)
    ports = [Port(x.shape, "int16", (each,), (0,)) for each in (scale, 2.0**-15)]
    entries = whole_table(name, scale, 2.0**-15, None)
    assert np.array_equal(run(name.upper(), None, ports[:1], ports[1], x), entries)


@pytest.mark.parametrize("scale", [2.0**-12, 2.0**-11, 0.00037, 0.0000613])
@pytest.mark.parametrize("name", WORDS)
def test_functions_of_all_words(name, scale):
    op, options, at = WORDS[name]
    # The kernels of roots refuse values without one.
    least = {"sqrt": 0, "rsqrt": 1}.get(name, -32768)
    x = np.arange(least, 32768).astype(np.int16)
    wanted = 2.0**-15 if name in ("logistic", "tanh") else f32(0.000413)
    ports = [Port(x.shape, "int16", (f32(each),), (0,)) for each in (scale, wanted)]
    found = run(op, options, ports[:1], ports[1], x)
    kernel = name.rpartition(" ")[2]
    points = interpolation_table(kernel, f32(scale), wanted, at)
    if points is None:
        entries = whole_table(kernel, f32(scale), wanted, at)
        assert entries is not None
        assert np.array_equal(found, entries[least + 32768 :])
    else:
        assert np.array_equal(found, interpolated(x, points))


@pytest.mark.parametrize(
    ("name", "scale", "wanted"),
    [
        ("exp", 200 / 32768, 1.0),
        ("exp", 0.01, 1 / 65536),
        ("exp", 0.0031, 1e30),
        ("log", 0.013, 2.0**-15),
        ("log", 0.1, 0.000185),
        ("gelu", 0.1, 0.000185),
    ],
)
def test_differences_of_points_that_16_bits_do_not_hold_wrap_around_as_in_litert(name, scale, wanted):
    """Exponentials beyond 88 are infinite in f32, and the correction of a segment between two is NaN, stored as 0. A
    logarithm has the least result at 0 and a positive one a segment later.
    """
    op, options, at = WORDS[name]
    x = np.arange(-32768, 32768).astype(np.int16)
    ports = [Port(x.shape, "int16", (f32(each),), (0,)) for each in (scale, wanted)]
    assert interpolation_table(name, f32(scale), f32(wanted), at) is None
    entries = whole_table(name, f32(scale), f32(wanted), at)
    assert np.array_equal(run(op, options, ports[:1], ports[1], x), entries)


@pytest.mark.parametrize("seed", range(20))
def test_factors_of_fixed_point_functions_are_computed_in_f32(seed):
    random = np.random.default_rng(seed)
    x, slope = np.arange(-128, 128).astype(np.int8), f32(random.uniform(-0.3, 1.5))
    kinds = [
        AffineParameters(np.float32(2.0**p), int(z), -128, 127)
        for p, z in zip(random.uniform(-9, -3, 2), random.integers(-128, 128, 2), strict=True)
    ]
    ports = [Port(x.shape, "int8", (float(kind.scale),), (int(kind.zero_point),)) for kind in kinds]
    found = run("LEAKY_RELU", ("LeakyReluOptions", {"alpha": slope}), ports[:1], ports[1], x)
    assert np.array_equal(found, function_table("leaky_relu", *kinds, lambda value: slope * value))
