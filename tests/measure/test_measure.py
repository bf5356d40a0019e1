"""What a report measures, judged by other ways to the same figures."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from digits import images, network, quantized_digits
from networks import Network
from zeropoint.bit_widths import least_output_sqnr
from zeropoint.calibrate import silent
from zeropoint.comparison import compare
from zeropoint.correct.methods import Platform
from zeropoint.correct.sensitivity import sensitivities
from zeropoint.interp import ReferenceEngine
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConvolutionLayout, ConvolutionOp, DivideOp, MultiplyOp
from zeropoint.ir.tensors import with_shape
from zeropoint.ir.text import parse_program
from zeropoint.measure import ReportError, ReportSources, measured_report, stages_of
from zeropoint.measure.noise import observe
from zeropoint.model import Model
from zeropoint.pipeline import Options, quantize
from zeropoint.recipe import recipe_of
from zeropoint.report.document import Document, graph_of
from zeropoint.targets import target

SEEN = 6
"""So many images are measured."""


@functools.cache
def report() -> Document:
    """The report of the example network, with all sections."""
    made = quantized_digits()
    return measured_report(made.integer, "digits.mlir", stages_of(made, network(), images("test", SEEN), "test.npz"))


def test_noise_is_that_of_the_walk_over_both_networks() -> None:
    made, samples = quantized_digits(), images("test", 4)
    graph = graph_of(made.integer)
    found = observe(made.fused, made.integer, graph, samples, False, silent).noise
    engine = ReferenceEngine()
    platform = Platform(engine, lambda runs: engine, target("cpu"))
    expected = sensitivities(made.propagated, made.decided, samples, platform)
    names = {node.name: node.id for node in graph.nodes}
    assert len(expected) >= 9
    for one in expected:
        noise = found[names[one.name]]
        assert (noise.total, noise.added) == pytest.approx((one.total, one.added), rel=1e-5, abs=1e-12), one.name


def test_outputs_are_those_of_compare() -> None:
    expected = compare(Model(network()), Model(quantized_digits().integer), images("test", SEEN))
    assert list(report().header.outputs) == expected.outputs
    assert report().header.data == f"test.npz, {SEEN} samples"


def test_a_rule_has_the_effect_of_the_recipe() -> None:
    rule = next(trial for worst in report().worst for trial in worst.trials if "quantize: false" in trial.rule)
    name = rule.rule.split('"')[1]
    options = Options(recipe=recipe_of([{"name": name, "quantize": False}]))
    made = quantize(network(), images("calib", 16), options)
    samples = _worst_samples()
    runs = [ReferenceEngine().prepare(program) for program in (network(), made.integer)]
    expected = least_output_sqnr((runs[0](sample), runs[1](sample)) for sample in samples)
    assert rule.after == pytest.approx(expected, abs=0.05)
    assert len(report().worst) == 5


def _worst_samples() -> list:
    from zeropoint.calibrate import Kept
    from zeropoint.measure.report import INSIDE
    from zeropoint.measure.trials import SAMPLES

    kept = Kept(INSIDE)
    list(kept.watch(images("test", SEEN)))
    return kept.in_order[:SAMPLES]


def test_values_are_those_of_calibration() -> None:
    seen = quantized_digits().calibration.observations
    names = {node.id: node.name for node in report().nodes}
    assert {names[node] for node in report().values} == set(seen)
    for node, values in report().values.items():
        assert values.source == "calibration"
        assert values.count == seen[names[node]].count == sum(values.histogram.counts)
        assert values.clipped is None or 0 <= values.clipped < 0.01


def test_every_contraction_has_a_time() -> None:
    kernels = [node for node in report().nodes if "convolution" in node.kernel]
    assert all(report().times[node.id].seconds > 0 for node in kernels)
    assert report().header.seconds == pytest.approx(sum(one.seconds for one in report().times.values()), rel=0.2)


def test_nothing_is_missing_where_everything_is_known() -> None:
    assert report().notes == ()


def test_sections_without_a_source_say_what_they_need() -> None:
    document = measured_report(quantized_digits().integer, "m", ReportSources(), timing=False)
    needs = {note.section: note.needs for note in document.notes}
    assert set(needs) == {"outputs", "noise", "values", "weights", "before", "times", "worst"}
    assert "--reference" in needs["outputs"]


def test_values_come_from_the_data_if_calibration_is_not_known() -> None:
    source = ReportSources(reference=network(), data=images("test", 3), data_name="test.npz")
    document = measured_report(quantized_digits().integer, "m", source, timing=False)
    assert {values.source for values in document.values.values()} == {"test.npz"}
    assert {note.section for note in document.notes} == {"weights", "times", "worst"}


def test_values_of_one_name_are_told_apart() -> None:
    """An ONNX node may become several kernels: a product of unlike shapes is a broadcast and a multiplication."""
    net = Network([(1, 4, 8, 8)], seed=1)
    net.layer("squeeze")
    value = net.values[0]
    mean = net.insert(DivideOp(total := net.reduced(value, [2, 3]), net.splat(64.0, total)))
    net.layer("scale")
    wide = net.insert(BroadcastInDimOp(mean, value.type, [0, 1]))
    floats = net.finish([net.insert(MultiplyOp(value, wide))])
    random = np.random.default_rng(0)
    samples = [{"x0": random.normal(1, 1, (1, 4, 8, 8)).astype(np.float32)} for _ in range(4)]
    made = quantize(floats, samples)
    graph = graph_of(made.integer)
    assert sorted(Counter(node.name for node in graph.nodes if node.kind == "kernel").values()) == [1, 2]
    noise = observe(made.fused, made.integer, graph, samples, False, silent).noise
    kernels = [node.id for node in graph.nodes if node.kind == "kernel"]
    assert set(noise) == set(kernels)
    assert all(noise[node].added < 1e-3 and noise[node].total < 1e-3 for node in kernels)
    document = measured_report(made.integer, "m", stages_of(made, floats, samples), timing=False, trials=False)
    sentences = [document.reasons[node] for node in kernels]
    assert sentences[-1] not in sentences[:-1]


def test_integer_inputs_are_compared_by_their_floats() -> None:
    net = Network([(1, 4, 8, 8)], seed=1)
    net.layer("conv")
    value, weight = net.values[0], net.constant(net.random.normal(0, 1, (4, 4, 1, 1)))
    made = ConvolutionOp(value, weight, with_shape(value, [1, 4, 8, 8]), ConvolutionLayout.channels_first(2))
    floats = net.finish([net.insert(made)])
    random = np.random.default_rng(0)
    samples = [{"x0": random.normal(0, 1, (1, 4, 8, 8)).astype(np.float32)} for _ in range(3)]
    made = quantize(floats, samples, Options(integer_io=True))
    document = measured_report(made.integer, "m", stages_of(made, floats, samples), timing=False, trials=False)
    assert document.header.outputs[0].sqnr > 20
    assert set(document.noise) == {node.id for node in document.nodes if node.kind == "kernel"}
    alone = measured_report(made.integer, "m", ReportSources(reference=floats, data=samples), timing=False)
    assert "--io float" in next(note.needs for note in alone.notes if note.section == "outputs")


def test_a_float_program_and_another_reference_are_refused() -> None:
    with pytest.raises(ReportError, match="found a float program, expected an integer program"):
        measured_report(network(), "digits.onnx", ReportSources())
    made = quantized_digits()
    with pytest.raises(ReportError, match="of quantized types, expected an integer program"):
        measured_report(made.quantized, "m", ReportSources())
    with pytest.raises(ReportError, match=r"found quant\.region 'stem\.conv' of quantized types"):
        measured_report(made.propagated, "m", ReportSources())
    other = replace(network(), module=network().module.clone())
    other.main.properties.pop("arg_attrs")
    with pytest.raises(ReportError, match="found inputs"):
        measured_report(quantized_digits().integer, "m", ReportSources(reference=other))


def test_a_reference_with_ports_of_other_shapes_is_refused() -> None:
    wide, narrow = (parse_program(elementwise(columns)) for columns in (12, 6))
    made = quantize(narrow, [{"arg0": np.linspace(-1, 1, 6, dtype=np.float32)[None]}], Options(effort="none"))
    message = "inputs 'arg0': found 1x12 in the reference and 1x6 in the model, expected the same shape"
    with pytest.raises(ReportError, match=message):
        measured_report(made.integer, "m", ReportSources(reference=wide))


def elementwise(columns: int) -> str:
    """A program of one op on a row."""
    row = f"tensor<1x{columns}xf32>"
    return f"func.func @main(%arg0: {row}) -> {row} {{ %0 = stablehlo.tanh %arg0 : {row} return %0 : {row} }}"


READ_BY_FLOATS = """func.func @main(%x: tensor<1x4xf32> {zeropoint.name = "x"}) -> tensor<1x4xf32> {
  %w = stablehlo.constant dense<[[0.5, 0.1, 0.0, 0.2], [0.1, 0.7, 0.3, 0.0], [0, 0.2, 0.9, 0.4], [0.6, 0.0, 0.1, 1.0]]>
    : tensor<4x4xf32>
  %b = stablehlo.constant dense<[[0.1, 0.2, 0.3, 0.4]]> : tensor<1x4xf32>
  %proj = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32> loc("proj")
  %bias = stablehlo.add %proj, %b : tensor<1x4xf32> loc("bias")
  %sine = stablehlo.sine %bias : tensor<1x4xf32> loc("sine")
  return %sine : tensor<1x4xf32>
}
"""


def test_accumulators_that_floats_read_have_their_kernels_name_and_figures() -> None:
    floats = parse_program(READ_BY_FLOATS)
    samples = [{"x": row} for row in np.random.default_rng(0).normal(0, 1, (8, 1, 4)).astype(np.float32)]
    made = quantize(floats, samples, Options(recipe=recipe_of([{"name": "sine", "quantize": False}])))
    document = measured_report(made.integer, "m", stages_of(made, floats, samples), timing=False)
    (kernel,) = [node for node in document.nodes if node.kind == "kernel"]
    assert (kernel.name, kernel.element) == ("proj", "i32")
    assert document.noise[kernel.id].added > 0
    assert document.weights[kernel.id].channels == 4
    (worst,) = document.worst  # an observer would change nothing: `quantize` refuses such a rule
    assert [trial.rule for trial in worst.trials] == ['- {name: "proj", quantize: false}']


def test_a_rule_that_changes_nothing_is_not_listed() -> None:
    """Storage of 16 bits holds every observed value, whatever the observer clips."""
    floats = parse_program(READ_BY_FLOATS.replace("sine %bias", "tanh %bias"))
    rows = np.random.default_rng(0).normal(0, 1, (16, 1, 4)).astype(np.float32)
    rows[3] *= 30
    samples = [{"x": row} for row in rows]
    made = quantize(floats, samples, Options(target="litert-16x8"))
    document = measured_report(made.integer, "m", stages_of(made, floats, samples), timing=False)
    listed = [trial.rule for worst in document.worst for trial in worst.trials]
    assert listed
    assert all("quantize: false" in rule for rule in listed)
