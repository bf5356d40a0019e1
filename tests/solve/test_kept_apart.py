"""Parts of a join are followed only where a float reader may be behind it."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.ir import SSAValue

from networks import Network
from zeropoint.ir.program import Program
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import ConcatenateOp, ConvolutionLayout, ConvolutionOp, MaximumOp
from zeropoint.ir.tensors import with_shape
from zeropoint.pipeline import Options, quantize
from zeropoint.solve import is_quantized
from zeropoint.solve.parts.kept_apart import KeptApart

CHANNELS = 20


def uneven(*, read_by_caller: bool) -> Program:
    """A convolution of a maximum of joins, one of whose operands is 1000 times as large as the other."""
    net = Network([(1, CHANNELS, 1, 8)] * 2)
    joins = list[SSAValue]()
    for order in (net.values, net.values[::-1]):
        net.layer(f"join{len(joins)}")
        joins.append(net.insert(ConcatenateOp(list(order), 3)))
    net.layer("greater")
    value = net.insert(MaximumOp(*joins))
    net.layer("conv")
    weight = net.constant(net.random.normal(0, 1, (4, CHANNELS, 1, 1)))
    layout = ConvolutionLayout.channels_first(2)
    made = net.insert(ConvolutionOp(value, weight, with_shape(value, [1, 4, 1, 16]), layout))
    return net.finish([made, value] if read_by_caller else [made])


@pytest.mark.parametrize("read_by_caller", [False, True])
def test_parts_are_followed_to_float_readers_only(monkeypatch: pytest.MonkeyPatch, *, read_by_caller: bool) -> None:
    followed: list[KeptApart] = []
    follow = KeptApart._follow  # pyright: ignore[reportPrivateUsage] (one walk)

    def counted(self: KeptApart) -> None:
        followed.append(self)
        follow(self)

    monkeypatch.setattr(KeptApart, "_follow", counted)
    random = np.random.default_rng(1)
    sizes = {"x0": 1000.0, "x1": 1.0}
    data = [
        {name: (size * random.normal(0, 1, (1, CHANNELS, 1, 8))).astype(np.float32) for name, size in sizes.items()}
        for _ in range(4)
    ]
    made = quantize(uneven(read_by_caller=read_by_caller), data, Options(effort="none")).propagated
    assert bool(followed) == read_by_caller
    floats = {region.logical_kernel.data for region in regions_of(made) if not is_quantized(region)}
    assert floats == ({"concatenate", "maximum"} if read_by_caller else set())
