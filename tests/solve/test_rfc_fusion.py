"""The RFC on quantization transformations in MLIR, section: Kernel fusion pass: from ops to kernels.

`SENTENCES` has its sentences in order and in our words, each with the tests that hold us to it.
"""

from __future__ import annotations

import numpy as np
import pytest

from networks import Network
from oracle import mlir
from solve.rfc import (
    SAMPLES,
    SOFTMAX,
    SUM,
    hard_swish,
    kernels,
    made,
    names,
    network,
    output,
    parameters,
    solved,
    unknown_tests,
    with_specs,
)
from zeropoint.calibrate import collect, instrument, state_ranges
from zeropoint.fuse import fuse, unfuse
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.quant import (
    QuantizeRegionOp,
    UniformQuantizedType,
)
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import (
    AddOp,
    ClampOp,
    ConstantOp,
    DotDimensions,
    DotGeneralOp,
    SineOp,
)
from zeropoint.ir.tensors import with_shape
from zeropoint.ir.text import parse_program, print_program
from zeropoint.ir.verification import verify
from zeropoint.materialize import insert_casts, materialize
from zeropoint.simplify import simplify
from zeropoint.solve import (
    MissingStatistics,
    check_kernels,
    propagate,
    violations,
    wanted_statistics,
)
from zeropoint.solve.classes import real_range
from zeropoint.targets import TARGETS, target

SENTENCES: dict[str, tuple[str, ...]] = {
    "fusion encapsulates high-precision ops into kernels, separately from quantization": (
        "test_fusion_changes_nothing_but_where_ops_stand",
    ),
    "it is by patterns or heuristics, and customized for different targets": ("test_fusion_differs_by_target",),
    "fixed kernels: a set of legalization patterns from source dialect to target": ("test_fusion_differs_by_target",),
    "code generation: well-known patterns as matmul and add are captured": (
        "test_matmul_and_add_are_one_kernel_for_every_target",
    ),
    "the decision can be reversed later, by restoring the ops with appropriate casts": (
        "test_a_quantized_kernel_is_reversed_to_its_ops_between_casts",
        "fuse/test_fuse.py::test_unfusing_a_propagated_program_states_every_type_that_was_decided",
        "mlir/unfuse.mlir",
    ),
    "a fallback where there are several targets": (
        "test_what_one_target_quantized_another_takes_over_and_falls_back_where_it_has_no_kernel",
    ),
    "after fusion all quantizable ops are wrapped by regions": (
        "test_after_fusion_all_that_some_kernel_covers_is_wrapped",
    ),
    "fusion can run before or after quantization and multiple times": (
        "test_fusion_may_run_again_before_and_after_quantization",
        "fuse/test_fuse.py::test_unfusing_and_fusing_again_gives_the_same_regions",
    ),
    "fusion after quantization legalizes from one target to another and handles the parameters": (
        "test_a_quantized_model_is_legalized_for_another_target_with_the_same_parameters",
        "test_legalizing_for_storage_of_the_other_sign_keeps_what_the_integers_mean",
        "test_a_kernel_that_another_target_takes_apart_asks_for_the_statistics_that_it_lacks",
    ),
    "kernels can be implied by the source language's hierarchy of ops": (
        "test_a_composite_of_the_source_language_implies_its_kernel",
        "mlir/fuse_composites.mlir",
    ),
}


def test_every_sentence_names_tests_that_exist() -> None:
    assert unknown_tests(SENTENCES, "solve/test_rfc_fusion.py") == []


def test_fusion_changes_nothing_but_where_ops_stand() -> None:
    program = simplify(network())
    fused = fuse(program)
    inside = sorted(
        op.name for region in regions_of(fused) for op in region.body.block.ops if op.name != "quant.return"
    )
    outside = sorted(op.name for op in fused.entry.ops if not isinstance(op, QuantizeRegionOp | ConstantOp))
    assert outside == ["func.return"]
    assert [name for name in inside if name != "stablehlo.constant"] == sorted(
        op.name for op in program.entry.ops if not isinstance(op, ConstantOp) and op.name != "func.return"
    )
    for region in regions_of(fused):
        assert [str(spec) for spec in (*region.input_specs, *region.output_specs)] == ["f32"] * (len(region.inputs) + 1)
    for sample in SAMPLES:
        np.testing.assert_array_equal(*(Interpreter(p)(sample)["y0"] for p in (program, fused)))


