"""Explanations: chains of facts, collisions, float ops and missing statistics, at every stage and in both forms."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

import zeropoint as zp
from digits import quantized_digits
from networks import Network
from zeropoint.cli import main
from zeropoint.ir.files import save_program
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ConcatenateOp,
    DivideOp,
    DotDimensions,
    DotGeneralOp,
    ExponentialOp,
    LogisticOp,
    MaximumOp,
    MultiplyOp,
    ReduceOp,
    ReshapeOp,
    SineOp,
    SubtractOp,
)
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import with_shape
from zeropoint.ir.text import parse_program, print_program
from zeropoint.model import Model
from zeropoint.pipeline import Options, Quantization, quantize
from zeropoint.recipe import recipe_of
from zeropoint.report.counts import count_ops
from zeropoint.report.document.graph import graph_of
from zeropoint.report.document.reasons import reasons
from zeropoint.report.explain import ExplanationError, explain

SAMPLES = [{"x0": np.linspace(-4, 4, 6, dtype=np.float32).reshape(1, 6) * factor} for factor in (0.5, 1.0)]


def network() -> Program:
    """stem: x + c, relu; gate: logistic of it; joined: both; flat: a reshape of that; wave: a sine."""
    net = Network([(1, 6)])
    net.name = "stem"
    stem = net.insert(AddOp(net.values[0], net.constant(np.linspace(0, 1, 6).reshape(1, 6))))
    net.name = "stem/relu"
    stem = net.insert(MaximumOp(stem, net.splat(0.0, stem)))
    net.name = "gate"
    gate = net.insert(LogisticOp(stem))
    net.name = "joined"
    joined = net.insert(ConcatenateOp([stem, gate], 1))
    net.name = "flat"
    flat = net.insert(ReshapeOp(joined, with_shape(joined, [12])))
    net.name = "wave"
    return net.finish([net.insert(SineOp(flat))])


@pytest.fixture(scope="module")
def result() -> Quantization:
    recipe = recipe_of([{"name": "wave", "quantize": False}])
    return quantize(network(), SAMPLES, Options(observer="minmax", recipe=recipe))


STAGES = ("propagated", "quantized", "integer")


@pytest.mark.parametrize("stage", STAGES)
def test_a_value_has_its_chain_of_facts_at_every_stage(result: Quantization, stage: str) -> None:
    found = explain(getattr(result, stage), "stem")
    (value,) = found.values
    assert (value.kind, value.names, value.made_from) == ("add", ("stem", "stem/relu"), ("x0",))
    assert value.read_by == ("gate", "joined")
    range_fact, same_scale, parameters = value.facts
    assert (range_fact.name, range_fact.value) == ("range", "[0, 5]")
    assert (range_fact.salience, range_fact.source) == ("calibrated", "quant.stats 'stem'")
    assert (parameters.name, parameters.value) == ("parameters", value.type)
    assert parameters.salience == "default"
    assert (same_scale.name, same_scale.value, same_scale.salience) == (
        "same scale",
        "'stem', 'joined', 'flat'",
        "kernel",
    )


@pytest.mark.parametrize("stage", STAGES)
def test_what_a_kernel_fixes_is_required_by_that_kernel(result: Quantization, stage: str) -> None:
    (value,) = explain(getattr(result, stage), "gate").values
    assert value.type == "!quant.uniform<i8:f32, 3.906250e-03:-128>"
    assert [(fact.name, fact.salience) for fact in value.facts] == [("parameters", "kernel")]
    assert "logistic 'gate'" in value.facts[0].source


@pytest.mark.parametrize("stage", STAGES)
def test_a_value_is_found_by_the_name_of_any_op_that_its_kernel_covers(result: Quantization, stage: str) -> None:
    program = getattr(result, stage)
    assert explain(program, "stem/relu").values == explain(program, "stem").values


@pytest.mark.parametrize("stage", STAGES)
def test_a_rescale_names_the_two_demands_that_collided(result: Quantization, stage: str) -> None:
    (rescale,) = explain(getattr(result, stage)).rescales
    assert rescale.value == "gate"
    assert rescale.has == "!quant.uniform<i8:f32, 3.906250e-03:-128>"
    assert rescale.required == explain(getattr(result, stage), "joined").values[0].type
    assert "logistic 'gate'" in rescale.why_has
    assert rescale.why_required == "the range [0, 5] of 'stem'"
    assert rescale.read_by == ("joined",)


@pytest.mark.parametrize("stage", STAGES)
def test_a_float_op_says_why(result: Quantization, stage: str) -> None:
    (op,) = explain(getattr(result, stage), "wave").float_ops
    assert (op.op, op.name) == ("stablehlo.sine", "wave")
    assert op.reason == "recipe: rule 1 (name 'wave'): do not quantize"


SHIFTED_LOOP = """func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %c = stablehlo.constant dense<1.0> : tensor<f32>
  %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<2xf32>
  %i = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%k = %i, %y = %a) : tensor<i32>, tensor<2xf32>
  cond {
    %n = stablehlo.constant dense<3> : tensor<i32>
    %p = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %o = stablehlo.constant dense<1> : tensor<i32>
    %d = stablehlo.add %k, %o : tensor<i32>
    %s = stablehlo.add %y, %y : tensor<2xf32>
    stablehlo.return %d, %s : tensor<i32>, tensor<2xf32>
  }
  %z = stablehlo.add %r#1, %b : tensor<2xf32>
  return %z : tensor<2xf32>
}"""
NORM = """func.func @main(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {
  %w = stablehlo.constant dense<2.0> : tensor<8xf32>
  %r = quant.region "scale"(%a: tensor<1x8xf32> = %x, %b: tensor<8xf32> = %w) -> tensor<1x8xf32>
      attributes {zeropoint.float_reason = "none"} {
    %c = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %m = stablehlo.multiply %a, %c : tensor<1x8xf32>
    quant.return %m : tensor<1x8xf32>
  }
  return %r : tensor<1x8xf32>
}"""


def test_float_ops_are_those_that_summaries_count() -> None:
    program = parse_program(SHIFTED_LOOP)
    ops = [op.op for op in explain(program).float_ops]
    assert ops == ["stablehlo.while", "stablehlo.add", "stablehlo.add"]
    assert len(ops) == count_ops(program).floats


def test_what_is_computed_from_constants_is_no_float_op_of_a_kernel_either() -> None:
    assert [op.op for op in explain(parse_program(NORM)).float_ops] == ["stablehlo.multiply"]


@pytest.mark.parametrize("stage", STAGES)
def test_what_a_recipe_demands_is_forced_by_the_user(stage: str) -> None:
    recipe = recipe_of([{"name": "stem", "symmetric": True}])
    found = quantize(network(), SAMPLES, Options(observer="minmax", recipe=recipe))
    (value,) = explain(getattr(found, stage), "stem").values
    assert (value.facts[0].name, value.facts[0].value, value.facts[0].salience) == ("symmetric", "true", "user")
    assert value.facts[0].source == "recipe: rule 1 (name 'stem')"
    assert value.type.endswith(">")
    assert ":" not in value.type.removeprefix("!quant.uniform<i8:f32")  # the zero point is 0


@pytest.mark.parametrize("stage", STAGES)
def test_inputs_have_facts_too_and_they_survive_text(result: Quantization, stage: str) -> None:
    program = getattr(result, stage)
    again = parse_program(print_program(program, locations=True, inline_weights=True))
    (value,) = explain(again, "x0").values
    assert value.kind == "input"
    assert value.facts[0].value == "[-4, 4]"
    assert explain(again) == explain(program)


def test_integer_inputs_keep_their_facts() -> None:
    net = Network([(1, 6)])
    net.name = "gate"
    program = net.finish([net.insert(LogisticOp(net.values[0]))])
    found = quantize(program, SAMPLES, Options(observer="minmax", integer_io=True)).integer
    (value,) = explain(found, "x0").values
    assert value.type == "!quant.uniform<i8:f32, 0.031372549019607843:-1>"


def test_a_program_without_statistics_names_the_tensors_and_the_ops() -> None:
    found = Model(network()).explain()
    missing = [(one.value, one.op) for one in found.missing]
    assert missing[:3] == [("x0", "input"), ("stem", "add"), ("gate", "logistic")]
    text = found.overview()
    assert "no statistics for 6 values, calibrate the program:\n  'x0' (input), 'stem' (add)," in text


def test_a_float_model_names_the_values_that_calibration_observes_for_the_target() -> None:
    program = network()
    observed = quantize(program, SAMPLES, Options(target="onnxruntime", effort="none")).calibration.observations
    assert {one.value for one in Model(program).explain(target="onnxruntime").missing} == set(observed)


def test_a_float_model_says_what_a_target_has_no_kernel_for() -> None:
    found = Model(network()).explain(target="onnxruntime")
    assert ("stablehlo.sine", "wave") in [(op.op, op.name) for op in found.float_ops]
    assert {op.reason for op in found.float_ops} == {"target onnxruntime has no kernel 'elementwise_unary'"}


def test_a_name_that_is_not_there_is_answered_with_those_that_look_like_it(result: Quantization) -> None:
    with pytest.raises(ExplanationError, match="found no value 'steem' in the program, expected a name of the origi"):
        explain(result.integer, "steem")
    with pytest.raises(ExplanationError, match="such as 'stem'"):
        explain(result.integer, "steem")


def test_the_text_for_people(result: Quantization) -> None:
    assert explain(result.integer, "stem").details().splitlines()[:5] == [
        "stem: !quant.uniform<i8:f32, 0.019607843137254902:-128>",
        "  made by  kernel add, of 'stem', 'stem/relu'",
        "  from     x0",
        "  read by  gate, joined",
        "  because  range [0, 5] (observed: quant.stats 'stem')",
    ]
    text = explain(result.integer).overview()
    assert "rescale of gate: two requirements conflict" in text
    assert "1 op in float, recipe: rule 1 (name 'wave'): do not quantize:\n  wave" in text


def test_the_command_prints_both_forms_and_refuses_in_one_line(result: Quantization, tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    save_program(result.integer, path)
    runner = CliRunner()
    said = runner.invoke(main, ["explain", str(path), "gate"])
    assert said.exit_code == 0
    assert "(required by a kernel: kernel logistic 'gate')" in said.output
    record = json.loads(runner.invoke(main, ["explain", str(path), "--json"]).output)
    assert set(record) == {"values", "rescales", "float_ops", "missing", "corrections", "budget", "outputs"}
    assert record["values"][1]["facts"][0]["salience"] == "calibrated"
    assert runner.invoke(main, ["explain", str(path)]).exit_code == 0
    for arguments, message in (
        ([str(path), "nothing"], "found no value 'nothing' in the program"),
        ([str(tmp_path / "none.mlir")], "no such file"),
        ([str(path), "--target", "gpu"], "found target 'gpu', expected one of"),
    ):
        refused = runner.invoke(main, ["explain", *arguments])
        assert refused.exit_code == 2
        assert message in refused.stderr
        assert refused.stderr.count("\n") == 1


def test_the_table_names_the_ranges_that_set_an_end_of_a_shared_type() -> None:
    text = """func.func @main(%x: tensor<1x8xf32>, %y: tensor<1x8xf32>) -> tensor<1x16xf32> {
      %c = stablehlo.concatenate %x, %y, dim = 1 : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<1x16xf32>
      return %c : tensor<1x16xf32>
    }"""
    narrow, wide = np.linspace(-3, 3, 8, dtype=np.float32), np.linspace(-8, 9, 8, dtype=np.float32)
    made = zp.quantize(text, [{"x": narrow[None], "y": wide[None]}], effort="none", observer="minmax")
    lines = [line for line in str(made.explain()).splitlines() if "!quant.uniform" in line]
    assert len(lines) == 3  # both operands and the result
    assert all("range [-8, 9]: quant.stats 'y'" in line for line in lines)


FUNCTION = """
from zeropoint.ir.quant import Storage, UniformQuantizedType

def quarter(inputs, outputs):
    if isinstance(outputs[0], UniformQuantizedType):
        return [], []
    outputs[0] = UniformQuantizedType.per_layer(Storage.of("i8"), 0.25)
    return [], [0]
"""
ROW = 'name = "mine"\nextends = "cpu"\n[[kernel]]\nname = "add"\ninputs = ["const i8"]\noutput = "act i8"\n'


def because(made: Quantization, name: str) -> str:
    """What the table says about a value."""
    lines = [*explain(made.integer).overview().splitlines(), "end"]
    first = next(index for index, line in enumerate(lines) if line.strip().startswith(f"{name} "))
    more = next(index for index in range(first + 1, len(lines)) if not lines[index].startswith("     "))
    return " ".join(" ".join(lines[first:more]).split())


def test_the_table_names_the_function_of_a_kernel_that_set_a_type(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(FUNCTION)
    target = tmp_path / "mine.toml"
    target.write_text(f'{ROW}relation = "python:f.py:quarter"\n')
    made = quantize(network(), SAMPLES, Options(str(target), observer="minmax"))
    table = because(made, "stem")
    assert "parameters !quant.uniform<i8:f32, 2.500000e-01>: kernel add 'stem': python:f.py:quarter" in table


ANNOTATED = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = "quant.stats"(%x) {layerStats = dense<[-9.0, 9.0]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  %y = stablehlo.sine %s : tensor<4xf32> loc("wave")
  return %y : tensor<4xf32>
}"""


def test_the_table_names_the_rule_whose_range_or_parameters_decided() -> None:
    rules = [{"name": "arg0", "range": [-2.0, 2.0]}, {"name": "wave", "scale": 0.0625}]
    made = quantize(parse_program(ANNOTATED), None, Options(recipe=recipe_of(rules)))
    assert "range [-2, 2]: recipe: rule 1 (name 'arg0')" in because(made, "arg0")
    assert "<i8:f32, 6.250000e-02>: recipe: rule 2 (name 'wave')" in because(made, "wave")
    values = {value.name: value.type for value in explain(made.integer).values}
    assert values["arg0"] == f"!quant.uniform<i8:f32, {4 / 255:.17g}:-1>"


READ_TWICE = """func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = stablehlo.constant dense<[[0.5, -0.25], [1.0, 0.75]]> : tensor<2x2xf32>
  %s = "quant.stats"(%x) {layerStats = dense<[-9.0, 9.0]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %0 = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0]
    : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %t = "quant.stats"(%0) {layerStats = dense<[-9.0, 9.0]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %y = stablehlo.add %s, %t : tensor<2x2xf32> loc("sum")
  %u = "quant.stats"(%y) {layerStats = dense<[-9.0, 9.0]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %u : tensor<2x2xf32>
}"""


@pytest.mark.parametrize("stage", ["propagated", "quantized", "integer"])
def test_an_input_of_several_types_has_a_row_for_each(tmp_path: Path, stage: str) -> None:
    target = tmp_path / "mine.toml"
    ports = 'inputs=["act i8", "weight i8<-127:127> zp=0 per_channel", "bias i32 zp=0 per_channel"]\noutput="act i8"'
    row = f'name="fully_connected"\n{ports}\naccumulator=32\nrelation="fixed_scale(1/32, 3, 0)"\n'
    target.write_text(f'name="t"\nextends="cpu"\n[[kernel]]\n{row}')
    made = quantize(parse_program(READ_TWICE), None, Options(str(target)))
    found = [value for value in explain(getattr(made, stage)).values if value.kind == "input"]
    assert [value.type for value in found] == ["!quant.uniform<i8:f32, 3.125000e-02:3>", found[1].facts[-1].value]
    assert [value.facts[-1].source for value in found] == ["kernel fully_connected '%t'", "asymmetric range"]
    assert found[1].facts[0].name == "range"
    assert found[1].read_by == ("sum",)


def test_an_accumulator_with_a_correction_of_zero_points_has_one_row() -> None:
    """Sums are corrected by an op of their own after the products, which is the same kernel."""
    net = Network([(1, 8)])
    net.name = "fc"
    weight = net.constant(np.random.default_rng(0).normal(0, 1, (8, 4)))
    product = DotGeneralOp(net.values[0], weight, with_shape(weight, [1, 4]), DotDimensions((), (), (1,), (0,)))
    value = net.insert(product)
    net.name = "wave"
    program = net.finish([net.insert(SineOp(value))])
    random = np.random.default_rng(0)
    samples = [{"x0": random.uniform(-1, 3, (1, 8)).astype(np.float32)} for _ in range(4)]
    recipe = recipe_of([{"name": "wave", "quantize": False}])
    made = quantize(program, samples, Options(recipe=recipe, effort="none")).integer
    assert [value.name for value in explain(made).values] == ["x0", "fc"]
    assert [node.name for node in graph_of(made).nodes if node.kind == "kernel"] == ["fc"]


def test_an_accumulator_with_a_bias_is_explained_by_its_name() -> None:
    """The correction of zero points is merged into the bias, which has the facts of the kernel."""
    net = Network([(1, 8)])
    net.name = "fc"
    random = np.random.default_rng(0)
    product = DotGeneralOp(
        net.values[0],
        net.constant(random.normal(0, 1, (8, 4))),
        with_shape(net.values[0], [1, 4]),
        DotDimensions((), (), (1,), (0,)),
    )
    value = net.insert(AddOp(net.insert(product), net.constant(random.normal(0, 1, (1, 4)))))
    net.name = "wave"
    program = net.finish([net.insert(SineOp(value))])
    samples = [{"x0": random.uniform(-1, 3, (1, 8)).astype(np.float32)} for _ in range(4)]
    recipe = recipe_of([{"name": "wave", "quantize": False}])
    made = quantize(program, samples, Options(recipe=recipe, effort="none"))
    for stage in (made.propagated, made.quantized, made.integer):
        (found,) = explain(stage, "fc").values
        assert (found.kind, found.names, found.read_by) == ("fully_connected", ("fc",), ("wave",))
        assert found.facts[-1].source == "floats read it"
    (node,) = (node for node in graph_of(made.integer).nodes if node.kind == "kernel")
    assert node.name == "fc"
    assert node.parameters is not None
    assert node.parameters.storage == "i32"


def island() -> Program:
    """stem: a product; norm: a sine and its square, in float; left, right: products of that; the first is an output."""
    net = Network([(1, 8)])

    def product(name: str, value: SSAValue) -> SSAValue:
        net.name = name
        weight = net.constant(net.random.normal(0, 1, (8, 8)))
        return net.insert(DotGeneralOp(value, weight, with_shape(value, [1, 8]), DotDimensions((), (), (1,), (0,))))

    stem = product("stem", net.values[0])
    net.name = "norm"
    sine = net.insert(SineOp(stem))
    squared = net.insert(MultiplyOp(sine, sine))
    left, right = product("left", squared), product("right", squared)
    net.name = "wave"
    return net.finish([left, net.insert(SineOp(right))])


@pytest.fixture(scope="module")
def islands() -> Quantization:
    recipe = recipe_of([{"name": name, "quantize": False} for name in ("norm", "wave")])
    random = np.random.default_rng(0)
    samples = [{"x0": random.uniform(-1, 3, (1, 8)).astype(np.float32)} for _ in range(4)]
    return quantize(island(), samples, Options(recipe=recipe, observer="minmax", effort="none"))


@pytest.mark.parametrize("stage", STAGES)
def test_a_float_value_that_kernels_read_has_the_facts_of_their_type(islands: Quantization, stage: str) -> None:
    found = explain(getattr(islands, stage), "norm")
    (value,) = found.values
    assert (value.float_reason, value.read_by) == ("recipe: rule 1 (name 'norm'): do not quantize", ("left", "right"))
    assert value.type.startswith("!quant.uniform<i8:f32, 0.00")
    assert [fact.name for fact in value.facts] == ["range", "parameters"]
    assert value.facts[0].source == "quant.stats 'norm'"
    assert value.facts[1].value == value.type
    assert explain(getattr(islands, stage), "left").values[0].made_from == ("norm",)
    assert found.details().splitlines()[0] == f"norm: float, read as {value.type}"


@pytest.mark.parametrize("stage", STAGES)
def test_a_kernel_in_float_reads_what_is_before_all_of_its_ops(stage: str) -> None:
    net = Network([(1, 8)])

    def product(name: str, value: SSAValue) -> SSAValue:
        net.name = name
        weight = net.constant(net.random.normal(0, 1, (8, 8)))
        return net.insert(DotGeneralOp(value, weight, with_shape(value, [1, 8]), DotDimensions((), (), (1,), (0,))))

    values = product("s", net.values[0])
    net.name = "p"
    start, kept = net.constant(np.array(-np.inf)), with_shape(values, [1])
    most = net.insert(ReduceOp([values], [start], [kept], [1], binary_body(MaximumOp, f32)))
    below = net.insert(SubtractOp(values, net.insert(BroadcastInDimOp(most, values.type, [0]))))
    exponents = net.insert(ExponentialOp(below))
    spread = net.insert(BroadcastInDimOp(net.reduced(exponents, [1]), exponents.type, [0]))
    quotient = net.insert(DivideOp(exponents, spread))
    program = net.finish([product("y", quotient)])
    samples = [{"x0": np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)}]
    made = quantize(program, samples, Options(observer="minmax", effort="none"))
    (value,) = explain(getattr(made, stage), "p").values
    assert (value.kind, value.names, value.made_from) == ("softmax", ("p",), ("s",))
    assert "softmax in float" in explain(getattr(made, stage)).overview()


