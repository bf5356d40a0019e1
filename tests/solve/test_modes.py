"""The solver modes of "MLIR Quantization" (transform, instrument, simplify), partly quantized programs, and export."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from networks import Network
from property_cases import some
from random_networks import Case, cases
from zeropoint.calibrate import collect, instrument, state_ranges, stats_keys
from zeropoint.fuse import fuse
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    ConcatenateOp,
    LogisticOp,
    SliceOp,
    TransposeOp,
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from zeropoint.ir.tensors import Array, element_of, with_shape
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import verify
from zeropoint.materialize import insert_casts, materialize, transform
from zeropoint.pipeline import Options, quantize
from zeropoint.quant_passes import canonicalize_quant
from zeropoint.report.counts import float_ops
from zeropoint.simplify import simplify
from zeropoint.solve import (
    check_fully_quantized,
    move_rescales,
    propagate,
    unquantized_ports,
    violations,
    wanted_statistics,
)
from zeropoint.targets import TARGETS, target

FEW = some(5)


def solved(program: Program, samples: list[dict[str, Array]], name: str = "cpu") -> Program:
    """The program with specs for a target, every stage of the pipeline that comes before."""
    table = target(name)
    asked = instrument(fuse(simplify(program), table), asks=wanted_statistics(table))
    return move_rescales(propagate(state_ranges(asked, collect(asked, samples)), table), table)


def ops(program: Program, *kinds: type) -> int:
    return sum(isinstance(op, kinds) for op in program.entry.ops)


def results(program: Program, samples: list[dict[str, Array]]) -> list[Array]:
    interpreter = Interpreter(program)
    return [array for sample in samples for array in interpreter(sample).values()]


def movements() -> Program:
    """Two movements in a row, a third of what they made, a sum, a function of what was moved."""
    net = Network([(2, 3)])
    moved = net.insert(TransposeOp(net.insert(TransposeOp(net.values[0], [1, 0])), [1, 0]))
    both = net.insert(SliceOp(moved, [0, 0], [1, 3], [1, 1]))
    return net.finish(
        [net.insert(AddOp(both, net.constant(np.arange(3.0).reshape(1, 3)))), net.insert(LogisticOp(moved))]
    )


SAMPLE = {"x0": np.linspace(-2, 3, 6, dtype=np.float32).reshape(2, 3)}


def test_transform_pass_through_ops_work_on_storage_with_scast_at_the_edges() -> None:
    """Transform: passthrough ops operate directly on the storage type, converting in and out via scast."""
    program = transform(materialize(solved(movements(), [SAMPLE])))
    verify(program.module)
    for op in program.entry.ops:
        if isinstance(op, TransposeOp | SliceOp):
            assert str(element_of(op.results[0])) == "i8"
    # In: one. Out: one for the function of what was moved, one for the sum of its slice.
    assert ops(program, StorageCastOp) == 3


def test_transform_quantizable_ops_take_the_type_and_others_are_encased_in_casts() -> None:
    """Transform: for quantizable ops the type is set directly; others are encased in dcast and qcast."""
    program = transform(materialize(solved(movements(), [SAMPLE])))
    (total,) = [op for op in program.entry.ops if isinstance(op, AddOp)]
    assert isinstance(element_of(total.result), UniformQuantizedType)
    (function,) = [op for op in program.entry.ops if isinstance(op, LogisticOp)]
    assert isinstance(function.operand.owner, DequantizeCastOp)
    assert all(isinstance(use.operation, QuantizeCastOp) for use in function.result.uses)
    assert not ops(program, UniformDequantizeOp, UniformQuantizeOp)


@FEW
@given(case=cases())
def test_transform_computes_what_the_quantized_program_computes(case: Case) -> None:
    before = materialize(solved(case.program, case.calibration))
    after = transform(before)
    verify(after.module)
    for expected, found in zip(results(before, case.samples), results(after, case.samples), strict=True):
        np.testing.assert_array_equal(found, expected)


@FEW
@given(case=cases())
def test_simplify_leaves_no_cast_that_undoes_another(case: Case) -> None:
    """Simplify: in the end as few casts as possible; nothing is left for the folds of casts to do."""
    program = transform(materialize(solved(case.program, case.calibration)))
    casts = (QuantizeCastOp, DequantizeCastOp, StorageCastOp)
    assert ops(canonicalize_quant(program), *casts) == ops(program, *casts)


def test_instrument_asks_nothing_that_is_settled_and_the_answers_suffice() -> None:
    """Instrument: at points where additional runtime statistics may yield solutions."""
    program = movements()
    for name in TARGETS:
        table = target(name)
        fused = fuse(simplify(program), table)
        asked = instrument(fused, asks=wanted_statistics(table))
        assert set(stats_keys(asked)) <= set(stats_keys(instrument(fused)))
        found = propagate(state_ranges(asked, collect(asked, [SAMPLE])), table)
        assert not violations(found, table)


def test_instrument_asks_nothing_for_a_target_without_kernels_for_the_program() -> None:
    net = Network([(2, 3)])
    program = fuse(net.finish([net.insert(LogisticOp(net.values[0]))]), target("litert"))
    assert stats_keys(instrument(program, asks=wanted_statistics(target("litert")))) == ["x0"]
    region = next(iter(program.entry.ops))
    region.attributes["logical_kernel"] = type(region.attributes["logical_kernel"])("unheard")
    assert stats_keys(instrument(program, asks=wanted_statistics(target("litert")))) == []


@pytest.mark.parametrize("name", TARGETS)
@FEW
@given(case=cases(most_layers=6))
def test_every_target_gets_programs_that_obey_its_table_and_run(name: str, case: Case) -> None:
    table = target(name)
    found = solved(case.program, case.calibration, name)
    assert not violations(found, table)
    quantized = materialize(found)
    verify(quantized.module)
    for array in results(quantized, case.calibration[:1]):
        assert np.isfinite(array).all()


def test_sixteen_bits_are_nearer_to_float_than_eight() -> None:
    random = np.random.default_rng(0)
    net = Network([(1, 6)])
    product = net.insert(AddOp(net.values[0], net.constant(random.normal(size=(1, 6)))))
    program = net.finish([net.insert(LogisticOp(product))])
    samples = [{"x0": random.normal(size=(1, 6)).astype(np.float32)} for _ in range(8)]
    exact = np.stack(results(program, samples))
    errors = [
        np.abs(np.stack(results(materialize(solved(program, samples, name)), samples)) - exact).max()
        for name in ("litert", "litert-16x8")
    ]
    assert errors[1] < errors[0] / 50


@FEW
@given(case=cases())
def test_the_form_with_casts_around_every_kernel_becomes_the_same_quantized_program(case: Case) -> None:
    """General algorithm: (dequantize -> op -> quantize) is replaced by the op, (constant -> quantize) by a constant."""
    found = solved(case.program, case.calibration)
    with_casts = insert_casts(found)
    verify(with_casts.module)
    direct, after = materialize(found), materialize(with_casts)
    assert ops(after, DequantizeCastOp) == 0 or ops(direct, UniformDequantizeOp) > 0
    for expected, made in zip(results(direct, case.samples), results(after, case.samples), strict=True):
        np.testing.assert_array_equal(made, expected)


# Partly quantized programs


def partly() -> Program:
    """A product, an angle that no kernel covers, a sum."""
    text = """
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<[0.75, 0.75, 0.75, 0.5]> : tensor<4xf32>
  %0 = stablehlo.multiply %x, %c : tensor<4xf32> loc("first")
  %2 = stablehlo.atan2 %0, %y : tensor<4xf32> loc("angle")
  %3 = stablehlo.add %2, %c : tensor<4xf32> loc("last")
  return %3 : tensor<4xf32>
}
"""
    return parse_program(text)


def test_a_partly_quantized_program_runs_and_every_float_op_has_a_reason() -> None:
    """Simulated quantization: computations that are partially quantized, with conversions at the boundaries."""
    samples = [{"arg0": np.float32([0.5, 1.5, -2.5, 3.0]), "arg1": np.float32([1, 2, 1, 0.5])}]
    made = quantize(partly(), samples)
    assert [name for name, _ in float_ops(made.integer)] == ["stablehlo.atan2 'angle'"]
    assert all(reason for _, reason in float_ops(made.integer))
    found, real = (Interpreter(each)(samples[0])["result0"] for each in (made.integer, partly()))
    np.testing.assert_allclose(found, real, atol=0.05)
    assert not unquantized_ports(made.propagated)


def test_islands_of_a_target_say_which_kernel_it_lacks() -> None:
    net = Network([(2, 3)])
    program = net.finish([net.insert(LogisticOp(net.insert(TransposeOp(net.values[0], [1, 0]))))])
    table = target("onnxruntime")
    fused = fuse(program, table)
    region = list(fused.entry.ops)[1]
    region.attributes["logical_kernel"] = type(region.attributes["logical_kernel"])("hard_shrink")
    asked = instrument(fused, asks=wanted_statistics(table))
    found = materialize(propagate(state_ranges(asked, collect(asked, [SAMPLE])), table))
    assert float_ops(found) == [("stablehlo.logistic 'network'", "target onnxruntime has no kernel 'hard_shrink'")]


# Export


def test_export_the_casts_of_the_program_itself_are_used_and_none_is_added() -> None:
    """Export: the parameters of ports are expressed by primitive ops; what is quantized already is not cast again."""
    text = """
