"""Transformers on target cpu-integer: softmax, layer norms and residuals in integers, and natively."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import SSAValue

from codegen.exactness import HERE, assert_native_is_exact
from networks import Network
from zeropoint.errors import OptionError
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import has_row_scales
from zeropoint.ir.chlo import ErfOp
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    DivideOp,
    DotDimensions,
    DotGeneralOp,
    ExponentialOp,
    LogisticOp,
    MaximumOp,
    MultiplyOp,
    ReduceOp,
    RsqrtOp,
    SubtractOp,
)
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import Array, element_of, shape_of, with_shape
from zeropoint.numerics.layer_norm import ChannelMaps, LayerNorm
from zeropoint.numerics.softmax import Softmax
from zeropoint.pipeline import Options, Quantization, quantize
from zeropoint.recipe import recipe_of
from zeropoint.report.counts import float_ops
from zeropoint.solve.classes import real_range

OPTIONS = Options(target="cpu-integer")


def _softmax(net: Network, value: SSAValue, axis: int) -> SSAValue:
    kept = [d for d in range(len(shape_of(value))) if d != axis]
    row = with_shape(value, [shape_of(value)[d] for d in kept])
    low = net.constant(np.array(-np.inf))
    most = net.insert(ReduceOp([value], [low], [row], [axis], binary_body(MaximumOp, f32)))
    shifted = net.insert(SubtractOp(value, net.insert(BroadcastInDimOp(most, value.type, kept))))
    e = net.insert(ExponentialOp(shifted))
    total = net.insert(BroadcastInDimOp(net.reduced(e, [axis]), value.type, kept))
    return net.insert(DivideOp(e, total))


def attention(tokens: int, mask: bool) -> Program:
    """softmax(q k * 0.25 + mask) v for 2 heads of 16."""
    net = Network([(2, tokens, 16), (2, 16, tokens), (2, tokens, 16), (tokens,)])
    q, k, v, m = net.values
    dims = DotDimensions((0,), (0,), (2,), (1,))
    scores = net.insert(DotGeneralOp(q, k, TensorType(f32, [2, tokens, tokens]), dims))
    scores = net.insert(MultiplyOp(scores, net.splat(0.25, scores)))
    if mask:
        hidden = net.insert(MultiplyOp(m, net.splat(-10000.0, m)))
        scores = net.insert(AddOp(scores, net.insert(BroadcastInDimOp(hidden, scores.type, [2]))))
    p = _softmax(net, scores, 2)
    return net.finish([net.insert(DotGeneralOp(p, v, TensorType(f32, [2, tokens, 16]), dims))])


def samples(program: Program, count: int = 3) -> list[dict[str, Array]]:
    random = np.random.default_rng(7)
    made = [{port.name: random.normal(0, 1.5, shape_of(port.type)).astype(np.float32) for port in program.inputs}
            for _ in range(count)]  # fmt: skip
    for sample in made:
        sample["x3"] = (np.arange(sample["x3"].size) >= sample["x3"].size * 3 // 4).astype(np.float32)
    return made


def _kernels(result: Quantization) -> dict[str, QuantizeRegionOp]:
    ops = [op for op in result.propagated.entry.ops if isinstance(op, QuantizeRegionOp)]
    return {op.logical_kernel.data: op for op in ops}


@pytest.mark.parametrize("mask", [False, True])
def test_attention_is_integers_only_and_close_to_float(mask: bool) -> None:
    program = attention(24, mask)
    data = samples(program)
    result = quantize(program, data, OPTIONS)
    assert float_ops(result.integer) == []
    given = str(_kernels(result)["softmax"].input_specs.data[0])
    assert given.startswith("!quant.uniform<i16")
    for sample in data:
        (exact,), (found,) = Interpreter(program)(sample).values(), Interpreter(result.integer)(sample).values()
        assert 10 * np.log10((exact**2).sum() / ((found - exact) ** 2).sum()) > 28
    if mask:  # hidden keys count for nothing
        sample = dict(data[0])
        changed = {**sample, "x2": np.where(sample["x3"][None, :, None] > 0, 3.0, sample["x2"]).astype(np.float32)}
        (one,), (two,) = (Interpreter(result.integer)(each).values() for each in (sample, changed))
        np.testing.assert_array_equal(one, two)


def _product_inputs(result: Quantization) -> list[str]:
    ops = [op for op in result.propagated.entry.ops if isinstance(op, QuantizeRegionOp)]
    products = [op for op in ops if op.logical_kernel.data == "batch_matmul"]
    return [str(spec)[:31] for op in products for spec in op.input_specs]


def test_products_of_two_activations_have_12_bits_up_to_512_terms() -> None:
    """512 * 2047^2 is below 2^31; longer sums have 8 bits, and so does the softmax before one."""
    for tokens, kind in ((512, "!quant.uniform<i16<-2047:2047>:"), (513, "!quant.uniform<i8:")):
        program = attention(tokens, mask=False)
        found = _product_inputs(quantize(program, samples(program, 1), replace(OPTIONS, effort="none")))
        assert found[:2] == ["!quant.uniform<i16<-2047:2047>:"] * 2
        assert all(spec.startswith(kind) for spec in found[2:])
        assert len(found) == 4


def test_a_product_after_a_kernel_of_8_bits_has_8_bits() -> None:
    net = Network([(1, 2, 16), (1, 16, 3)])
    x, y = net.values
    gate = net.insert(LogisticOp(x))
    dims = DotDimensions((0,), (0,), (2,), (1,))
    program = net.finish([net.insert(DotGeneralOp(gate, y, TensorType(f32, [1, 2, 3]), dims))])
    random = np.random.default_rng(0)
    data = [{port.name: random.normal(0, 1, shape_of(port.type)).astype(np.float32) for port in program.inputs}]
    found = _product_inputs(quantize(program, data, OPTIONS))
    assert [spec.split(":")[0] for spec in found] == ["!quant.uniform<i8"] * 2


@pytest.mark.parametrize("tokens", [9, 128])
def test_native_attention_has_the_interpreters_bits(tokens: int) -> None:
    program = attention(tokens, mask=True)
    data = samples(program)
    assert_native_is_exact(quantize(program, data, OPTIONS).integer, data, HERE[0], threads=(1, 2))


@pytest.mark.parametrize(("shape", "axis"), [((3, 7), 1), ((2, 5, 33), 2), ((4, 40, 3), 1), ((2, 700), 1)])
def test_softmax_computes_what_numerics_define(shape: tuple[int, ...], axis: int) -> None:
    net = Network([shape])
    program = net.finish([_softmax(net, net.values[0], axis)])
    x = np.random.default_rng(1).normal(0, 3, shape).astype(np.float32)
    x[0] *= 0.01
    result = quantize(program, [{"x0": x}], OPTIONS)
    kind = _kernels(result)["softmax"].input_specs.data[0]
    stored = np.clip(np.rint(x / np.float64(kind.scale) + kind.zero_point), -32768, 32767).astype(np.int64)
    expected = Softmax.of(kind.scale, shape[axis], 8).apply(stored, axis)
    (found,) = Interpreter(result.integer)({"x0": x}).values()
    np.testing.assert_array_equal(np.rint(found * 256).astype(np.int64), expected)
    assert_native_is_exact(result.integer, [{"x0": x}], HERE[0])


def _layer_norm(net: Network, value: SSAValue, epsilon: float, gamma: Array, beta: Array) -> SSAValue:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, along the last dimension."""
    last = len(shape_of(value)) - 1
    kept, count = list(range(last)), net.constant(np.array(shape_of(value)[last]))

    def mean(of: SSAValue) -> SSAValue:
        total = net.reduced(of, [last])
        return net.insert(DivideOp(total, net.insert(BroadcastInDimOp(count, total.type, []))))

    centred = net.insert(SubtractOp(value, net.insert(BroadcastInDimOp(mean(value), value.type, kept))))
    variance = mean(net.insert(MultiplyOp(centred, centred)))
    root = net.insert(RsqrtOp(net.insert(AddOp(variance, net.splat(epsilon, variance)))))
    y = net.insert(MultiplyOp(centred, net.insert(BroadcastInDimOp(root, value.type, kept))))
    y = net.insert(MultiplyOp(y, net.along(gamma, value, last)))
    return net.insert(AddOp(y, net.along(beta, value, last)))


