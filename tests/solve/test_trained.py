"""Quantization-aware training: what it simulated becomes the parameters of the integer program, on real programs.

RFC, intermediate transformations: emulation ops are converted to uniform types; "MLIR Quantization": fake_quant ops
become qcast and dcast, and partially quantized computations come out naturally.
"""

from __future__ import annotations

import numpy as np
import pytest

from networks import Network
from zeropoint.calibrate import stats_keys
from zeropoint.fuse import fuse
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import FLOAT_REASON, facts_of
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    ConstFakeQuantOp,
    ConstFakeQuantPerAxisOp,
    DequantizeCastOp,
    QuantizeCastOp,
    Storage,
    UniformQuantizedType,
)
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import AddOp, DotDimensions, DotGeneralOp, SineOp
from zeropoint.ir.tensors import with_element, with_shape
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import verify
from zeropoint.pipeline import Options, quantize
from zeropoint.quant_passes import convert_fake_quant
from zeropoint.report.counts import count_ops
from zeropoint.report.explain import explain
from zeropoint.solve import check_kernels, propagate
from zeropoint.targets import target

RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.normal(size=(6, 3)).astype(np.float32)
SAMPLES = [{"x0": RANDOM.uniform(-1.5, 1.5, (1, 6)).astype(np.float32)} for _ in range(4)]


def trained(signed: bool) -> Program:
    """x -> fake quant -> fully connected with fake-quantized weights and a bias -> fake quant."""
    net = Network([(1, 6)])
    x = net.insert(ConstFakeQuantOp(net.values[0], -1.0, 1.55, is_signed=signed))
    reach = np.abs(WEIGHT).max(axis=0)
    form = {"narrow_range": True, "is_signed": True}
    weight = net.insert(ConstFakeQuantPerAxisOp(net.constant(WEIGHT), (-reach).tolist(), reach.tolist(), 1, **form))
    product = net.insert(DotGeneralOp(x, weight, with_shape(x, [1, 3]), DotDimensions((), (), (1,), (0,))))
    total = net.insert(AddOp(product, net.along(np.array([0.5, -0.25, 1.0]), product, 1)))
    return net.finish([net.insert(ConstFakeQuantOp(total, -4.0, 4.0, is_signed=signed))])


@pytest.mark.parametrize("signed", [True, False])
def test_fake_quantization_becomes_pinned_parameters_of_inputs_weights_and_outputs(signed: bool) -> None:
    made = quantize(trained(signed), SAMPLES)
    (region,) = regions_of(made.propagated)
    assert region.logical_kernel.data == "fully_connected"
    given, weight, bias = region.input_specs
    assert given.scale == pytest.approx(2.55 / 255)
    assert given.zero_point == -28
    np.testing.assert_allclose(weight.scales, np.abs(WEIGHT).max(axis=0) / 127, rtol=1e-6)
    np.testing.assert_array_equal(bias.scales, given.scale * weight.scales)
    assert region.output_specs.data[0].scale == pytest.approx(8 / 255)
    counts = count_ops(made.integer)
    assert counts.floats == 0


def test_the_integer_program_computes_what_training_simulated_to_a_step() -> None:
    program = trained(signed=True)
    made = quantize(program, SAMPLES)
    step = regions_of(made.propagated)[0].output_specs.data[0].scale
    for sample in SAMPLES:
        simulated, integers = Interpreter(program)(sample)["y0"], Interpreter(made.integer)(sample)["y0"]
        np.testing.assert_allclose(integers, simulated, atol=1.01 * step)


def test_nothing_is_observed_where_training_says_everything() -> None:
    made = quantize(trained(signed=True), SAMPLES)
    assert not made.calibration.observations
    assert stats_keys(made.calibrated) == []


def test_a_target_without_the_kernel_keeps_the_simulation() -> None:
    """What was simulated between float ops stays simulated: it is no demand of a kernel."""
    net = Network([(1, 6)])
    program = net.finish([net.insert(SineOp(net.insert(ConstFakeQuantOp(net.values[0], -1.0, 1.0))))])
    table = target("onnxruntime")
    found = propagate(fuse(convert_fake_quant(program), table), table)
    np.testing.assert_array_equal(Interpreter(found)(SAMPLES[0])["y0"], Interpreter(program)(SAMPLES[0])["y0"])


