"""A value that only kernels which pass elements on read has the range that they take of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from networks import Network, binary_body
from solve.graphs import Graph
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    ConvolutionLayout,
    ConvolutionOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    NegateOp,
    PadOp,
    ReduceWindowOp,
    SliceOp,
    SubtractOp,
    TransposeOp,
)
from zeropoint.ir.tensors import shape_of, with_shape
from zeropoint.pipeline import Options, quantize
from zeropoint.solve.constraints import take_constraints
from zeropoint.solve.value_ranges.read_ranges import narrow_ranges

SHAPE = (1, 8, 8, 8)
LOUD = np.array([300.0] + [1.0] * 7)


def convolved(net: Network, value: SSAValue) -> SSAValue:
    features, channels = 8, shape_of(value)[1]
    weight = net.constant(net.random.normal(0, 1, (features, channels, 1, 1)))
    result = with_shape(value, [1, features, *shape_of(value)[2:]])
    return net.insert(ConvolutionOp(value, weight, result, ConvolutionLayout.channels_first(2)))


def loud(net: Network, value: SSAValue) -> SSAValue:
    return net.insert(MultiplyOp(convolved(net, value), net.along(LOUD, value, 1)))


def quiet_channels(net: Network, value: SSAValue) -> SSAValue:
    return net.insert(SliceOp(value, [0, 1, 0, 0], [1, 8, 8, 8], [1, 1, 1, 1]))


def max_pool(net: Network, value: SSAValue) -> SSAValue:
    *kept, height, width = shape_of(value)
    least = net.constant(np.array(-np.inf))
    result = with_shape(value, [*kept, height - 4, width - 4])
    return net.insert(ReduceWindowOp([value], [least], [result], [1, 1, 5, 5], binary_body(MaximumOp, f32)))


def slice_of_a_kernel(net: Network, value: SSAValue) -> SSAValue:
    return quiet_channels(net, loud(net, value))


def slice_of_an_input(net: Network, value: SSAValue) -> SSAValue:
    return quiet_channels(net, net.values[1])


def max_pool_of_very_negative_values(net: Network, value: SSAValue) -> SSAValue:
    """Every window has elements of quiet channels."""
    return max_pool(net, net.insert(TransposeOp(net.values[1], [0, 2, 3, 1])))


def max_pool_behind_a_low_padding(net: Network, value: SSAValue) -> SSAValue:
    value = convolved(net, value)
    padded = net.insert(PadOp(value, net.constant(np.array(-1000.0)), [0, 0, 1, 1], [0, 0, 1, 1]))
    return max_pool(net, padded)


def max_pool_of_a_function_of_a_padding(
    function: Callable[[Network, SSAValue], SSAValue],
) -> Callable[[Network, SSAValue], SSAValue]:
    def make(net: Network, value: SSAValue) -> SSAValue:
        value = convolved(net, value)
        padded = net.insert(PadOp(value, net.constant(np.array(500.0)), [0, 0, 1, 1], [0, 0, 1, 1]))
        return max_pool(net, function(net, padded))

    make.__name__ = function.__name__
    return make


def negated(net: Network, value: SSAValue) -> SSAValue:
    return net.insert(NegateOp(value))


def falling_square(net: Network, value: SSAValue) -> SSAValue:
    """9 - x^2 falls on both sides."""
    return net.insert(SubtractOp(net.splat(9.0, value), net.insert(MultiplyOp(value, value))))


def samples(count: int, seed: int) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(seed)
    made = random.normal(0, 1, (count, 2, *SHAPE)).astype(np.float32)
    made[:, 1] *= LOUD.reshape(8, 1, 1)
    made[:, 1, :, 0] = -abs(made[:, 1, :, 0])
    return [{"x0": one, "x1": other} for one, other in made]


def sqnr(program: Program, integers: Program) -> float:
    exact, found = Interpreter(program), Interpreter(integers)
    signal = noise = 0.0
    for sample in samples(4, 1):
        wanted, got = exact(sample)["y0"], found(sample)["y0"]
        signal, noise = signal + float((wanted**2).sum()), noise + float(((wanted - got) ** 2).sum())
    return float(10 * np.log10(signal / noise))


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_padding_of_minus_infinity_is_calibrated_without_warnings() -> None:
    net = Network([SHAPE, SHAPE])
    value = convolved(net, net.values[0])
    least = net.constant(np.array(-np.inf))
    padded = net.insert(PadOp(value, least, [0, 0, 1, 1], [0, 0, 1, 1]))
    program = net.finish([convolved(net, max_pool(net, padded)), convolved(net, value)])
    assert sqnr(program, quantize(program, samples(8, 0)).integer) > 30


@pytest.mark.parametrize("target", ["cpu", "litert"])
@pytest.mark.parametrize(
    "selected",
    [
        slice_of_a_kernel,
        slice_of_an_input,
        max_pool_of_very_negative_values,
        max_pool_behind_a_low_padding,
        max_pool_of_a_function_of_a_padding(negated),
        max_pool_of_a_function_of_a_padding(falling_square),
    ],
)
def test_elements_that_nothing_reads_do_not_make_the_others_coarse(
    selected: Callable[[Network, SSAValue], SSAValue], target: str
) -> None:
    net = Network([SHAPE, SHAPE])
    program = net.finish([convolved(net, selected(net, net.values[0]))])
    assert sqnr(program, quantize(program, samples(8, 0), Options(target)).integer) > 30


WIDE, NARROW = (-300.0, 300.0), (-3.0, 3.0)


def range_of(
    kernel: str, *, other: str | None = None, coupled: bool = False, stated: bool = False
) -> tuple[float, float]:
    """The range of a value observed in `WIDE`, of which a kernel reads `NARROW`, and another kernel as much."""
    graph = Graph()
    value = graph.kernel("free", graph.args[0])
    observed = graph.observed(value, *WIDE)
    if coupled:
        observed = graph.coupled(observed, "key")
    outputs = [graph.observed(graph.kernel(name, observed), *NARROW) for name in (kernel, other) if name is not None]
    program = graph.finish(*outputs, observe=False)
    constraints = take_constraints(program)
    if stated:
        constraints.of(value).observe(*WIDE, "user", "the user")
    narrow_ranges(program, constraints)
    known = constraints.of(value)
    assert known.minimum is not None
    assert known.maximum is not None
    return known.minimum, known.maximum


def test_a_value_has_the_range_that_its_readers_take() -> None:
    assert range_of("slice") == range_of("max_pool") == range_of("gather", other="slice") == NARROW


def test_a_value_has_the_observed_range_where_a_reader_takes_all_of_it() -> None:
    assert range_of("tanh") == range_of("slice", other="tanh") == WIDE
    assert range_of("slice", coupled=True) == range_of("slice", stated=True) == WIDE


@pytest.mark.parametrize("name", ["litert", "onnxruntime", "openvino"])
@pytest.mark.parametrize("op", [MaximumOp, MinimumOp])
def test_a_comparison_in_float_tells_a_value_that_saturates_from_a_narrow_one(
    name: str, op: type[MaximumOp | MinimumOp]
) -> None:
    """Saturated at the end of the narrow range, a wide value would be rounded to 0, and be chosen for every other."""
    net = Network([SHAPE, SHAPE])
    wide = net.insert(MultiplyOp(convolved(net, net.values[0]), net.splat(10.0, net.values[0])))
    narrow = net.insert(MultiplyOp(net.values[0], net.splat(0.02, net.values[0])))
    program = net.finish([net.insert(op(wide, narrow))])
    made = quantize(program, samples(16, 0), Options(name, effort="none")).integer
    for sample in samples(4, 1):
        wanted, found = Interpreter(program)(sample)["y0"], Interpreter(made)(sample)["y0"]
        is_narrow = abs(wanted) < 0.1
        assert np.mean(found[is_narrow] == 0) < 0.1
