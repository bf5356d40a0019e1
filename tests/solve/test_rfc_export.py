"""The RFC on quantization transformations in MLIR, section: Export: materializing quantization.

`SENTENCES` has its sentences in order and in our words, each with the tests that hold us to it.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from networks import Network
from oracle import mlir
from solve.rfc import (
    RANDOM,
    SAMPLES,
    SOFTMAX,
    SUM,
    hard_swish,
    kernels,
    made,
    names,
    network,
    solved,
    unknown_tests,
    with_specs,
)
from zeropoint.fuse import fuse
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import FLOAT_REASON, RESCALE_COUNTS
from zeropoint.ir.fxpmath import RequantizeOp, TableOp, WeightedSumOp
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    ConstFakeQuantOp,
)
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import (
    ConstantOp,
    ConvolutionLayout,
    ConvolutionOp,
    DivideOp,
    DotDimensions,
    DotGeneralOp,
)
from zeropoint.ir.tensors import element_of, with_shape
from zeropoint.ir.text import parse_program, print_program
from zeropoint.lower import integer_program, lower
from zeropoint.materialize import materialize
from zeropoint.pipeline import quantize
from zeropoint.solve import (
    is_rescale,
)
from zeropoint.targets import TARGETS, target

SENTENCES: dict[str, tuple[str, ...]] = {
    "a quantized model can be consumed by different target backends": (
        "test_one_model_is_materialized_for_every_target_and_upstream_verifies_it",
    ),
    "export rewrites the logical kernels to real kernels": (
        "test_one_model_is_materialized_for_every_target_and_upstream_verifies_it",
    ),
    "fixed kernels: quantized region ops are rewritten to registered ops of the target dialect": (
        "test_each_kernel_becomes_registered_ops_of_quantized_stablehlo",
        "test_one_model_is_materialized_for_every_target_and_upstream_verifies_it",
    ),
    "fixed kernels: the parameters of the ops are set by the latest quantization attributes": (
        "test_the_latest_attributes_of_a_region_set_the_parameters_of_its_ops",
        "test_integer_weights_and_biases_follow_the_latest_attributes",
    ),
    "regions coarser than the target's ops: parameters of intermediate tensors are derived from those of the ports": (
        "test_between_convolution_bias_and_relu_types_are_derived_from_the_ports",
        "test_between_a_residual_sum_and_its_relu_types_are_derived_from_the_ports",
        "test_inside_a_mean_types_are_derived_from_the_ports",
        "test_inside_a_matrix_product_types_are_derived_from_the_ports",
        "test_inside_a_function_of_one_value_everything_is_expressed_between_the_ports",
        "test_inside_a_softmax_everything_is_expressed_between_the_ports",
    ),
    "code generation: quantized region ops are inlined": ("test_for_code_generation_no_region_is_left",),
    "code generation: the parameters of ports are expressed by primitives, multiplication and shift": (
        "test_parameters_of_ports_are_multipliers_and_shifts",
        "test_parameters_of_two_operands_are_multipliers_of_one_shift",
    ),
    "compiler optimization eliminates extra primitives": ("test_extra_primitives_are_eliminated",),
    "scaling of inputs is pushed forward and combined with that of outputs, so that only outputs are rescaled": (
        "test_scaling_of_inputs_is_combined_with_scaling_of_outputs_on_a_network",
        "solve/test_move_rescales.py::test_a_rescale_is_merged_with_the_output_scaling_of_the_kernel_before_it",
        "solve/test_move_rescales.py::test_a_rescale_is_pushed_behind_a_kernel_that_makes_a_smaller_value_and_absorbed_there",
    ),
}


def test_every_sentence_names_tests_that_exist() -> None:
    assert unknown_tests(SENTENCES, "solve/test_rfc_export.py") == []


# Export: fixed kernels


@pytest.mark.parametrize("name", TARGETS)
def test_one_model_is_materialized_for_every_target_and_upstream_verifies_it(name: str) -> None:
    quantized = materialize(solved(network(), SAMPLES, name))
    assert not regions_of(quantized)
    others = [op.name for op in quantized.entry.ops if op.dialect_name() not in ("stablehlo", "func")]
    # The means of LiteRT and onnxruntime compute on storage: the count is in LiteRT's multiplier, which no type says.
    own = {"litert": ["quant.scast", "fxpmath.requantize", "quant.scast"], "onnxruntime": ["quant.scast"] * 2}
    # Its functions of 16 bits are tables, too.
    words = ["quant.scast", "fxpmath.table", "quant.scast"]
    # So do the contractions of OpenVINO.
    own |= {"litert-16x8": [*words, *own["litert"]], "openvino": own["onnxruntime"] * 3}
    own |= {f"{runtime}-vnni": own[runtime] for runtime in ("onnxruntime", "openvino")}
    assert others == own.get(name, [])
    mlir.checked(quantized)


KERNELS = {
    "max_pool": (
        """
  %z = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %z) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) {window_dimensions = array<i64: 1, 2>} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>""",
        "2x3",
        ["uniform_quantize", "reduce_window", "uniform_dequantize"],
    ),
    "transpose": (
        """
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>""",
        "4x2",
        ["uniform_quantize", "transpose", "uniform_dequantize"],
    ),
    "concatenate": (
        """
  %0 = stablehlo.concatenate %x, %x, dim = 0 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>""",
        "4x4",
        ["uniform_quantize", "concatenate", "uniform_dequantize"],
    ),
    "logistic": (
        """
  %0 = stablehlo.logistic %x : tensor<2x4xf32>
  return %0 : tensor<2x4xf32>""",
        "2x4",
        ["uniform_quantize", "uniform_dequantize", "logistic", "uniform_quantize", "uniform_dequantize"],
    ),
    "multiply": (
        """
  %c = stablehlo.constant dense<[[1.0, 2.0, 3.0, 4.0], [0.5, 0.25, 0.125, 1.0]]> : tensor<2x4xf32>
  %0 = stablehlo.multiply %x, %c : tensor<2x4xf32>
  return %0 : tensor<2x4xf32>""",
        "2x4",
        ["uniform_quantize", "multiply", "uniform_dequantize"],
    ),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_each_kernel_becomes_registered_ops_of_quantized_stablehlo(kernel: str) -> None:
    body, shape, expected = KERNELS[kernel]
    text = f"func.func @main(%x: tensor<2x4xf32>) -> tensor<{shape}xf32> {{{body}\n}}"
    found = solved(parse_program(text), [{"arg0": np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)}])
    assert kernels(found) == [kernel]
    quantized = materialize(found)
    assert names(quantized) == expected
    mlir.checked(quantized)


CONVOLUTION = """
func.func @main(%x: tensor<1x1x2x2xf32>) -> tensor<1x2x1x1xf32> {
  %w = stablehlo.constant dense<[[[[1.0, 2.0], [3.0, -4.0]]], [[[0.5, 0.25], [0.0, -1.0]]]]> : tensor<2x1x2x2xf32>
  %b = stablehlo.constant dense<[1.0, -2.0]> : tensor<2xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<1x2x1x1xf32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {}
       {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
       : (tensor<1x1x2x2xf32>, tensor<2x1x2x2xf32>) -> tensor<1x2x1x1xf32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<2xf32>) -> tensor<1x2x1x1xf32>
  %2 = stablehlo.add %0, %1 : tensor<1x2x1x1xf32>
  %3 = stablehlo.maximum %2, %zero : tensor<1x2x1x1xf32>
  return %3 : tensor<1x2x1x1xf32>
}
"""
PORTS = (
    "!quant.uniform<i8:f32, 0.5:-128>;!quant.uniform<i8<-127:127>:f32:0, {0.25,0.125}>;"
    "!quant.uniform<i32:f32:0, {0.125,0.0625}>"
)


def test_the_latest_attributes_of_a_region_set_the_parameters_of_its_ops() -> None:
    """A program that was propagated is edited by hand; what was edited is what is materialized."""
    samples = [{"arg0": np.ones(4, np.float32), "arg1": np.ones(4, np.float32)}]
    found = solved(parse_program(SUM), samples)
    assert "uniform<i8:f32, 1.0>" not in dict(made(materialize(found))).values()
    edited = with_specs(
        found, "!quant.uniform<i8:f32, 0.5>;!quant.uniform<i8:f32, 0.25:3>", "!quant.uniform<i8:f32, 1.0>"
    )
    assert made(materialize(edited)) == [
        ("uniform_quantize", "uniform<i8:f32, 5.000000e-01>"),
        ("uniform_quantize", "uniform<i8:f32, 2.500000e-01:3>"),
        ("add", "uniform<i8:f32, 1.000000e+00>"),
        ("clamp", "uniform<i8:f32, 1.000000e+00>"),
        ("uniform_dequantize", "f32"),
    ]
    # Stage by stage through text as well: the attributes are the only state.
    again = parse_program(print_program(edited))
    assert made(materialize(again)) == made(materialize(edited))


def constants(program: Program) -> list[list[object]]:
    return [
        np.ravel(program.weights.array(op.value)).tolist() for op in program.entry.ops if isinstance(op, ConstantOp)
    ]


def test_integer_weights_and_biases_follow_the_latest_attributes() -> None:
    program = with_specs(fuse(parse_program(CONVOLUTION)), PORTS, "!quant.uniform<i8:f32, 0.25:-128>")
    weight, bias = constants(materialize(program))
    assert weight == [4, 8, 12, -16, 4, 2, 0, -8]
    assert bias == [8, -32]
    coarser = PORTS.replace("{0.25,0.125}", "{0.5,0.25}").replace("{0.125,0.0625}", "{0.25,0.125}")
    weight, bias = constants(materialize(with_specs(program, coarser, "!quant.uniform<i8:f32, 0.25:-128>")))
    assert weight == [2, 4, 6, -8, 2, 1, 0, -4]
    assert bias == [4, -16]


# Export: derived types, literally


def test_between_convolution_bias_and_relu_types_are_derived_from_the_ports() -> None:
    """Products and bias at input scale * weight scale of each channel, along the channels of the result."""
    program = fuse(parse_program(CONVOLUTION), target("litert"))
    quantized = materialize(with_specs(program, PORTS, "!quant.uniform<i8:f32, 0.25:-100>"))
    accumulator = "uniform<i32:f32:1, {1.250000e-01,6.250000e-02}>"
    assert made(quantized) == [
        ("uniform_quantize", "uniform<i8:f32, 5.000000e-01:-128>"),
        ("convolution", accumulator),
        ("broadcast_in_dim", accumulator),
        ("add", accumulator),
        ("uniform_quantize", "uniform<i8:f32, 2.500000e-01:-100>"),
        ("clamp", "uniform<i8:f32, 2.500000e-01:-100>"),
        ("uniform_dequantize", "f32"),
    ]
    assert constants(quantized)[2:] == [[-100], [127]]  # relu: nothing below the zero point
    mlir.checked(quantized)
    # With the zero point at the end of the storage range the bound is in the conversion itself.
    assert "clamp" not in names(materialize(with_specs(program, PORTS, "!quant.uniform<i8:f32, 0.25:-128>")))


def test_between_a_residual_sum_and_its_relu_types_are_derived_from_the_ports() -> None:
    """The sum is in the type of the output, bounded there."""
    program = fuse(parse_program(SUM), target("litert"))
    ports = "!quant.uniform<i8:f32, 0.5:1>;!quant.uniform<i8:f32, 0.25:2>"
    quantized = materialize(with_specs(program, ports, "!quant.uniform<i8:f32, 0.125:-3>"))
    assert made(quantized)[2:4] == [
        ("add", "uniform<i8:f32, 1.250000e-01:-3>"),
        ("clamp", "uniform<i8:f32, 1.250000e-01:-3>"),
    ]
    assert constants(quantized) == [[-3], [127]]
    mlir.checked(quantized)


def test_inside_a_mean_types_are_derived_from_the_ports() -> None:
    """The sum of 4 is in i32 at the input's scale with zero point 0, its product with 1 at scale 1/4 at a quarter."""
    net = Network([(1, 4)])
    total = net.reduced(net.values[0], [1])
    program = fuse(net.finish([net.insert(DivideOp(total, net.splat(4.0, total)))]), target("litert"))
    quantized = materialize(with_specs(program, "!quant.uniform<i8:f32, 0.5:7>", "!quant.uniform<i8:f32, 0.25:-1>"))
    assert made(quantized) == [
        ("uniform_quantize", "uniform<i8:f32, 5.000000e-01:7>"),
        ("uniform_quantize", "uniform<i32:f32, 5.000000e-01>"),
        ("reduce", "uniform<i32:f32, 5.000000e-01>"),
        ("multiply", "uniform<i32:f32, 1.250000e-01>"),
        ("uniform_quantize", "uniform<i8:f32, 2.500000e-01:-1>"),
        ("uniform_dequantize", "f32"),
    ]
    mlir.checked(quantized)


