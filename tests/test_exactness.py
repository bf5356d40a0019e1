"""The integer program equals the quantized program under the same profile, on every element of every value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

import zeropoint as zp
from digits import images, quantized_digits
from digits import network as digits_network
from networks import Network, quantized
from oracle.mlir import parse
from property_cases import some
from random_networks import Case, cases
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import EXPRESSED, PROFILE
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ClampOp,
    ConvolutionLayout,
    ConvolutionOp,
    DivideOp,
    DotDimensions,
    DotGeneralOp,
    MaximumOp,
    MultiplyOp,
    ReshapeOp,
)
from zeropoint.ir.tensors import Array, element_of, shape_of, with_shape
from zeropoint.ir.text import print_program
from zeropoint.ir.verification import verify
from zeropoint.lower import integer_program
from zeropoint.lower.context import signed_integers
from zeropoint.materialize.openvino_floats import REASON, SCALES_SUMS
from zeropoint.pipeline import Options, quantize
from zeropoint.report.counts import UNCOVERED, float_ops
from zeropoint.targets import TARGETS

TOO_COARSE = "is too coarse for the operand of"
PROFILES = ("fixed16", "fixed32", "fixed32-double", "tosa-double")

Stored = dict[str, list[tuple[UniformQuantizedType, Array]]]
"""For each name of the original model its quantized values in program order: type and storage integers."""


def under(program: Program, profile: str) -> Program:
    """The quantized program with another profile."""
    program = program.clone()
    program.module.attributes[PROFILE] = StringAttr(profile)
    return program


def as_signed(kind: UniformQuantizedType, array: Array) -> tuple[UniformQuantizedType, Array]:
    """A value with the signed type that the integer program has for it, and its integers of that."""
    if kind.storage.type.signed:
        return kind, array
    return kind.signed, signed_integers(array)


def run(interpreter: Interpreter, sample: dict[str, Array], *, casts: bool = True) -> tuple[dict[str, Array], Stored]:
    """The outputs, and the storage integers of every named quantized value, without those of storage casts if so
    wanted."""
    stored: Stored = defaultdict(list)

    def trace(op: Operation, results: tuple[Array, ...]) -> None:
        expressed = op.attributes.get(EXPRESSED)
        if expressed is None and len(op.results) == 1:
            expressed = element_of(op.results[0])
        name = location_text(op.location)
        cast = isinstance(op, StorageCastOp) and not casts
        if isinstance(expressed, UniformQuantizedType) and name is not None and not cast:
            stored[name].append(as_signed(expressed, results[0]))

    return interpreter(sample, trace=trace), stored


def assert_same_values(reference: Program, integers: Program, samples: Iterable[dict[str, Array]]) -> int:
    """Every output, and the last value of each name that both have; how many names there were."""
    interpreters = Interpreter(reference), Interpreter(integers)
    names: set[str] = set()
    for sample in samples:
        expected, expected_inside = run(interpreters[0], sample)
        # A cast of integers has the name of what reads it, for example of a relu that the kernel before computes.
        found, found_inside = run(interpreters[1], sample, casts=False)
        assert list(found) == list(expected)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, err_msg=name)
        for name, values in found_inside.items():
            kind, array = values[-1]
            same = [other for its, other in expected_inside[name] if its == kind and other.shape == array.shape]
            assert same, f"'{name}': nothing of type {kind} in the quantized program"
            np.testing.assert_array_equal(array, same[-1], err_msg=name)
        names |= found_inside.keys()
    return len(names)


@some(20)
@given(case=cases())
def test_random_networks_compute_the_same_integers_before_and_after_lowering(case: Case) -> None:
    reference = quantized(case.program, case.calibration)
    for profile in PROFILES:
        chosen = under(reference, profile)
        integers = integer_program(chosen)
        verify(integers.module)
        # A kernel stays float only where its table says so: 8 bits cannot hold what it reads.
        assert all(TOO_COARSE in reason for _, reason in float_ops(integers)), float_ops(integers)
        assert_same_values(chosen, integers, case.samples)


@pytest.fixture(scope="module")
def digits() -> tuple[Program, list[dict[str, Array]]]:
    """The quantized program of the demo model, and test images."""
    return quantized_digits().quantized, images("test", 8)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_demo_model_computes_the_same_integers_before_and_after_lowering(
    digits: tuple[Program, list[dict[str, Array]]], profile: str
) -> None:
    reference = under(digits[0], profile)
    integers = integer_program(reference)
    noise = np.random.default_rng(0).normal(0, 100, (1, 1, 28, 28)).astype(np.float32)
    assert assert_same_values(reference, integers, [*digits[1], {"image": noise}]) >= 9


def residual_network() -> tuple[Program, list[dict[str, Array]]]:
    """Two residual sums of different scales, a gate (mean, 1x1 convolutions, hard sigmoid), pools, a product of two
    activations with zero points, a fully connected layer."""
    net = Network([(1, 4, 6, 6)], seed=3)

    def convolution(value: SSAValue, features: int, kernel: int, name: str) -> SSAValue:
        net.name = name
        batch, inputs, *sizes = shape_of(value)
        weight = net.random.normal(0, 1 / np.sqrt(inputs * kernel**2), (features, inputs, kernel, kernel))
        made = net.insert(
            ConvolutionOp(
                value,
                net.constant(weight),
                with_shape(value, [batch, features, *sizes]),
                ConvolutionLayout.channels_first(2),
                padding=[(kernel // 2, kernel // 2)] * 2,
            )
        )
        return net.insert(AddOp(made, net.along(net.random.normal(0, 0.3, features), made, 1)))

    def relu(value: SSAValue) -> SSAValue:
        return net.insert(MaximumOp(value, net.splat(0.0, value)))

    stem = relu(convolution(net.values[0], 8, 3, "stem"))
    branch = convolution(relu(convolution(stem, 8, 3, "inner")), 8, 1, "outer")
    net.name = "first sum"
    first = net.insert(AddOp(branch, stem))
    net.name = "mean"
    mean = net.insert(ReshapeOp(net.reduced(first, [2, 3]), with_shape(first, [1, 8, 1, 1])))
    mean = net.insert(DivideOp(mean, net.splat(36.0, mean)))
    gate = convolution(mean, 8, 1, "gate")
    net.name = "hard sigmoid"
    line = net.insert(AddOp(net.insert(MultiplyOp(gate, net.splat(1 / 6, gate))), net.splat(0.5, gate)))
    bounded = net.insert(ClampOp(net.constant(np.array(0.0)), line, net.constant(np.array(1.0))))
    net.name = "gated"
    gated = net.insert(MultiplyOp(first, net.insert(BroadcastInDimOp(bounded, first.type, [0, 1, 2, 3]))))
    net.name = "second sum"
    second = relu(net.insert(AddOp(gated, branch)))
    net.name = "rows"
    rows = net.insert(ReshapeOp(second, with_shape(second, [8, 36])))
    net.name = "product"
    dims = DotDimensions((), (), (1,), (1,))
    product = net.insert(DotGeneralOp(rows, rows, with_shape(rows, [8, 8]), dims))
    net.name = "classifier"
    dims = DotDimensions((), (), (1,), (0,))
    classes = net.insert(
        DotGeneralOp(product, net.constant(net.random.normal(0, 0.1, (8, 3))), with_shape(product, [8, 3]), dims)
    )
    samples = [{"x0": net.random.normal(0, 1, (1, 4, 6, 6)).astype(np.float32)} for _ in range(4)]
    return net.finish([classes, second]), [*samples, {"x0": samples[0]["x0"] * np.float32(1e6)}]


FLOAT_KERNELS = {
    # Kernels of which only the target's runtime has an integer form, or which the target does not have.
    "cpu": {"target cpu has no kernel 'softmax'"},
    "cpu-integer": set(),
    "cpu-wide": {"target cpu-wide has no kernel 'softmax'"},
    "litert": {"kernel 'softmax' has an integer form only in the target's runtime"},
    "litert-16x8": {"kernel 'softmax' has an integer form only in the target's runtime"},
    # These kernels are the runtime's own, which computes in floats between integers.
    "onnxruntime": {"onnxruntime's kernel computes in floats"},
    "onnxruntime-vnni": {"onnxruntime's kernel computes in floats"},
    "openvino": {"onnxruntime's kernel computes in floats", REASON, SCALES_SUMS},
    "openvino-vnni": {"onnxruntime's kernel computes in floats", REASON, SCALES_SUMS},
    "shift_only": {"target shift_only has no kernel 'softmax'"},
    "stablehlo": {
        "target stablehlo has no kernel 'softmax'",
        "the profile 'float32-rne' adds values of two scales in f32",
    },
    "tosa": {"target tosa has no kernel 'softmax'"},
}


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("network", ["demo", "residual"])
def test_every_target_computes_the_same_integers_before_and_after_lowering(name: str, network: str) -> None:
    if network == "demo":
        program, inputs = digits_network(), images("test", 4)
        result = quantized_digits(name)
    else:
        program, inputs = residual_network()
        result = quantize(program, inputs[:4], Options(target=name))
    verify(result.quantized.module)
    verify(result.integer.module)
    assert {reason for _, reason in float_ops(result.integer)} <= FLOAT_KERNELS[name]
    assert assert_same_values(result.quantized, result.integer, inputs) >= 9
    expected, found = Interpreter(program), Interpreter(result.integer)
    for sample in inputs[:4]:
        for port, real in expected(sample).items():
            noise = np.square(found(sample)[port] - real).sum()
            assert noise < 10**-2.5 * np.square(real).sum(), port


@some(8)
@given(case=cases(), name=st.sampled_from(["litert", "litert-16x8", "onnxruntime", "stablehlo", "tosa"]))
def test_random_networks_of_every_target_compute_the_same_before_and_after_lowering(case: Case, name: str) -> None:
    result = quantize(case.program, case.calibration, Options(target=name))
    verify(result.integer.module)
    assert UNCOVERED not in {reason for _, reason in float_ops(result.integer)}
    assert_same_values(result.quantized, result.integer, case.samples)


@some(8)
@given(case=cases())
def test_upstream_accepts_the_program_of_every_stage(case: Case) -> None:
    """The quantized program is StableHLO; regions, statistics and fxpmath are ops that it does not know."""
    reference = quantized(case.program, case.calibration)
    assert parse(print_program(reference, inline_weights=True)).text
    for stage in ("fused", "calibrated", "propagated"):
        program = quantized(case.program, case.calibration, stage=stage)
        assert parse(print_program(program, inline_weights=True, generic=True), allow_unregistered=True).text
    assert parse(print_program(integer_program(reference), inline_weights=True), allow_unregistered=True).text


@some(6)
@given(case=cases())
def test_the_same_input_gives_the_same_bytes(case: Case) -> None:
    def texts() -> list[str]:
        reference = quantized(case.program, case.calibration)
        return [
            print_program(program, locations=True, inline_weights=True)
            for program in (reference, integer_program(reference))
        ]

    assert texts() == texts()


PER_CHANNEL = """builtin.module attributes {zeropoint.profile = "fixed16"} { func.func @main(%x: tensor<2x16xf32>) -> tensor<2x16xi8> {
  %0 = stablehlo.uniform_quantize %x : (tensor<2x16xf32>) -> tensor<2x16x!quant.uniform<i8:f32:0, {0.5, 0.25:3}>>
  %1 = quant.scast %0 : tensor<2x16x!quant.uniform<i8:f32:0, {0.5, 0.25:3}>> to tensor<2x16xi8>
  return %1 : tensor<2x16xi8>
}}"""  # noqa: E501 (a type has to be in one line)


def test_nan_is_the_zero_point_of_its_own_channel() -> None:
    model, x = zp.load(PER_CHANNEL), np.full((2, 16), np.nan, np.float32)
    for engine in (model.interpreted(), model.native()):
        (found,) = engine(x).values()
        np.testing.assert_array_equal(found, [[0] * 16, [3] * 16])