@pytest.mark.parametrize("stage", STAGES)
def test_a_kernel_in_float_that_covers_several_names_has_that_of_its_first_op(stage: str) -> None:
    net = Network([(1, 8)])

    def product(name: str, value: SSAValue) -> SSAValue:
        net.name = name
        weight = net.constant(net.random.normal(0, 1, (8, 8)))
        return net.insert(DotGeneralOp(value, weight, with_shape(value, [1, 8]), DotDimensions((), (), (1,), (0,))))

    first = product("first", net.values[0])
    net.name = "relu"
    program = net.finish([product("second", net.insert(MaximumOp(first, net.splat(0.0, first))))])
    samples = [{"x0": np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)}]
    recipe = recipe_of([{"name": "first", "quantize": False}])
    made = quantize(program, samples, Options(observer="minmax", recipe=recipe, effort="none"))
    shown = getattr(made, stage)
    for name in ("first", "relu"):
        (value,) = explain(shown, name).values
        assert (value.name, value.names) == ("first", ("first", "relu"))
    assert explain(shown, "second").values[0].made_from == ("first",)
    if stage == "integer":
        graph = graph_of(shown)
        island = next(node for node in graph.nodes if node.kind == "float")
        assert reasons(shown, graph)[island.id][1] == "It is quantized for 'second'."