def test_a_float_op_reads_what_the_model_rounds_even_if_a_kernel_reads_it_too() -> None:
    """The kernel took the rounding as its type, and the float op read the input as it came."""
    program = parse_program("""
    func.func @main(%x: tensor<1x6xf32> {zeropoint.name = "x0"})
        -> (tensor<1x6xf32>, tensor<6x1xf32>, tensor<1x6xf32>) {
      %q = quant.qcast %x : tensor<1x6xf32> to tensor<1x6x!quant.uniform<u8:f32, 0.5:100>>
      %d = quant.dcast %q : tensor<1x6x!quant.uniform<u8:f32, 0.5:100>> to tensor<1x6xf32>
      %0 = stablehlo.sine %d : tensor<1x6xf32>
      %1 = stablehlo.transpose %d, dims = [1, 0] : (tensor<1x6xf32>) -> tensor<6x1xf32>
      return %0, %1, %d : tensor<1x6xf32>, tensor<6x1xf32>, tensor<1x6xf32>
    }""")
    made = quantize(program, None, Options("onnxruntime")).integer
    expected, found = (Interpreter(each)(SAMPLES[0]).values() for each in (program, made))
    for first, second in zip(expected, found, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("name", "stated", "reason"),
    [
        (
            "litert",
            UniformQuantizedType.per_layer(Storage.of("u8"), 0.1, 100),
            "requires zero point 0, its weight is pinned to",
        ),
        (
            "cpu",
            UniformQuantizedType.per_layer(Storage.of("i16"), 0.1),
            "has no kernel 'fully_connected' for its weight",
        ),
        (
            "litert",
            UniformQuantizedType.per_layer(Storage.of("i8"), 0.001),
            "i8:f32, 1.000000e-03> and stores -128, it takes i8<-127:127>",
        ),
        (
            "cpu",
            UniformQuantizedType.sub_channel(Storage.of("i16"), [(0, 3), (1, 1)], np.full((2, 3), 0.1)),
            "it takes i4 or i8",
        ),
        (
            "onnxruntime",
            UniformQuantizedType.sub_channel(Storage.of("i8"), [(0, 3), (1, 3)], np.full((2, 1), 0.1)),
            "one scale, or one per channel, at its weight, 'network' is pinned to",
        ),
        (
            "onnxruntime",
            UniformQuantizedType.sub_channel(Storage.of("i8"), [(0, 3), (1, 1)], np.full((2, 3), 0.1)),
            "which has one for each block",
        ),
    ],
)
def test_a_weight_that_is_pinned_to_what_no_kernel_takes_keeps_its_kernel_float(
    name: str, stated: UniformQuantizedType, reason: str
) -> None:
    made = quantize(pinned_product(stated), SAMPLES, Options(target=name))
    (region,) = regions_of(made.propagated)
    assert reason in region.attributes[FLOAT_REASON].data
    assert count_ops(made.integer).integer == 0


def pinned_product(stated: UniformQuantizedType, operand: UniformQuantizedType | None = None) -> Program:
    """A product with a weight of a given type, and maybe an operand of one."""
    net = Network([(1, 6)])
    given, weight = net.values[0], net.constant(WEIGHT)
    stored = net.insert(QuantizeCastOp(weight, with_element(weight, stated)))
    weight = net.insert(DequantizeCastOp(stored, weight.type))
    if operand is not None:
        stored = net.insert(QuantizeCastOp(given, with_element(given, operand)))
        given = net.insert(DequantizeCastOp(stored, given.type))
    result = with_shape(given, [1, 3])
    return net.finish([net.insert(DotGeneralOp(given, weight, result, DotDimensions((), (), (1,), (0,))))])


WHOLE = UniformQuantizedType.per_layer(Storage.of("i8"), 0.001)
"""Weights of WEIGHT in this type store -128."""


def test_the_reason_names_the_port_that_no_kernel_takes() -> None:
    """An unsigned operand was named, which the kernels take as signed."""
    operand = UniformQuantizedType.per_layer(Storage.of("u8"), 0.1, 100)
    made = quantize(pinned_product(WHOLE, operand), SAMPLES, Options(target="litert"))
    (region,) = regions_of(made.propagated)
    assert "for its weight: 'network' is pinned to" in region.attributes[FLOAT_REASON].data


