"""Recipes: reading them, what rules select, what they demand, and what comes of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import digits
import zeropoint as zp
from networks import Network
from zeropoint.calibrate import collect, instrument, state_ranges
from zeropoint.fuse import fuse
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import DEMANDS, FLOAT_REASON, facts_of
from zeropoint.ir.locations import location_text, value_name
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, Storage
from zeropoint.ir.stablehlo import (
    AddOp,
    ConcatenateOp,
    DotDimensions,
    DotGeneralOp,
    LogisticOp,
    MaximumOp,
    MultiplyOp,
    NegateOp,
    RemainderOp,
    TanhOp,
)
from zeropoint.ir.tensors import with_shape
from zeropoint.ir.text import parse_program, print_program
from zeropoint.model import Model
from zeropoint.pipeline import Options, check_options, quantize
from zeropoint.recipe import RecipeError, apply_recipe, load_recipe, recipe_of
from zeropoint.recipe.expressions import NamePattern
from zeropoint.report.counts import float_ops
from zeropoint.simplify import simplify
from zeropoint.solve import propagate
from zeropoint.targets import target as named_target

SAMPLES = [{"x0": np.random.default_rng(seed).uniform(-2, 2, (1, 6)).astype(np.float32)} for seed in range(4)]


def network() -> Program:
    """stem: x + c, relu (one kernel); curve: tanh; gate: logistic; head: both."""
    net = Network([(1, 6)])
    net.name = "stem"
    stem = net.insert(AddOp(net.values[0], net.constant(np.linspace(-1, 1, 6).reshape(1, 6))))
    net.name = "stem/relu"
    stem = net.insert(MaximumOp(stem, net.splat(0.0, stem)))
    net.name = "curve"
    curve = net.insert(TanhOp(stem))
    net.name = "gate"
    gate = net.insert(LogisticOp(stem))
    net.name = "head"
    return net.finish([net.insert(ConcatenateOp([curve, gate], 1))])


LAUGHS = "rules:\n- name: x\n  range: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"- name: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (LAUGHS, "found aliases that expand to 1111111 values, expected up to 200000"),
        ("rules: " + "[" * 20 + "]" * 20, "recipe.yaml:1: found lists or keys nested more than 16 deep"),
        ("rules: " + "[" * 100_000, "recipe.yaml:1: found lists or keys nested more than 16 deep"),
        ("rules: " + "{a: " * 20 + "}" * 20, "nested more than 16 deep"),
        ("rules: &a [*a]", "recipe.yaml:1: found an alias inside of its own value"),
        ("rules:\n- &b\n  name: x\n  <<: *b", "found an alias inside of its own value"),
        ("rules:\n- !!python/object/apply:os.system ['false']", "expected keys and values"),
        ("rules:\n- name: !!python/name:os.system", "could not determine a constructor"),
        ("#" * (5 << 20), "found 5242880 bytes, expected a recipe of up to 4194304"),
    ],
)
def test_yaml_that_expands_nests_or_runs_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "recipe.yaml").write_text(text)
    with pytest.raises(RecipeError, match=re.escape(sentence)):
        load_recipe(tmp_path / "recipe.yaml")


def test_more_values_than_a_recipe_has_are_refused_before_all_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zeropoint.recipe.nodes.MOST_NODES", 100)
    (tmp_path / "recipe.yaml").write_text("rules:\n" + "- {}\n" * 200 + "- &a [*a]")
    with pytest.raises(RecipeError, match=r"recipe.yaml:99: found more than 100 values, expected a recipe of fewer"):
        load_recipe(tmp_path / "recipe.yaml")


def named(program: Program) -> dict[str, QuantizeRegionOp]:
    """The kernels of a program by the names of their first ops."""
    regions = [op for op in program.entry.ops if isinstance(op, QuantizeRegionOp)]
    return {location_text(region.location) or "": region for region in regions}


def selected(selector: dict[str, Any]) -> set[str]:
    program = apply_recipe(fuse(network()), recipe_of([{**selector, "bits": 8}]), network())
    return {name for name, region in named(program).items() if facts_of(region, DEMANDS)}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"name": "curve"}, {"curve"}),
        ({"name": "stem/relu"}, {"stem"}),  # by the name of any op that the kernel took in
        ({"regex": "(curve|gate)"}, {"curve", "gate"}),
        ({"regex": "ate"}, None),  # whole names
        ({"op": "add"}, {"stem"}),
        ({"op": "stablehlo.maximum"}, {"stem"}),
        ({"subgraph": {"from": "curve", "to": "head"}}, {"curve", "head"}),
        ({"subgraph": {"from": "x0", "to": ["curve", "gate"]}}, {"stem", "curve", "gate"}),
    ],
)
def test_rules_select_by_name_regex_kind_and_subgraph(selector: dict[str, Any], expected: set[str] | None) -> None:
    if expected is None:
        with pytest.raises(RecipeError, match="matches nothing in the model"):
            selected(selector)
    else:
        assert selected(selector) == expected


def test_a_later_rule_overrides_an_earlier_one_key_by_key() -> None:
    rules = recipe_of(
        [
            {"regex": ".*", "observer": "minmax", "symmetric": True},
            {"name": "curve", "observer": "percentile:99"},
        ]
    )
    program = apply_recipe(fuse(network()), rules)
    curve = named(program)["curve"]
    assert [(fact.name, fact.value, fact.salience, fact.source) for fact in facts_of(curve, DEMANDS)] == [
        ("observer", "percentile:99", "user", "recipe: rule 2 (name 'curve')"),
        ("symmetric", "true", "user", "recipe: rule 1 (regex '.*')"),
    ]


def test_demands_that_types_express_go_into_the_specs_and_survive_text() -> None:
    rules = recipe_of([{"name": "curve", "bits": 16}, {"name": "gate", "quantize": False}])
    program = apply_recipe(fuse(network()), rules)
    curve, gate = named(program)["curve"], named(program)["gate"]
    assert str(curve.output_specs.data[0]) == "!quant.any<i16:f32>"
    assert [str(spec) for spec in (*gate.input_specs, *gate.output_specs)] == ["!quant.none<f32>", "!quant.none<f32>"]
    text = print_program(program, locations=True, inline_weights=True)
    assert print_program(parse_program(text), locations=True, inline_weights=True) == text


def test_a_kernel_that_is_not_to_be_quantized_stays_float_and_says_which_rule_it_was() -> None:
    recipe = recipe_of([{"name": "gate", "quantize": False}])
    result = quantize(network(), SAMPLES, Options(recipe=recipe))
    assert float_ops(result.integer) == [("stablehlo.logistic 'gate'", "recipe: rule 1 (name 'gate'): do not quantize")]
    plain = Interpreter(network())
    mixed = Interpreter(result.integer)
    for sample in SAMPLES:
        np.testing.assert_allclose(mixed(sample)["y0"], plain(sample)["y0"], atol=0.03)


def test_an_earlier_rule_against_quantizing_can_be_lifted() -> None:
    recipe = recipe_of([{"regex": ".*", "quantize": False}, {"regex": "curve|gate|head|stem", "quantize": True}])
    result = quantize(network(), SAMPLES, Options(recipe=recipe))
    assert not float_ops(result.integer)
    assert not any(FLOAT_REASON in op.attributes for op in result.propagated.entry.ops)


def test_the_observer_of_a_rule_observes_the_outputs_it_selects() -> None:
    wide = [{"x0": np.full((1, 6), value, np.float32)} for value in [*np.linspace(-1, 1, 200), 90.0]]
    plain = quantize(network(), wide, Options(observer="minmax")).calibration.observations
    recipe = recipe_of([{"name": "stem", "observer": "percentile:90"}])
    ruled = quantize(network(), wide, Options(observer="minmax", recipe=recipe)).calibration.observations
    assert plain["stem"].maximum == 91.0
    assert ruled["stem"].maximum < 10.0
    assert {key: value for key, value in plain.items() if key != "stem"} == {
        key: value for key, value in ruled.items() if key != "stem"
    }


def test_an_unknown_observer_names_the_rule_and_the_key() -> None:
    recipe = recipe_of([{"name": "stem", "observer": "modal"}])
    with pytest.raises(RecipeError, match=r"rule 1 \(name 'stem'\): key 'observer': found observer 'modal'; expected"):
        check_options(Options(recipe=recipe))


def test_a_name_that_was_folded_away_is_told_from_one_that_never_was() -> None:
    net = Network([(1, 6)])
    net.name = "table"
    table = net.insert(NegateOp(net.constant(np.linspace(-1, 1, 6).reshape(1, 6))))
    net.name = "sum"
    program = net.finish([net.insert(AddOp(net.values[0], table))])
    fused = fuse(simplify(program))
    with pytest.raises(RecipeError, match="matches nothing in the model"):
        apply_recipe(fused, recipe_of([{"name": "nowhere", "bits": 8}]), program)
    with pytest.raises(RecipeError, match="folded into other ops or constants; name the op that is left"):
        apply_recipe(fused, recipe_of([{"name": "table", "bits": 8}]), program)


def test_a_rule_that_can_change_nothing_is_refused() -> None:
    net = Network([(2, 3), (2, 3)])
    net.name = "matrix"
    fused = fuse(net.finish([net.insert(RemainderOp(net.values[0], net.values[1]))]))
    with pytest.raises(RecipeError, match=r"matches only stablehlo\.remainder, which no kernel covers"):
        apply_recipe(fused, recipe_of([{"name": "matrix", "bits": 8}]))
    apply_recipe(fused, recipe_of([{"name": "matrix", "quantize": False}]))


def test_a_rule_for_a_constant_inside_a_kernel_does_not_set_the_output_of_the_kernel() -> None:
    net = Network([(1, 6)])
    net.name = "factor"
    factor = net.constant(np.full((1, 6), 0.25))
    net.name = "product"
    program = fuse(net.finish([net.insert(MultiplyOp(net.values[0], factor))]), named_target("cpu"))
    with pytest.raises(RecipeError, match=r"selects only a constant inside kernel 'product', which has no type"):
        apply_recipe(program, recipe_of([{"name": "factor", "scale": 0.01}]))


@pytest.mark.parametrize("text", ["((a|[a-z/]+)+)+!", "(a|a|[a-z])*!", ".*.*.*.*.*.*.*.*!", "(s?){900}(t?){900}a!"])
def test_an_expression_that_backtracks_without_end_is_matched_in_linear_time(text: str) -> None:
    assert not NamePattern(text).matches("stem" * 10_000)
    assert NamePattern(text).matches("a!")
    with pytest.raises(RecipeError, match="matches nothing in the model"):
        selected({"regex": text})


def test_names_of_any_characters_are_matched() -> None:
    for name in ("é", "a\0b", "a\ud800b", "x\ny"):
        assert NamePattern("(?s).*").matches(name)
    assert NamePattern("é|b").matches("é")
    assert not NamePattern("é").matches("e")


def test_an_unknown_end_of_a_subgraph_is_named() -> None:
    with pytest.raises(RecipeError, match="key 'subgraph': found no op or input 'tail' in the model"):
        selected({"subgraph": {"from": "x0", "to": "tail"}})


BROKEN = [
    ("- name: stem", "found a list, expected one key 'rules' at the top"),
    ("rules:", "R.yaml:1: expected a list of rules under 'rules', one or more"),
    ("rules:\n  - stem", "R.yaml:2: rule 1: expected keys and values, such as 'name: conv1'"),
    ("rules:\n  - {name: a, bits: 8}\n  - {name: b, width: 3}", "R.yaml:3: rule 2: found key 'width', expected one of"),
    ("rules:\n  - {bits: 8}", "rule 1: found nothing to select by, expected one of: name, regex, op, subgraph"),
    ("rules:\n  - {name: a, op: add, bits: 8}", "rule 1: found 'name' and 'op' to select by"),
    ("rules:\n  - {name: a}", "rule 1: found nothing to set, expected one or more of: bits"),
    ("rules:\n  - {name: a, bits: 8, bits: 4}", "rule 1: found key 'bits' twice, expected it once"),
    ("rules:\n  - {name: a, bits: 1}", "rule 1: key 'bits': found 1, expected an integer from 2 to 32"),
    ("rules:\n  - {name: a, bits: true}", "rule 1: key 'bits': found True, expected an integer"),
    ("rules:\n  - {name: 3, bits: 8}", "rule 1: key 'name': found 3, expected the name of an op"),
    ("rules:\n  - {regex: '(', bits: 8}", "rule 1: key 'regex': found '(', expected an RE2 regular expression"),
    ("rules:\n  - {regex: '(?!a).*', bits: 8}", "found '(?!a).*', expected an RE2 regular expression"),
    ("rules:\n  - {regex: '(a)\\1', bits: 8}", "(no lookaround, no back references)"),
    ("rules:\n  - {regex: '((a{999}){999}){999}', bits: 8}", "expected an RE2 regular expression"),
    ("rules:\n  - {subgraph: a, bits: 8}", "key 'subgraph': found 'a', expected {from: NAME, to: NAME}"),
    ("rules:\n  - {subgraph: {from: a, to: []}, bits: 8}", "key 'subgraph': found"),
    ("rules:\n  - {name: a, granularity: per_row}", "key 'granularity': found 'per_row', expected per_channel or"),
    ("rules:\n  - {name: a, symmetric: 1}", "key 'symmetric': found 1, expected true or false"),
    ("rules:\n  - {name: a, quantize: 'no'}", "key 'quantize': found 'no', expected true or false"),
    (
        "rules:\n  - {name: a, quantize: false, bits: 16}",
        "rule 1: found 'quantize: false' and key 'bits', which has no effect",
    ),
    ("rules:\n  - {name: a, observer: mse, range: [0, 1]}", "found keys 'observer' and 'range', expected one of them"),
    ("rules: [", "R.yaml:1: found no valid YAML"),
    ("rules:\n  - {name: a, bits: !!python/name:os.system 1}", "found no valid YAML"),
]


@pytest.mark.parametrize(("text", "message"), BROKEN)
def test_a_broken_recipe_is_refused_with_its_line_rule_and_key(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "R.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError) as raised:
        load_recipe(path)
    assert message in str(raised.value)


def test_a_file_and_a_list_spell_the_same_recipe(tmp_path: Path) -> None:
    path = tmp_path / "R.yaml"
    path.write_text("rules:\n  - op: add\n    quantize: false\n  - regex: 'st.*'\n    observer: minmax\n")
    listed = [{"op": "add", "quantize": False}, {"regex": "st.*", "observer": "minmax"}]
    written, given = load_recipe(path).rules, recipe_of(listed).rules
    assert [(rule.selector, rule.pattern, rule.settings) for rule in written] == [
        (rule.selector, rule.pattern, rule.settings) for rule in given
    ]
    model = Model(network())
    data = {"x0": np.concatenate([sample["x0"] for sample in SAMPLES])[:, None]}
    first, second = (zp.quantize(model, data, recipe=recipe) for recipe in (path, listed))
    assert [op for op, _ in float_ops(first.program)] == [
        "stablehlo.add 'stem'",
        "stablehlo.maximum 'stem/relu'",
    ]
    np.testing.assert_array_equal(first(**SAMPLES[0])["y0"], second(**SAMPLES[0])["y0"])


def dense() -> Program:
    """dense: x times a matrix, plus a vector; sign: its negation."""
    net = Network([(1, 6)])
    net.name = "dense"
    weight = net.constant(np.random.default_rng(0).normal(0, 1, (6, 4)) * [1, 10, 100, 1000])
    product = DotGeneralOp(net.values[0], weight, with_shape(weight, [1, 4]), DotDimensions((), (), (1,), (0,)))
    value = net.insert(product)
    value = net.insert(AddOp(value, net.along(np.arange(4.0), value, 1)))
    net.name = "sign"
    return net.finish([net.insert(NegateOp(value))])


def specs(*rules: dict[str, Any], target: str = "cpu") -> dict[str, QuantizeRegionOp]:
    options = Options(target=target, observer="minmax", recipe=recipe_of(rules))
    fused = apply_recipe(fuse(simplify(dense()), named_target(target)), options.recipe)
    asked = instrument(fused)
    calibrated = state_ranges(asked, collect(asked, SAMPLES, observer="minmax"))
    return named(propagate(calibrated, named_target(target)))


def test_a_symmetric_output_has_the_zero_point_0() -> None:
    assert specs({"name": "sign", "symmetric": True})["sign"].output_specs.data[0].zero_point == 0
    assert specs({"name": "sign", "symmetric": False})["sign"].output_specs.data[0].zero_point != 0


def test_weights_per_tensor_have_one_scale() -> None:
    (per_channel, per_tensor) = (
        specs({"name": "dense", "granularity": granularity})["dense"].input_specs.data[1]
        for granularity in ("per_channel", "per_tensor")
    )
    assert len(set(per_channel.scales.tolist())) == 4
    assert len(set(per_tensor.scales.tolist())) == 1
    assert per_tensor.scales[0] == per_channel.scales.max()


def test_bits_that_a_target_has_choose_its_row_and_others_leave_the_kernel_float() -> None:
    wide = specs({"name": "dense", "bits": 16}, target="litert")["dense"]
    assert wide.output_specs.data[0].storage == Storage.of("i16")
    # A row that is for recurrences unless a recipe asks for it.
    some = specs({"name": "dense", "bits": 16}, target="cpu")["dense"]
    assert some.output_specs.data[0].storage == Storage.of("i16", -4096, 4095)
    left = specs({"name": "dense", "bits": 16}, target="openvino")["dense"]
    reason = left.attributes[FLOAT_REASON].data
    assert "target openvino has no kernel 'fully_connected' for" in reason
    assert "16 bits or more" in reason


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            {"name": "gate", "bits": 4},
            r"rule 1 \(name 'gate'\): key 'bits': found 4, expected 8 or 16, the widths of kernel 'logistic' on target",
        ),
        ({"regex": ".*", "bits": 4}, "would change nothing"),
        ({"name": "gate", "granularity": "per_tensor"}, "expected a kernel with weights; 'logistic' has none"),
    ],
)
def test_a_demand_that_changes_nothing_is_refused(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        quantize(network(), SAMPLES, Options(target="litert", recipe=recipe_of([rule])))


@pytest.mark.parametrize(("key", "value"), [("symmetric", True), ("observer", "percentile:90")])
def test_a_demand_on_an_accumulator_that_only_floats_read_is_refused(key: str, value: object) -> None:
    rules = [{"name": "sign", "quantize": False}, {"name": "dense", key: value}]
    message = rf"rule 2 \(name 'dense'\): key '{key}': .* only float ops read 'dense', .*; it would change nothing"
    with pytest.raises(RecipeError, match=message):
        quantize(dense(), SAMPLES, Options(effort="none", recipe=recipe_of(rules)))
    restated = recipe_of([rules[0], {"name": "dense", "bits": 8, "symmetric": False}])
    assert quantize(dense(), SAMPLES, Options(effort="none", recipe=restated)).integer is not None


@pytest.mark.parametrize(("key", "value"), [("observer", "percentile:90"), ("range", [-0.5, 0.5])])
def test_a_demand_on_a_result_whose_type_the_kernel_fixes_is_refused(key: str, value: object) -> None:
    message = (
        rf"rule 1 \(name 'gate'\): key '{key}': .* kernel logistic 'gate' of target litert fixes that of 'gate'; it"
    )
    with pytest.raises(RecipeError, match=message):
        quantize(network(), SAMPLES, Options(target="litert", recipe=recipe_of([{"name": "gate", key: value}])))


def test_a_scale_of_an_input_of_integers_is_refused() -> None:
    text = """func.func @main(%ids: tensor<1x4xi32>, %x: tensor<1x4xf32>) -> tensor<1x4xf32> {
      %0 = stablehlo.convert %ids : (tensor<1x4xi32>) -> tensor<1x4xf32> loc("reals")
      %1 = stablehlo.add %0, %x : tensor<1x4xf32> loc("sum")
      return %1 : tensor<1x4xf32>
    }"""
    for key, value in (("scale", 1.0), ("range", [0, 9])):
        with pytest.raises(RecipeError, match=r"rule 1 .name 'ids'.: selects an input of i32, which is not quantized"):
            zp.quantize(
                text,
                [{"ids": np.zeros((1, 4), np.int32), "x": np.ones((1, 4), np.float32)}],
                recipe=[{"name": "ids", key: value}],
            )


def test_a_width_of_a_kernel_that_the_target_lacks_is_refused() -> None:
    recipe = recipe_of([{"op": "softmax", "bits": 16}])
    with pytest.raises(RecipeError, match="expected a kernel of target cpu, which has no 'softmax'"):
        quantize(digits.network(), digits.images("calib", 1), Options(effort="none", recipe=recipe))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("weight_bits", 8),
        ("granularity", "per_tensor"),
        ("symmetric", True),
        ("bits", 16),
        ("range", [-1, 1]),
        ("scale", 0.5),
    ],
)
def test_a_demand_on_a_kernel_that_another_rule_keeps_in_float_is_refused(key: str, value: object) -> None:
    rules = [{"name": "dense", "quantize": False}, {"name": "dense", key: value}]
    message = r"rule 2 \(name 'dense'\): .* expected a kernel that is quantized; recipe: rule 1"
    for ordered in (rules, rules[::-1]):
        with pytest.raises(RecipeError, match="keeps this one in float; it would change nothing"):
            quantize(dense(), SAMPLES, Options(recipe=recipe_of(ordered)))
    with pytest.raises(RecipeError, match=message):
        quantize(dense(), SAMPLES, Options(recipe=recipe_of(rules)))


def test_a_demand_on_the_output_of_a_kernel_with_float_activations_is_refused() -> None:
    for key, value in (("symmetric", True), ("bits", 16), ("scale", 0.5)):
        one = {"name": "dense", "activations": "float", key: value}
        with pytest.raises(RecipeError, match=f"found 'activations: float' and key '{key}', which has no effect on"):
            recipe_of([one])
        two = recipe_of([{"name": "dense", "activations": "float"}, {"name": "dense", key: value}])
        with pytest.raises(RecipeError, match=f"rule 2 .* key '{key}': .* expected a kernel that is quantized; recipe"):
            quantize(dense(), SAMPLES, Options(recipe=two))


def test_two_ways_of_staying_float_are_refused_for_one_name_but_may_refine_a_general_rule() -> None:
    ways = [{"quantize": False}, {"activations": "float"}]
    for first, second in (ways, ways[::-1]):
        for selector in ({"name": "dense"}, {"op": "fully_connected"}):
            recipe = recipe_of([{**selector, **first}, {**selector, **second}])
            with pytest.raises(
                RecipeError, match=r"rule 1 .* expected one of this and .* \(recipe: rule 2 .* no effect"
            ):
                quantize(dense(), SAMPLES, Options(recipe=recipe))
    general = recipe_of([{"regex": "dense|sign", **ways[0]}, {"op": "fully_connected", **ways[1]}])
    assert quantize(dense(), None, Options(recipe=general)).integer is not None


def test_an_observer_of_a_float_value_that_an_integer_kernel_reads_is_taken() -> None:
    rules = [{"name": "stem", "quantize": False}, {"name": "stem", "observer": "percentile:80"}]
    made, plain = (quantize(network(), SAMPLES, Options(recipe=recipe_of(some))) for some in (rules, rules[:1]))
    assert print_program(made.integer) != print_program(plain.integer)


def test_a_rule_that_changes_one_of_its_kernels_is_taken() -> None:
    found = specs({"regex": ".*", "granularity": "per_tensor"})
    assert len(set(found["dense"].input_specs.data[1].scales.tolist())) == 1


def types(rules: list[dict[str, Any]]) -> dict[str, str]:
    """The types that kernels make under a recipe, and that of what the first reads, by name."""
    result = quantize(network(), SAMPLES, Options(recipe=recipe_of(rules)))
    regions = [op for op in result.propagated.entry.ops if isinstance(op, QuantizeRegionOp)]
    found = {location_text(op.location) or "": str(op.output_specs.data[0]) for op in regions}
    return {"x0": str(regions[0].input_specs.data[0]), **found}


def test_a_rule_sets_scale_and_zero_point_of_a_tensor() -> None:
    found = types([{"name": "stem", "scale": 0.0625, "zero_point": -100}, {"name": "x0", "scale": 0.03125}])
    assert found["stem"] == "!quant.uniform<i8:f32, 6.250000e-02:-100>"
    assert found["x0"] == "!quant.uniform<i8:f32, 3.125000e-02>"


def test_a_rule_sets_the_range_of_a_tensor_and_nothing_is_observed_there() -> None:
    rules = [{"name": "stem", "range": [0, 25.5]}, {"name": "x0", "range": [-12.75, 12.75]}]
    found = types(rules)
    scales = [float(found[name].split(", ")[1].split(":")[0].rstrip(">")) for name in ("stem", "x0")]
    assert scales == pytest.approx([0.1, 0.1])
    result = quantize(network(), SAMPLES, Options(recipe=recipe_of(rules)))
    assert not {"x0", "stem"} & set(result.calibration.observations)


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ({"name": "stem", "zero_point": 3}, "found key 'zero_point' without 'scale', expected both"),
        ({"name": "stem", "scale": 1, "range": [0, 1]}, "found keys 'range' and 'scale', expected one of them"),
        ({"name": "stem", "range": [1, 0]}, r"key 'range': found \[1, 0\], expected \[LEAST, GREATEST\]"),
        ({"name": "stem", "scale": 0}, "key 'scale': found 0, expected a number above 0"),
        (
            {"name": "stem", "scale": 1e-300},
            r"key 'scale': found 1e-300, expected from 1\.4.*e-45 to 3\.4.*e\+38, .* of f32",
        ),
        ({"name": "x0", "scale": 1e300}, "key 'scale': found 1e\\+300, expected from"),
        ({"name": "stem", "range": [-1e39, 5]}, r"key 'range': found -1e\+39, expected from -3\.4.* to 3\.4"),
        ({"name": "x0", "range": [-1, 1e39]}, r"key 'range': found 1e\+39, expected from -3\.4.* to 3\.4"),
        ({"name": "stem", "scale": 1, "zero_point": 200}, "key 'zero_point': found 200, expected one from -128 to 127"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(rule: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        apply_recipe(fuse(simplify(network())), recipe_of([rule]))


UNNAMED = parse_program("""func.func @main(%x: tensor<1x2xf32>) -> tensor<1x3xf32> {
  %w_1 = stablehlo.constant dense<[[0.5, 0.2, -0.1], [0.4, -0.1, 0.2]]> : tensor<2x3xf32>
  %m_1 = stablehlo.dot_general %x, %w_1, contracting_dims = [1] x [0]
    : (tensor<1x2xf32>, tensor<2x3xf32>) -> tensor<1x3xf32>
  %m_2 = stablehlo.tanh %m_1 : tensor<1x3xf32>
  %0 = stablehlo.logistic %m_2 : tensor<1x3xf32> loc("gate")
  return %0 : tensor<1x3xf32>
}""")


@pytest.mark.parametrize(("name", "kernel"), [("m_1", "dot_general"), ("m_2", "tanh"), ("gate", "logistic")])
def test_the_name_of_an_op_without_a_location_is_that_of_its_result_in_the_text(name: str, kernel: str) -> None:
    found = apply_recipe(fuse(simplify(UNNAMED)), recipe_of([{"name": name, "quantize": False}]))
    regions = [op for op in found.entry.ops if isinstance(op, QuantizeRegionOp)]
    (chosen,) = (op for op in regions if FLOAT_REASON in op.attributes)
    assert f"stablehlo.{kernel}" in [op.name for op in chosen.body.block.ops]


def test_the_name_of_a_constant_without_a_location_is_that_in_the_text() -> None:
    found = apply_recipe(fuse(simplify(UNNAMED)), recipe_of([{"name": "w_1", "scale": 0.0078125}]))
    assert "7.812500e-03>" in print_program(found)
    with pytest.raises(RecipeError, match="matches nothing"):
        apply_recipe(fuse(simplify(UNNAMED)), recipe_of([{"name": "0", "quantize": False}]))


def test_a_number_with_an_exponent_needs_no_point(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "rules:\n  - {name: a, scale: 1e-9}\n  - {name: b, range: [-1e0, 2E+1]}\n  - {name: 1e5, bits: 8}\n"
    )
    first, second, third = load_recipe(path).rules
    assert (first.settings["scale"], second.settings["range"], third.pattern) == ("1e-09", "-1.0, 20.0", "1e5")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("stemm", "similar names: 'stem'"),
        ("ste*", "patterns are given with 'regex'"),
        ("x0", "it is an input, for which range, scale, zero_point can be set"),
    ],
)
def test_a_name_that_matches_nothing_is_answered_with_what_it_may_mean(name: str, advice: str) -> None:
    with pytest.raises(RecipeError, match=f"matches nothing in the model, expected one op or more; {advice}"):
        apply_recipe(fuse(simplify(network())), recipe_of([{"name": name, "bits": 8}]))


def test_the_name_of_an_output_is_answered_with_what_makes_it() -> None:
    program = fuse(simplify(network()))
    output = program.outputs[0].name
    last = program.entry.last_op
    assert last is not None
    with pytest.raises(RecipeError, match=f"it is an output, which is the result of '{value_name(last.operands[0])}'"):
        apply_recipe(program, recipe_of([{"name": output, "bits": 8}]))


def test_a_zero_point_of_0_needs_a_kernel_of_the_target() -> None:
    with pytest.raises(RecipeError, match=r"'symmetric': found true, expected a kernel of target cpu, which has no"):
        zp.quantize(zp.load(SOFTMAX), ROW, recipe=[{"name": "p", "symmetric": True}], effort="none")


SOFTMAX = """func.func @main(%x: tensor<1x4xf32> {zeropoint.name = "x"}) -> tensor<1x4xf32> {
  %i = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %m = stablehlo.reduce(%x init: %i) applies stablehlo.maximum across dimensions = [1]
    : (tensor<1x4xf32>, tensor<f32>) -> tensor<1xf32> loc("p")
  %n = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<1xf32>) -> tensor<1x4xf32> loc("p")
  %d = stablehlo.subtract %x, %n : tensor<1x4xf32> loc("p")
  %e = stablehlo.exponential %d : tensor<1x4xf32> loc("p")
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [1]
    : (tensor<1x4xf32>, tensor<f32>) -> tensor<1xf32> loc("p")
  %b = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<1xf32>) -> tensor<1x4xf32> loc("p")
  %y = stablehlo.divide %e, %b : tensor<1x4xf32> loc("p")
  return %y : tensor<1x4xf32>
}"""
ROW = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
