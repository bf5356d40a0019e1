"""Kernels with several results, from the row to native code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from solve.own_targets import table
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.fuse import fuse, unfuse
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.ir.text import parse_program, print_program
from zeropoint.lower import integer_program
from zeropoint.materialize import insert_casts, materialize
from zeropoint.pipeline import Options, quantize
from zeropoint.report.counts import float_ops
from zeropoint.report.explain import explain
from zeropoint.solve import move_rescales, propagate
from zeropoint.solve.check import check_fully_quantized, check_kernels
from zeropoint.targets import Target, TargetError

T = "tensor<256xf32>"
SUM_AND_GATE = f"""
  %s = stablehlo.add %x, %y : {T}
  %l = stablehlo.logistic %y : {T}
  %g = stablehlo.multiply %x, %l : {T}
  return %s, %g : {T}, {T}"""
HALVES = f"""
  %a = stablehlo.slice %x [0:128] : ({T}) -> tensor<128xf32>
  %b = stablehlo.slice %x [128:256] : ({T}) -> tensor<128xf32>
  return %a, %b : tensor<128xf32>, tensor<128xf32>"""
LARGEST = f"""
  %i = stablehlo.iota dim = 0 : tensor<256xi32>
  %v, %p = "stablehlo.sort"(%x, %i) <{{dimension = 0 : i64, is_stable = true}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  }}) : ({T}, tensor<256xi32>) -> ({T}, tensor<256xi32>)
  %4 = stablehlo.slice %v [0:4] : ({T}) -> tensor<4xf32>
  %5 = stablehlo.slice %p [0:4] : (tensor<256xi32>) -> tensor<4xi32>
  return %4, %5 : tensor<4xf32>, tensor<4xi32>"""


def stated(name: str, of: str, low: float, high: float, kind: str = T) -> str:
    layer = f"dense<[{low}, {high}]> : tensor<2xf32>"
    return f'%{name} = "quant.stats"(%{of}) {{layerStats = {layer}}} : ({kind}) -> {kind}'


def program(body: str, operands: int, kinds: tuple[str, str], ends: tuple[tuple[float, float], ...]) -> Program:
    arguments = [f"%{name}: {T}" for name in "xy"[:operands]]
    given = ", ".join(f"%{name}1" for name in "xy"[:operands])
    after = "\n".join(stated(f"r{i}", f"0#{i}", *ends[i], kind) for i, kind in enumerate(kinds) if "f32" in kind)
    returned = ", ".join(f"%r{i}" if "f32" in kind else f"%0#{i}" for i, kind in enumerate(kinds))
    types = ", ".join(kinds)
    return parse_program(f"""
    func.func @main({", ".join(arguments)}) -> ({types}) {{
      {" ".join(stated(f"{name}1", name, -2.0, 2.0) for name in "xy"[:operands])}
      %0:2 = stablehlo.composite "my.pair" {given} {{decomposition = @pair}} : ({", ".join([T] * operands)})
        -> ({types}) loc("pair")
      {after}
      return {returned} : {types}
    }}
    func.func private @pair({", ".join(arguments)}) -> ({types}) {{{body}
    }}""")


def pair(folder: Path, base: str = "cpu", **columns: object) -> Target:
    found = {"name": "pair", "relation": "free", "composites": ["my.pair"], **columns}
    lines = "\n".join(f"{key} = {value!r}" for key, value in found.items())
    return table(folder, f"[[kernel]]\n{lines}", base)


def quantized(given: Program, target: Target) -> Program:
    made = move_rescales(propagate(fuse(given, target), target), target)
    check_kernels(check_fully_quantized(made), target)
    return made


def region(given: Program) -> QuantizeRegionOp:
    (found,) = (found for found in regions_of(given) if found.logical_kernel.data == "pair")
    return found


ACTS = {"inputs": ["act i8", "act i8"], "outputs": ["act i8", "act i8"]}
X, Y = (np.random.default_rng(seed).uniform(-2, 2, 256).astype(np.float32) for seed in (0, 1))


def test_a_kernel_with_two_results_gives_each_its_own_type_and_runs_in_integers(tmp_path: Path) -> None:
    target = pair(tmp_path, **ACTS)
    given = program(SUM_AND_GATE, 2, (T, T), ((-4.0, 4.0), (-1.8, 1.8)))
    made = quantized(given, target)
    first, second = (spec.scale for spec in region(made).output_specs)
    assert (first, second) == pytest.approx((8 / 255, 3.6 / 255), rel=0.01)
    integers = integer_program(materialize(made))
    assert not [op for op, _ in float_ops(integers) if "quantize" not in op]
    inputs = {"arg0": X, "arg1": Y}
    real = list(Interpreter(given)(inputs).values())
    found = list(Interpreter(integers)(inputs).values())
    for exact, near, scale in zip(real, found, (first, second), strict=True):
        np.testing.assert_allclose(near, exact, atol=2 * scale)
    for result, native in zip(found, NativeProgram(integers)(inputs).values(), strict=True):
        np.testing.assert_array_equal(native, result)


@pytest.mark.parametrize("ends", [((-2.0, 2.0), (-2.0, 2.0)), ((-2.0, 2.0), (-0.25, 0.25))])
def test_the_parts_of_a_split_keep_the_parameters_of_the_whole(
    tmp_path: Path, ends: tuple[tuple[float, float], ...]
) -> None:
    half = "tensor<128xf32>"
    target = pair(tmp_path, inputs=["act i8"], output="act i8", relation="same_scale")
    given = program(HALVES, 1, (half, half), ends)
    made = quantized(given, target)
    specs = {*region(made).input_specs, *region(made).output_specs}
    assert len(specs) == 1
    integers = integer_program(materialize(made))
    (spec,) = specs
    stored = np.clip(np.rint(X.astype(np.float64) / spec.scale) + spec.zero_point, -128, 127)
    expected = (stored - spec.zero_point) * spec.scale
    for run in (Interpreter(integers), NativeProgram(integers)):
        for part, found in zip(np.split(expected, 2), run({"arg0": X}).values(), strict=True):
            np.testing.assert_allclose(found, part, rtol=1e-6)


def test_a_result_that_holds_indices_stays_as_it_is(tmp_path: Path) -> None:
    target = pair(tmp_path, inputs=["act i8"], outputs=["act i8", "other"], relation="same_scale")
    given = program(LARGEST, 1, ("tensor<4xf32>", "tensor<4xi32>"), ((-2.0, 2.0), (0.0, 0.0)))
    made = quantized(given, target)
    values, indices = region(made).output_specs
    assert isinstance(values, UniformQuantizedType)
    assert str(indices) == "i32"
    integers = integer_program(materialize(made))
    for run in (Interpreter(integers), NativeProgram(integers)):
        largest, places = run({"arg0": X}).values()
        np.testing.assert_allclose(largest, np.sort(X)[::-1][:4], atol=2 * values.scale)
        np.testing.assert_allclose(X[places], largest, atol=2 * values.scale)


def test_a_fixed_second_result_and_a_reader_with_its_own_type_meet_at_one_rescale(tmp_path: Path) -> None:
    target = pair(tmp_path, **ACTS | {"relation": "fixed_scale(1/16, 3, out1)"})
    made = quantized(program(SUM_AND_GATE, 2, (T, T), ((-4.0, 4.0), (-1.8, 1.8))), target)
    first, second = region(made).output_specs
    assert (second.scale, second.zero_point) == (1 / 16, 3)
    assert first.scale == pytest.approx(8 / 255, rel=0.01)


def test_a_function_sees_and_sets_both_results(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(
        "from zeropoint.ir.quant import Storage, UniformQuantizedType as T\n"
        "def two(inputs, outputs):\n"
        "    assert len(outputs) == 2\n"
        "    made = [T.per_layer(Storage.of('i8'), 2.0 ** -n) for n in (4, 5)]\n"
        "    changed = [i for i in range(2) if outputs[i] != made[i]]\n"
        "    outputs[:] = made\n"
        "    return [], changed\n"
    )
    target = pair(tmp_path, **ACTS | {"relation": "python:f.py:two"})
    made = quantized(program(SUM_AND_GATE, 2, (T, T), ((-4.0, 4.0), (-1.8, 1.8))), target)
    assert [spec.scale for spec in region(made).output_specs] == [2.0**-4, 2.0**-5]


def test_the_explanation_has_a_line_for_each_result(tmp_path: Path) -> None:
    target = pair(tmp_path, **ACTS)
    made = quantized(program(SUM_AND_GATE, 2, (T, T), ((-4.0, 4.0), (-1.8, 1.8))), target)
    found = {value.name: value.type for value in explain(made).values if value.name.startswith("pair")}
    assert found == {f"pair#{i}": str(spec) for i, spec in enumerate(region(made).output_specs)}


def test_unfuse_and_casts_keep_the_types_of_both_results(tmp_path: Path) -> None:
    target = pair(tmp_path, **ACTS)
    made = quantized(program(SUM_AND_GATE, 2, (T, T), ((-4.0, 4.0), (-1.8, 1.8))), target)
    assert all(str(spec) in print_program(unfuse(made)) for spec in region(made).output_specs)
    again = quantized(unfuse(insert_casts(made)), target)
    assert not [r for r in regions_of(again) if r.logical_kernel.data == "pair"]  # the composite is gone
    inputs = {"arg0": X, "arg1": Y}
    for first, second in zip(
        Interpreter(insert_casts(made))(inputs).values(), Interpreter(unfuse(made))(inputs).values(), strict=True
    ):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"inputs": ["act i8"], "output": "act i8", "outputs": ["act i8"]}, "found it beside 'output'"),
        ({"inputs": ["act i8"]}, "found nothing, expected 'output', or a list 'outputs'"),
        ({"inputs": ["act i8"], "outputs": []}, r"found \[\], expected at least one port"),
        ({"inputs": ["act i8"], "outputs": ["act i8", "bias i32"]}, "column 'outputs': found role 'bias'"),
        (
            {"inputs": ["act i8"], "outputs": ["act i8", "act i8"], "relation": "same_scale(0, out2)"},
            "found port out2, expected 'out' to 'out1' or an operand from 0 to 0",
        ),
        (
            {"inputs": ["act i8"], "outputs": ["act i8", "act u8"], "relation": "same_scale"},
            "found ports of different storage",
        ),
    ],
)
def test_a_row_with_wrong_results_is_refused(tmp_path: Path, columns: dict[str, object], sentence: str) -> None:
    with pytest.raises(TargetError, match=sentence):
        pair(tmp_path, **columns)


@pytest.mark.parametrize("stage", ["propagated", "quantized", "integer"])
def test_explain_gives_each_result_a_name_of_its_own(tmp_path: Path, stage: str) -> None:
    pair(tmp_path, **ACTS)
    given = program(SUM_AND_GATE, 2, (T, T), ((-4.0, 4.0), (-1.8, 1.8)))
    made = getattr(quantize(given, None, Options(str(tmp_path / "mine.toml"))), stage)
    assert [value.shown_name for value in explain(made).values[2:]] == ["pair#0", "pair#1"]
    assert explain(made, "pair#1").values[0].shown_name == "pair#1"
