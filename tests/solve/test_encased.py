"""Kernels that have no integer form here are materialized between casts, with the reason on their float ops."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32

from networks import Network
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    BroadcastInDimOp,
    DivideOp,
    ExponentialOp,
    MaximumOp,
    MultiplyOp,
    ReduceOp,
    SubtractOp,
)
from zeropoint.ir.stablehlo.reduction import binary_body
from zeropoint.ir.tensors import with_shape
from zeropoint.pipeline import Options, quantize
from zeropoint.report.counts import float_ops


def softmax() -> Program:
    """probabilities: a softmax of the last dimension; then squared."""
    net = Network([(2, 5)])
    net.name = "probabilities"
    value = net.values[0]
    low = net.constant(np.array(-np.inf))
    most = net.insert(ReduceOp([value], [low], [with_shape(value, [2])], [1], binary_body(MaximumOp, f32)))
    shifted = net.insert(SubtractOp(value, net.insert(BroadcastInDimOp(most, value.type, [0]))))
    exponential = net.insert(ExponentialOp(shifted))
    total = net.insert(BroadcastInDimOp(net.reduced(exponential, [1]), value.type, [0]))
    shares = net.insert(DivideOp(exponential, total))
    net.name = "squared"
    return net.finish([net.insert(MultiplyOp(shares, shares))])


SAMPLES = [{"x0": np.random.default_rng(seed).normal(0, 1, (2, 5)).astype(np.float32)} for seed in range(3)]


def test_a_softmax_of_litert_is_quantized_at_its_ports_and_float_inside() -> None:
    result = quantize(softmax(), SAMPLES, Options(target="litert", observer="minmax"))
    reasons = {reason for _, reason in float_ops(result.integer)}
    assert reasons == {"kernel 'softmax' has no integer form but in the target's runtime"}
    reference, program = Interpreter(softmax()), Interpreter(result.quantized)
    for sample in SAMPLES:
        np.testing.assert_allclose(program(sample)["y0"], reference(sample)["y0"], atol=0.02)


def test_a_softmax_of_cpu_is_a_float_island() -> None:
    result = quantize(softmax(), SAMPLES, Options(observer="minmax"))
    assert {reason for _, reason in float_ops(result.integer)} == {"target cpu has no kernel 'softmax'"}
