import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeropoint.numerics.affine import QuantizeBehaviour, quantize
from zeropoint.numerics.arrays import BLOCK_ELEMENTS, along_axis, blocks, part
from zeropoint.numerics.requantize import Multiplier, RequantizeBehaviour, requantize

LARGE = [(100_000,), (1, 3, 20_000), (3, 50_000), (1, 5, 7, 70_000), (70_000, 2), (2, 40_000, 1), (200, 200)]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (5, 7), (BLOCK_ELEMENTS,), (BLOCK_ELEMENTS + 1,), *LARGE])
def test_blocks_cover_every_element_once_and_are_small(shape):
    seen = np.zeros(shape, dtype=np.int8)
    for block in blocks(shape):
        seen[block] += 1
        assert seen[block].size <= BLOCK_ELEMENTS
    assert (seen == 1).all()


@settings(max_examples=40)
@given(st.sampled_from(LARGE), st.data())
def test_a_part_of_a_parameter_meets_its_block(shape, data):
    kept = tuple(size if data.draw(st.booleans()) else 1 for size in shape)
    parameter = np.random.default_rng(0).integers(0, 100, kept)
    whole = np.broadcast_to(parameter, shape)
    for block in list(blocks(shape))[:: data.draw(st.integers(1, 5))]:
        assert np.array_equal(np.broadcast_to(part(parameter, block), whole[block].shape), whole[block])
    assert part(np.asarray(7), next(blocks(shape))) == 7


@pytest.mark.parametrize("behaviour", RequantizeBehaviour)
@pytest.mark.parametrize("shape", [(1, 8, 100, 120), (90_000, 8)])
def test_large_tensors_requantize_as_their_elements_do(behaviour, shape):
    generator, channels = np.random.default_rng(0), 8
    axis = shape.index(channels)
    m = 2.0 ** generator.integers(-12, -7, channels) * (1 if behaviour is RequantizeBehaviour.POT else 0.9)
    acc = generator.integers(-(2**17), 2**17, shape).astype(np.int32)
    zero_point = generator.integers(-20, 20, channels)
    whole = requantize(acc, Multiplier.of(m, behaviour, 8), zero_point, -128, 127, axis=axis)
    for channel in range(channels):
        one = np.take(acc, channel, axis)[..., ::7]
        multiplier = Multiplier.of(m, behaviour, 8)
        shift = None if multiplier.shift is None else multiplier.shift[channel]
        single = Multiplier(multiplier.behaviour, multiplier.multiplier[channel], shift)
        expected = requantize(one.reshape(-1)[:5000], single, zero_point[channel], -128, 127)
        assert np.array_equal(np.take(whole, channel, axis)[..., ::7].reshape(-1)[:5000], expected)


@pytest.mark.parametrize("behaviour", QuantizeBehaviour)
@pytest.mark.parametrize(
    ("scale_shape", "zero_point_shape"), [((), ()), ((1, 6, 1), (1, 6, 1)), ((6, 1), ()), ((1, 1, 20_000), (1, 6, 1))]
)
def test_large_tensors_quantize_as_their_elements_do(behaviour, scale_shape, zero_point_shape):
    generator = np.random.default_rng(0)
    x = generator.normal(0, 30, (2, 6, 20_000)).astype(np.float32)
    scale, zero_point = generator.uniform(0.1, 1.0, scale_shape), generator.integers(-99, 99, zero_point_shape)
    found = quantize(x, scale, zero_point, -128, 127, behaviour=behaviour)
    scales, zeros = (np.broadcast_to(p, x.shape)[:, :, ::97] for p in (scale, zero_point))
    assert np.array_equal(found[:, :, ::97], quantize(x[:, :, ::97], scales, zeros, -128, 127, behaviour=behaviour))


def test_parameters_may_be_larger_than_what_they_quantize():
    assert quantize(1.0, np.array([0.5, 0.25]), 0, -128, 127).tolist() == [2, 4]
    assert quantize(np.ones((2, 1)), np.array([0.5, 0.25]), 0, -128, 127).tolist() == [[2, 4], [2, 4]]


def test_along_axis_reshapes_for_broadcasting():
    assert along_axis(np.arange(3), 4, 1, "scale").shape == (1, 3, 1, 1)
    assert along_axis(np.arange(3), 4, -1, "scale").shape == (1, 1, 1, 3)
    assert along_axis(np.arange(1), 4, None, "scale").shape == ()
    with pytest.raises(ValueError, match="found 3 values of scale and no axis"):
        along_axis(np.arange(3), 4, None, "scale")
