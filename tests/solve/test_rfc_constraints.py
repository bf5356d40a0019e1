"""The RFC "A Proposal for Implementing Quantization Transformations in MLIR": constraints, regions, propagation.

`SENTENCES` has the sentences of its sections "Constraints for quantization", "Quantization region", "Propagation pass"
and "Intermediate transformations" in order and in our words, each with the tests that hold us to it; "Export" and
"Kernel fusion pass" are in test_rfc_export.py and test_rfc_fusion.py.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, f32

from solve.graphs import ACT, CENTRED, TOY, Graph, row
from solve.rfc import unknown_tests
from zeropoint.fuse import fuse
from zeropoint.ir.annotations import FLOAT_REASON, facts_of
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    CoupledRefOp,
    DequantizeCastOp,
    NoQuantizedType,
    QuantizeCastOp,
    QuantizedType,
    QuantizeRegionOp,
    Storage,
    UniformQuantizedType,
)
from zeropoint.ir.tensors import with_element
from zeropoint.ir.text import parse_program
from zeropoint.solve import PropagationError, is_rescale, propagate
from zeropoint.solve.check import (
    check_fully_quantized,
    region_name,
    regions_of,
    unquantized_ports,
    violations,
)
from zeropoint.targets import Custom, FixedScale, Free, KernelRow, PortRule, Role, SameScale, Target, target

SENTENCES: dict[str, tuple[str, ...]] = {
    "target constraints are specified and resolved atomically, at the boundaries of kernels": (
        "test_regions_constraints_inside_are_not_considered",
    ),
    # Target constraints
    "the key is the kernel's name and a signature of storage types with their ranges": (
        "targets/test_targets.py::test_rfc_target_key_the_signature_selects_the_first_row_that_fits",
        "test_target_constraints_a_signature_that_no_row_has_stays_float_and_says_so",
        "test_target_constraints_a_kernel_that_the_target_does_not_have_stays_float_and_says_so",
    ),
    "inputs and outputs are treated alike, as ports": (
        "test_target_constraints_a_function_may_derive_its_input_from_its_output",
    ),
    "a tuple can be a wildcard": (
        "targets/test_targets.py::test_rfc_target_key_a_wildcard_takes_what_is_asked_and_else_its_default",
    ),
    "a signature may be given in part; the rest is derived from the first match, or a wildcard's default": (
        "targets/test_targets.py::test_rfc_target_key_what_a_partial_signature_leaves_open_is_derived_from_the_first_match",
        "targets/test_targets.py::test_rfc_target_key_a_wildcard_takes_what_is_asked_and_else_its_default",
    ),
    "a function derives the parameters of some ports from those of others": (
        "test_target_constraints_a_function_derives_parameters_of_ports_from_other_ports_and_returns_which",
        "test_target_constraints_a_function_may_derive_its_input_from_its_output",
    ),
    "it returns the ports that it updated, so that a worklist infers the parameters of adjacent ops": (
        "test_target_constraints_functions_reach_a_fixed_point_in_program_order_however_they_depend_on_each_other",
        "test_target_constraints_a_function_that_misbehaves_is_named",
    ),
    "shorthands: same scale": (
        "test_target_constraints_shorthand_same_scale",
        "test_target_constraints_same_scale_of_a_group_leaves_the_other_ports_alone",
    ),
    "shorthands: fixed scale": (
        "test_target_constraints_shorthand_fixed_scale",
        "test_target_constraints_fixed_scale_of_any_port",
    ),
    "shorthands: multiplier scale, multiplier accumulator scale": (
        "test_target_constraints_shorthands_multiplier_scale_and_multiplier_accumulator_scale",
        "mlir/propagate.mlir",
    ),
    "for fixed kernels, fusion wraps the high-precision ops as kernels": (
        "solve/test_rfc_fusion.py::test_fusion_differs_by_target",
    ),
    # Model constraints
    "uniform: the full parameters of the tensor; the kernel satisfies its storage": (
        "test_model_constraints_uniform_is_the_full_parameters_of_the_tensor",
        "test_model_constraints_uniform_of_the_other_sign_is_the_same_map",
    ),
    "uniform: and the scale restriction among its inputs and outputs": (
        "test_model_constraints_uniform_and_a_kernel_that_fixes_another_type_get_a_rescale_in_between",
        "test_model_constraints_uniform_types_that_contradict_each_other_are_an_error_or_a_rescale_of_the_model",
    ),
    "any: at least so many bits; the kernel has sufficient storage": (
        "test_model_constraints_any_asks_for_at_least_so_many_bits",
        "test_model_constraints_any_with_more_bits_than_the_target_has_stays_float",
    ),
    "calibrated: statistics are hints to calculate parameters; the width comes from the kernel": (
        "test_model_constraints_calibrated_is_a_hint_to_calculate_parameters_from",
    ),
    "none: the tensor stays as it is even if there is a quantized kernel": (
        "test_model_constraints_none_keeps_the_tensor_as_it_is",
        "test_model_constraints_none_in_the_specs_of_a_region_keeps_that_kernel_float",
    ),
    "however these are set: casts, statistics, regions": (
        "test_model_constraints_uniform_is_the_full_parameters_of_the_tensor",
        "test_model_constraints_calibrated_is_a_hint_to_calculate_parameters_from",
        "test_model_constraints_any_asks_for_at_least_so_many_bits",
    ),
    "or by element types": ("test_model_constraints_are_set_by_replacing_element_types",),
    # Quantization region
    "a region wraps the ops of one kernel; what they use are its operands, what others use its results": (
        "mlir/fuse.mlir",
        "solve/test_rfc_fusion.py::test_fusion_changes_nothing_but_where_ops_stand",
    ),
    "constraints on kernel inputs and outputs become the attributes of the region": (
        "test_regions_constraints_on_ports_become_their_specs_and_nothing_else_of_the_region_changes",
    ),
    "attributes and kernel name form the key to the target constraints": (
        "test_target_constraints_a_signature_that_no_row_has_stays_float_and_says_so",
    ),
    "constraints inside are not considered": ("test_regions_constraints_inside_are_not_considered",),
    "each region is an atomic unit, of which only the attributes are updated": (
        "test_regions_constraints_on_ports_become_their_specs_and_nothing_else_of_the_region_changes",
    ),
    "its ops can be inlined after quantization": (
        "solve/test_rfc_fusion.py::test_a_quantized_kernel_is_reversed_to_its_ops_between_casts",
    ),
    # Propagation pass
    "functions are inlined or duplicated, as call sites may have different parameters": (
        "mlir/propagate_call_sites.mlir",
    ),
    "kernel name and bit widths of the ports look up the constraints": (
        "test_model_constraints_any_asks_for_at_least_so_many_bits",
        "test_propagation_storage_that_a_kernel_does_not_have_is_rescaled_on_both_sides",
    ),
    "the constraint is applied and ports are updated; users and defining ops of those come next": (
        "test_target_constraints_a_function_derives_parameters_of_ports_from_other_ports_and_returns_which",
        "test_target_constraints_a_function_may_derive_its_input_from_its_output",
    ),
    "a parameter set for a visited port is a conflict, which a rescale resolves": (
        "test_target_constraints_a_function_that_collides_with_its_neighbour_gets_a_rescale",
        "test_propagation_rescales_the_cheapest_edge",
        "test_propagation_a_rescale_says_which_two_demands_collided",
    ),
    "at each step the constraints of the current kernel are satisfied": (
        "test_target_constraints_a_function_that_leaves_alone_what_others_set_still_gets_its_way",
        "test_the_checker_sees_every_kind_of_violation",
        "solve/test_optimum.py::test_rescales_are_so_many_and_would_be_so_few",
        "solve/test_constraints.py::test_every_port_obeys_the_kernel_table",
    ),
    "a rescale need not cost anything in the end": (
        "solve/test_rfc_export.py::test_scaling_of_inputs_is_combined_with_scaling_of_outputs_on_a_network",
    ),
    "it is deterministic": ("solve/test_rescale_count.py::test_the_result_depends_on_the_program_text_only",),
    "a rescale is eliminated by annotating the model at the right place": (
        "test_propagation_annotating_the_model_at_the_right_place_makes_a_rescale_go_away",
    ),
    "it stops when no more parameters can be updated": (
        "test_propagation_stops_when_nothing_changes_and_running_it_again_changes_nothing",
        "solve/test_termination.py::test_propagation_sets_each_port_exactly_once_and_rescales_none_twice",
    ),
    "its results update the attributes of the regions": (
        "test_regions_constraints_on_ports_become_their_specs_and_nothing_else_of_the_region_changes",
    ),
    "a model is fully quantized when all quantizable ports of all kernels have uniform types": (
        "test_propagation_fully_quantized_means_a_uniform_type_at_every_port",
    ),
    # Intermediate transformations
    "quantization-aware training: emulation ops become uniform types": (
        "solve/test_trained.py::test_fake_quantization_becomes_pinned_parameters_of_inputs_weights_and_outputs",
    ),
    "calibration: statistics become calibrated types": (
        "test_model_constraints_calibrated_is_a_hint_to_calculate_parameters_from",
    ),
    "parameter search: explored bit widths become any-types": (
        "test_model_constraints_any_asks_for_at_least_so_many_bits",
    ),
    "they combine": ("test_model_constraints_a_range_of_the_user_is_stronger_than_an_observed_one",),
}


def test_every_sentence_names_tests_that_exist() -> None:
    assert unknown_tests(SENTENCES, "solve/test_rfc_constraints.py") == []
    assert unknown_tests({"no test": (), "two": ("test_nothing", "mlir/nothing.mlir")}, "solve/rfc.py") == [
        "no test",
        "test_nothing",
        "mlir/nothing.mlir",
    ]


I8, U8, I16 = (Storage.of(text) for text in ("i8", "u8", "i16"))
PIN = UniformQuantizedType.per_layer(I8, 0.25, 7)
LITERT = target("litert")


def calibrated(low: float, high: float) -> CalibratedQuantizedType:
    from zeropoint.ir.quant.parameters import CalibratedParameters

    return CalibratedQuantizedType(CalibratedParameters(f32, low, high))


def cast(graph: Graph, value, stated: QuantizedType):
    """The value behind a pair of casts."""
    stored = QuantizeCastOp(value, with_element(value, stated))
    real = DequantizeCastOp(stored.result, value.type)
    graph.block.add_ops([stored, real])
    return real.result


def named(program: Program, label: str) -> QuantizeRegionOp:
    return next(r for r in regions_of(program) if region_name(r).endswith(f"'{label}'") and not is_rescale(r))


def output(program: Program, label: str) -> UniformQuantizedType:
    spec = named(program, label).output_specs.data[0]
    assert isinstance(spec, UniformQuantizedType)
    return spec


def rescales(program: Program) -> list[QuantizeRegionOp]:
    return [region for region in regions_of(program) if is_rescale(region)]


# Target constraints


def test_target_constraints_a_function_derives_parameters_of_ports_from_other_ports_and_returns_which() -> None:
    """Target constraints: QuantFn(inputs, outputs) returns the indices of the ports being updated."""
    asked: list[tuple[object, object]] = []

    def doubled(inputs, outputs):
        asked.append((inputs[0], outputs[0]))
        if not isinstance(inputs[0], UniformQuantizedType) or isinstance(outputs[0], UniformQuantizedType):
            return [], []
        outputs[0] = UniformQuantizedType.per_layer(I8, 2 * inputs[0].scale, inputs[0].zero_point)
        return [], [0]

    table = Target("t", "fixed32", (*TOY.rows, row("double", Custom(doubled, "doubled"))))
    graph = Graph()
    first = graph.kernel("A", graph.args[0])
    second = graph.kernel("double", first, label="second")
    third = graph.kernel("double", graph.kernel("same", second), label="third")
    found = propagate(graph.finish(third), table)
    assert not violations(found, table)
    assert output(found, "second") == UniformQuantizedType.per_layer(I8, 2 / 64)
    assert output(found, "third") == UniformQuantizedType.per_layer(I8, 4 / 64)
    assert "doubled" in facts_of(named(found, "third"))[-1].source
    assert not rescales(found)
    assert asked[0] == (UniformQuantizedType.per_layer(I8, 1 / 64), calibrated(-1.0, 1.0))


def test_target_constraints_a_function_may_derive_its_input_from_its_output() -> None:
    """Target constraints: some ports from other ports, whichever they are; propagation goes against the data, too."""

    def same(inputs, outputs):
        if not isinstance(inputs[0], UniformQuantizedType) and isinstance(outputs[0], UniformQuantizedType):
            inputs[0] = outputs[0]
            return [0], []
        return [], []

    table = Target("t", "fixed32", (*TOY.rows, row("back", Custom(same, "same"))))
    graph = Graph()
    maker = graph.kernel("free", graph.args[0], label="maker")
    back = graph.kernel("back", maker, output=PIN, label="back")
    found = propagate(graph.finish(back), table)
    assert output(found, "maker") == PIN
    assert not rescales(found)


def test_target_constraints_functions_reach_a_fixed_point_in_program_order_however_they_depend_on_each_other() -> None:
    """Propagation pass: a worklist; each port is set once, so that it ends."""
    calls = 0

    def forward(inputs, outputs):
        nonlocal calls
        calls += 1
        if not isinstance(inputs[0], UniformQuantizedType):
            return [], []
        outputs[0] = UniformQuantizedType.per_layer(I8, inputs[0].scale * 1.5)  # another one each time it is asked
        return [], [0]

    table = Target("t", "fixed32", (*TOY.rows, row("f", Custom(forward, "forward"))))
    graph = Graph()
    value = graph.args[0]
    for _ in range(6):
        value = graph.kernel("same", graph.kernel("f", value))
    found = propagate(graph.finish(value), table)
    assert calls <= 6 * 4
    assert not violations(found, table)


def test_target_constraints_a_function_that_collides_with_its_neighbour_gets_a_rescale() -> None:
    """Propagation pass: a parameter set for a visited port needs a rescale."""

    def fixed(inputs, outputs):
        outputs[0] = PIN
        return [], [0]

    table = Target("t", "fixed32", (*TOY.rows, row("f", Custom(fixed, "fixed"))))
    graph = Graph()
    value = graph.kernel("same", graph.kernel("A", graph.args[0]), graph.kernel("f", graph.args[0], label="made"))
    found = propagate(graph.finish(value), table)
    assert output(found, "made") == PIN
    assert len(rescales(found)) == 1
    assert not violations(found, table)


def test_target_constraints_a_function_that_leaves_alone_what_others_set_still_gets_its_way() -> None:
    """Propagation pass: the constraints of the current kernel are satisfied, by a rescale where nothing else helps."""

    def doubled(inputs, outputs):
        if not isinstance(inputs[0], UniformQuantizedType) or isinstance(outputs[0], UniformQuantizedType):
            return [], []  # says nothing of an output that is there already, though it is another one
        outputs[0] = UniformQuantizedType.per_layer(I8, 2 * inputs[0].scale, inputs[0].zero_point)
        return [], [0]

    table = Target("t", "fixed32", (*TOY.rows, row("double", Custom(doubled, "doubled"))))
    graph = Graph(2)
    made = graph.kernel("double", cast(graph, graph.args[0], PIN), label="made")
    found = propagate(graph.finish(graph.kernel("same", made, graph.kernel("A", graph.args[1]))), table)
    assert output(found, "made") == UniformQuantizedType.per_layer(I8, 0.5, 7)
    assert len(rescales(found)) == 1
    assert not violations(found, table)


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (lambda i, o: 1 / 0, "found a function that fails: ZeroDivisionError"),
        (lambda i, o: sys.exit(0), "found a function that fails: SystemExit: 0"),
        (lambda i, o: ([], [3]), "found a function that fails: IndexError"),
        (lambda i, o: ([], [0]), r"found !quant.calibrated.* for output, expected !quant.uniform"),
        (lambda i, o: (o.__setitem__(0, UniformQuantizedType.per_layer(I16, 1.0)), ([], [0]))[1], "does not accept"),
    ],
)
def test_target_constraints_a_function_that_misbehaves_is_named(made, sentence: str) -> None:
    table = Target("t", "fixed32", (row("f", Custom(made, "my.py:made")),))
    graph = Graph()
    with pytest.raises(PropagationError, match=rf"kernel f 'f0': my\.py:made: .*{sentence}"):
        propagate(graph.finish(graph.kernel("f", graph.args[0])), table)


def test_target_constraints_shorthand_same_scale() -> None:
    """Target constraints: shorthands for common patterns."""
    graph = Graph(2)
    value = graph.kernel("same", *graph.args, label="both")
    found = propagate(graph.finish(graph.kernel("same", value, label="next")), TOY)
    assert {spec for label in ("both", "next") for spec in named(found, label).input_specs} == {output(found, "next")}


def test_target_constraints_same_scale_of_a_group_leaves_the_other_ports_alone() -> None:
    table = Target("t", "fixed32", (*TOY.rows, row("first", SameScale((0, -1)), ACT, ACT)))
    graph = Graph(2)
    a, b = graph.kernel("A", graph.args[0]), graph.kernel("B", graph.args[1])
    found = propagate(graph.finish(graph.kernel("first", a, b, label="k")), table)
    assert [str(s) for s in named(found, "k").input_specs] == [str(output(found, "A0")), str(output(found, "B1"))]
    assert output(found, "k") == output(found, "A0")
    assert not rescales(found)


def test_target_constraints_shorthand_fixed_scale() -> None:
    graph = Graph()
    found = propagate(graph.finish(graph.kernel("B", graph.args[0], label="b")), TOY)
    assert output(found, "b") == UniformQuantizedType.per_layer(I8, 1 / 60, 3)


def test_target_constraints_shorthands_multiplier_scale_and_multiplier_accumulator_scale() -> None:
    """The bias is at input scale * weight scale; the output is free: tests/mlir/propagate.mlir has the numbers."""
    rows = {kernel: LITERT.row(kernel).relation for kernel in ("multiply", "convolution")}
    assert [type(relation).__name__ for relation in rows.values()] == ["MultiplierScale", "MultiplierAccumulatorScale"]


def test_target_constraints_a_kernel_that_the_target_does_not_have_stays_float_and_says_so() -> None:
    graph = Graph()
    found = propagate(graph.finish(graph.kernel("unheard", graph.args[0])), TOY)
    (region,) = regions_of(found)
    assert region.attributes[FLOAT_REASON].data == "target toy has no kernel 'unheard'"


def test_target_constraints_a_signature_that_no_row_has_stays_float_and_says_so() -> None:
    graph = Graph()
    wide = UniformQuantizedType.per_layer(I16, 0.5)
    found = propagate(graph.finish(graph.kernel("free", graph.args[0], output=wide)), TOY)
    (region,) = regions_of(found)
    assert region.attributes[FLOAT_REASON].data == (
        "target toy has no kernel 'free' for its output: 'free0' is pinned to "
        "!quant.uniform<i16:f32, 5.000000e-01>, it takes i8"
    )


# Model constraints


@pytest.mark.parametrize("form", ["casts", "output spec", "input spec"])
def test_model_constraints_uniform_is_the_full_parameters_of_the_tensor(form: str) -> None:
    """Model constraints: UniformQuantizedType; set by qcast and dcast, or in the specs of a region."""
    graph = Graph()
    value = graph.kernel("free", graph.args[0], label="value", output=PIN if form == "output spec" else None)
    if form == "casts":
        value = cast(graph, value, PIN)
    reader = graph.kernel("free", value, label="reader", inputs=[PIN] if form == "input spec" else [])
    found = propagate(graph.finish(reader), TOY)
    assert output(found, "value") == PIN
    assert named(found, "reader").input_specs.data[0] == PIN
    fact = next(fact for fact in facts_of(named(found, "value")) if fact.name == "parameters")
    assert (fact.salience, fact.value) == ("user", str(PIN))
    assert not rescales(found)


def test_model_constraints_uniform_and_a_kernel_that_fixes_another_type_get_a_rescale_in_between() -> None:
    """Model constraints: the kernel satisfies its own scale restriction; the tensor has the pinned type."""
    graph = Graph()
    value = cast(graph, graph.kernel("A", graph.args[0], label="value"), PIN)
    found = propagate(graph.finish(graph.kernel("free", value, label="reader"), value), TOY)
    assert output(found, "value") == UniformQuantizedType.per_layer(I8, 1 / 64)
    assert named(found, "reader").input_specs.data[0] == PIN
    (between,) = rescales(found)
    assert list(between.inputs) == [named(found, "value").outputs[0]]
    assert all(use.operation is between for use in between.inputs[0].uses)  # the result of the program as well


def test_model_constraints_uniform_of_the_other_sign_is_the_same_map() -> None:
    """Fake quantization has u8 where nothing says signed; a kernel with i8 takes the same real values."""
    graph = Graph()
    value = cast(
        graph, graph.kernel("free", graph.args[0], label="value"), UniformQuantizedType.per_layer(U8, 0.5, 135)
    )
    found = propagate(graph.finish(graph.kernel("free", value)), TOY)
    assert output(found, "value") == UniformQuantizedType.per_layer(I8, 0.5, 7)


def test_model_constraints_uniform_types_that_contradict_each_other_are_an_error_or_a_rescale_of_the_model() -> None:
    graph = Graph()
    other = UniformQuantizedType.per_layer(I8, 0.5)
    value = graph.kernel("free", graph.args[0], output=PIN, label="value")
    with pytest.raises(PropagationError, match=r"'value': found pinned types .* expected one"):
        propagate(graph.finish(graph.kernel("free", value, inputs=[other])), TOY)
    graph = Graph()
    value = cast(graph, cast(graph, graph.kernel("free", graph.args[0], label="value"), PIN), other)
    found = propagate(graph.finish(graph.kernel("free", value, label="reader")), TOY)
    (between,) = rescales(found)
    assert (between.input_specs.data[0], between.output_specs.data[0]) == (PIN, other)
    assert named(found, "reader").input_specs.data[0] == other


@pytest.mark.parametrize("form", ["casts", "spec"])
@pytest.mark.parametrize(("bits", "storage"), [(4, "i8"), (8, "i8"), (9, "i16"), (16, "i16")])
def test_model_constraints_any_asks_for_at_least_so_many_bits(form: str, bits: int, storage: str) -> None:
    """Model constraints: AnyQuantizedType; a bit-width search writes it."""
    stated = AnyQuantizedType.of(Storage.of(f"i{bits}"), f32)
    graph = Graph()
    value = graph.kernel("abs", graph.args[0], label="value", output=stated if form == "spec" else None)
    if form == "casts":
        value = cast(graph, value, stated)
    found = propagate(graph.finish(value), LITERT)
    assert str(output(found, "value").storage) == storage


def test_model_constraints_any_with_more_bits_than_the_target_has_stays_float() -> None:
    graph = Graph()
    value = cast(graph, graph.kernel("abs", graph.args[0]), AnyQuantizedType.of(Storage.of("i32"), f32))
    (region,) = regions_of(propagate(graph.finish(value), LITERT))
    assert region.attributes[FLOAT_REASON].data == "target litert has no kernel 'abs' for (any) -> 32 bits or more"


@pytest.mark.parametrize("form", ["casts", "spec", "statistics"])
def test_model_constraints_calibrated_is_a_hint_to_calculate_parameters_from(form: str) -> None:
    """Model constraints: CalibratedQuantizedType; the bit width comes from the kernel."""
    graph = Graph()
    stated = calibrated(-1.0, 1.55)
    value = graph.kernel("free", graph.args[0], label="value", output=stated if form == "spec" else None)
    if form == "casts":
        value = cast(graph, value, stated)
    if form == "statistics":
        value = graph.observed(value, -1.0, 1.55)
    found = propagate(graph.finish(value), TOY)
    assert output(found, "value").scale == pytest.approx(0.01)
    assert output(found, "value").zero_point == -28
    fact = next(fact for fact in facts_of(named(found, "value")) if fact.value == "[-1, 1.55]")
    assert fact.salience == ("calibrated" if form == "statistics" else "user")


def test_model_constraints_a_range_of_the_user_is_stronger_than_an_observed_one() -> None:
    graph = Graph()
    value = cast(graph, graph.observed(graph.kernel("free", graph.args[0], label="value"), -9, 9), calibrated(0, 2.55))
    assert output(propagate(graph.finish(value), TOY), "value").scale == pytest.approx(0.01)


def test_model_constraints_none_keeps_the_tensor_as_it_is() -> None:
    """Model constraints: NoQuantizedType, even if the quantized kernel is available."""
    graph = Graph()
    before = graph.kernel("free", graph.args[0], label="before")
    value = cast(graph, graph.kernel("free", before, label="maker"), NoQuantizedType(f32))
    reader = graph.kernel("free", value, label="reader")
    found = propagate(graph.finish(graph.kernel("free", reader, label="after")), TOY)
    for label in ("maker", "reader"):
        assert named(found, label).output_specs.data[0] == f32
        assert "'maker' stays float, quant.dcast" in named(found, label).attributes[FLOAT_REASON].data
    assert output(found, "before")
    assert output(found, "after")


def test_model_constraints_none_in_the_specs_of_a_region_keeps_that_kernel_float() -> None:
    graph = Graph()
    maker = graph.kernel("free", graph.args[0], label="maker")
    kept = graph.kernel("free", maker, label="kept", inputs=[NoQuantizedType(f32)])
    found = propagate(graph.finish(kept), TOY)
    assert output(found, "maker")
    assert named(found, "kept").output_specs.data[0] == f32
    assert "its specs say not to quantize it" in named(found, "kept").attributes[FLOAT_REASON].data


def test_model_constraints_are_set_by_replacing_element_types() -> None:
    """Model constraints: set by replacing the tensor's element type where the op allows that."""
    text = """
func.func @main(%q: tensor<4x!quant.uniform<i8:f32, 0.25:7>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>> {
  %x = quant.dcast %q : tensor<4x!quant.uniform<i8:f32, 0.25:7>> to tensor<4xf32>
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  %1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  return %1 : tensor<4x!quant.uniform<i8:f32, 0.5>>
}
"""
    (region,) = regions_of(propagate(fuse(parse_program(text)), target("cpu")))
    assert set(region.input_specs) == {PIN}
    assert region.output_specs.data[0] == UniformQuantizedType.per_layer(I8, 0.5)


