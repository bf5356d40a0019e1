"""A value that a file reads directly and also through a cast to a smaller range: the direct reader keeps its range."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import zeropoint as zp
from zeropoint.interp import Interpreter
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.numerics.noise import decibels, energies
from zeropoint.pipeline import Options, quantize

TARGETS = ("cpu", "litert", "onnxruntime")
RANDOM = np.random.default_rng(0)
SAMPLES = [{"x": RANDOM.normal(0, 1, (1, 4, 4, 4)).astype(np.float32)} for _ in range(8)]
SMALL, FITTING = 0.5 / 127, 10 / 127
BODIES = {
    "a sum": "y = Add(c, d)",
    "a product": "y = Mul(c, d)",
    "a convolution": "e = Conv(c, w3) y = Add(e, d)",
    "a function": "e = Relu(c) y = Add(e, d)",
    "a pool": "e = MaxPool<kernel_shape = [1, 1]>(c) y = Add(e, d)",
    "a function in floats": "e = Erf(c) y = Add(e, d)",
}
OF_A_FLOAT = {
    "of an input": "y = Add(x, d)",
    "of a float op": "y = Mul(g, d)",
}


def model(body: str, step: float, *, float_value: str | None = None) -> onnx.ModelProto:
    """`c`, a convolution (or `float_value`), is read by a convolution `d` through a cast of this step, and directly."""
    before = "c = Conv(xd, w1)" if float_value is None else "g = Mod<fmod = 1>(x, many)"
    read = "c" if float_value is None else float_value
    made = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]> m (float[1,4,4,4] x) => (float y)
        <float s = {{0.032}}, int8 z = {{0}}, float t = {{0.01}}, float u = {{{step}}}, float many = {{1000}}>
        {{ xq = QuantizeLinear(x, s, z) xd = DequantizeLinear(xq, s, z)
        w1 = DequantizeLinear(w1q, t, z) w2 = DequantizeLinear(w2q, t, z) w3 = DequantizeLinear(w3q, t, z)
        {before} cq = QuantizeLinear({read}, u, z) cd = DequantizeLinear(cq, u, z) d = Conv(cd, w2) {body} }}""")
    drawn = np.random.default_rng(1)
    arrays = {name: drawn.integers(-127, 128, (4, 4, 1, 1)).astype(np.int8) for name in ("w1q", "w2q", "w3q")}
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    return made


def quality(program: zp.Model, quantized: zp.QuantizedModel) -> float:
    pairs = [(program(sample)["y"], quantized(sample)["y"]) for sample in SAMPLES]
    return decibels(*energies(np.stack([want for want, _ in pairs]), np.stack([found for _, found in pairs])))


def steps(quantized: zp.QuantizedModel) -> set[float]:
    """The scales of what kernels read."""
    assert quantized.quantization is not None
    kinds = [kind for region in regions_of(quantized.quantization.decided) for kind in region.input_specs]
    return {
        float(np.float32(kind.scale)) for kind in kinds if isinstance(kind, UniformQuantizedType) and kind.is_per_layer
    }


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("body", BODIES)
def test_a_direct_reader_has_the_whole_range(body: str, target: str) -> None:
    program = zp.load(model(BODIES[body], SMALL))
    quantized = zp.quantize(program, data=SAMPLES, target=target, effort="none")
    assert quality(program, quantized) > 30
    assert np.float32(SMALL) in steps(quantized)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("body", OF_A_FLOAT)
def test_a_direct_reader_of_a_float_has_the_whole_range(body: str, target: str) -> None:
    name = "x" if "x" in OF_A_FLOAT[body] else "g"
    program = zp.load(model(OF_A_FLOAT[body], SMALL, float_value=name))
    quantized = zp.quantize(program, data=SAMPLES, target=target, effort="none")
    assert quality(program, quantized) > 30
    assert np.float32(SMALL) in steps(quantized)


def test_an_integer_input_has_the_whole_range() -> None:
    """All readers of the input share one type, or read a rescale of it."""
    program = zp.load(model(OF_A_FLOAT["of an input"], SMALL, float_value="x")).program
    made = quantize(program, SAMPLES, Options(integer_io=True, effort="none"))
    (floats, integers), x = map(Interpreter, (program, made.quantized)), SAMPLES[0]
    assert decibels(*energies(floats(x)["y"], integers(x)["y"])) > 30


def test_a_result_of_the_program_has_the_whole_range() -> None:
    made = model("y = Identity(c) other = Identity(d)", SMALL)
    made.graph.output.append(onnx.helper.make_tensor_value_info("other", onnx.TensorProto.FLOAT, [1, 4, 4, 4]))
    program = zp.load(made)
    assert quality(program, zp.quantize(program, data=SAMPLES, effort="none")) > 30


@pytest.mark.parametrize("wide_first", [False, True])
def test_a_cast_to_a_wider_type_is_not_saturated(wide_first: bool) -> None:
    """Both casts and the sum read the same convolution."""
    wide = "h = Conv(fd, w3) e = Add(c, h) y = Add(e, d)"
    cast = "fq = QuantizeLinear(c, v, z) fd = DequantizeLinear(fq, v, z)"
    made = model(f"{cast} {wide}", SMALL)
    made.graph.initializer.append(numpy_helper.from_array(np.float32(FITTING), "v"))
    if wide_first:
        nodes = {node.output[0]: node for node in made.graph.node}
        first = [nodes.pop(name) for name in ("xq", "xd", "w1", "c", "fq", "fd")]
        del made.graph.node[:]
        made.graph.node.extend([*first, *nodes.values()])
    program = zp.load(made)
    quantized = zp.quantize(program, data=SAMPLES, effort="none")
    assert quality(program, quantized) > 30
    assert {np.float32(SMALL), np.float32(FITTING)} <= steps(quantized)


@pytest.mark.parametrize("target", TARGETS)
def test_a_cast_that_holds_the_range_gives_the_value_its_type(target: str) -> None:
    program = zp.load(model(BODIES["a sum"], FITTING))
    quantized = zp.quantize(program, data=SAMPLES, target=target, effort="none")
    assert quantized.quantization is not None
    kernels = [region.logical_kernel.data for region in regions_of(quantized.quantization.decided)]
    assert kernels == ["convolution", "convolution", "add"]
    assert np.float32(FITTING) in steps(quantized)


def test_without_data_the_cast_gives_the_value_its_type() -> None:
    """Nothing else is known of it. Such a file needs no data."""
    cast = "dq = QuantizeLinear(d, v, z) dd = DequantizeLinear(dq, v, z)"
    sums = "e = Add(c, dd) eq = QuantizeLinear(e, v, z) y = DequantizeLinear(eq, v, z)"
    made = model(f"{cast} {sums}", SMALL)
    made.graph.initializer.append(numpy_helper.from_array(np.float32(FITTING), "v"))
    program = zp.load(made)
    assert quality(program, zp.quantize(program)) < 10
    assert quality(program, zp.quantize(program, data=SAMPLES, effort="none")) > 30