def test_one_reason_of_several_ops_of_one_name_is_said_once(islands: Quantization) -> None:
    text = explain(islands.integer, "norm").details()
    assert text.count("do not quantize") == 1
    assert "2 ops of 'norm' are float: recipe: rule 1 (name 'norm'): do not quantize\n" in text
    assert text.endswith("\n  stablehlo.sine, stablehlo.multiply")


@pytest.mark.parametrize("stage", STAGES)
def test_an_output_is_explained_by_what_makes_it(islands: Quantization, stage: str) -> None:
    program = getattr(islands, stage)
    first, second = (port.name for port in program.outputs)
    found = explain(program, first)
    assert [(output.name, output.made_by) for output in found.outputs] == [(first, ("left",))]
    assert found.values == explain(program, "left").values
    assert found.details().startswith(f"output '{first}' is made by 'left'\n\nleft: !quant.uniform<i8")
    assert [op.name for op in explain(program, second).float_ops] == ["wave"]
    assert first in explain(program).names()


def test_ranges_and_native_kernels_are_found_by_the_name_of_an_output(islands: Quantization, tmp_path: Path) -> None:
    path, (first, _) = tmp_path / "model.mlir", [port.name for port in islands.integer.outputs]
    save_program(islands.integer, path)
    runner = CliRunner()
    for option in ("--ranges", "--native"):
        by_output, by_op = (
            runner.invoke(main, ["explain", str(path), name, option]).output for name in (first, "left")
        )
        assert by_output == by_op
        assert "left" in by_op


