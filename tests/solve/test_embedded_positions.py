"""Functions of scaled inputs, such as sinusoidal embeddings of positions and times, are not computed from 8 bits."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from networks import Network
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import BroadcastInDimOp, MultiplyOp, SineOp
from zeropoint.ir.tensors import with_shape
from zeropoint.pipeline import Options, quantize

FREQUENCIES = np.array([10.0, 1.0, 0.1, 0.01])


def embedded(net: Network, x: SSAValue) -> Program:
    """The sines of x times each of the frequencies."""
    spread = net.insert(BroadcastInDimOp(x, with_shape(x, [8, 4]), [0, 1]))
    return net.finish([net.insert(SineOp(net.insert(MultiplyOp(spread, net.along(FREQUENCIES, spread, 1)))))])


def test_a_constant_factor_scales_the_noise_of_the_other_operand() -> None:
    """Rounded to 8 bits, x has steps of 0.2, so 10 x has steps of 2: too many for a sine."""
    net = Network([(8, 1)])
    program = embedded(net, net.values[0])
    random = np.random.default_rng(0)
    samples = [{"x0": random.uniform(0, 50, (8, 1)).astype(np.float32)} for _ in range(8)]
    made = quantize(program, samples, Options(effort="none"))
    exact, result = (Interpreter(each) for each in (program, made.quantized))
    want, found = (np.stack([run(sample)["y0"] for sample in samples]) for run in (exact, result))
    assert np.square(want - found).mean() < 1e-3 * np.square(want).mean()
