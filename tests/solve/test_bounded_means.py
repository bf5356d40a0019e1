"""The mean of probabilities has the range that it can have, if that costs at most one bit."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.ir import SSAValue

from networks import Network, quantized
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import DivideOp, LogisticOp, ReshapeOp, TanhOp, TransposeOp
from zeropoint.ir.tensors import with_shape
from zeropoint.solve.classes import real_range


def mean_of(kind: type[LogisticOp] | type[TanhOp]) -> Program:
    """The mean of a function over four rows, moved before and after."""
    net = Network([(4, 8)])

    def layer(value: SSAValue) -> SSAValue:
        net.layer("op")
        net.values.append(value)
        return value

    value = layer(net.insert(kind(net.values[0])))
    value = layer(net.insert(TransposeOp(value, [1, 0])))
    total = net.reduced(value, [1])
    value = layer(net.insert(DivideOp(total, net.splat(4.0, total))))
    return net.finish([net.insert(ReshapeOp(value, with_shape(value, [1, 8])))])


def ranges(program: Program, low: float, high: float) -> dict[str, tuple[float, float]]:
    """The real ranges of the results of kernels, calibrated with operands between two numbers."""
    given = {"x0": np.tile(np.linspace(low, high, 8, dtype=np.float32), (4, 1))}
    found: dict[str, tuple[float, float]] = {}
    for region in regions_of(quantized(program, [given], stage="propagated")):
        (spec,) = region.output_specs.data
        assert isinstance(spec, UniformQuantizedType)
        found[region.logical_kernel.data] = real_range(spec)
    return found


@pytest.mark.parametrize(("low", "high"), [(-3.0, 3.0), (0.1, 0.2), (-9.0, 0.1)])
def test_a_mean_of_probabilities_can_be_greater_than_calibration_shows(low: float, high: float) -> None:
    found = ranges(mean_of(LogisticOp), low, high)
    assert found["mean"] == found["reshape"] == pytest.approx((0.0, 1.0), abs=0.01)


@pytest.mark.parametrize(("kind", "low", "high"), [(LogisticOp, -9.0, -0.1), (TanhOp, 0.0, 1.0)])
def test_other_means_have_their_observed_ranges(kind: type[LogisticOp] | type[TanhOp], low: float, high: float) -> None:
    found = ranges(mean_of(kind), low, high)
    assert found["mean"] == found["reshape"]
    assert found["mean"][1] < 0.8
