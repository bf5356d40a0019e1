"""Fusion sees through what only states something of a value."""

from __future__ import annotations

from pathlib import Path

from zeropoint.calibrate import asks_all, collect, instrument, samples, state_ranges
from zeropoint.frontend import load_model
from zeropoint.fuse import fuse, unfuse
from zeropoint.ir.annotations import FACTS
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.text import parse_program, print_program
from zeropoint.lower import integer_program
from zeropoint.materialize import materialize
from zeropoint.simplify import simplify
from zeropoint.solve import move_rescales, propagate
from zeropoint.targets import target

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
TEXT = """
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0 = stablehlo.add %x, %y : tensor<4xf32>
  %1 = "quant.stats"(%0) {layerStats = dense<[-2.0, 2.0]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = stablehlo.maximum %1, %zero : tensor<4xf32>
  %3 = "quant.stats"(%2) {layerStats = dense<[0.0, 2.0]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
"""


def regions(program: Program) -> list[QuantizeRegionOp]:
    return [op for op in program.entry.ops if isinstance(op, QuantizeRegionOp)]


def without_facts(program: Program) -> Program:
    """The program without the names of the ops whose statistics decided: the first or the last op of a kernel."""
    for op in program.module.walk():
        op.attributes.pop(FACTS, None)
    program.main.properties.pop("arg_attrs", None)
    return program


def test_statistics_in_the_middle_of_a_kernel_go_inside_and_those_of_its_output_stay_behind_it() -> None:
    fused = fuse(parse_program(TEXT))
    (region,) = regions(fused)
    assert region.logical_kernel.data == "add"
    (inside,) = [op for op in region.body.block.ops if isinstance(op, StatisticsOp)]
    assert inside.operands[0].owner.name == "stablehlo.add"
    (behind,) = [op for op in fused.entry.ops if isinstance(op, StatisticsOp)]
    assert behind.arg is region.outputs[0]
    assert print_program(parse_program(print_program(fused))) == print_program(fused)


def test_unfusing_gives_the_statistics_back() -> None:
    program = parse_program(TEXT)
    restored = unfuse(fuse(program))
    given, made = ([op for op in p.entry.ops if not isinstance(op, ConstantOp)] for p in (program, restored))
    assert [op.name for op in made] == [op.name for op in given]
    assert [op.operands[0].owner.name for op in made[1:]] == [op.operands[0].owner.name for op in given[1:]]


def test_annotating_every_value_first_equals_fusing_first_to_the_byte() -> None:
    """Same kernels, same scales, same integers: on the digits network, with statistics after every op."""
    network, table = simplify(load_model(DIGITS / "digits.onnx")), target("cpu")
    some = [sample for sample, _ in zip(samples(DIGITS / "calib.npz", network.inputs), range(4), strict=False)]

    def annotated(program: Program, *, every_result: bool) -> Program:
        asked = instrument(program, asks=asks_all, every_result=every_result)
        return state_ranges(asked, collect(asked, some))

    first = fuse(annotated(network, every_result=True), table)
    then = annotated(fuse(network, table), every_result=False)
    assert sum(isinstance(op, StatisticsOp) for region in regions(first) for op in region.body.block.ops) > 10
    solved = [move_rescales(propagate(program, table), table) for program in (first, then)]
    kernels, specs = (
        [[get(region) for region in regions(program)] for program in solved]
        for get in (lambda r: r.logical_kernel.data, lambda r: (r.input_specs, r.output_specs))
    )
    assert kernels[0] == kernels[1]
    assert specs[0] == specs[1]
    first_text, then_text = (print_program(without_facts(integer_program(materialize(p)))) for p in solved)
    assert first_text == then_text
