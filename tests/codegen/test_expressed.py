"""Contractions that give floats their accumulators: the interpreter's on every bit, in one kernel."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f32, i32
from xdsl.ir import SSAValue

from codegen.contractions import Builder
from codegen.exactness import HERE, assert_native_is_exact
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.kernels.integer_arithmetic import Expressed
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.lowering import steps_of
from zeropoint.ir.program import Program
from zeropoint.ir.quant import Storage, StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ClampOp,
    ConvolutionLayout,
    ConvolutionOp,
    DotDimensions,
    DotGeneralOp,
    UniformDequantizeOp,
)
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of, with_element

INSTRUCTION_SETS = pytest.mark.parametrize("isa", HERE, ids=[row.name for row in HERE])


class Net(Builder):
    """A contraction of i8 with what follows; `residual` is a second input, of floats."""

    def expressed(self, sums: SSAValue, axis: int, *, bias: bool, per_channel: bool) -> SSAValue:
        """Biases, and the accumulators at one scale a channel or one of all."""
        channels = shape_of(sums)[axis]
        if bias:
            biases = self.constant(self.random.integers(-9999, 9999, channels).astype(np.int32))
            sums = self.insert(AddOp(sums, self.insert(BroadcastInDimOp(biases, sums.type, [axis]))))
        scales = np.exp(self.random.normal(size=channels) - 8)
        storage = Storage.of("i32")
        quantized = (
            UniformQuantizedType.per_channel(storage, axis, scales.tolist())
            if per_channel
            else UniformQuantizedType.per_layer(storage, float(scales[0]))
        )
        return self.insert(UniformDequantizeOp(self.insert(StorageCastOp(sums, with_element(sums, quantized)))))

    def tail(self, value: SSAValue, what: str) -> SSAValue:
        """Bounds, a residual, or both, in the order said."""
        for name in what.split():
            if name == "bounds":
                low, high = (self.constant(np.array(number, np.float32)) for number in (-0.5, 6.0))
                value = self.insert(ClampOp(low, value, high))
            else:
                other = self.function.body.block.insert_arg(TensorType(f32, shape_of(value)), 1)
                value = self.insert(AddOp(value, other))
        return value


def samples(program: Program, seed: int) -> list[dict[str, Array]]:
    random = np.random.default_rng(seed)
    made: dict[str, Array] = {}
    for port, value in zip(program.inputs, program.entry.args, strict=True):
        shape, dtype = shape_of(value), element_dtype(element_of(value))
        integers = random.integers(-128, 128, shape).astype(np.int8)
        made[port.name] = integers if dtype == np.int8 else random.normal(size=shape).astype(np.float32)
    return [made]


def assert_one_kernel(program: Program) -> None:
    """An image a step, and nothing else that computes with the accumulators."""
    graph = steps_of(program, HERE[0])
    contractions = [step.kernel for step in graph.steps if isinstance(step.kernel, Contraction)]
    assert contractions
    assert all(isinstance(kernel.arithmetic, Expressed) for kernel in contractions)


PRODUCTS = [(1, 3, 5), (7, 70, 33), (3, 2000, 16), (30, 384, 100)]
"""Rows, inputs and outputs. Portable code of the last one takes half a second to compile; the second has its parts."""


@pytest.mark.parametrize("tail", ["", "bounds", "residual", "bounds residual", "residual bounds"])
@pytest.mark.parametrize(
    ("isa", "rows", "inputs", "outputs"),
    [(isa, *shape) for isa in HERE for shape in (PRODUCTS if isa.name != "portable" else PRODUCTS[:3])],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_products(isa: InstructionSet, rows: int, inputs: int, outputs: int, tail: str) -> None:
    net = Net([(rows, inputs)], seed=rows + len(tail))
    weights = net.constant(net.random.integers(-127, 128, (inputs, outputs)).astype(np.int8))
    sums = net.insert(
        DotGeneralOp(net.values[0], weights, TensorType(i32, (rows, outputs)), DotDimensions((), (), (1,), (0,)))
    )
    value = net.expressed(sums, 1, bias=rows != 7, per_channel=rows != 3)
    program = net.finish(net.tail(value, tail))
    assert_one_kernel(program)
    assert_native_is_exact(program, samples(program, rows), isa, threads=(1, 3))


@INSTRUCTION_SETS
@pytest.mark.parametrize(
    ("channels", "outputs", "kernel", "stride"), [c for c in itertools.product((3, 20), (5, 48), (1, 3), (1, 2))]
)
def test_convolutions(isa, channels: int, outputs: int, kernel: int, stride: int) -> None:
    # One tail a shape: every combination of it with any three of the four numbers occurs.
    odd = (channels == 3) ^ (outputs == 5) ^ (kernel == 1) ^ (stride == 1)
    tail = "bounds residual" if odd else ""
    net = Net([(2, channels, 9, 9)], seed=channels * outputs + kernel)
    weights = net.constant(net.random.integers(-127, 128, (outputs, channels, kernel, kernel)).astype(np.int8))
    size = (9 - kernel) // stride + 1
    convolution = ConvolutionOp(
        net.values[0],
        weights,
        TensorType(i32, (2, outputs, size, size)),
        ConvolutionLayout.channels_first(2),
        window_strides=(stride, stride),
    )
    value = net.expressed(net.insert(convolution), 1, bias=True, per_channel=True)
    program = net.finish(net.tail(value, tail))
    assert_one_kernel(program)
    assert_native_is_exact(program, samples(program, outputs), isa, threads=(2,))