func.func @main(%p: tensor<4x!quant.uniform<i8:f32, 0.5>>, %q: tensor<4x!quant.uniform<i8:f32, 0.25:7>>)
    -> tensor<4x!quant.uniform<i8:f32, 0.5>> {
  %x = quant.dcast %p : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
  %y = quant.dcast %q : tensor<4x!quant.uniform<i8:f32, 0.25:7>> to tensor<4xf32>
  %0 = stablehlo.add %x, %y : tensor<4xf32>
  %1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  return %1 : tensor<4x!quant.uniform<i8:f32, 0.5>>
}
"""
    program = materialize(propagate(fuse(parse_program(text)), target("cpu")))
    assert [op.name for op in program.entry.ops] == ["stablehlo.add", "func.return"]


def test_export_a_kernel_that_joins_values_of_several_scales_rescales_them_itself() -> None:
    """onnxruntime's concat takes any scales: no rescale of ours, the kernel's own change of parameters."""
    net = Network([(2, 3), (2, 3)])
    joined = net.insert(ConcatenateOp([net.values[0], net.values[1]], 0, with_shape(net.values[0], [4, 3])))
    sample = {**SAMPLE, "x1": SAMPLE["x0"] * 5}
    float_program = net.finish([joined])
    found = solved(float_program, [sample], "onnxruntime")
    program = materialize(found)
    assert check_fully_quantized(found) is found
    assert ops(program, UniformQuantizeOp) == 3  # two inputs, and the narrow one changed
    np.testing.assert_allclose(results(program, [sample])[0], results(float_program, [sample])[0], atol=0.2)


def test_the_integer_program_of_options_without_float_is_whole() -> None:
    made = quantize(movements(), [SAMPLE], Options(target="cpu"))
    assert float_ops(made.integer) == []