def test_inside_a_matrix_product_types_are_derived_from_the_ports() -> None:
    """Of two activations: one scale, the product of theirs."""
    net = Network([(2, 3), (2, 3)])
    dims = DotDimensions((), (), (1,), (1,))
    product = net.insert(DotGeneralOp(*net.values, with_shape(net.values[0], [2, 2]), dims))
    program = fuse(net.finish([product]))
    ports = "!quant.uniform<i8:f32, 0.5:7>;!quant.uniform<i8:f32, 0.25>"
    quantized = materialize(with_specs(program, ports, "!quant.uniform<i8:f32, 1.0>"))
    assert made(quantized)[2:4] == [
        ("dot_general", "uniform<i32:f32, 1.250000e-01>"),
        ("uniform_quantize", "uniform<i8:f32, 1.000000e+00>"),
    ]
    mlir.checked(quantized)


@pytest.mark.parametrize(("name", "kernel"), [("litert", "hard_swish"), ("cpu", "elementwise_unary")])
def test_inside_a_function_of_one_value_everything_is_expressed_between_the_ports(name: str, kernel: str) -> None:
    """A hard-swish: the intermediate tensors are real values, so that only the port's own rounding is left."""
    program = fuse(hard_swish(Network([(2, 3)])), target(name))
    assert kernels(program) == [kernel]
    quantized = materialize(
        with_specs(program, "!quant.uniform<i8:f32, 0.0625>", "!quant.uniform<i8:f32, 0.03125:-100>")
    )
    assert made(quantized) == [
        ("uniform_quantize", "uniform<i8:f32, 6.250000e-02>"),
        ("uniform_dequantize", "f32"),
        *[(name, "f32") for name in ("broadcast_in_dim", "multiply", "broadcast_in_dim", "add", "clamp", "multiply")],
        ("uniform_quantize", "uniform<i8:f32, 3.125000e-02:-100>"),
        ("uniform_dequantize", "f32"),
    ]
    mlir.checked(quantized)
    # Where code is generated the whole is one table of the 256 stored inputs.
    assert [op.name for op in integer_program(quantized).entry.ops if isinstance(op, TableOp | RequantizeOp)] == [
        "fxpmath.table"
    ]