def test_fusion_differs_by_target() -> None:
    """A clip behind a sum is LiteRT's only where its kernels have it; a function is named where there is its kernel."""
    net = Network([(4,), (4,)])
    total = net.insert(AddOp(*net.values))
    clipped = net.insert(ClampOp(net.constant(np.array(-0.25)), total, net.constant(np.array(0.5))))
    program = net.finish([clipped])
    whole, parts = (kernels(fuse(program, target(name))) for name in ("cpu", "litert"))
    assert whole == ["add"]
    assert parts[0] == "add"
    assert len(parts) > 1
    swish = hard_swish(Network([(4,)]))
    assert {name: kernels(fuse(swish, target(name))) for name in ("cpu", "litert", "onnxruntime")} == {
        "cpu": ["elementwise_unary"],
        "litert": ["hard_swish"],
        "onnxruntime": ["hard_sigmoid", "multiply"],
    }


@pytest.mark.parametrize("name", TARGETS)
def test_matmul_and_add_are_one_kernel_for_every_target(name: str) -> None:
    net = Network([(1, 4)])
    dims = DotDimensions((), (), (1,), (0,))
    product = net.insert(
        DotGeneralOp(net.values[0], net.constant(np.ones((4, 3))), with_shape(net.values[0], [1, 3]), dims)
    )
    program = net.finish([net.insert(AddOp(product, net.along(np.arange(3.0), product, 1)))])
    (region,) = regions_of(fuse(program, target(name)))
    assert region.logical_kernel.data == "fully_connected"
    assert [op.name for op in region.body.block.ops][:3] == [
        "stablehlo.dot_general",
        "stablehlo.broadcast_in_dim",
        "stablehlo.add",
    ]


def test_a_quantized_kernel_is_reversed_to_its_ops_between_casts() -> None:
    program = with_specs(
        fuse(parse_program(SUM)),
        "!quant.uniform<i8:f32, 0.5:1>;!quant.uniform<i8:f32, 0.25:2>",
        "!quant.uniform<i8:f32, 1.0:-3>",
    )
    restored = unfuse(program)
    assert names(restored) == [
        *["quant.qcast", "quant.dcast"] * 2,
        "add",
        "maximum",
        *["quant.qcast", "quant.dcast"],
    ]
    # It still computes what the kernel would: to the half step of a sum that is rounded at the same place.
    sample = {"arg0": np.array([1, -2, 3, 4.25], np.float32), "arg1": np.array([1, 1, 0.5, -1], np.float32)}
    found = [next(iter(Interpreter(p)(sample).values())) for p in (restored, materialize(program))]
    np.testing.assert_array_equal(*found)


def test_what_one_target_quantized_another_takes_over_and_falls_back_where_it_has_no_kernel() -> None:
    """tosa reverses; onnxruntime has no table of any function: the function falls back to float, with the reason."""
    net = Network([(2, 3)])
    net.name = "before"
    value = net.insert(AddOp(net.values[0], net.constant(np.linspace(0, 1, 6).reshape(2, 3))))
    net.name = "wave"
    value = net.insert(SineOp(value))
    net.name = "after"
    program = net.finish([net.insert(AddOp(value, net.values[0]))])
    samples = [{"x0": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)}]
    first = solved(program, samples, "tosa")
    assert kernels(first) == ["add", "elementwise_unary", "add"]
    table = target("onnxruntime")
    second = propagate(fuse(unfuse(first), table), table)
    assert not violations(second, table)
    (left,) = [region for region in regions_of(second) if FLOAT_REASON in region.attributes]
    assert left.attributes[FLOAT_REASON].data == "target onnxruntime has no kernel 'elementwise_unary'"
    quantized = materialize(second)
    verify(quantized.module)
    reference = Interpreter(program)(samples[0])["y0"]
    np.testing.assert_allclose(Interpreter(quantized)(samples[0])["y0"], reference, atol=0.05)


