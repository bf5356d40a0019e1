"""A program that was quantized for one target becomes one of another: what only the old one wanted goes."""

from __future__ import annotations

from dataclasses import replace

from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.text import parse_program, print_program
from zeropoint.opt import parse_passes, run_passes
from zeropoint.solve import check_kernels, is_rescale
from zeropoint.targets import FixedScale, Free, target

TEXT = """
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<8xf32> {
  %s = "quant.stats"(%x) {layerStats = dense<[-2.0, 2.0]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  %t = "quant.stats"(%y) {layerStats = dense<[-1.5, 1.5]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  %0 = stablehlo.logistic %s : tensor<4xf32>
  %1 = stablehlo.add %t, %s : tensor<4xf32>
  %2 = "quant.stats"(%1) {layerStats = dense<[-3.0, 3.0]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = stablehlo.concatenate %0, %2, dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %4 = stablehlo.multiply %3, %3 : tensor<8xf32>
  %5 = "quant.stats"(%4) {layerStats = dense<[0.0, 9.0]> : tensor<2xf32>} : (tensor<8xf32>) -> tensor<8xf32>
  return %5 : tensor<8xf32>
}
"""


def regions(program: Program) -> list[QuantizeRegionOp]:
    return [op for op in program.entry.ops if isinstance(op, QuantizeRegionOp)]


def made(program: Program, kernel: str) -> UniformQuantizedType:
    (region,) = [region for region in regions(program) if region.logical_kernel.data == kernel]
    spec = region.output_specs.data[0]
    assert isinstance(spec, UniformQuantizedType)
    return spec


def passes(pipeline: str, program: Program) -> Program:
    return run_passes(program, parse_passes(pipeline))


def test_the_new_target_decides_what_the_old_one_fixed_and_rescaled() -> None:
    """LiteRT fixes 1/256 behind a logistic and rescales it to the concatenation's scale; with cpu's free table kernel
    in a target of our own nothing is fixed, and nothing is rescaled."""
    first = passes("fuse{target=litert},propagate{target=litert}", parse_program(TEXT))
    assert made(first, "logistic").scale == 1 / 256
    assert sum(map(is_rescale, regions(first))) == 1
    rows = [
        replace(row, relation=Free()) if isinstance(row.relation, FixedScale) else row for row in target("tosa").rows
    ]
    free = replace(target("tosa"), name="free", rows=tuple(rows))
    from zeropoint.fuse import fuse, unfuse
    from zeropoint.solve import propagate

    second = propagate(fuse(unfuse(first), free), free)
    assert check_kernels(second, free) is second
    assert not [region for region in regions(second) if is_rescale(region)]
    assert made(second, "add").scale == made(first, "add").scale  # what the model says stays


def test_retargeting_by_passes_gives_the_other_target_its_kernels() -> None:
    first = passes("fuse{target=litert},propagate{target=litert}", parse_program(TEXT))
    second = passes("unfuse,fuse{target=tosa},propagate{target=tosa},check-kernels{target=tosa}", first)
    assert 'zeropoint.target = "tosa"' in print_program(second)
    assert made(second, "concatenate") == made(first, "concatenate")


def test_what_the_model_pins_stays_pinned() -> None:
    pinned = "!quant.uniform<i8:f32, 0.5:3>"
    text = TEXT.replace(
        "%4 = stablehlo.multiply %3, %3",
        f"%q = quant.qcast %3 : tensor<8xf32> to tensor<8x{pinned}>\n"
        f"  %d = quant.dcast %q : tensor<8x{pinned}> to tensor<8xf32>\n"
        "  %4 = stablehlo.multiply %d, %d",
    )
    first = passes("fuse{target=litert},propagate{target=litert}", parse_program(text))
    second = passes("unfuse,fuse{target=tosa},propagate{target=tosa}", first)
    for program in (first, second):
        assert str(made(program, "concatenate")) == "!quant.uniform<i8:f32, 5.000000e-01:3>"