def block(tokens: int, width: int) -> Program:
    """norm(x W + x): the sum and the norm's result have 16 bits."""
    net = Network([(tokens, width)], seed=3)
    (x,), random = net.values, net.random
    gamma, beta = random.normal(1, 0.3, width), random.normal(0, 0.5, width)
    first = _layer_norm(net, x, 1e-5, gamma, beta)
    weights = net.constant(random.normal(0, width**-0.5, (width, width)))
    product = net.insert(DotGeneralOp(first, weights, x.type, DotDimensions((), (), (1,), (0,))))
    summed = net.insert(AddOp(first, product))
    return net.finish([_layer_norm(net, summed, 1e-5, gamma, beta)])


def test_a_residual_block_is_integers_only_with_a_16_bit_stream() -> None:
    program = block(20, 48)
    data = [{"x0": np.random.default_rng(n).normal(0, 2, (20, 48)).astype(np.float32)} for n in range(3)]
    result = quantize(program, data, OPTIONS)
    assert float_ops(result.integer) == []
    kernels = _kernels(result)
    for name in ("layer_norm", "add", "fully_connected"):
        assert str(kernels[name].output_specs.data[0]).startswith("!quant.uniform<i16"), name
    (exact,), (found,) = (Interpreter(p)(data[0]).values() for p in (program, result.integer))
    assert 10 * np.log10((exact**2).sum() / ((found - exact) ** 2).sum()) > 38
    assert_native_is_exact(result.integer, data, HERE[0], threads=(1, 2))