def test_after_fusion_all_that_some_kernel_covers_is_wrapped() -> None:
    for name in TARGETS:
        fused = fuse(simplify(network()), target(name))
        assert {op.name for op in fused.entry.ops} == {"quant.region", "stablehlo.constant", "func.return"}


def test_fusion_may_run_again_before_and_after_quantization() -> None:
    program = simplify(network())
    once = fuse(program)
    assert print_program(fuse(once)) == print_program(once)
    quantized = solved(program, SAMPLES)
    assert print_program(fuse(quantized)) == print_program(quantized)
    # Casts around each kernel, the casts of a program that was unfused: both are fused to the same kernels again.
    again = propagate(fuse(unfuse(quantized)), target("cpu"))
    assert kernels(again) == kernels(quantized)
    specs = [[(r.input_specs, r.output_specs) for r in regions_of(p)] for p in (again, quantized)]
    assert specs[0] == specs[1]
    with_casts = [kind for _, kind in made(materialize(insert_casts(again)))]
    assert with_casts == [kind for _, kind in made(materialize(quantized))]


@pytest.mark.parametrize("name", ["cpu", "tosa", "stablehlo"])
def test_a_quantized_model_is_legalized_for_another_target_with_the_same_parameters(name: str) -> None:
    """LiteRT's parameters, without calibrating again; the kernels are those of the other target."""
    first = solved(network(), SAMPLES, "litert")
    second = propagate(fuse(unfuse(first), target(name)), target(name))
    assert check_kernels(second, target(name)) is second
    assert parameters(second) == parameters(first)
    assert [r.input_specs for r in regions_of(second)] == [r.input_specs for r in regions_of(first)]
    mlir.checked(materialize(second))


def test_legalizing_for_storage_of_the_other_sign_keeps_what_the_integers_mean() -> None:
    """onnxruntime has unsigned activations: u8 for i8, zero points 128 higher, the same real values."""
    first, table = solved(network(), SAMPLES, "litert"), target("onnxruntime")
    second = propagate(fuse(unfuse(first), table), table)
    assert not violations(second, table)
    # What the table has no kernel for stays float; convolution, function and sum have it.
    kept = [index for index, region in enumerate(regions_of(second)) if FLOAT_REASON not in region.attributes]
    assert kept[:3] == [0, 1, 2]
    for index in kept:
        assert real_range(output(second, index)) == real_range(output(first, index))
    quantized = materialize(second)
    assert isinstance(regions_of(second)[0].output_specs.data[0], UniformQuantizedType)
    found, expected = (Interpreter(materialize(p))(SAMPLES[0])["y0"] for p in (second, first))
    step = regions_of(first)[-1].output_specs.data[0].scale
    np.testing.assert_allclose(found, expected, atol=2 * step)
    mlir.checked(quantized)


def test_a_kernel_that_another_target_takes_apart_asks_for_the_statistics_that_it_lacks() -> None:
    program = hard_swish(Network([(2, 3)]))
    samples = [{"x0": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)}]
    first, table = solved(program, samples, "litert"), target("onnxruntime")
    restored = fuse(unfuse(first), table)
    assert kernels(restored) == ["hard_sigmoid", "multiply"]
    with pytest.raises(MissingStatistics, match="calibrate the program with data that reaches it"):
        propagate(restored, table)
    asked = instrument(restored, asks=wanted_statistics(table))
    second = propagate(state_ranges(asked, collect(asked, samples)), table)
    assert not violations(second, table)
    # What stood between the ports of the one kernel is new; the ports have the parameters that they had.
    assert kernels(second)[0] == "hard_sigmoid"
    assert real_range(output(second)) == real_range(output(first))


def test_a_composite_of_the_source_language_implies_its_kernel() -> None:
    assert kernels(fuse(parse_program(SOFTMAX), target("litert"))) == ["softmax"]
