"""How long the solver takes for models of 500 to 20,000 ops: fuse, propagate, move rescales, materialize.

    python bench/solve.py [--ops 500,1000,2000,5000,10000,20000] [--target cpu]

The models are residual networks with branches: convolutions with bias and bound, depthwise convolutions, residual adds,
concatenations, pools, functions of one value, and a logistic whose fixed parameters collide at a concatenation once a
block. Statistics are stated beforehand, so that nothing is run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from zeropoint.fuse import fuse
from zeropoint.ir.constants import constant_op
from zeropoint.ir.locations import name_location
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ConcatenateOp,
    ConvolutionLayout,
    ConvolutionOp,
    LogisticOp,
    MaximumOp,
    SliceOp,
    TanhOp,
)
from zeropoint.ir.tensors import with_shape
from zeropoint.ir.weights import Weights
from zeropoint.materialize import materialize
from zeropoint.solve import move_rescales, propagate, rescale_count, violations
from zeropoint.targets import target

CHANNELS, SIDE = 8, 4
SIZES = (500, 1000, 2000, 5000, 10_000, 20_000)


class Builder:
    """A float program under construction; `count` ops so far, constants and the return apart."""

    def __init__(self, seed: int = 0):
        self.random = np.random.default_rng(seed)
        self.weights = Weights()
        self.input = TensorType(f32, [1, CHANNELS, SIDE, SIDE])
        self.block = Block(arg_types=[self.input])
        self.count = 0
        self.block.args[0].location = name_location("x")

    def add(self, op: Operation) -> SSAValue:
        """Append an op."""
        op.location = name_location(f"op{self.count}")
        self.block.add_op(op)
        self.count += 1
        return op.results[0]

    def constant(self, array: np.ndarray) -> SSAValue:
        """Append a constant."""
        op = constant_op(array.astype(np.float32), self.weights)
        self.block.add_op(op)
        return op.output

    def convolution(self, value: SSAValue, groups: int = 1) -> SSAValue:
        """Convolution, bias, relu: four ops."""
        weight = self.constant(self.random.normal(0, 0.3, (CHANNELS, CHANNELS // groups, 1, 1)))
        layout = ConvolutionLayout.channels_first(2)
        product = self.add(ConvolutionOp(value, weight, value.type, layout, feature_group_count=groups))
        bias = self.add(BroadcastInDimOp(self.constant(self.random.normal(size=CHANNELS)), value.type, [1]))
        total = self.add(AddOp(product, bias))
        zero = self.add(BroadcastInDimOp(self.constant(np.zeros(())), value.type, []))
        return self.add(MaximumOp(total, zero))

    def residual_block(self, value: SSAValue) -> SSAValue:
        """A residual branch, a gate that is concatenated with it, and half of that again."""
        branch = self.convolution(self.convolution(value), CHANNELS)
        total = self.add(AddOp(value, branch))
        gate = self.add(LogisticOp(self.convolution(total)))
        both = self.add(ConcatenateOp([total, gate], 1, with_shape(value, [1, 2 * CHANNELS, SIDE, SIDE])))
        half = self.add(SliceOp(both, [0, CHANNELS // 2, 0, 0], [1, CHANNELS // 2 + CHANNELS, SIDE, SIDE], [1] * 4))
        return self.add(TanhOp(self.convolution(half)))


def model(ops: int) -> Program:
    """A float program of at least so many ops."""
    builder = Builder()
    value: SSAValue = builder.block.args[0]
    while builder.count < ops:
        value = builder.residual_block(value)
    builder.block.add_op(ReturnOp(value))
    function = FuncOp("main", FunctionType.from_lists([builder.input], [value.type]), Region(builder.block))
    return Program(ModuleOp([function]), builder.weights)


def with_statistics(fused: Program, seed: int = 0) -> Program:
    """Ranges for every value that a region makes or reads."""
    program, random = fused.clone(), np.random.default_rng(seed)
    block = program.entry
    made = [op for op in block.ops if isinstance(op, QuantizeRegionOp)]
    for value in [*block.args, *(region.outputs[0] for region in made)]:
        stats = StatisticsOp(value, (-float(random.uniform(0.5, 2)), float(random.uniform(0.5, 8))))
        first = block.first_op if value.owner is block else value.owner.next_op
        assert first is not None
        block.insert_op_before(stats, first)
        value.replace_uses_with_if(stats.res, lambda use, stats=stats: use.operation is not stats)
    return program


def timed(step: Callable[[], Program]) -> tuple[Program, float]:
    """The result of a stage, and the seconds of processor time it took."""
    started = time.process_time()
    result = step()
    return result, time.process_time() - started


def measure(ops: int, name: str) -> tuple[list[float], int, int]:
    """Seconds of fuse, propagate, move rescales, materialize; the rescales; the constraints that do not hold."""
    table, program = target(name), model(ops)
    fused, fusing = timed(lambda: fuse(program, table))
    stated = with_statistics(fused)
    solved, solving = timed(lambda: propagate(stated, table))
    moved, moving = timed(lambda: move_rescales(solved, table))
    _, making = timed(lambda: materialize(moved))
    return [fusing, solving, moving, making], rescale_count(moved), len(violations(moved, table))


def main() -> None:
    """Print a table: seconds a stage, milliseconds an op."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ops", default=",".join(map(str, SIZES)))
    parser.add_argument("--target", default="cpu")
    arguments = parser.parse_args()
    columns = ("fuse", "propagate", "motion", "materialize", "total s", "ms/op", "rescales")
    print(f"{'ops':>7}" + "".join(f"{column:>13}" for column in columns))
    for ops in map(int, arguments.ops.split(",")):
        seconds, rescales, broken = measure(ops, arguments.target)
        total = sum(seconds)
        figures = "".join(f"{figure:13.2f}" for figure in (*seconds, total, 1000 * total / ops))
        print(f"{ops:7d}{figures}{rescales:13d}" + (f"  {broken} constraints broken" if broken else ""))


if __name__ == "__main__":
    main()