def test_inside_a_softmax_everything_is_expressed_between_the_ports() -> None:
    """LiteRT has the kernel and fixes its output at 1/256; what the region holds is float, and says why."""
    found = solved(parse_program(SOFTMAX), [{"arg0": np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)}], "litert")
    quantized = materialize(found)
    assert made(quantized) == [
        ("uniform_quantize", "uniform<i8:f32, 0.0078431377187371254:-1>"),
        ("uniform_dequantize", "f32"),
        *[(name, "f32") for name in ("exponential", "reduce", "broadcast_in_dim", "divide")],
        ("uniform_quantize", "uniform<i8:f32, 3.906250e-03:-128>"),
        ("uniform_dequantize", "f32"),
    ]
    reasons = [op.attributes[FLOAT_REASON].data for op in quantized.entry.ops if FLOAT_REASON in op.attributes]
    assert reasons == ["kernel 'softmax' has an integer form only in the target's runtime"] * 4
    mlir.checked(quantized)


# Export: code generation


def test_for_code_generation_no_region_is_left() -> None:
    """Only integers between the casts at the edges, of one function, without calls and regions."""
    integers = integer_program(materialize(solved(network(), SAMPLES)))
    assert not regions_of(integers)
    kinds = {str(element_of(value)) for op in integers.entry.ops for value in op.results}
    assert {kind for kind in kinds if not kind.startswith("!quant")} == {"f32", "i8", "i32"}
    assert [name for name, kind in made(integers) if kind == "f32"] == ["quant.dcast"] or [
        name for name, kind in made(integers) if kind == "f32"
    ] == ["uniform_dequantize"]