@pytest.mark.parametrize("stated", [WHOLE, UniformQuantizedType.per_layer(Storage.of("u8"), 0.1, 100)])
def test_weights_of_the_whole_range_and_with_a_zero_point_are_integers_on_cpu(stated: UniformQuantizedType) -> None:
    """They stayed float: those of PyTorch's quantizer for x86, and onnxruntime's unsigned ones."""
    program = pinned_product(stated, UniformQuantizedType.per_layer(Storage.of("u8"), 0.1, 100))
    made = quantize(program, SAMPLES, Options(effort="none"))
    counts = count_ops(check_kernels(made.propagated, target("cpu")) and made.integer)
    assert (counts.floats, counts.integer > 0) == (0, True)
    step = regions_of(made.propagated)[0].output_specs.data[0].scale
    for sample in SAMPLES:
        (expected,), (found,) = (Interpreter(each)(sample).values() for each in (program, made.integer))
        np.testing.assert_allclose(found, expected, atol=1.01 * step)


def overflowing(per_channel: bool) -> Program:
    """Weights pinned to scales so small that the bias of the first of three channels passes 32 bits."""
    net = Network([(1, 6)])
    weight = net.constant(np.full((6, 3), 127e-7))
    if per_channel:
        stated = UniformQuantizedType.per_channel(Storage.of("i8", -127), 1, [1e-7] * 3)
    else:
        stated = UniformQuantizedType.per_layer(Storage.of("i8", -127), 1e-7)
    stored = net.insert(QuantizeCastOp(weight, with_element(weight, stated)))
    weight = net.insert(DequantizeCastOp(stored, weight.type))
    result = with_shape(net.values[0], [1, 3])
    product = net.insert(DotGeneralOp(net.values[0], weight, result, DotDimensions((), (), (1,), (0,))))
    return net.finish([net.insert(AddOp(product, net.along(np.array([500.0, 1e-5, 0.0]), product, 1)))])


@pytest.mark.parametrize("per_channel", [True, False])
def test_a_pinned_weight_gives_way_where_its_bias_would_not_fit_the_accumulator(per_channel: bool) -> None:
    """Bias overflow is solved with the weight scale of that channel; the other channels keep what is pinned."""
    made = quantize(overflowing(per_channel), SAMPLES)
    (region,) = regions_of(made.propagated)
    _, weight, bias = region.input_specs
    assert 2**29 < 500 / bias.scales[0] <= 2**30
    assert weight.scales[0] > 1e-7
    assert weight.scales[1:].tolist() == ([1e-7, 1e-7] if per_channel else [])
    (fact,) = [fact for fact in facts_of(region) if fact.name == "weight scale"]
    which = "channel 0" if per_channel else "all channels"
    assert (fact.value, fact.salience) == (f"greater than pinned: {which}", "kernel")
    np.testing.assert_allclose(Interpreter(made.integer)(SAMPLES[0])["y0"][0, 0], 500.0, rtol=0.01)


def test_a_pinned_weight_that_fits_keeps_its_scale_to_the_last_bit_also_where_a_rescale_is_absorbed() -> None:
    net = Network([(1, 6)])
    weight = net.constant(WEIGHT)
    stated = UniformQuantizedType.per_channel(Storage.of("i8", -127), 1, [0.1, 0.2, 0.3])
    stored = net.insert(QuantizeCastOp(weight, with_element(weight, stated)))
    weight = net.insert(DequantizeCastOp(stored, weight.type))
    result = with_shape(net.values[0], [1, 3])
    # The model states two types of x in a row: a rescale of its own, which the kernel can do without.
    x = net.values[0]
    for scale in (0.25, 0.5):
        kind = UniformQuantizedType.per_layer(Storage.of("i8"), scale)
        x = net.insert(DequantizeCastOp(net.insert(QuantizeCastOp(x, with_element(x, kind))), x.type))
    program = net.finish([net.insert(DotGeneralOp(x, weight, result, DotDimensions((), (), (1,), (0,))))])
    made = quantize(program, SAMPLES)
    (region,) = regions_of(made.propagated)
    assert [str(spec) for spec in region.input_specs][1] == str(stated)
    assert region.input_specs.data[0].scale == 0.25