def test_an_output_that_is_constant_says_so() -> None:
    text = """func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
      %c = stablehlo.constant dense<1.0> : tensor<2xf32>
      return %x, %c : tensor<2xf32>, tensor<2xf32>
    }"""
    program = parse_program(text)
    first, second = (port.name for port in program.outputs)
    assert str(explain(program, first)).startswith(f"output '{first}' is made by 'arg0'\n")
    assert str(explain(program, second)) == f"output '{second}' is made by constants"


def test_conversions_that_several_read_are_boxes_of_their_kind_and_islands_have_their_own_type(
    islands: Quantization,
) -> None:
    graph = graph_of(islands.integer)
    nodes = {(node.kind, node.name): node for node in graph.nodes}
    assert not any(node.kind == "other" for node in graph.nodes)
    quantized, norm = nodes["quantize", "norm"], nodes["float", "norm"]
    assert quantized.parameters is not None
    assert (quantized.parameters.storage, norm.parameters, norm.element) == ("i8", None, "f32")
    assert quantized.id in nodes["kernel", "left"].reads
    assert quantized.id in nodes["kernel", "right"].reads
    assert graph.by_name()["left"] == nodes["kernel", "left"].id
    said = reasons(islands.integer, graph)
    assert said[norm.id][:2] == (
        "Stays in float: recipe: rule 1 (name 'norm'): do not quantize.",
        "It is quantized for 'left' and 'right'.",
    )
    assert said[norm.id][2:] == said[quantized.id]
    assert said[quantized.id][0].startswith("Range [")