def _gelu(net: Network, x: SSAValue) -> SSAValue:
    grown = net.insert(ErfOp(net.insert(MultiplyOp(x, net.splat(0.5**0.5, x))), x.type))
    return net.insert(
        MultiplyOp(net.insert(MultiplyOp(x, net.splat(0.5, x))), net.insert(AddOp(grown, net.splat(1.0, x))))
    )


def test_a_feed_forward_block_has_wide_activations_and_no_rescale() -> None:
    net = Network([(20, 32)], seed=3)
    (x,), random = net.values, net.random
    dims = DotDimensions((), (), (1,), (0,))
    first = _layer_norm(net, x, 1e-5, random.normal(1, 0.3, 32), random.normal(0, 0.5, 32))
    widen, narrow = (net.constant(random.normal(0, 0.3, shape)) for shape in ((32, 80), (80, 32)))
    inner = _gelu(net, net.insert(DotGeneralOp(first, widen, TensorType(f32, [20, 80]), dims)))
    summed = net.insert(AddOp(first, net.insert(DotGeneralOp(inner, narrow, x.type, dims))))
    program = net.finish([_layer_norm(net, summed, 1e-5, random.normal(1, 0.3, 32), random.normal(0, 0.5, 32))])
    data = [{"x0": random.normal(0, 2, (20, 32)).astype(np.float32)} for _ in range(3)]
    result = quantize(program, data, OPTIONS)
    assert float_ops(result.integer) == []
    assert "rescale" not in _kernels(result)
    regions = [op for op in result.propagated.entry.ops if isinstance(op, QuantizeRegionOp)]
    products = [op for op in regions if op.logical_kernel.data == "fully_connected"]
    assert [str(op.input_specs.data[0])[:31] for op in products] == ["!quant.uniform<i16<-4096:4095>:"] * 2
    assert [op.name for op in result.integer.entry.ops].count("fxpmath.interpolate") == 1
    (exact,), (found,) = (Interpreter(p)(data[0]).values() for p in (program, result.integer))
    assert 10 * np.log10((exact**2).sum() / ((found - exact) ** 2).sum()) > 40
    assert_native_is_exact(result.integer, data, HERE[0], threads=(1, 2))