def test_parameters_of_ports_are_multipliers_and_shifts() -> None:
    """0.5 * 0.25 / 0.25 = 1/2 and 0.5 * 0.125 / 0.25 = 1/4: multiplier 2^30, shifts 31 and 32; then the zero point."""
    program = with_specs(fuse(parse_program(CONVOLUTION)), PORTS, "!quant.uniform<i8:f32, 0.25:-100>")
    integers = integer_program(materialize(program), "fixed32")
    (requantize,) = [op for op in integers.entry.ops if isinstance(op, RequantizeOp)]
    assert constants(integers)[-2:] == [[2**30, 2**30], [31, 32]]
    assert requantize.properties["zero_point"].value.data == -100
    # Bias 8 and -32, and 128 times the sums of the weights 8 and -2 for the zero point of the input.
    assert [8 + 128 * 8, -32 + 128 * -2] in constants(integers)


def test_parameters_of_two_operands_are_multipliers_of_one_shift() -> None:
    program = fuse(parse_program(SUM))
    ports = "!quant.uniform<i8:f32, 0.5:1>;!quant.uniform<i8:f32, 0.25:2>"
    integers = integer_program(materialize(with_specs(program, ports, "!quant.uniform<i8:f32, 1.0:-3>")), "fixed32")
    (total,) = [op for op in integers.entry.ops if isinstance(op, WeightedSumOp)]
    first, second = (int(found) for found in re.findall(r"\d+", str(total.properties["multipliers"]))[-2:])
    shift = total.properties["shift"].value.data
    assert (first / 2**shift, second / 2**shift) == (0.5, 0.25)