def test_model_constraints_coupled_points_get_one_type() -> None:
    """coupled_ref: points to be coupled from a type inference perspective, by a key."""
    graph = Graph(2)
    values = []
    for index, argument in enumerate(graph.args):
        value = graph.observed(graph.kernel("free", argument, label=f"v{index}"), -1 - index, 1 + 2 * index)
        coupled = CoupledRefOp(value, "gate")
        graph.block.add_op(coupled)
        values.append(graph.kernel("free", coupled.res))
    found = propagate(graph.finish(*values), TOY)
    assert output(found, "v0") == output(found, "v1")
    assert output(found, "v0").scale == pytest.approx(5 / 255)  # the union [-2, 3]
    assert any(fact.name == "same scale" for fact in facts_of(named(found, "v0")))


def test_model_constraints_a_pinned_type_holds_for_all_points_of_a_key() -> None:
    """A kernel that fixes another type is rescaled."""
    graph = Graph(2)
    first = cast(graph, graph.kernel("free", graph.args[0], label="first"), PIN)
    second = graph.kernel("A", graph.args[1], label="second")
    coupled = []
    for value in (first, second):
        op = CoupledRefOp(value, "gate")
        graph.block.add_op(op)
        coupled.append(graph.kernel("free", op.res, label=f"after{len(coupled)}"))
    found = propagate(graph.finish(*coupled), TOY)
    assert [named(found, f"after{i}").input_specs.data[0] for i in range(2)] == [PIN, PIN]
    assert len(rescales(found)) == 1


