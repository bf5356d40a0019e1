import numpy as np
import pytest

from zeropoint.numerics.affine import QuantizeBehaviour
from zeropoint.numerics.elementwise import AddBehaviour
from zeropoint.numerics.profile import PROFILES, profile
from zeropoint.numerics.requantize import RequantizeBehaviour


def test_the_named_profiles():
    rows = {
        p.name: (p.quantize.value, p.requantize_8bit.value, p.requantize_wide.value, p.add.value)
        for p in PROFILES.values()
    }
    assert rows == {
        "fixed16": ("rne-after-zero-point", "fixed16", "fixed32", "common-scale-16"),
        "fixed32": ("rne-after-zero-point", "fixed32", "fixed32", "common-scale"),
        "fixed32-double": ("half-away-before-zero-point", "fixed32-double", "fixed32-double", "litert"),
        "fixed32-double-products": ("half-away-before-zero-point", "fixed32-double", "fixed32-double", "litert"),
        "float64-away": ("half-away-before-zero-point", "float64-away", "float64-away", "litert"),
        "xnnpack": ("rne-reciprocal", "float32-rne", "fixed32-double", "xnnpack"),
        "tosa-double": ("rne-reciprocal", "tosa-double", "tosa-double", "tosa"),
        "stablehlo": ("rne-nan-is-stored-zero", "float32-rne", "float32-rne", "float32"),
        "float32-rne": ("rne-after-zero-point", "float32-rne", "float32-rne", "float32"),
        "onnxruntime": ("rne-before-zero-point", "float32-rne", "float32-rne", "float32"),
        "openvino": ("rne-by-range", "float32-rne", "float32-rne", "float32"),
        "openvino-amx": ("rne-by-range", "float32-rne", "float32-rne", "float32"),
        "exact": ("rne-after-zero-point", "exact", "exact", "float64"),
        "upstream": ("truncate-no-clamp", "float32-rne", "float32-rne", "float32"),
    }
    assert all(name == p.name for name, p in PROFILES.items())


def test_a_profile_resolves_multipliers_by_the_width_of_storage():
    found = profile("fixed16")
    assert found.multiplier(1e-3, 8).behaviour is RequantizeBehaviour.FIXED16
    assert found.multiplier(1e-3, 4).behaviour is RequantizeBehaviour.FIXED16
    assert found.multiplier(1e-3, 16).behaviour is RequantizeBehaviour.FIXED32
    assert (found.multiplier(np.array([1e-3]), 16, 64).multiplier < 2**15).all()


def test_an_unknown_name_is_answered_with_the_names():
    with pytest.raises(ValueError, match="found the numerics profile 'fixed8'; expected one of fixed16, fixed32, "):
        profile("fixed8")


def test_every_behaviour_is_its_name():
    assert QuantizeBehaviour("rne-reciprocal") == "rne-reciprocal"
    assert AddBehaviour("common-scale") == "common-scale"
    assert f"{RequantizeBehaviour.FIXED32_DOUBLE}" == "fixed32-double"


def test_litert_requantizes_accumulators_to_16_bits_as_64_bit_ones_and_nothing_else():
    found = profile("fixed32-double")
    assert [found.accumulator_width(stored, to) for stored, to in ((32, 16), (32, 8), (16, 16), (8, 16))] == [
        64,
        32,
        32,
        32,
    ]
    others = [
        each for name, each in PROFILES.items() if name not in ("fixed32-double", "fixed32-double-products", "xnnpack")
    ]
    assert {each.accumulator_width(32, 16) for each in others} == {32}