def test_a_dequantize_that_several_floats_read_is_a_box_of_its_kind(result: Quantization) -> None:
    net = Network([(1, 6)])
    net.name = "gate"
    gate = net.insert(LogisticOp(net.values[0]))
    found: list[SSAValue] = []
    for net.name in ("wave", "ripple"):
        found.append(net.insert(SineOp(gate)))
    recipe = recipe_of([{"name": name, "quantize": False} for name in ("wave", "ripple")])
    made = quantize(net.finish(found), SAMPLES, Options(observer="minmax", recipe=recipe)).integer
    graph = graph_of(made)
    (box,) = (node for node in graph.nodes if node.kind == "dequantize")
    assert (box.name, box.kernel, box.element) == ("gate", "dequantize", "f32")
    assert [node.name for node in graph.nodes if box.id in node.reads] == ["wave", "ripple"]
    assert {node.kind for node in graph.nodes if node.name == "gate"} == {"kernel", "dequantize"}
    assert reasons(made, graph)[box.id] == ("'wave' and 'ripple' read floats, so the integers are converted once.",)


def test_float_ops_that_no_kernel_covers_are_makers_and_readers() -> None:
    text = """func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
      %one = stablehlo.constant dense<1.0> : tensor<f32>
      %ones = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
      %w = stablehlo.constant dense<0.25> : tensor<4x4xf32>
      %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32> loc("dense")
      %b = stablehlo.atan2 %a, %ones : tensor<1x4xf32> loc("angle")
      return %b : tensor<1x4xf32>
    }"""
    found = explain(zp.quantize(text, [np.ones((1, 4), np.float32)], effort="none").program)
    (dense,) = (value for value in found.values if value.name == "dense")
    assert dense.read_by == ("angle",)
    assert [output.made_by for output in found.outputs] == [("angle",)]


