"""The scales of a constant after its tensor is reshaped."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.ir.quant.channel_scales import reshaped_scales

I8 = Storage.of("i8")
SHAPES = [
    ((4, 3), 1, (4, 3, 1)),
    ((4, 3), 1, (2, 2, 3)),
    ((4, 3), 1, (12,)),
    ((4, 3), 0, (12, 1)),
    ((2, 3, 5), 1, (6, 5)),
    ((2, 3, 5), 1, (2, 15)),
    ((2, 3, 5), 1, (30,)),
    ((2, 3, 1), 1, (1, 2, 1, 3)),
    ((1, 3, 1, 1), 1, (3,)),
]


@pytest.mark.parametrize(("before", "axis", "after"), SHAPES)
def test_every_element_keeps_its_scale(before: tuple[int, ...], axis: int, after: tuple[int, ...]) -> None:
    numbers = np.arange(1, before[axis] + 1)
    found = reshaped_scales(UniformQuantizedType.per_channel(I8, axis, numbers / 8, numbers), before, after)
    assert found is not None
    assert found.axis is not None
    for given, made in ((numbers / 8, found.scales), (numbers, found.zero_points)):
        each = np.broadcast_to(given.reshape([-1 if i == axis else 1 for i in range(len(before))]), before)
        again = made.reshape([-1 if i == found.axis else 1 for i in range(len(after))])
        np.testing.assert_array_equal(np.broadcast_to(again, after), each.reshape(after))


def test_channels_that_are_divided_have_no_dimension() -> None:
    kind = UniformQuantizedType.per_channel(I8, 0, np.arange(1.0, 7.0))
    assert reshaped_scales(kind, (6, 2), (2, 3, 2)) is None
    assert reshaped_scales(UniformQuantizedType.per_layer(I8, 0.5), (6, 2), (3, 4)) is not None
    assert reshaped_scales(kind, (6, 0), (3, 0)) is None
