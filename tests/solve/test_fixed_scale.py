"""`fixed_scale` at every port of a row from TOML, also beside a bias."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import zeropoint as zp
from solve.graphs import Graph
from solve.own_targets import table
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.correct.closed_form import is_feasible
from zeropoint.correct.contractions import contraction_kernel
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, Storage, UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.lower import integer_program
from zeropoint.materialize import materialize
from zeropoint.solve import PropagationError, is_rescale, move_rescales, propagate, rescale_count
from zeropoint.solve.check import check_kernels
from zeropoint.targets import Target, TargetError, relation_text

I8, NARROW = Storage.of("i8"), Storage.of("i8", -127)


def dense(folder: Path, relation: str, weight: str = "weight i8<-127:127> zp=0 per_channel") -> Target:
    return table(
        folder,
        f"""[[kernel]]
        name = "fully_connected"
        inputs = ["act i8", "{weight}", "bias i32 zp=0 per_channel"]
        output = "act i8"
        relation = "{relation}"
        accumulator = 32""",
        "cpu",
    )


def chain() -> Program:
    graph, random = Graph(), np.random.default_rng(0)
    value = graph.args[0]
    for _ in range(2):
        weight = random.uniform(-0.2, 0.2, (4, 4)).astype(np.float32)
        value = graph.dense(value, weight, np.full(4, 0.1, np.float32))
    return graph.finish(value)


def kernels(program: Program) -> list[QuantizeRegionOp]:
    return [region for region in regions_of(program) if not is_rescale(region)]


@pytest.mark.parametrize(
    ("relation", "fixed"),
    [
        ("fixed_scale(1/64, 3, 0)", {0: (1 / 64, 3)}),
        ("fixed_scale(1/128, 0, 1)", {1: (1 / 128, 0)}),
        ("fixed_scale(1/32, -5, out)", {-1: (1 / 32, -5)}),
        ("fixed_scale(1/64, 0, 0, 1, out)", {0: (1 / 64, 0), 1: (1 / 64, 0), -1: (1 / 64, 0)}),
        (
            "fixed_scale(1/64, 3, 0), fixed_scale(1/128, 0, 1), fixed_scale(1/32, -5)",
            {0: (1 / 64, 3), 1: (1 / 128, 0), -1: (1 / 32, -5)},
        ),
    ],
)
def test_every_port_beside_a_bias_may_be_fixed_and_the_bias_follows(
    tmp_path: Path, relation: str, fixed: dict[int, tuple[float, int]]
) -> None:
    target = dense(tmp_path, relation)
    assert relation_text(target.rows[0].relation) == relation.replace("-5, out)", "-5)")
    given = chain()
    found = move_rescales(propagate(given, target), target)
    check_kernels(found, target)
    assert rescale_count(found) == (1 if 0 in fixed and fixed[0] != fixed.get(-1, fixed[0]) else 0)
    for region in kernels(found):
        types = dict(enumerate(region.input_specs)) | {-1: region.output_specs.data[0]}
        for port, (scale, zero_point) in fixed.items():
            storage = NARROW if port == 1 else I8
            assert types[port] == UniformQuantizedType.per_layer(storage, scale, zero_point)
        np.testing.assert_array_equal(types[2].scales, types[0].scale * types[1].scales)
        assert not types[2].zero_points.any()
    x = {"x0": np.random.default_rng(1).uniform(-1, 1, 4).astype(np.float32)}
    integers = integer_program(materialize(found))
    (real,), (made,) = Interpreter(given)(x).values(), Interpreter(integers)(x).values()
    np.testing.assert_allclose(made, real, atol=0.05)
    np.testing.assert_array_equal(next(iter(NativeProgram(integers)(x).values())), made)


def test_a_fixed_weight_whose_sums_do_not_fit_the_accumulator_is_refused(tmp_path: Path) -> None:
    target = dense(tmp_path, "fixed_scale(1/1000000000, 0, 1)")
    with pytest.raises(
        PropagationError, match=r"its row fixes the weight at .*, expected a scale at which the sums fit"
    ):
        propagate(chain(), target)


def test_corrections_leave_a_fixed_weight_at_its_scale(tmp_path: Path) -> None:
    for relation, may_change in (("fixed_scale(1/128, 0, 1)", False), ("multiplier_accumulator_scale", True)):
        target = dense(tmp_path, relation)
        found = propagate(chain(), target)
        made = contraction_kernel(kernels(found)[0], found.weights, target)
        assert made is not None
        assert is_feasible(made) == may_change


@pytest.mark.parametrize(
    ("relation", "sentence"),
    [
        ("fixed_scale(1/64, 0, 2)", "found bias of role 'bias', expected a port with parameters of its own"),
        ("fixed_scale(1/64, 0, 0), fixed_scale(1/32, 0, 0)", "found two fixed scales of input 0, expected one"),
        ("fixed_scale(1/64, 0, 0), free", "found relation 'fixed_scale(1/64, 0, 0), free'"),
        ("fixed_scale(1/64, 1, 1)", "found zero point 1, expected that of the weight port, 0"),
        ("same_scale(0), same_scale(1), fixed_scale(1, 0)", "with one same_scale(PORTS) of other ports"),
        ("free", "found a bias port, expected multiplier_accumulator_scale, fixed_scale or a function"),
    ],
)
def test_what_cannot_be_fixed_is_refused(tmp_path: Path, relation: str, sentence: str) -> None:
    with pytest.raises(TargetError, match=sentence.replace("(", r"\(").replace(")", r"\)")):
        dense(tmp_path, relation)


def test_some_ports_may_share_their_scale_and_others_have_fixed_ones(tmp_path: Path) -> None:
    relation = "same_scale(0, out), fixed_scale(1/64, 5, 1)"
    columns = 'name = "multiply"\ninputs = ["act i8", "act i8"]\noutput = "act i8"'
    mine = table(tmp_path, f'[[kernel]]\n{columns}\nrelation = "{relation}"', "cpu")
    assert relation_text(mine.rows[0].relation) == relation
    graph = Graph(inputs=3)
    x, y, z = graph.args
    value = graph.kernel("multiply", graph.kernel("multiply", x, y), z)
    found = propagate(graph.finish(value), replace(mine, rows=mine.rows[:1]))
    check_kernels(found, mine)
    for region in kernels(found):
        first, second = region.input_specs
        assert first == region.output_specs.data[0] != second
        assert second == UniformQuantizedType.per_layer(I8, 1 / 64, 5)
    with pytest.raises(TargetError, match="found input 0 in same_scale and in fixed_scale, expected one of them"):
        table(tmp_path, f'[[kernel]]\n{columns}\nrelation = "same_scale(0, out), fixed_scale(1/64, 0, 0)"', "cpu")


@pytest.mark.parametrize("target", ["cpu", "cpu-wide", "litert", "tosa"])
@pytest.mark.parametrize("operation", ["tanh", "logistic"])
@pytest.mark.parametrize("storage", ["i8<-8:7>", "u8<0:127>"])
def test_a_fixed_result_has_the_whole_storage_although_a_file_narrows_the_value(
    target: str, operation: str, storage: str
) -> None:
    """The row's scale with the file's bounds of the storage held an eighth or half of the function only."""
    step, zero, most = (2 / 15, 0, 7) if storage.startswith("i8") else (2 / 127, 64, 63)
    read, made = "!quant.uniform<i8:f32, 0.03125>", f"!quant.uniform<{storage}:f32, {step}:{zero}>"
    text = f"""func.func @main(%x: tensor<9xf32>) -> tensor<9xf32> {{
      %0 = quant.qcast %x : tensor<9xf32> to tensor<9x{read}>
      %1 = quant.dcast %0 : tensor<9x{read}> to tensor<9xf32>
      %2 = stablehlo.{operation} %1 : tensor<9xf32>
      %3 = quant.qcast %2 : tensor<9xf32> to tensor<9x{made}>
      %4 = quant.dcast %3 : tensor<9x{made}> to tensor<9xf32>
      func.return %4 : tensor<9xf32>
    }}"""
    x = np.linspace(-4, 4, 9, dtype=np.float32)
    exact = np.minimum(np.tanh(x) if operation == "tanh" else 1 / (1 + np.exp(-x)), most * step)
    (found,) = zp.quantize(text, target=target)(x=x).values()
    assert np.abs(found - exact).max() <= step
