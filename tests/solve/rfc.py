"""What the tests of the RFC share: a map of sentences to tests, a small network, its stages, what they hold."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute

from networks import Network
from zeropoint.calibrate import collect, instrument, state_ranges
from zeropoint.fuse import fuse
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    UniformQuantizedType,
)
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import (
    AddOp,
    ClampOp,
    ConstantOp,
    ConvolutionLayout,
    ConvolutionOp,
    DivideOp,
    DotDimensions,
    DotGeneralOp,
    LogisticOp,
    MaximumOp,
    MultiplyOp,
)
from zeropoint.ir.tensors import Array, element_of, with_shape
from zeropoint.ir.text import parse_program
from zeropoint.simplify import simplify
from zeropoint.solve import (
    move_rescales,
    propagate,
    wanted_statistics,
)
from zeropoint.solve.classes import real_range
from zeropoint.targets import target

TESTS = Path(__file__).parents[1]


@cache
def _names(file: str) -> frozenset[str]:
    """The tests of a Python file, or the name of a file of passes."""
    path = TESTS / file
    if path.suffix == ".mlir":
        return frozenset([path.stem] if path.exists() else [])
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def unknown_tests(sentences: Mapping[str, Iterable[str]], home: str) -> list[str]:
    """The names in a map of sentences that no test has: `test_name` in file `home`, or `folder/file.py::test_name`.

    A sentence without a test counts as well.
    """
    missing = [sentence for sentence, tests in sentences.items() if not list(tests)]
    for tests in sentences.values():
        for test in tests:
            file, _, name = test.rpartition("::")
            if file.endswith(".mlir") or test.endswith(".mlir"):
                file, name = test, Path(test).stem
            if name not in _names(file or home):
                missing.append(test)
    return missing


def solved(program: Program, samples: Sequence[dict[str, Array]], name: str = "cpu", *, moved: bool = True) -> Program:
    """The program with specs for a target."""
    table = target(name)
    asked = instrument(fuse(simplify(program), table), asks=wanted_statistics(table))
    found = propagate(state_ranges(asked, collect(asked, samples)), table)
    return move_rescales(found, table) if moved else found


RANDOM = np.random.default_rng(0)
SAMPLES = [{"x0": RANDOM.uniform(-1, 1, (1, 2, 5, 5)).astype(np.float32)} for _ in range(3)]


def network() -> Program:
    """conv + bias + relu, a logistic of that, a residual sum + relu, a mean, a product with a weight."""
    random = np.random.default_rng(1)
    net = Network([(1, 2, 5, 5)])
    net.name = "conv"
    result = with_shape(net.values[0], [1, 3, 3, 3])
    weight = net.constant(random.normal(size=(3, 2, 3, 3)))
    value = net.insert(ConvolutionOp(net.values[0], weight, result, ConvolutionLayout.channels_first(2)))
    value = net.insert(AddOp(value, net.along(np.array([0.1, 0.2, 0.3]), value, 1)))
    value = net.insert(MaximumOp(value, net.splat(0.0, value)))
    net.name = "gate"
    gate = net.insert(LogisticOp(value))
    net.name = "residual"
    value = net.insert(AddOp(gate, value))
    value = net.insert(MaximumOp(value, net.splat(0.0, value)))
    net.name = "mean"
    total = net.reduced(value, [2, 3])
    value = net.insert(DivideOp(total, net.splat(9.0, total)))
    net.name = "dense"
    dims = DotDimensions((), (), (1,), (0,))
    weight = net.constant(random.normal(size=(3, 4)))
    return net.finish([net.insert(DotGeneralOp(value, weight, with_shape(value, [1, 4]), dims))])


def types(text: str) -> list[Attribute]:
    """Element types, from their text."""
    program = parse_program(
        "func.func @main(" + ", ".join(f"%a{i}: tensor<{t}>" for i, t in enumerate(text.split(";"))) + ") { return }"
    )
    return [element_of(argument) for argument in program.entry.args]


def with_specs(program: Program, inputs: str, output: str, kernel: str | None = None) -> Program:
    """The program with other attributes on its only region of a kernel."""
    program = program.clone()
    (region,) = [r for r in regions_of(program) if kernel in (None, r.logical_kernel.data)]
    region.input_specs, region.output_specs = ArrayAttr(types(inputs)), ArrayAttr(types(output))
    return program


def made(program: Program) -> list[tuple[str, str]]:
    """The ops of a program and the element type that each makes, without constants."""
    return [
        (op.name.removeprefix("stablehlo."), str(element_of(op.results[0])).removeprefix("!quant."))
        for op in program.entry.ops
        if op.results and not isinstance(op, ConstantOp)
    ]


def names(program: Program) -> list[str]:
    return [name for name, _ in made(program)]


def kernels(program: Program) -> list[str]:
    return [region.logical_kernel.data for region in regions_of(program)]


SUM = """
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0 = stablehlo.add %x, %y : tensor<4xf32>
  %1 = stablehlo.maximum %0, %zero : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""
SOFTMAX = """
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = stablehlo.composite "jax.softmax" %x {decomposition = @softmax} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
func.func private @softmax(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %e = stablehlo.exponential %x : tensor<2x4xf32>
  %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1]
       : (tensor<2x4xf32>, tensor<f32>) -> tensor<2xf32>
  %t = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<2xf32>) -> tensor<2x4xf32>
  %0 = stablehlo.divide %e, %t : tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
"""


def hard_swish(net: Network) -> Program:
    x = net.values[0]
    line = net.insert(AddOp(net.insert(MultiplyOp(x, net.splat(1 / 6, x))), net.splat(0.5, x)))
    gate = net.insert(ClampOp(net.constant(np.array(0.0)), line, net.constant(np.array(1.0))))
    return net.finish([net.insert(MultiplyOp(x, gate))])


def output(program: Program, index: int = -1) -> UniformQuantizedType:
    spec = regions_of(program)[index].output_specs.data[0]
    assert isinstance(spec, UniformQuantizedType)
    return spec


def parameters(program: Program) -> list[tuple[float, float]]:
    """The real values that the least and the greatest stored integer of each kernel's output stand for."""
    return [real_range(output(program, index)) for index in range(len(regions_of(program)))]
