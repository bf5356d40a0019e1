"""Range analysis proves that no integer of a layer normalization overflows; rows attain its bounds."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper
from xdsl.dialects.func import ReturnOp

from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import AddOp, ConstantOp, MultiplyOp
from zeropoint.ir.tensors import element_of
from zeropoint.ir.text import parse_program
from zeropoint.lower import integer_io
from zeropoint.numerics.layer_norm import LayerNorm, reciprocal_root
from zeropoint.pipeline import Options, quantize
from zeropoint.ranges import obligations, ranges_of
from zeropoint.ranges.normalized_rows import RowOps, steps
from zeropoint.report.explain.reaches import reaches

ROWS = 64
FLOATS_BESIDE = """func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %hidden = stablehlo.constant dense<0xFF800000> : tensor<4xf32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0 = stablehlo.add %x, %hidden : tensor<4xf32>
  %1 = stablehlo.add %x, %half : tensor<4xf32>
  %2 = stablehlo.add %x, %zero : tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}
"""


def layer_norm(terms: int, epsilon: float = 1e-5) -> Program:
    """The integer program of a layer normalization, whose input and output are integers."""
    nodes = [helper.make_node("LayerNormalization", ["x", "g", "b"], ["y"], axis=-1, epsilon=epsilon, name="norm")]
    random = np.random.default_rng(0)
    held = [
        numpy_helper.from_array(array.astype(np.float32), name)
        for name, array in (("g", random.normal(1, 0.3, terms)), ("b", random.normal(size=terms)))
    ]
    ports = (
        [helper.make_tensor_value_info("x", 1, [ROWS, terms])],
        [helper.make_tensor_value_info("y", 1, [ROWS, terms])],
    )
    graph = helper.make_graph(nodes, "g", *ports, held)
    program = load_onnx_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), {})
    samples = [{"x": random.normal(size=(ROWS, terms)).astype(np.float32)} for _ in range(2)]
    return integer_io(quantize(program, samples, Options(target="cpu-integer")).integer)


def rows(terms: int, low: int, high: int) -> np.ndarray:
    """Constant rows, one outlier, two values, steps of 1, and random ones of every size."""
    random = np.random.default_rng(1)
    made = random.integers(low, high, (ROWS, terms), endpoint=True) >> random.integers(0, 14, (ROWS, 1))
    made[0], made[1], made[2] = low, high, 0
    made[3:6] = [[low], [0], [high - 1]]
    made[3:6, -1] = [high, 1, high]
    made[6, ::2], made[6, 1::2] = low, high
    made[7] = np.arange(terms) % 2
    made[8], made[8, 0] = high, low
    return made.astype(np.int16)


@pytest.mark.parametrize(("terms", "epsilon"), [(2, 1e-5), (3, 0.0), (90, 1e-12), (384, 1e-5), (4096, 1e-3)])
def test_every_integer_of_a_layer_norm_fits_its_type_and_stays_in_its_bounds(terms: int, epsilon: float) -> None:
    program = layer_norm(terms, epsilon)
    ranges = ranges_of(program)
    shown = [each for op in program.entry.ops for each in obligations(ranges, op)]
    assert len(shown) > 40
    assert [(each.op, each.what) for each in shown if not each.holds] == []

    low, high = (ranges.of(program.entry.args[0]).hull.least, ranges.of(program.entry.args[0]).hull.greatest)
    values = [
        result
        for op in program.entry.ops
        for result in op.results
        if not isinstance(op, ConstantOp) and str(element_of(result)) in ("i32", "i64", "i16")
    ]
    last = program.entry.last_op
    assert isinstance(last, ReturnOp)
    last.operands, program.main.res_attrs = values, None
    program.main.update_function_type()
    found = Interpreter(program).run_values([rows(terms, max(low, -(1 << 15)), high)])
    attained: dict[str, float] = {}
    for value, array in zip(values, found, strict=True):
        bounds = ranges.of(value).hull
        assert bounds.least <= int(array.min()), value
        assert int(array.max()) <= bounds.greatest, value
        reach = max(-bounds.least, bounds.greatest, 1)
        attained[value.owner.name] = max(attained.get(value.owner.name, 0), np.abs(array.astype(float)).max() / reach)
    assert attained["stablehlo.multiply"] > 0.9


def test_parts_of_newtons_steps_contain_every_root() -> None:
    bounds = steps(384).lines
    m = np.concatenate([np.random.default_rng(0).integers(1 << 30, 1 << 32, 100_000), [1 << 30, (1 << 32) - 1]])
    y = reciprocal_root(m)
    assert bounds[-1][0] <= y.min()
    assert y.max() <= bounds[-1][1] < 2**30.2


@pytest.mark.parametrize("terms", [2, 90, 16384])
def test_normalized_values_are_at_most_the_root_of_the_terms(terms: int) -> None:
    """t is (q - mean) / deviation with F fraction bits; a row of one outlier attains sqrt(n - 1)."""
    norm = LayerNorm(terms, 0)
    bound = steps(terms).normalized
    assert bound <= 1.01 * np.sqrt(terms - 1) * 2**norm.fraction + 2
    q = np.zeros((1, terms), np.int64)
    q[0, 0] = 30000
    assert 0.99 * bound - 2 <= np.abs(norm.normalized(q)).max() <= bound


def test_explain_has_a_row_for_every_step_and_none_lacks_bits() -> None:
    found = [reach for reach in reaches(layer_norm(384)) if reach.name == "norm"]
    assert len(found) > 40
    assert min(min(reach.headroom) for reach in found) >= 0


def test_a_step_that_is_changed_is_not_proved() -> None:
    """With another factor in the line, the steps may diverge, and their bounds are not known."""
    program = layer_norm(90)
    ops = RowOps(program.entry, program.weights)
    (line,) = [op for op in program.entry.ops if isinstance(op, MultiplyOp) and ops.number(op.rhs) == 4981]
    line.operands[1] = line.operands[0]
    ranges = ranges_of(program)
    assert any(not each.holds for op in program.entry.ops for each in obligations(ranges, op))


def test_numbers_that_are_no_integers_are_told_apart() -> None:
    """The block of a layer norm may have floats: -inf of a mask, and 0.5, which is not 0."""
    program = parse_program(FLOATS_BESIDE)
    ops = RowOps(program.entry, program.weights)
    added = [op.result for op in program.entry.ops if isinstance(op, AddOp)]
    assert [ops.op(AddOp, *result.owner.operands) for result in added] == added