def test_model_constraints_points_of_one_key_that_are_pinned_to_two_types_are_an_error() -> None:
    graph = Graph(2)
    made = []
    for index, argument in enumerate(graph.args):
        stated = UniformQuantizedType.per_layer(I8, 0.5 + index)
        op = CoupledRefOp(cast(graph, graph.kernel("free", argument, label=f"v{index}"), stated), "gate")
        graph.block.add_op(op)
        made.append(graph.kernel("free", op.res))
    with pytest.raises(PropagationError, match="'v0' and 'v1' are coupled by key 'gate': found pinned types"):
        propagate(graph.finish(*made), TOY)


# Regions


def test_regions_constraints_on_ports_become_their_specs_and_nothing_else_of_the_region_changes() -> None:
    """Quantization region: constraints on kernel inputs and outputs are converted to input_specs and output_specs."""
    graph = Graph()
    program = graph.finish(graph.kernel("free", cast(graph, graph.kernel("free", graph.args[0]), PIN), label="k"))
    found = propagate(program, TOY)
    region = named(found, "k")
    assert region.input_specs.data[0] == PIN
    assert [op.name for op in found.entry.ops] == ["quant.region", "quant.region", "func.return"]
    assert region.body.is_structurally_equivalent(named(program, "k").body)
    assert [v.type for v in region.inputs] == [v.type for v in named(program, "k").inputs]


