"""A network, samples, and all of a report: what calibrations that are spread are compared by."""

from __future__ import annotations

import numpy as np

from networks import Network
from zeropoint.calibrate import Observation, instrument
from zeropoint.calibrate.report import Report
from zeropoint.fuse import fuse
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import AddOp, DotDimensions, DotGeneralOp, ExponentialOp
from zeropoint.simplify import simplify
from zeropoint.targets import target

SAMPLES = [{"x0": np.random.default_rng(n).normal(size=(1, 32)).astype(np.float32) * n} for n in range(43)]
"""Five chunks of eight, and three."""


def network() -> Program:
    """exp(x + x . w), with weights that lie in a file of their own."""
    net = Network([(1, 32)])
    (x,) = net.values
    weights = net.constant(np.random.default_rng(0).normal(size=(32, 32)).astype(np.float32) / 100)
    product = net.insert(DotGeneralOp(x, weights, x.type, DotDimensions((), (), (1,), (0,))))
    return instrument(
        fuse(simplify(net.finish([net.insert(ExponentialOp(net.insert(AddOp(x, product))))])), target("cpu"))
    )


def whole(report: Report) -> list[tuple[str, Observation, tuple[float, ...]]]:
    """All of a report, the quantiles too."""
    return [(key, found, found.quantiles) for key, found in report.observations.items()]