BLOCKS = {
    "one scale per channel": ([(0, 6), (1, 1)], [[0.1, 0.2, 0.3]], "i8<-127:127>:f32:1, {0.1"),
    "one scale": ([(0, 6), (1, 3)], [[0.1]], "i8<-127:127>:f32, 0.1"),
}


@pytest.mark.parametrize("case", BLOCKS)
def test_a_weight_in_blocks_that_are_whole_channels_is_one_per_channel(case: str) -> None:
    blocks, scales, wanted = BLOCKS[case]
    net = Network([(1, 6)])
    weight = net.constant(WEIGHT)
    stated = UniformQuantizedType.sub_channel(Storage.of("i8"), blocks, np.array(scales))
    stored = net.insert(QuantizeCastOp(weight, with_element(weight, stated)))
    weight = net.insert(DequantizeCastOp(stored, weight.type))
    result = with_shape(net.values[0], [1, 3])
    product = net.insert(DotGeneralOp(net.values[0], weight, result, DotDimensions((), (), (1,), (0,))))
    made = quantize(net.finish([product]), SAMPLES)
    (region,) = regions_of(made.propagated)
    assert wanted in str(region.input_specs.data[1])
    assert count_ops(made.integer).floats == 0


@pytest.mark.parametrize(("scales", "floats"), [([[0.05]], 0), ([[0.05, 0.1, 0.2]], 1)])
def test_an_activation_in_blocks_is_quantized_if_it_has_one_scale(scales: list[list[float]], floats: int) -> None:
    net = Network([(1, 6)])
    blocks = [(0, 1), (1, 6 // len(scales[0]))]
    stated = UniformQuantizedType.sub_channel(Storage.of("i8"), blocks, np.array(scales))
    x = net.insert(QuantizeCastOp(net.values[0], with_element(net.values[0], stated)))
    x = net.insert(DequantizeCastOp(x, net.values[0].type))
    weight, result = net.constant(WEIGHT), with_shape(net.values[0], [1, 3])
    program = net.finish([net.insert(DotGeneralOp(x, weight, result, DotDimensions((), (), (1,), (0,))))])
    made = quantize(program, SAMPLES)
    verify(made.integer.module)
    assert count_ops(made.integer).floats == floats
    wanted, given = (Interpreter(one)(SAMPLES[0])["y0"] for one in (program, made.integer))
    np.testing.assert_allclose(given, wanted, atol=0.1 if not floats else 1e-6)


def test_a_user_may_choose_how_ranges_become_parameters() -> None:
    net = Network([(1, 6)])
    program = net.finish([net.insert(AddOp(net.values[0], net.values[0]))])
    specs = [
        regions_of(quantize(program, SAMPLES, Options(observer="minmax", ranges=ranges)).propagated)[0].output_specs
        for ranges in ("asymmetric", "minmax-nudged")
    ]
    scales = [spec.data[0].scale for spec in specs if isinstance(spec.data[0], UniformQuantizedType)]
    assert scales[0] <= scales[1] < scales[0] * 1.01
    with pytest.raises(ValueError, match="found ranges 'widest', expected one of: asymmetric, minmax-nudged"):
        quantize(program, SAMPLES, Options(ranges="widest"))


def test_a_pinned_weight_without_a_name_is_called_as_in_the_text() -> None:
    kind = "tensor<2x1x!quant.uniform<i8:f32, 0.01>>"
    text = (
        "func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {\n"
        "  %w = stablehlo.constant dense<[[-1.28], [0.3]]> : tensor<2x1xf32>\n"
        f"  %q = quant.qcast %w : tensor<2x1xf32> to {kind}\n  %f = quant.dcast %q : {kind} to tensor<2x1xf32>\n"
        "  %0 = stablehlo.dot_general %x, %f, contracting_dims = [1] x [0]\n"
        "       : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>\n"
        "  return %0 : tensor<1x1xf32>\n}\n"
    )
    made = quantize(parse_program(text), [{"arg0": np.ones((1, 2), np.float32)}], Options(target="litert"))
    assert "'%w' is pinned to !quant.uniform<i8:f32, 1.000000e-02> and stores -128" in str(explain(made.integer))