def test_regions_constraints_inside_are_not_considered() -> None:
    """Quantization region: constraints on tensors inside the region are not considered during quantization."""
    text = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = "quant.stats"(%x) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  %0 = "quant.region"(%s) ({
  ^bb0(%a: tensor<4xf32>):
    %b = stablehlo.negate %a : tensor<4xf32>
    %c = "quant.stats"(%b) {layerStats = dense<[-900.0, 900.0]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
    %q = quant.qcast %c : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 50.0>>
    %d = quant.dcast %q : tensor<4x!quant.uniform<i8:f32, 50.0>> to tensor<4xf32>
    "quant.return"(%d) : (tensor<4xf32>) -> ()
  }) {input_specs = [f32], logical_kernel = "elementwise_unary", output_specs = [f32]}
      : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "quant.stats"(%0) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""
    (region,) = regions_of(propagate(parse_program(text), target("cpu")))
    assert region.output_specs.data[0].scale == pytest.approx(2 / 255)
    assert [op.name for op in region.body.block.ops] == ["stablehlo.negate", "quant.return"]


# Propagation


def test_propagation_rescales_the_cheapest_edge() -> None:
    """Propagation pass: a conflict is resolved by a rescale; ours goes to the fewest elements times width."""
    graph = Graph(2, size=8)
    first = graph.kernel("same", graph.kernel("A", graph.args[0]), size=2, label="small")
    second = graph.kernel("same", graph.kernel("B", graph.args[1]), label="large")
    found = propagate(graph.finish(graph.kernel("same", graph.kernel("same", second, size=2), first)), TOY)
    (between,) = rescales(found)
    assert between.inputs[0].type.get_shape() == (2,)


def test_propagation_of_edges_that_cost_the_same_the_first_in_the_program_is_rescaled() -> None:
    graph = Graph(2)
    chain = graph.kernel("A", graph.args[0], label="made")
    for index in range(3):
        chain = graph.kernel("same", chain, label=f"s{index}")
    other = graph.kernel("B", graph.args[1])
    found = propagate(graph.finish(graph.kernel("same", chain, other)), TOY)
    (between,) = rescales(found)
    assert [region_name(use.operation) for use in between.outputs[0].uses] == ["same 's0'"]


def test_propagation_one_rescale_serves_all_readers_that_want_its_type() -> None:
    graph = Graph(2)
    first, second = graph.kernel("A", graph.args[0]), graph.kernel("B", graph.args[1])
    both = [graph.kernel("same", first, second) for _ in range(3)]
    assert len(rescales(propagate(graph.finish(*both), TOY))) == 1


def test_propagation_a_rescale_says_which_two_demands_collided() -> None:
    graph = Graph(2)
    first, second = graph.kernel("A", graph.args[0], label="a"), graph.kernel("B", graph.args[1], label="b")
    (between,) = rescales(propagate(graph.finish(graph.kernel("same", first, second)), TOY))
    text = between.attributes["zeropoint.rescale"].data
    assert "(kernel A 'a')" in text
    assert "(kernel B 'b')" in text
    assert {fact.name for fact in facts_of(between)} == {"has", "required"}


def test_propagation_annotating_the_model_at_the_right_place_makes_a_rescale_go_away() -> None:
    """Propagation pass: the rescale can be eliminated by annotating the model with the right restrictions."""
    wide, own = (-8.0, 8.0), (-1.0, 1.0)

    def solved(annotated: bool) -> Program:
        graph = Graph(2)
        value = graph.observed(graph.kernel("free", graph.args[0], label="value"), *own)
        if annotated:
            value = cast(graph, value, calibrated(*wide))
        joined = graph.observed(graph.kernel("same", value, graph.observed(graph.args[1], *wide)), *wide)
        return propagate(graph.finish(graph.kernel("free", value), joined), TOY)

    assert len(rescales(solved(annotated=False))) == 1
    assert not rescales(solved(annotated=True))


def test_propagation_a_value_that_others_read_gives_up_half_a_bit_and_no_more() -> None:
    for width, count in ((1.41, 0), (1.42, 1)):
        graph = Graph(2)
        value = graph.observed(graph.kernel("free", graph.args[0]), -1.0, 1.0)
        joined = graph.kernel("same", value, graph.observed(graph.args[1], -width, width))
        found = propagate(graph.finish(graph.kernel("free", value), graph.observed(joined, -width, width)), TOY)
        assert len(rescales(found)) == count


def test_propagation_a_value_that_only_such_kernels_read_is_not_rescaled_through_any_number_of_them() -> None:
    graph = Graph(2)
    value = graph.observed(graph.kernel("free", graph.args[0]), -1.0, 1.0)
    moved = graph.kernel("same", graph.kernel("same", value))
    joined = graph.kernel("same", moved, graph.observed(graph.args[1], -9.0, 9.0))
    assert not rescales(propagate(graph.finish(graph.observed(joined, -9.0, 9.0)), TOY))


def test_propagation_a_part_of_a_wide_value_is_not_rescaled_for_its_own_narrow_range() -> None:
    """It has the precision of what it was cut from; a finer scale would not bring back more."""
    graph = Graph(size=8)
    value = graph.observed(graph.kernel("free", graph.args[0]), -9.0, 9.0)
    part = graph.observed(graph.kernel("same", value, size=2), -1.0, 1.0)
    assert not rescales(propagate(graph.finish(graph.kernel("free", part), graph.kernel("free", value)), TOY))


def test_propagation_a_zero_point_that_a_kernel_wants_is_taken_by_a_value_that_nothing_else_reads() -> None:
    graph = Graph()
    value = graph.observed(graph.kernel("free", graph.args[0], label="value"), 0.0, 1.27)
    found = propagate(graph.finish(graph.kernel("centred", value)), TOY)
    assert output(found, "value") == UniformQuantizedType.per_layer(I8, output(found, "value").scale, 0)
    assert output(found, "value").scale == pytest.approx(0.01)
    assert not rescales(found)


def test_propagation_storage_that_a_kernel_does_not_have_is_rescaled_on_both_sides() -> None:
    """A kernel without a 16-bit row between kernels that have one."""
    table = target("litert-16x8")
    graph = Graph()
    value = graph.kernel("hard_swish", graph.kernel("abs", graph.args[0], label="wide"), label="narrow")
    found = propagate(graph.finish(graph.kernel("abs", value, label="again")), table)
    assert [str(output(found, label).storage) for label in ("wide", "narrow", "again")] == ["i16", "i8", "i16"]
    assert [(str(r.input_specs.data[0])[15:18], str(r.output_specs.data[0])[15:18]) for r in rescales(found)] == [
        ("i16", "i8:"),
        ("i8:", "i16"),
    ]
    assert not violations(found, table)


def test_propagation_stops_when_nothing_changes_and_running_it_again_changes_nothing() -> None:
    """Propagation pass: it stops when no more parameters can be updated."""
    graph = Graph(2)
    first, second = graph.kernel("A", graph.args[0]), graph.kernel("B", graph.args[1])
    once = propagate(graph.finish(graph.kernel("free", graph.kernel("same", first, second))), TOY)
    twice = propagate(once, TOY)
    specs = [[(r.input_specs, r.output_specs) for r in regions_of(program)] for program in (once, twice)]
    assert specs[0] == specs[1]


def test_propagation_every_value_is_decided_or_its_statistics_are_missing_by_name() -> None:
    graph = Graph()
    value = graph.kernel("free", graph.args[0], label="lonely")
    with pytest.raises(PropagationError, match=r"found no statistics for 'x0', .* for free 'lonely'"):
        propagate(graph.finish(value, observe=False), TOY)


def test_propagation_fully_quantized_means_a_uniform_type_at_every_port() -> None:
    """Propagation pass: fully quantized when all the kernels have parameters for all their quantizable ports."""
    graph = Graph()
    value = graph.kernel("free", graph.args[0], label="fine")
    whole = propagate(graph.finish(value), TOY)
    assert check_fully_quantized(whole) is whole
    graph = Graph()
    value = graph.kernel("unheard", graph.kernel("free", graph.args[0], label="fine"), label="odd")
    found = propagate(graph.finish(value), TOY)
    assert unquantized_ports(found) == [
        "unheard 'odd': input has f32 (target toy has no kernel 'unheard')",
        "unheard 'odd': output has f32 (target toy has no kernel 'unheard')",
    ]
    with pytest.raises(PropagationError, match="found 2 ports without parameters, expected none: unheard 'odd'"):
        check_fully_quantized(found)


def test_the_checker_sees_every_kind_of_violation() -> None:
    def broken(kernel: str, inputs: list[UniformQuantizedType], made: UniformQuantizedType) -> str:
        graph = Graph(len(inputs))
        return violations(graph.finish(graph.kernel(kernel, *graph.args, inputs=inputs, output=made)), TOY)[0]

    other = UniformQuantizedType.per_layer(I8, 0.5)
    assert "differ, expected the same scale" in broken("same", [PIN, other], PIN)
    assert "expected scale 0.015625 and zero point 0" in broken("A", [PIN], PIN)
    assert "input has zero point [7], expected 0" in broken("centred", [PIN], PIN)
    assert "has no row for (i16) -> i8" in broken("free", [UniformQuantizedType.per_layer(I16, 0.5)], PIN)
    axis = UniformQuantizedType.per_channel(I8, 0, [0.5] * 4)
    assert "more than one scale" in broken("free", [axis], PIN)
    graph = Graph()
    first = graph.kernel("free", graph.args[0], inputs=[PIN], output=PIN)
    program = graph.finish(graph.kernel("free", first, inputs=[other], output=PIN), observe=False)
    assert "'free0' is not of that type" in violations(program, TOY)[0]


def test_rows_of_the_toy_target_say_what_the_tests_rely_on() -> None:
    assert isinstance(TOY.row("free").relation, Free)
    assert PortRule(Role.ACTIVATION, I8, zero_point=0) == CENTRED


def test_target_constraints_fixed_scale_of_any_port() -> None:
    """Target constraints: inputs and outputs are treated alike; a weight may be fixed, too."""
    fixed = UniformQuantizedType.per_layer(I8, 1 / 32)
    table = Target("t", "fixed32", (*TOY.rows, row("f", FixedScale(1 / 32, 0, (0,)), ACT)))
    graph = Graph()
    found = propagate(graph.finish(graph.kernel("f", graph.kernel("A", graph.args[0]), label="f")), table)
    assert list(named(found, "f").input_specs) == [fixed]
    assert len(rescales(found)) == 1  # A's output is 1/64
    assert not violations(found, table)
    weight = PortRule(Role.WEIGHT, Storage.of("i8", -127), 0)
    rows = (KernelRow("fully_connected", (ACT, weight), ACT, FixedScale(1 / 32, 0, (1,)), 32),)
    graph = Graph()
    value = graph.dense(graph.args[0], np.ones((4, 3), np.float32), None)
    found = propagate(graph.finish(value), Target("t", "fixed32", rows))
    assert named(found, "dense0").input_specs.data[1] == UniformQuantizedType.per_layer(Storage.of("i8", -127), 1 / 32)


def test_target_constraints_messages_call_ports_by_their_role() -> None:
    graph = Graph()
    found = propagate(graph.finish(graph.kernel("A", graph.args[0], label="a")), TOY)
    (region,) = regions_of(found)
    region.output_specs = ArrayAttr([UniformQuantizedType.per_layer(I8, 1 / 60)])
    (sentence,) = violations(found, TOY)
    assert sentence.startswith("A 'a': output has !quant.uniform")
    rules = (ACT, PortRule(Role.WEIGHT, I8), PortRule(Role.BIAS, Storage.of("i32")))
    made = KernelRow("convolution", rules, ACT, Free())
    assert [made.port_name(port) for port in (-1, 0, 1, 2)] == ["output", "input 0", "weight", "bias"]