def test_wide_storage_holds_every_observed_value() -> None:
    program = block(20, 48)
    data = [{"x0": np.random.default_rng(n).normal(0, 2, (20, 48)).astype(np.float32)} for n in range(3)]
    made = quantize(program, data, OPTIONS)
    seen, kernel = made.calibration.observations["network_1"], _kernels(made)["fully_connected"]
    assert seen.extremes is not None
    assert seen.extremes[0] < seen.minimum < seen.maximum < seen.extremes[1]
    assert real_range(kernel.output_specs.data[0]) == pytest.approx(seen.extremes, rel=1e-4)
    with pytest.raises(
        OptionError, match="types of more than 8 bits hold all observed values, where it changes nothing"
    ):
        quantize(program, data, replace(OPTIONS, observer="percentile:95"))


def test_weights_that_read_13_bits_are_rounded_for_the_least_error_of_results() -> None:
    program = block(20, 48)
    data = [{"x0": np.random.default_rng(n).normal(0, 2, (20, 48)).astype(np.float32)} for n in range(8)]
    recipe = recipe_of([{"op": "fully_connected", "activation_scales": "per_tensor"}])
    options = replace(OPTIONS, corrections=("closed_form",), recipe=recipe)
    result = quantize(program, data, options, validation=data)
    before, after = result.corrections.before, result.corrections.after
    assert before is not None
    assert after is not None
    assert after.held > before.held + 1.5  # the samples that it is fitted on


@pytest.mark.parametrize(("shape", "scale"), [((3, 4), 1.0), ((2, 5, 33), 0.01), ((1, 700), 300.0)])
def test_layer_norm_computes_what_numerics_define(shape: tuple[int, ...], scale: float) -> None:
    net, n = Network([shape]), shape[-1]
    gamma, beta = np.linspace(-1, 2, n, dtype=np.float32), np.linspace(3, -3, n, dtype=np.float32)
    program = net.finish([_layer_norm(net, net.values[0], 1e-3, gamma, beta)])
    x = (np.random.default_rng(1).normal(0, 3, shape) * scale).astype(np.float32)
    x[..., 0] += 9 * np.float32(scale)
    result = quantize(program, [{"x0": x}], OPTIONS)
    region = _kernels(result)["layer_norm"]
    given, made = region.input_specs.data[0], region.output_specs.data[0]
    norm = LayerNorm.of(given.scale, n, float(np.float32(1e-3)))
    affine = ChannelMaps.of(
        gamma, beta, norm.fraction, made.scale, made.zero_point, made.storage.minimum, made.storage.maximum
    )
    stored = np.clip(np.rint(x / np.float64(given.scale) + given.zero_point), -32768, 32767).astype(np.int64)
    expected = affine.apply(norm.normalized(stored))
    (found,) = Interpreter(result.integer)({"x0": x}).values()
    np.testing.assert_array_equal(np.rint(found / made.scale) + made.zero_point, expected)
    assert_native_is_exact(result.integer, [{"x0": x}], HERE[0])


def test_a_row_that_is_too_long_stays_float_with_the_reason() -> None:
    net = Network([(1, 70000)])
    program = net.finish([_softmax(net, net.values[0], 1)])
    result = quantize(
        program, [{"x0": np.zeros((1, 70000), np.float32) + np.arange(70000, dtype=np.float32) / 1e4}], OPTIONS
    )
    assert {reason for _, reason in float_ops(result.integer)} == {
        "integer softmax takes one dimension of at most 65536 elements"
    }


@pytest.mark.parametrize("scales", [None, "per_row", "per_tensor"])
def test_layers_round_rows_of_activations_unless_a_recipe_says_otherwise(scales: str | None) -> None:
    recipe = None if scales is None else recipe_of([{"op": "fully_connected", "activation_scales": scales}])
    has_rows = scales != "per_tensor"
    program = block(20, 48)
    data = [{"x0": np.random.default_rng(n).normal(0, 2, (20, 48)).astype(np.float32)} for n in range(2)]
    result = quantize(program, data, replace(OPTIONS, recipe=recipe))
    products = [op for op in result.quantized.entry.ops if isinstance(op, DotGeneralOp)]
    assert len(products) == 1
    assert all(has_row_scales(op) is has_rows for op in products)
    (dot,) = (op for op in result.integer.entry.ops if isinstance(op, DotGeneralOp))
    assert str(element_of(dot.lhs)) == ("i8" if has_rows else "i16")
    assert_native_is_exact(result.integer, data[:1], HERE[0])
