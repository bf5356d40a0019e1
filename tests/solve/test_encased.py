"""Kernels that have no integer form here are materialized between casts, with the reason on their float ops."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import f32

from networks import Network
from zeropoint.interp import Interpreter
from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    BroadcastInDimOp,
    DivideOp,
    DotDimensions,
    DotGeneralOp,
    ExponentialOp,
    MaximumOp,
    MultiplyOp,
    ReduceOp,
    SubtractOp,
)
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import with_shape
from zeropoint.ir.text import print_program
from zeropoint.pipeline import Options, quantize
from zeropoint.report.counts import float_ops
from zeropoint.targets import target as target_of


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


@pytest.mark.parametrize(
    ("profile", "reasons"), [(None, set[str]()), ("xnnpack", {"LiteRT's kernel computes in floats"})]
)
def test_a_softmax_of_litert_is_quantized_at_its_ports_and_computes_as_the_runtime(
    profile: str | None, reasons: set[str]
) -> None:
    result = quantize(softmax(), SAMPLES, Options(target="litert", profile=profile, observer="minmax"))
    assert {reason for _, reason in float_ops(result.integer)} == reasons
    reference, program = Interpreter(softmax()), Interpreter(result.quantized)
    for sample in SAMPLES:
        np.testing.assert_allclose(program(sample)["y0"], reference(sample)["y0"], atol=0.02)


def test_a_softmax_of_cpu_is_a_float_island() -> None:
    result = quantize(softmax(), SAMPLES, Options(observer="minmax"))
    assert {reason for _, reason in float_ops(result.integer)} == {"target cpu has no kernel 'softmax'"}


def product(target: str, profile: str | None = None) -> tuple[str, Program]:
    """A fully connected layer: its quantized text, and the integer program."""
    net = Network([(4, 9)])
    dims = DotDimensions((), (), (1,), (0,))
    weight = net.constant(net.random.normal(0, 1, (9, 3)))
    program = net.finish([net.insert(DotGeneralOp(net.values[0], weight, with_shape(net.values[0], [4, 3]), dims))])
    samples = [{"x0": np.linspace(-1, 1, 36, dtype=np.float32).reshape(4, 9)}]
    result = quantize(program, samples, Options(target=target, profile=profile))
    return print_program(result.quantized), result.integer


def test_the_profile_of_the_target_may_be_named() -> None:
    assert target_of("litert").profile == "fixed32-double"
    assert product("litert", "fixed32-double")[0] == product("litert")[0]  # with the rounding of each kernel's row
    _, integer = product("litert", "fixed32")
    assert {op.behaviour.data for op in integer.entry.ops if isinstance(op, RequantizeOp)} == {"fixed32"}


def test_a_kernel_that_rounds_in_its_own_way_says_so_and_is_lowered_so() -> None:
    for name in ("litert", "litert-16x8"):  # LiteRT's fully connected layers round once, its convolutions twice
        text, integer = product(name)
        assert 'zeropoint.profile = "float64-away"} : (tensor<4x3x!quant.uniform<i32' in text
        assert {op.behaviour.data for op in integer.entry.ops if isinstance(op, RequantizeOp)} == {"float64-away"}
    text, integer = product("tosa")
    assert text.count("zeropoint.profile") == 1  # that of the module
    assert {op.behaviour.data for op in integer.entry.ops if isinstance(op, RequantizeOp)} == {"tosa-double"}


def test_weights_beside_16_bit_activations_are_8_bit_numbers_stored_in_16() -> None:
    text, _ = product("litert-16x8")
    assert "tensor<9x3x!quant.uniform<i16<-127:127>:f32:1" in text
