"""A value and its sum with a number have one scale, of which the number is a multiple, if that rounds less."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.ir import SSAValue

from networks import Network
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import AddOp, MultiplyOp, TanhOp
from zeropoint.pipeline import Options, quantize

GIVEN = {"x0": np.linspace(-4, 4, 1024, dtype=np.float32).reshape(1, 1024)}


def gate(number: float, *, twice: bool = False) -> Program:
    """x * (tanh x + number)."""
    net = Network([(1, 1024)])

    def layer(value: SSAValue) -> SSAValue:
        net.layer("op")
        net.values.append(value)
        return value

    (x,) = net.values
    inner = layer(net.insert(TanhOp(x)))
    made = layer(net.insert(AddOp(inner, net.splat(number, inner))))
    last = layer(net.insert(MultiplyOp(x, made)))
    return net.finish([layer(net.insert(MultiplyOp(last, inner))) if twice else last])


def specs(program: Program, kernel: str) -> list[UniformQuantizedType]:
    """The types of the operand and the result of the first kernel of a name."""
    found = quantize(program, [GIVEN], Options(target="onnxruntime", effort="none"))
    (region,) = [each for each in regions_of(found.propagated) if each.logical_kernel.data == kernel]
    made = [region.input_specs.data[0], region.output_specs.data[0]]
    assert all(isinstance(spec, UniformQuantizedType) for spec in made)
    return [spec for spec in made if isinstance(spec, UniformQuantizedType)]


@pytest.mark.parametrize("number", [1.0, 0.7, -1.0, -0.5])
def test_a_number_is_a_multiple_of_the_step(number: float) -> None:
    operand, result = specs(gate(number), "add")
    assert operand.scale == result.scale
    steps = abs(number) / operand.scale
    assert abs(steps - round(steps)) < 1e-4


def test_a_great_number_leaves_the_steps_of_the_operand() -> None:
    operand, result = specs(gate(40.0), "add")
    assert operand.scale < result.scale / 10


def test_an_operand_with_other_readers_keeps_its_steps() -> None:
    operand, _ = specs(gate(1.0, twice=True), "add")
    assert operand.scale < 2 / 254.5
