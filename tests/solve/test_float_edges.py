"""Each kernel that reads a float value quantizes it for itself, so no reader shares its scale with another."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.ir import SSAValue

from networks import Network
from zeropoint.codegen.runtime.native import NativeEngine
from zeropoint.interp import Interpreter
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import (
    ConcatenateOp,
    ConvolutionLayout,
    ConvolutionOp,
    CosineOp,
    DivideOp,
    MultiplyOp,
    SliceOp,
)
from zeropoint.ir.tensors import Array, shape_of, with_shape
from zeropoint.lower import LoweringError, integer_io
from zeropoint.pipeline import Options, Quantization, quantize
from zeropoint.solve import rescale_count, violations
from zeropoint.targets import target

SHAPE = (1, 8, 6, 6)
LOUD = np.array([300.0] + [1.0] * 7)
NARROW = 2 / 255
"""The scale of the range [-1, 1]."""


def convolved(net: Network, value: SSAValue, name: str) -> SSAValue:
    net.name = name
    channels = shape_of(value)[1]
    weight = net.constant(net.random.normal(0, 1, (4, channels, 1, 1)))
    result = with_shape(value, [1, 4, *shape_of(value)[2:]])
    return net.insert(ConvolutionOp(value, weight, result, ConvolutionLayout.channels_first(2)))


def sliced(net: Network, value: SSAValue, first: int, last: int) -> SSAValue:
    return net.insert(SliceOp(value, [0, first, 0, 0], [1, last, *shape_of(value)[2:]], [1] * 4))


def loud_and_quiet_channels(make: Callable[[Network, SSAValue], SSAValue]) -> Program:
    """Convolutions of the loud channel of a float value, and of its quiet channels."""
    net = Network([SHAPE])
    value = make(net, net.values[0])
    parts = [sliced(net, value, 0, 1), sliced(net, value, 1, 8)]
    return net.finish([convolved(net, part, f"conv{i}") for i, part in enumerate(parts)])


def an_input(net: Network, value: SSAValue) -> SSAValue:
    return value


def a_float_op(net: Network, value: SSAValue) -> SSAValue:
    """A quotient of two values has no kernel here."""
    return net.insert(DivideOp(value, net.insert(CosineOp(value))))


def narrow_beside_wide(times: float) -> Program:
    """A convolution of an input in [-1, 1], and one of its concatenation with an input in [-times, times]."""
    net = Network([SHAPE, SHAPE])
    narrow, wide = net.values
    wide = net.insert(MultiplyOp(wide, net.splat(times, wide)))
    first = convolved(net, narrow, "conv")
    net.name = "concat"
    return net.finish([first, convolved(net, net.insert(ConcatenateOp([narrow, wide], 1)), "mixed")])


def samples(program: Program, seed: int, loud: Array | float = 1.0) -> list[dict[str, Array]]:
    random = np.random.default_rng(seed)
    shapes = {port.name: shape_of(value) for port, value in zip(program.inputs, program.entry.args, strict=True)}
    return [
        {name: (random.uniform(-1, 1, shape) * loud).astype(np.float32) for name, shape in shapes.items()}
        for _ in range(8)
    ]


def sqnr(result: Quantization, program: Program, data: list[dict[str, Array]]) -> dict[str, float]:
    exact, integers, native = Interpreter(program), Interpreter(result.integer), NativeEngine().prepare(result.integer)
    noise = dict.fromkeys([port.name for port in program.outputs], 0.0)
    signal = dict(noise)
    for sample in data:
        wanted, found, compiled = exact(sample), integers(sample), native(sample)
        for name in noise:
            np.testing.assert_array_equal(found[name], compiled[name])
            signal[name] += float((wanted[name] ** 2).sum())
            noise[name] += float(((wanted[name] - found[name]) ** 2).sum())
    return {name: 10 * float(np.log10(signal[name] / noise[name])) for name in noise}


@pytest.mark.parametrize("name", ["cpu", "litert", "onnxruntime"])
def test_slices_of_a_float_input_are_quantized_at_their_own_scales(name: str) -> None:
    program = loud_and_quiet_channels(an_input)
    loud = LOUD.reshape(8, 1, 1)
    result = quantize(program, samples(program, 0, loud), Options(name))
    assert min(sqnr(result, program, samples(program, 1, loud)).values()) > 30
    assert not violations(result.propagated, target(name))


def test_slices_of_a_float_op_are_quantized_at_their_own_scales() -> None:
    program = loud_and_quiet_channels(a_float_op)
    loud = np.where(LOUD.reshape(8, 1, 1) > 1, 1.0, 1e-3)
    result = quantize(program, samples(program, 0, loud), Options("onnxruntime"))
    assert min(sqnr(result, program, samples(program, 1, loud)).values()) > 30


def scale_read(program: Program, reader: str) -> float:
    region = next(region for region in regions_of(program) if location_text(region.location) == reader)
    spec = region.input_specs.data[0]
    assert isinstance(spec, UniformQuantizedType)
    return spec.scale


@pytest.mark.parametrize("times", [1.2, 1.95, 30.0])
def test_a_wide_reader_of_an_input_does_not_make_it_coarser_for_a_narrow_one(times: float) -> None:
    program = narrow_beside_wide(times)
    data = samples(program, 0)
    result = quantize(program, data, Options(observer="minmax"))
    assert scale_read(result.propagated, "conv") == pytest.approx(NARROW, rel=0.02)
    assert scale_read(result.propagated, "concat") == pytest.approx(times * NARROW, rel=0.02)
    assert rescale_count(result.propagated) == 0


def test_an_integer_input_has_one_type() -> None:
    program = narrow_beside_wide(1.2)
    data = samples(program, 0)
    assert quantize(program, data, Options(integer_io=True)).integer.entry.args
    with pytest.raises(LoweringError, match=r"2 quantized types .* quantize with io integer, or keep io float"):
        integer_io(quantize(program, data).integer)
