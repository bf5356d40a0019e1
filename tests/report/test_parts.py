"""SQNR of each part of a concatenated output, so that a small part that is lost shows."""

from __future__ import annotations

import numpy as np
import pytest

from networks import Network
from zeropoint.ir.stablehlo import ConcatenateOp, LogisticOp, MultiplyOp, TransposeOp
from zeropoint.model import Model, compare
from zeropoint.pipeline import quantize

RANDOM = np.random.default_rng(0)


def detector(transposed: bool) -> Model:
    """Boxes up to 320 and scores up to 1 in one output."""
    net = Network([(1, 4, 10), (1, 3, 10)])
    net.name = "boxes"
    boxes = net.insert(MultiplyOp(net.values[0], net.along(np.full(4, 320.0), net.values[0], 1)))
    net.name = "scores"
    scores = net.insert(LogisticOp(net.values[1]))
    net.name = "detections"
    both = net.insert(ConcatenateOp([boxes, scores], 1))
    return Model(net.finish([net.insert(TransposeOp(both, [0, 2, 1])) if transposed else both]))


def data(count: int) -> list[dict[str, np.ndarray]]:
    return [
        {
            "x0": RANDOM.uniform(0, 1, (1, 4, 10)).astype(np.float32),
            "x1": RANDOM.uniform(-6, 2, (1, 3, 10)).astype(np.float32),
        }
        for _ in range(count)
    ]


@pytest.mark.parametrize("transposed", [False, True])
def test_boxes_and_scores_of_a_detector_are_reported_apart_and_both_are_near(transposed: bool) -> None:
    network = detector(transposed)
    result = quantize(network.program, data(16))
    found = compare(network, Model(result.integer), data(4))
    assert [row.name for row in found.parts] == ["y0: boxes", "y0: scores"]
    assert all(row.sqnr > 30 for row in found.parts), found.parts
    assert "part y0: scores" in found.table()


def test_a_part_that_is_lost_shows_beside_a_whole_that_looks_good() -> None:
    network = detector(False)
    rounded = detector(False)

    class Coarse:
        """What one scale of 1.25 makes of the output."""

        def prepare(self, program):
            run = network.engine.prepare(program)
            return lambda sample, observe=None: {
                k: np.round(v / 1.25) * np.float32(1.25) for k, v in run(sample).items()
            }

    rounded.engine = Coarse()
    found = compare(network, rounded, data(4))
    boxes, scores = found.parts
    assert found.outputs[0].sqnr > 45
    assert boxes.sqnr > 45
    assert scores.sqnr < 5
