"""Fusion is reversible, keeps what a program means on every target, and finds functions by what they compute."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from networks import Network, quantized
from property_cases import some
from random_networks import Case, cases
from zeropoint.fuse import fuse, unfuse
from zeropoint.interp import Interpreter
from zeropoint.ir.named_functions import POINTS, function_kernel
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, QuantizeRegionOp, Storage, UniformQuantizedType
from zeropoint.ir.stablehlo import DotDimensions, DotGeneralOp
from zeropoint.ir.tensors import with_element, with_shape
from zeropoint.ir.text import print_program
from zeropoint.numerics import functions
from zeropoint.simplify import simplify
from zeropoint.solve import is_rescale
from zeropoint.targets import target

SOME = some(12)


def text(program: Program) -> str:
    return print_program(program, locations=False)


def kernels(program: Program) -> list[str]:
    return [op.logical_kernel.data for op in program.entry.ops if isinstance(op, QuantizeRegionOp)]


@SOME
@given(case=cases())
def test_unfusing_and_fusing_again_gives_the_same_regions(case: Case) -> None:
    fused = fuse(simplify(case.program))
    assert kernels(unfuse(fused)) == []
    assert text(fuse(unfuse(fused))) == text(fused)


@SOME
@given(case=cases())
def test_a_program_fused_for_another_target_afterwards_means_the_same(case: Case) -> None:
    float_program = simplify(case.program)
    for name in ("litert", "onnxruntime"):
        again = Interpreter(fuse(unfuse(fuse(float_program)), target(name)))
        for sample in case.samples:
            expected = Interpreter(float_program)(sample)
            for output, found in again(sample).items():
                np.testing.assert_array_equal(found, expected[output])


@SOME
@given(case=cases())
def test_unfusing_a_propagated_program_states_every_type_that_was_decided(case: Case) -> None:
    propagated = quantized(case.program, case.calibration, stage="propagated")
    decided = {
        str(spec)
        for op in propagated.entry.ops
        if isinstance(op, QuantizeRegionOp) and not is_rescale(op)  # a rescale is of the old target alone
        for spec in op.output_specs
        if isinstance(spec, UniformQuantizedType)
    }
    casts = [op for op in unfuse(propagated).entry.ops if op.name == "quant.qcast"]
    assert decided <= {str(op.results[0].type.element_type) for op in casts}


@pytest.mark.parametrize(
    ("kernel", "function"),
    [
        ("relu", lambda x: np.maximum(x, 0)),
        ("relu6", lambda x: np.minimum(np.maximum(x, 0), 6)),
        ("tanh", functions.UNARY["tanh"]),
        ("logistic", functions.UNARY["logistic"]),
        ("logistic", lambda x: 1 / (1 + functions.UNARY["exponential"](-x))),
        ("gelu", lambda x: 0.5 * x * (1 + functions.UNARY["erf"](x / np.float32(np.sqrt(2))))),
        ("gelu", lambda x: x * functions.UNARY["logistic"](np.float32(1.5957691) * (x + np.float32(0.044715) * x**3))),
        ("hard_swish", lambda x: x * np.clip(x + 3, 0, 6) / 6),
        ("hard_sigmoid", lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
        ("leaky_relu", lambda x: np.where(x >= 0, x, np.float32(0.01) * x)),
        ("silu", lambda x: x * functions.UNARY["logistic"](x)),
        ("exp", functions.UNARY["exponential"]),
        (None, lambda x: np.clip(x, 0, 100)),  # a relu, but not as far as the points go
        (None, lambda x: x * 0.5),
        (None, lambda x: x * functions.UNARY["logistic"](np.float32(1.702) * x)),
    ],
)
def test_functions_are_named_by_what_they_compute(kernel: str | None, function) -> None:
    with np.errstate(all="ignore"):
        assert function_kernel(np.asarray(function(POINTS), np.float32)) == kernel


def test_a_constant_behind_fake_quantization_is_still_a_weight() -> None:
    net = Network([(1, 4)])
    net.name = "dense"
    weight = net.constant(np.ones((4, 3)))
    quantized_type = UniformQuantizedType.per_layer(Storage.of("i8"), 0.01)
    stored = net.insert(QuantizeCastOp(weight, with_element(weight, quantized_type)))
    weight = net.insert(DequantizeCastOp(stored, weight.type))
    product = DotGeneralOp(net.values[0], weight, with_shape(weight, [1, 3]), DotDimensions((), (), (1,), (0,)))
    assert kernels(fuse(net.finish([net.insert(product)]))) == ["fully_connected"]
