"""Rescales are cancelled, merged with output scaling, absorbed, pushed forward; the counts are on the module."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.ir import SSAValue

from networks import Network, quantized
from solve.graphs import KINDS, TOY, Graph, random_graph, row
from zeropoint.fuse import fuse
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import RESCALE_COUNTS
from zeropoint.ir.constants import constant_array
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, Storage, UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import DotDimensions, DotGeneralOp
from zeropoint.ir.tensors import with_shape
from zeropoint.lower import integer_program
from zeropoint.materialize import materialize
from zeropoint.solve import is_rescale, move_rescales, propagate, rescale_count, violations
from zeropoint.solve.check import region_name
from zeropoint.solve.rescale import rescale_region
from zeropoint.targets import MultiplierScale, Target, target

I8 = Storage.of("i8")
A = UniformQuantizedType.per_layer(I8, 1 / 64)
B = UniformQuantizedType.per_layer(I8, 1 / 60, 3)
WIDE = UniformQuantizedType.per_layer(I8, 1 / 8)
NARROW = UniformQuantizedType.per_layer(I8, 1 / 1024)
TABLE = Target("toy", "fixed32", (*TOY.rows, row("product", MultiplierScale())))


def rescaled(graph: Graph, value: SSAValue, given: UniformQuantizedType, made: UniformQuantizedType) -> SSAValue:
    region = rescale_region(value, given, made, ("has", "required"))
    graph.block.add_op(region)
    return region.outputs[0]


def moved(graph: Graph, *outputs: SSAValue, before: int, after: int) -> Program:
    found = move_rescales(graph.finish(*outputs, observe=False), TABLE)
    assert not violations(found, TABLE)
    counts = {key: count.value.data for key, count in found.module.attributes[RESCALE_COUNTS].data.items()}
    assert counts == {"before": before, "after": after}
    assert rescale_count(found) == after
    return found


def kernels(program: Program) -> list[str]:
    return [region.logical_kernel.data for region in regions_of(program)]


def test_a_rescale_and_the_one_that_undoes_it_cancel() -> None:
    graph = Graph()
    made = graph.kernel("A", graph.args[0], inputs=[B], output=A)
    again = rescaled(graph, rescaled(graph, made, A, WIDE), WIDE, A)
    moved(graph, graph.kernel("same", again, inputs=[A], output=A), before=2, after=0)


def test_two_rescales_in_a_row_become_one() -> None:
    graph = Graph()
    made = graph.kernel("A", graph.args[0], inputs=[B], output=A)
    last = rescaled(graph, rescaled(graph, made, A, WIDE), WIDE, B)
    found = moved(graph, graph.kernel("same", last, inputs=[B], output=B), before=2, after=1)
    (left,) = filter(is_rescale, regions_of(found))
    assert (left.input_specs.data[0], left.output_specs.data[0]) == (A, B)


def test_a_rescale_that_cuts_values_off_stays() -> None:
    graph = Graph()
    made = graph.kernel("A", graph.args[0], inputs=[B], output=A)
    again = rescaled(graph, rescaled(graph, made, A, NARROW), NARROW, A)
    moved(graph, graph.kernel("same", again, inputs=[A], output=A), before=2, after=2)


def test_two_rescales_of_one_value_to_one_type_become_one() -> None:
    graph = Graph()
    made = graph.kernel("A", graph.args[0], inputs=[B], output=A)
    readers = [graph.kernel("same", rescaled(graph, made, A, B), inputs=[B], output=B) for _ in range(3)]
    moved(graph, *readers, before=3, after=1)


def test_a_rescale_is_merged_with_the_output_scaling_of_the_kernel_before_it() -> None:
    """RFC, export: rescaling only happens on the outputs."""
    graph = Graph()
    made = graph.kernel("product", graph.args[0], inputs=[A], output=WIDE, label="made")
    reader = graph.kernel("same", rescaled(graph, made, WIDE, B), inputs=[B], output=B)
    found = moved(graph, reader, before=1, after=0)
    assert regions_of(found)[0].output_specs.data[0] == B


def test_the_output_of_a_kernel_that_something_else_reads_or_that_is_fixed_keeps_its_type() -> None:
    graph = Graph()
    made = graph.kernel("product", graph.args[0], inputs=[A], output=WIDE)
    reader = graph.kernel("same", rescaled(graph, made, WIDE, B), inputs=[B], output=B)
    moved(graph, reader, made, before=1, after=1)
    graph = Graph()
    made = graph.kernel("A", graph.args[0], inputs=[B], output=A)
    moved(graph, graph.kernel("same", rescaled(graph, made, A, B), inputs=[B], output=B), before=1, after=1)


def test_a_kernel_that_takes_any_parameters_reads_the_value_as_it_was() -> None:
    graph = Graph()
    made = graph.kernel("A", graph.args[0], inputs=[B], output=A)
    reader = graph.kernel("free", rescaled(graph, made, A, WIDE), inputs=[WIDE], output=B)
    found = moved(graph, reader, before=1, after=0)
    assert regions_of(found)[1].input_specs.data[0] == A


def test_a_kernel_that_wants_a_zero_point_keeps_its_rescale() -> None:
    graph = Graph()
    made = graph.kernel("B", graph.args[0], inputs=[A], output=B)
    reader = graph.kernel("centred", rescaled(graph, made, B, WIDE), inputs=[WIDE], output=B)
    moved(graph, reader, before=1, after=1)


def test_a_rescale_is_pushed_behind_a_kernel_that_makes_a_smaller_value_and_absorbed_there() -> None:
    """RFC, export: the scaling of the inputs can be pushed forward."""
    graph = Graph(size=8)
    made = graph.kernel("A", graph.args[0], inputs=[B], output=A)
    cut = graph.kernel("same", rescaled(graph, made, A, B), size=2, inputs=[B], output=B, label="cut")
    joined = graph.kernel("same", cut, inputs=[B], output=B)
    found = moved(graph, joined, before=1, after=1)
    assert [region_name(region) for region in regions_of(found)] == [
        "A 'A0'",
        "same 'cut'",
        "rescale 'A0'",
        "same 'same2'",
    ]
    graph = Graph(size=8)
    made = graph.kernel("A", graph.args[0], inputs=[B], output=A)
    cut = graph.kernel("same", rescaled(graph, made, A, B), size=2, inputs=[B], output=B)
    assert kernels(moved(graph, graph.kernel("free", cut, inputs=[B], output=A), before=1, after=0)) == [
        "A",
        "same",
        "free",
    ]


def test_a_contraction_that_absorbs_a_rescale_gets_new_weight_and_bias_scales() -> None:
    net = Network([(1, 4)])
    weight = net.constant(np.arange(8).reshape(4, 2) - 3.0)
    result = with_shape(net.values[0], [1, 2])
    product = net.insert(DotGeneralOp(net.values[0], weight, result, DotDimensions((), (), (1,), (0,))))
    program = fuse(net.finish([product]))
    (region,) = regions_of(program)
    made = rescale_region(region.inputs[0], A, WIDE, ("", ""))
    program.entry.insert_op_before(made, region)
    region.operands[0] = made.outputs[0]
    channels = UniformQuantizedType.per_channel(Storage.of("i8", -127), 1, [1.0, 1.0])
    region.input_specs = type(region.input_specs)([WIDE, channels])
    region.output_specs = type(region.output_specs)([WIDE])
    found = move_rescales(program, target("cpu"))
    (region,) = regions_of(found)
    assert region.input_specs.data[0] == A
    weights = constant_array(region.inputs[1], found.weights)
    np.testing.assert_allclose(region.input_specs.data[1].scales, np.abs(weights).max(axis=0) / 127)


@pytest.mark.parametrize("seed", range(40))
def test_motion_never_adds_a_rescale_and_every_constraint_still_holds(seed: int) -> None:
    solved = propagate(random_graph(seed, KINDS), TOY)
    found = move_rescales(solved, TOY)
    assert rescale_count(found) <= rescale_count(solved)
    assert not violations(found, TOY)


def test_what_is_merged_computes_the_same_to_a_step() -> None:
    net = Network([(1, 6)])
    program = net.finish(
        [
            net.insert(
                DotGeneralOp(
                    net.values[0],
                    net.constant(np.random.default_rng(0).normal(size=(6, 3))),
                    with_shape(net.values[0], [1, 3]),
                    DotDimensions((), (), (1,), (0,)),
                )
            )
        ]
    )
    sample = {"x0": np.random.default_rng(1).uniform(-1, 1, (1, 6)).astype(np.float32)}
    solved = quantized(program, [sample], stage="propagated")
    region = next(op for op in solved.entry.ops if isinstance(op, QuantizeRegionOp))
    coarse = UniformQuantizedType.per_layer(I8, region.output_specs.data[0].scale * 1.5)
    made = rescale_region(region.outputs[0], region.output_specs.data[0], coarse, ("", ""))
    solved.entry.insert_op_after(made, region)
    region.outputs[0].replace_uses_with_if(made.outputs[0], lambda use: use.operation is not made)
    after = move_rescales(solved, target("cpu"))
    assert rescale_count(after) == 0
    found = [Interpreter(integer_program(materialize(p)))(sample)["y0"] for p in (solved, after)]
    np.testing.assert_allclose(found[0], found[1], atol=coarse.scale * 1.01)