def test_extra_primitives_are_eliminated() -> None:
    """Counts of primitives before and after: sums of constants merged into biases, bounds into requantizations."""
    program = with_specs(fuse(parse_program(CONVOLUTION)), PORTS, "!quant.uniform<i8:f32, 0.25:-100>")
    quantized = materialize(program)
    before, after = lower(quantized), integer_program(quantized)
    counts = {name: (names(before).count(name), names(after).count(name)) for name in names(before)}
    assert counts["add"] == (2, 1)  # the correction by the zero point joins the bias
    assert counts["clamp"] == (1, 0)  # the bound of the relu joins the storage range of the requantization
    assert counts["fxpmath.requantize"] == (1, 1)
    for number in (-3.0, 0.5, 40.0):
        sample = {"arg0": np.full((1, 1, 2, 2), number, np.float32)}
        found = [next(iter(Interpreter(p)(sample).values())) for p in (quantized, before, after)]
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_array_equal(found[0], found[2])


def trained_chain(layers: int, ends: tuple[float, float]) -> Program:
    """Convolutions, each trained with fake quantization at its output and another one at the next one's input.

    The ranges of both end at about `ends`.
    """
    random = np.random.default_rng(2)
    net = Network([(1, 2, 6, 6)])
    value = net.insert(ConstFakeQuantOp(net.values[0], -1.0, 1.0, is_signed=True))
    for index in range(layers):
        net.name = f"conv{index}"
        weight = net.constant(random.normal(size=(2, 2, 1, 1)))
        layout = ConvolutionLayout.channels_first(2)
        value = net.insert(ConvolutionOp(value, weight, with_shape(value, [1, 2, 6, 6]), layout))
        for end in ends:
            value = net.insert(ConstFakeQuantOp(value, -end, end + index / 8, is_signed=True))
    return net.finish([value])


@pytest.mark.parametrize(("ends", "after"), [((5.0, 4.0), 0), ((4.0, 5.0), 1)])
def test_scaling_of_inputs_is_combined_with_scaling_of_outputs_on_a_network(
    ends: tuple[float, float], after: int
) -> None:
    """Before motion each layer rescales its input; after it, each layer has the one requantization of its output.

    If the first range saturates what the second one holds, the next layer reads the first type. The output of the
    network has the second one, after both roundings.
    """
    layers = 5
    sample = {"x0": RANDOM.uniform(-1, 1, (1, 2, 6, 6)).astype(np.float32)}
    result = quantize(trained_chain(layers, ends), [sample])
    counts = {key: count.value.data for key, count in result.propagated.module.attributes[RESCALE_COUNTS].data.items()}
    assert counts == {"before": layers, "after": after}
    assert sum(isinstance(op, RequantizeOp) for op in result.integer.entry.ops) == layers + after
    assert sum(map(is_rescale, regions_of(result.propagated))) == after
    step = regions_of(result.propagated)[-1].output_specs.data[0].scale
    simulated = Interpreter(trained_chain(layers, ends))(sample)["y0"]
    np.testing.assert_allclose(Interpreter(result.integer)(sample)["y0"], simulated, atol=3 * step)