def test_an_empty_name_is_unknown(islands: Quantization) -> None:
    with pytest.raises(ExplanationError, match="found no value '' in the program"):
        explain(islands.integer, "")


def test_a_float_island_does_not_cover_the_kernel_whose_integers_it_converts() -> None:
    (island,) = (node for node in graph_of(quantized_digits().integer).nodes if node.kind == "float")
    assert island.covers == ("softmax",)


def test_a_kernel_with_a_float_result_is_no_float_value() -> None:
    text = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %y = stablehlo.tanh %x {zeropoint.facts = [
        {name = "kernel", value = "tanh", salience = "default", source = "gate"},
        {name = "range", value = "[-1, 1]", salience = "kernel", source = "tanh"}]} : tensor<2xf32> loc("gate")
      return %y : tensor<2xf32>
    }"""
    (value,) = explain(parse_program(text), "gate").values
    assert (value.kind, value.names, value.float_reason) == ("tanh", ("gate",), "")
    assert [fact.name for fact in value.facts] == ["range"]


def test_a_range_that_is_no_range_is_shown_as_it_is(tmp_path: Path) -> None:
    """Such text, in a file that was edited, was an internal error."""
    path = tmp_path / "edited.mlir"
    save_program(quantize(network(), SAMPLES, Options()).propagated, path)
    text = path.read_text(encoding="utf-8")
    assert 'name = "range", salience = "calibrated", ' in text
    path.write_text(re.sub(r'value = "\[-', 'value = "[-3scale', text), encoding="utf-8")
    found = CliRunner().invoke(main, ["explain", str(path)])
    assert found.exit_code == 0, found.output
    assert "3scale" in found.output
