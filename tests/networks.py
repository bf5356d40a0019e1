"""Small float networks for tests: a builder of programs, numbers for their values, and what they are quantized to.

Without hypothesis, whose import takes half a second in each process that a test starts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from zeropoint.calibrate import collect, instrument, state_ranges
from zeropoint.fuse import fuse
from zeropoint.ir.constants import constant_op
from zeropoint.ir.locations import name_location
from zeropoint.ir.program import Program, name_attributes
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ConvolutionLayout,
    ReduceOp,
)
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import Array, shape_of, with_shape
from zeropoint.ir.verification import verify
from zeropoint.ir.weights import Weights
from zeropoint.materialize import materialize
from zeropoint.simplify import simplify
from zeropoint.solve import propagate
from zeropoint.targets import target

Shape = tuple[int, ...]


class Network:
    """A float program under construction: ops of one layer share a name, as those of an ONNX node do."""

    def __init__(self, shapes: Sequence[Shape], seed: int = 0):
        self.weights = Weights()
        self.random = np.random.default_rng(seed)
        self.function = FuncOp("main", ([TensorType(f32, shape) for shape in shapes], []))
        self.values: list[SSAValue] = list(self.function.body.block.args)
        self.name = "network"

    def layer(self, kind: str) -> None:
        """Begin a layer."""
        self.name = f"{kind}{len(self.values)}"

    def insert(self, op: Operation) -> SSAValue:
        op.location = name_location(self.name)
        self.function.body.block.add_op(op)
        return op.results[0]

    def constant(self, array: Array) -> SSAValue:
        return self.insert(constant_op(np.asarray(array, np.float32), self.weights))

    def splat(self, number: float, like: SSAValue) -> SSAValue:
        return self.insert(BroadcastInDimOp(self.constant(np.array(number)), like.type, []))

    def along(self, array: Array, like: SSAValue, axis: int) -> SSAValue:
        """A constant broadcast from one dimension to a shape."""
        return self.insert(BroadcastInDimOp(self.constant(array), like.type, [axis]))

    def reduced(self, value: SSAValue, axes: Sequence[int]) -> SSAValue:
        kept = [size for axis, size in enumerate(shape_of(value)) if axis not in axes]
        zero = self.constant(np.array(0.0))
        return self.insert(ReduceOp([value], [zero], [with_shape(value, kept)], axes, binary_body(AddOp, f32)))

    def finish(self, outputs: Sequence[SSAValue]) -> Program:
        """The program that returns the given values."""
        self.function.body.block.add_op(ReturnOp(*outputs))
        self.function.update_function_type()
        self.function.properties["arg_attrs"] = name_attributes([f"x{i}" for i in range(len(self.function.args))])
        self.function.properties["res_attrs"] = name_attributes([f"y{i}" for i in range(len(outputs))])
        return Program(ModuleOp([self.function]), self.weights)


# What arrays hold. A network that was trained looks like the first of each; the others are at the edges.

WEIGHTS: dict[str, Callable[[np.random.Generator, Shape], Array]] = {
    "normal": lambda r, shape: r.normal(0, 1, shape) / np.sqrt(max(1, prod(shape[1:]))),
    "some channels zero": lambda r, shape: (
        r.normal(0, 0.5, shape) * (r.random(shape[:1]) < 0.5).reshape(-1, *[1] * (len(shape) - 1))
    ),
    "channels of many magnitudes": lambda r, shape: (
        r.normal(0, 1, shape) * 10.0 ** r.uniform(-9, 3, shape[:1]).reshape(-1, *[1] * (len(shape) - 1))
    ),
    "positive": lambda r, shape: r.uniform(0, 1, shape),
    "zero": lambda r, shape: np.zeros(shape),
    "tiny": lambda r, shape: r.normal(0, 1e-8, shape),
    "large": lambda r, shape: r.normal(0, 1e4, shape),
}
BIASES: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "normal": lambda r, size: r.normal(0, 0.5, size),
    "zero": lambda r, size: np.zeros(size),
    "some large": lambda r, size: r.normal(0, 1, size) * 10.0 ** r.uniform(0, 6, size),
    "positive": lambda r, size: r.uniform(1, 5, size),
}
INPUTS: dict[str, Callable[[np.random.Generator, Shape], Array]] = {
    "both signs": lambda r, shape: r.uniform(-1, 1, shape),
    "image": lambda r, shape: r.uniform(0, 1, shape),
    "negative": lambda r, shape: r.uniform(-3, -1, shape),
    "constant": lambda r, shape: np.full(shape, 0.7),
    "zero": lambda r, shape: np.zeros(shape),
    "tiny": lambda r, shape: r.normal(0, 1e-6, shape),
    "large": lambda r, shape: r.normal(0, 1e9, shape),
}


def channels_last(rank: int) -> ConvolutionLayout:
    """`[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`."""
    spatial, kernel = tuple(range(1, 1 + rank)), tuple(range(rank))
    return ConvolutionLayout(0, rank + 1, spatial, rank, rank + 1, kernel, 0, rank + 1, spatial)


def quantized(
    program: Program, calibration: Sequence[dict[str, Array]], profile: str | None = None, stage: str = "quantized"
) -> Program:
    """The program after a stage: fused, calibrated, propagated, quantized; every stage is verified."""
    asked = instrument(fuse(simplify(program)))
    calibrated = state_ranges(asked, collect(asked, calibration))
    propagated = propagate(calibrated, target("cpu"), profile)
    stages = {"fused": asked, "calibrated": calibrated, "propagated": propagated, "quantized": materialize(propagated)}
    for made in stages.values():
        verify(made.module)
    return stages[stage]
